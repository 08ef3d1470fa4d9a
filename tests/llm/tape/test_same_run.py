"""A run that is recorded and the same run replayed, whatever kind of judge it has."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from judge_eval import EvalRun, Evaluator, Member, Options, Panel, Pointwise
from judge_eval.errors import ConfigError
from judge_eval.judges import Decision
from judge_eval.judges.cascade import cascade_of
from judge_eval.llm import cassettes as cassette
from judge_eval.runs.folder.run import Run
from tests.support.asking_decisions import row
from tests.support.chat_server import ChatServer
from tests.support.decision_server import DecisionServer
from tests.support.desk import Desk
from tests.support.stages import stages_file

DEAD = "http://127.0.0.1:9/v1"
CHAT, DECIDING = "CHAT", "DECIDING"
"""Stand for the addresses of the servers."""
WRITES = ("--model", "openai/m", "--base-url", CHAT)
DECIDES = ("--model", "decisions/m", "-p", "dialect=openai", "--base-url", DECIDING)
KINDS: dict[str, tuple[str, ...]] = {
    "pointwise": WRITES,
    "listwise": (*WRITES, "--mode", "listwise"),
    "confidence": (*WRITES, "--confidence"),
    "decision": DECIDES,
    "decision graded": (*DECIDES, "--prompt", "support/graded"),
    "repeat": (*WRITES, "--repeat", "2"),
    "panel": ("--member", "openai/a", "--member", "openai/b", "--member", "openai/a:support/binary@1", *WRITES),
    "panel of two modes": ("--member", "openai/a", "--judge", "panel.toml", "--base-url", CHAT),
    "cascade": ("--judge", "stages.toml", "--base-url", CHAT),
    "cascade of chat models": ("--judge", "chat/stages.toml", "--base-url", CHAT),
}


@pytest.fixture
def chat() -> Iterator[ChatServer]:
    """A server of models that write."""
    with ChatServer() as server:
        yield server


@pytest.fixture
def decides() -> Iterator[DecisionServer]:
    """A server of decision models."""
    with DecisionServer() as server:
        yield server


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Desk:
    """A new user's empty folder, in this process."""
    return Desk.at(tmp_path, monkeypatch, capsys)


def ran(desk: Desk, *asked: object) -> Any:
    """Run a command whose last word is the folder of runs, and return what made its run."""
    done = desk(*asked, OPENAI_API_KEY="x")
    assert done.code == 0, done.err
    (folder,) = (desk.folder / str(asked[-1])).iterdir()
    return what(EvalRun.load(folder))


def what(run: Run) -> Any:
    """Return what makes a run: who judges how, the verdicts and the means."""
    m = run.manifest
    results = [(r.outcomes, r.votes, r.scores) for r in run.results]
    return m.judge, m.backend, m.aggregates, m.tally.stages, results


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_command_replays_what_it_recorded(
    kind: str, desk: Desk, chat: ChatServer, decides: DecisionServer
) -> None:
    """`--replay FILE` in place of `--record FILE` gives the same run, and asks nobody."""
    data = desk.folder / "data.jsonl"
    data.write_text("".join(json.dumps(row(id=f"t{n}", query=f"Which tomatoes, {n}?")) + "\n" for n in (1, 2)))
    member = f"[[member]]\nmodel = 'decisions/m'\nbase_url = '{decides.url}'\nparams = {{dialect = 'openai'}}\n"
    (desk.folder / "panel.toml").write_text(member)
    deciding = {"model": "decisions/m", "base_url": decides.url, "params": {"dialect": "openai"}}
    stages_file(desk.folder, deciding, "openai/strong", threshold=0.9)
    (desk.folder / "chat").mkdir()
    small = {"model": "openai/small", "mode": "listwise"}
    stages_file(desk.folder / "chat", small, "openai/strong", threshold=0.9, explain_positives=True)
    at = {CHAT: chat.url, DECIDING: decides.url}
    asked = ("run", data, *(at.get(word, word) for word in KINDS[kind]), "--cache", "none")
    recorded = ran(desk, *asked, "--record", "tape.jsonl", "--out", "recorded")
    paid = chat.counts["calls"], decides.counts["calls"]
    assert ran(desk, *asked, "--replay", "tape.jsonl", "--out", "replayed") == recorded
    assert (chat.counts["calls"], decides.counts["calls"]) == paid
    assert sum(paid) > 0


def test_a_cassette_alone_says_who_judged_and_how(desk: Desk, decides: DecisionServer) -> None:
    """Without a model, the recorded one judges, in its mode."""
    data = desk.folder / "data.jsonl"
    data.write_text(json.dumps(row()) + "\n")
    asked = (word if word != DECIDING else decides.url for word in DECIDES)
    recorded = ran(desk, "run", data, *asked, "--cache", "none", "--record", "tape.jsonl", "--out", "recorded")
    assert ran(desk, "run", data, "--replay", "tape.jsonl", "--out", "replayed") == recorded


