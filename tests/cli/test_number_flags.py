"""Every numeric flag of every verb refuses what is out of its range, and names the range."""

from __future__ import annotations

import re
from typing import Any, get_args

import pytest

from judge_eval.cli import main
from judge_eval.cli.flags.config import settings
from judge_eval.ranges import RANGES
from tests.cli.test_flag_groups import COMMANDS

OUTSIDE = ("nan", "inf", "-inf", "1e999", "-1000000000000000000000000", "1000000000000000000000000000")


def numeric() -> list[tuple[str, str, str]]:
    """List verb, flag and name of every flag that takes a number, as the verbs' signatures say it."""
    found = []
    for verb, command in COMMANDS.items():
        hints = command.callback.__annotations__
        for parameter in command.params:
            hint = hints.get(parameter.name)
            inner = get_args(hint)[:1]
            types = {*inner, *(each for kind in inner for each in get_args(kind))}
            if types & {int, float}:
                found.append((verb, max(parameter.opts, key=len), parameter.name))
    return found


NUMERIC = numeric()


def arguments(verb: str) -> list[str]:
    """Return arguments that a verb needs, which need not exist: numbers are seen first."""
    out = []
    for parameter in COMMANDS[verb].params:
        if parameter.required:
            flag = max(parameter.opts, key=len)
            out += [flag, "x"] if flag.startswith("-") else ["x"]
    return out


def test_the_walk_finds_the_flags() -> None:
    """The walk is no walk over nothing: it finds flags of whole and of broken numbers in many verbs."""
    assert len(NUMERIC) > 60
    assert {"--repeat", "--rpm", "--port", "--n", "--held-out", "--interval"} <= {
        flag for _, flag, _ in NUMERIC
    }


@pytest.mark.parametrize(("verb", "flag", "name"), NUMERIC)
def test_what_is_out_of_range_is_refused(
    verb: str, flag: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each number beyond the range has one message with flag and range, and the code 2."""
    known = RANGES[name]
    beyond = [value for value in OUTSIDE if not (known.whole and re.search("[nie]", value))]
    for value in [*beyond, f"{known.low - 1:g}"]:
        with pytest.raises(SystemExit) as end:
            main([*verb.split(), *arguments(verb), f"{flag}={value}"])
        told = capsys.readouterr()
        assert end.value.code == 2, (value, told)
        assert told.out == ""
        assert re.fullmatch(
            rf"error: {flag} .*: write a (whole )?number from [0-9.,]+ to [0-9.,e+]+\n", told.err
        ), told.err


@pytest.mark.parametrize(("verb", "flag", "name"), [each for each in NUMERIC if RANGES[each[2]].whole])
def test_what_is_no_whole_number_is_refused(
    verb: str, flag: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Words for what is no number are none to a flag that counts."""
    for value in ("nan", "inf", "1e3", "1.5", ""):
        with pytest.raises(SystemExit) as end:
            main([*verb.split(), *arguments(verb), f"{flag}={value}"])
        assert end.value.code == 2
        assert flag in capsys.readouterr().err


@pytest.mark.parametrize("name", [name for name in settings() if name in RANGES and name != "interval"])
def test_settings_have_the_same_ranges(
    name: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A number in a configuration file or in a variable is refused as a flag's is."""
    monkeypatch.chdir(tmp_path)
    value = f"{RANGES[name].low - 1:g}"
    (tmp_path / "judge_eval.toml").write_text(f"{name} = {value}\n")
    for _ in range(2):
        with pytest.raises(SystemExit) as end:
            main(["run", "x"])
        assert end.value.code == 2
        assert "write a" in capsys.readouterr().err
        (tmp_path / "judge_eval.toml").unlink(missing_ok=True)
        if name == "depth":  # from a file alone
            break
        monkeypatch.setenv(f"JUDGE_EVAL_{name.upper()}", "-1")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("-p", "temperature=1e999"), "the parameter temperature inf: write a number from 0 to 2"),
        (("-p", "temperature=-1"), "the parameter temperature -1: write a number from 0 to 2"),
        (("-p", "anything=NaN"), "the parameter anything nan: write a finite number"),
        (("--shard", "1/99999999"), "shard 99999999: write a whole number from 1 to 1,000,000"),
        (("--fail-under", "AP@5=1.5"), "the value must be at most 1"),
        (("--fail-under", "AP@5=nan"), "write METRIC=VALUE"),
        (("--max-drop", "AP@5=inf"), "write METRIC=VALUE"),
        (("--max-drop", "AP@5=-1"), "the value must be at least 0"),
    ],
)  # fmt: skip
def test_numbers_inside_texts(
    arguments: tuple[str, ...], told: str, capsys: pytest.CaptureFixture[str], tmp_path: Any
) -> None:
    """Parameters, shards and limits are numbers too."""
    data = tmp_path / "x.jsonl"
    data.write_text('{"query": "q", "reference": "r", "chunks": ["a"]}\n')
    with pytest.raises(SystemExit) as end:
        main(["run", str(data), "--model", "openai/x", "--no-cache", *arguments])
    assert end.value.code == 2
    assert told in capsys.readouterr().err
