"""Every numeric flag of every verb refuses what is out of its range, and names the range."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args

import pytest

from judge_eval.cli import main
from judge_eval.cli.flags.config import records, settings
from judge_eval.settings import RANGES, settings_of
from tests.cli.test_flag_groups import COMMANDS

OUTSIDE = ("nan", "inf", "-inf", "1e999", "-1000000000000000000000000", "1000000000000000000000000000")


def numeric() -> list[tuple[str, str, str]]:
    """List verb, flag and name of every flag that takes a number, as the verbs' signatures say it."""
    collected = []
    for verb, command in COMMANDS.items():
        hints = command.callback.__annotations__
        for parameter in command.params:
            hint = hints.get(parameter.name)
            inner = get_args(hint)[:1]
            types = {*inner, *(each for kind in inner for each in get_args(kind))}
            if types & {int, float}:
                collected.append((verb, max(parameter.opts, key=len), parameter.name))
    return collected


NUMERIC = numeric()
KNOWN = {**RANGES} | {
    name: each.range
    for record in records()
    for field, each in settings_of(record).items()
    for name in (field, each.name)
    if name and each.range is not None
}


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """Return the message with which the command line refuses arguments, its exit code being 2."""
    with pytest.raises(SystemExit) as end:
        main(arguments)
    output = capsys.readouterr()
    assert end.value.code == 2, output
    assert output.out == ""
    return output.err


def test_every_number_has_a_range() -> None:
    """Every numeric flag of every verb has a range in the one table, and the walk finds them."""
    assert len(NUMERIC) > 60
    assert {"--repeat", "--rpm", "--port", "--n", "--held-out", "--interval"} <= {flag for _, flag, _ in NUMERIC}
    assert {name for _, _, name in NUMERIC} <= KNOWN.keys()


@pytest.mark.parametrize("flag", ["--repeat", "--timeout"])
def test_a_number_out_of_range_is_refused(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A number beyond the range has one message with flag and range, before anything is read."""
    known = KNOWN[flag.strip("-")]
    beyond = [value for value in OUTSIDE if not (known.whole and re.search("[nie]", value))]
    for value in [*beyond, f"{known.low - 1:g}"]:
        message = refused(["run", "x", f"{flag}={value}"], capsys)
        pattern = rf"error: {flag} .*: write a (whole )?number from [0-9.,]+ to [0-9.,e+]+\n"
        assert re.fullmatch(pattern, message), message
    for value in ("nan", "inf", "1e3", "1.5", "") if known.whole else ():
        assert flag in refused(["run", "x", f"{flag}={value}"], capsys)


@pytest.mark.parametrize("name", ["concurrency", "timeout"])
def test_settings_have_the_same_ranges(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A number in a variable is refused as the flag's is; so is one in a configuration file."""
    assert {key for key in settings() if key.startswith("max_")} <= KNOWN.keys() | {"max_drop"}
    monkeypatch.chdir(tmp_path)
    (tmp_path / "judge_eval.toml").write_text(f"{name} = -1\n")
    assert "write a" in refused(["run", "x"], capsys)
    (tmp_path / "judge_eval.toml").unlink()
    monkeypatch.setenv(f"JUDGE_EVAL_{name.upper()}", "-1")
    assert "write a" in refused(["run", "x"], capsys)


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
        main(["run", str(data), "--model", "openai/x", "--cache", "none", *arguments])
    assert end.value.code == 2
    assert told in capsys.readouterr().err
