"""Options that a verb has no flag for: the configuration file and the environment set them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from judge_eval.cli.flags.groups import NO_FLAG, flags_of
from judge_eval.cli.flags.judging import CallingFlags
from judge_eval.settings import setting_of
from tests.cli.test_flag_groups import COMMANDS
from tests.support.chat_server import ChatServer
from tests.support.desk import Desk

TRACES = [
    {"id": f"q{n}", "query": f"Where is {n}?", "reference": f"In room {n}.", "chunks": [f"{n} is in room {n}.", "No."]}
    for n in range(4)
]
JUDGING = (
    "run", "judge", "compare", "what-if", "probe", "bias", "drift", "claims", "validate-judge", "serve", "mcp",
    "cascade fit", "batch export", "doctor",
)  # fmt: skip
"""The verbs that may ask a judge."""
KEY = {"OPENAI_API_KEY": "sk-x"}


@pytest.fixture
def data(desk: Desk) -> Path:
    """Write four traces, and one of them alone."""
    (desk.folder / "one.json").write_text(json.dumps(TRACES[0]))
    path = desk.folder / "data.jsonl"
    path.write_text("".join(json.dumps(trace) + "\n" for trace in TRACES))
    return path


@pytest.mark.parametrize("verb", JUDGING)
def test_each_setting_of_calls_reaches_each_verb_that_judges(verb: str) -> None:
    """What a variable or a key sets is a parameter of every verb that may judge, as a flag or without one."""
    marks = {name: setting_of(flag.annotation) for name, flag in flags_of(CallingFlags).items()}
    settings = {name for name, mark in marks.items() if mark is not None and (mark.env or mark.file)}
    settings -= {"drift": {"cache", "record", "replay"}}.get(verb, set())
    assert settings <= {parameter.name for parameter in COMMANDS[verb].params}


def test_verbs_beside_judging_show_few_flags() -> None:
    """Of the options on calls, verbs that may judge have those that differ from call to call as flags."""
    for verb in ("compare", "what-if", "probe", "bias", "claims", "validate-judge", "serve", "mcp", "cascade fit"):
        hints = COMMANDS[verb].callback.__annotations__
        shown = {name for name in flags_of(CallingFlags) if name in hints and NO_FLAG not in hints[name].__metadata__}
        called_by_an_agent = {"params"} if verb == "mcp" else set()
        assert shown == {"cache", "fleet", "params", "concurrency", "max_cost"} - called_by_an_agent, verb


@pytest.mark.parametrize("verb", ["run", "judge", "probe", "claims", "what-if"])
@pytest.mark.parametrize("by_file", [True, False])
def test_a_setting_without_a_flag_is_obeyed(verb: str, by_file: bool, desk: Desk, data: Path) -> None:
    """A parameter of requests that the file or the environment sets is in every request of every verb."""
    words = {
        "run": ("run", data, "-q"),
        "judge": ("judge", "one.json"),
        "probe": ("probe", data, "--only", "random", "-q"),
        "claims": ("claims", data, "-q"),
        "what-if": ("what-if", "label:first", "--cut", "2", "--judge-missing"),
    }
    with ChatServer() as server:
        setting = {"JUDGE_EVAL_PARAM": "seed=7"}
        if verb == "what-if":  # a run whose second chunks were not judged
            flags = ("--depth", "1", "--label", "first", "-q")
            assert desk("run", data, "--model", "fake/overlap", *flags).code == 0
        if by_file:
            (desk.folder / "judge_eval.toml").write_text("param = { seed = 7 }\n")
            setting = {}
        done = desk(*words[verb], "--model", "openai/m", "--base-url", server.url, **KEY, **setting)
        assert done.code in (0, 1, 3), done.err
        assert {call.get("seed") for call in server.calls} <= {7}
    if verb != "what-if":
        assert server.calls


def test_the_file_of_claims_in_the_configuration_can_be_made(desk: Desk, data: Path) -> None:
    """`claims` writes the file that the configuration names for runs; it does not read it first."""
    (desk.folder / "judge_eval.toml").write_text('claims = "c.jsonl"\n')
    done = desk("claims", data, "--model", "fake/overlap", "-o", "c.jsonl", "-q")
    assert done.code == 0, done.err
    assert (desk.folder / "c.jsonl").exists()


def test_a_key_and_a_variable_name_the_bad_value(desk: Desk, data: Path) -> None:
    """A value that is out of range is refused before anything is judged, with the file that sets it."""
    (desk.folder / "judge_eval.toml").write_text("timeout = -1\n")
    done = desk("probe", data, "--model", "fake/overlap")
    assert done.code == 2
    assert "judge_eval.toml sets timeout" in done.err
    assert desk("probe", data, "--model", "fake/overlap", JUDGE_EVAL_RPM="many").code == 2


@pytest.mark.parametrize("verb", ["run", "probe"])
def test_two_base_urls_share_the_calls(verb: str, desk: Desk, data: Path) -> None:
    """Several base URLs serve one model: each is asked, whichever verb asks."""
    more = ("--only", "random") if verb == "probe" else ()
    with ChatServer() as first, ChatServer() as second:
        both = ("--base-url", first.url, "--base-url", second.url)
        done = desk(verb, data, "--model", "openai/m", *both, "-q", *more, **KEY)
    assert done.code in (0, 1), done.err
    assert first.calls
    assert second.calls


@pytest.mark.parametrize("words", [("batch", "export"), ("claims", "--batch", "split")])
def test_a_batch_refuses_two_base_urls(words: tuple[str, ...], desk: Desk, data: Path) -> None:
    """A batch is at one server: a second base URL is an error before anything is written, not left out."""
    both = ("--base-url", "http://127.0.0.1:9/v1", "--base-url", "http://127.0.0.1:8/v1")
    more = ("--out", "b") if words[0] == "batch" else ()
    done = desk(*words, data, "--model", "openai/m", *both, *more, **KEY)
    assert done.code == 2
    assert "a batch has one server" in done.err


def test_a_batch_keeps_the_parameters_that_it_was_exported_with(desk: Desk, data: Path) -> None:
    """A configuration that changed between export and import does not change what the imported verdicts are of."""
    with ChatServer() as server:
        flags = ("--model", "openai/m", "--base-url", server.url)
        assert desk("batch", "export", data, *flags, "-p", "seed=1", "--out", "b", **KEY).code == 0
        (desk.folder / "judge_eval.toml").write_text("param = { seed = 2 }\n")
        assert desk("batch", "import", "b", "--finish", "missing", **KEY).code == 3
    (manifest,) = (desk.folder / "runs").glob("*/manifest.json")
    assert json.loads(manifest.read_text())["backend"]["params"]["seed"] == "1"


def test_the_last_model_counts(desk: Desk, data: Path) -> None:
    """A flag that takes one value and is given twice has its last value."""
    done = desk("run", data, "--model", "openai/m", "--model", "fake/overlap", "--json", "-q")
    assert json.loads(done.out)["backend"]["model"] == "overlap-1"