@pytest.mark.parametrize("more", [("--model", "openai/other"), ("--model", "openai/m", "-p", "seed=1")])
def test_another_model_is_not_answered_for(more: tuple[str, ...], desk: Desk, chat: ChatServer) -> None:
    """A cassette of one model never answers for another one that is named, nor for other parameters."""
    data = desk.folder / "data.jsonl"
    data.write_text(json.dumps(row()) + "\n")
    ran(desk, "run", data, "--model", "openai/m", "--base-url", chat.url, "--record", "t.jsonl", "--out", "r")
    result = desk("run", data, *more, "--replay", "t.jsonl", "--out", "again", OPENAI_API_KEY="x")
    assert result.code == 2
    assert "holds the verdicts of openai/m (temperature=0), and openai/" in " ".join(result.err.split())


MODELS = {"cheap": "decisions/m", "strong": "openai/s"}
CASCADE = cascade_of(*MODELS.values(), threshold=0.9)
PANEL = Panel([Member("a", Decision(), "cheap"), Member("b", Pointwise(), "strong")])


def _options(chat: ChatServer, decides: DecisionServer, **more: Any) -> Options:
    cheap = Options(base_url=decides.url, params={"dialect": "openai"})
    return Options(base_url=chat.url, members={"cheap": cheap}, **more)


@pytest.mark.parametrize("judge", [CASCADE, PANEL], ids=["cascade", "panel"])
def test_python_records_and_replays_several_models(
    judge: Any, tmp_path: Path, chat: ChatServer, decides: DecisionServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The options `record` and `replay` do for several models what they do for one."""
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    runs = []
    for more in ({"record": tmp_path / "t.jsonl"}, {"replay": tmp_path / "t.jsonl"}):
        with Evaluator(MODELS, judge=judge, cache=False, options=_options(chat, decides, **more)) as evaluator:
            runs.append(what(evaluator.evaluate([row()])))
    assert runs[0] == runs[1]
    assert decides.counts["calls"] == 1


def test_answers_of_several_judges_to_one_question_stand_apart(tmp_path: Path) -> None:
    """Two models asked the same have a line each, under their routes; reviewing tells which is whose."""
    panel = Panel([Member("a", Pointwise(), "a"), Member("b", Pointwise(), "b")])
    tape = tmp_path / "t.jsonl"
    options = Options(record=tape)
    with Evaluator({"a": "fake/overlap", "b": "fake/inverted"}, judge=panel, cache=False, options=options) as made:
        recorded = what(made.evaluate([row()]))
    held = cassette.read(tape)
    assert {route: who and who.provider for route, who in held.judges.items()} == {"a": "fake", "b": "fake"}
    assert [line["route"] for line in map(json.loads, tape.read_text().splitlines()[1:])] == ["a", "b"] * 4
    options = Options(replay=tape)
    with Evaluator({"a": "replay/a", "b": "replay/b"}, judge=panel, cache=False, options=options) as made:
        assert what(made.evaluate([row()])) == recorded


def test_a_cassette_of_other_judges_is_refused(tmp_path: Path) -> None:
    """One of a panel is not replayed with a single model, nor the other way round; the message says why."""
    panel = Panel([Member("a", Pointwise(), "a"), Member("b", Pointwise(), "b")])
    several, alone = tmp_path / "several.jsonl", tmp_path / "alone.jsonl"
    models = {"a": "fake/overlap", "b": "fake/inverted"}
    with Evaluator(models, judge=panel, cache=False, options=Options(record=several)) as evaluator:
        evaluator.evaluate([row()])
    with Evaluator("fake/overlap", cache=False, options=Options(record=alone)) as evaluator:
        evaluator.evaluate([row()])
    with (
        Evaluator("fake/overlap", cache=False, options=Options(replay=several)) as evaluator,
        pytest.raises(ConfigError, match="holds the judges 'a', 'b', and a single judge is asked for"),
    ):
        evaluator.evaluate([row()])
    with (
        Evaluator(models, judge=panel, cache=False, options=Options(replay=alone)) as evaluator,
        pytest.raises(ConfigError, match="holds one judge, and the judge 'a' is asked for"),
    ):
        evaluator.evaluate([row()])
    with (
        Evaluator("fake/overlap", cache=False, options=Options(record=several)) as evaluator,
        pytest.raises(ConfigError, match=r"holds the answers of fake/overlap.* as 'a' and .*, not of"),
    ):
        evaluator.evaluate([row()])
