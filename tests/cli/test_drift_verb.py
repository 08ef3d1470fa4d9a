"""`drift`: a run's judge is asked again about the same chunks."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from judge_eval import EvalRun
from tests.support.chat_answers import judge
from tests.support.chat_server import ChatServer
from tests.support.command import FIXTURES, Shell
from tests.support.desk import Desk
from tests.support.forking import Forked
from tests.support.verdicts import traces_of

TRACES = traces_of({f"t{k:02d}": "abc" for k in range(40)})


@pytest.fixture
def data(desk: Desk) -> Path:
    """A file of traces in the desk's folder."""
    path = desk.folder / "data.jsonl"
    path.write_text("".join(trace.model_dump_json() + "\n" for trace in TRACES), encoding="utf-8")
    return path


def test_a_judge_is_asked_again_with_the_settings_of_the_run(desk: Desk, data: Path) -> None:
    """The model is named, prompt, mode, parameters and metrics are the run's; the answers are a run with a label."""
    with ChatServer() as server:
        flags = ("-m", "openai/m", "--base-url", server.url, "-q")
        more = ("--prompt", "support/graded", "--mode", "listwise", "-p", "temperature=0.5", "-k", "P@2")
        assert desk("run", data, *flags, *more, "--label", "first", OPENAI_API_KEY="sk-x").code == 0
        asked = list(server.calls)
        done = desk("drift", "label:first", *flags, "--label", "second", OPENAI_API_KEY="sk-x")
        assert done.code == 0, done.err
        assert done.out.startswith("no drift seen: of 120 verdicts 0 became relevant and 0 irrelevant")
        assert "over 40 replies" in done.out
    again = server.calls[len(asked) :]
    assert len(again) == len(asked)
    assert {(call["temperature"], call["model"]) for call in again} == {(0.5, "m")}
    runs = {run.manifest.label: run for run in map(EvalRun.load, (desk.folder / "runs").iterdir())}
    first, second = runs["first"], runs["second"]
    assert (second.manifest.baseline, second.manifest.tally.hits) == (first.id, 0)
    assert second.manifest.judge == first.manifest.judge
    assert second.manifest.metrics == ("P@2",)
    assert second.manifest.dataset.digest == first.manifest.dataset.digest
    assert "no difference" in desk("compare", "label:first", "label:second").out


@pytest.mark.slow
def test_a_judge_that_changed_ends_with_code_1(desk: Desk, data: Path) -> None:
    """Flips one way are drift, at the level that is asked for."""

    def flipped(body: Any) -> Any:
        return {**judge(body), "verdict": True}

    with ChatServer() as server:
        flags = ("-m", "openai/m", "--base-url", server.url, "-q")
        assert desk("run", data, *flags, "--label", "first", OPENAI_API_KEY="sk-x").code == 0
        server.verdict = flipped
        done = desk("drift", "label:first", *flags, "--json", OPENAI_API_KEY="sk-x")
        assert done.code == 1
        found = json.loads(done.out)
        assert found["became_irrelevant"] == 0 < found["became_relevant"]
        assert found["p"] < 1e-9


@pytest.mark.parametrize(
    ("flags", "fault"),
    [
        (("-m", "openai/other"), "the model differs in model ('m' there; 'other' here)"),
        (("-m", "openai/m"), "the model differs in params"),
        (("-m", "openai/m", "--prompt", "support/graded"), "the judge differs in prompt"),
        (("-m", "openai/m", "--mode", "listwise"), "the judge differs in mode"),
    ],
)
def test_another_judge_is_refused_before_the_first_call(
    desk: Desk, data: Path, flags: tuple[str, ...], fault: str
) -> None:
    """What differs is named, nothing is asked, and nothing is left in the folder of runs."""
    with ChatServer() as server:
        url = ("--base-url", server.url, "-q")
        assert desk("run", data, "-m", "openai/m", *url, OPENAI_API_KEY="sk-x").code == 0
        asked, kept = len(server.calls), sorted((desk.folder / "runs").iterdir())
        settings = {"OPENAI_API_KEY": "sk-x", "JUDGE_EVAL_PARAM": "temperature=1" if "params" in fault else ""}
        done = desk("drift", "latest", *flags, *url, **settings)
        assert done.code == 2
        assert fault in done.err
        assert len(server.calls) == asked
        assert sorted((desk.folder / "runs").iterdir()) == kept


@pytest.mark.slow
def test_several_models_are_named_by_a_judge_file(desk: Desk) -> None:
    """One model is not the judge of a panel; the file that judged is, and its members keep their models."""
    desk("run", FIXTURES / "docs_qa.jsonl", "-m", "fake/overlap", "-q", "--label", "judged")
    panel = "[[member]]\nmodel = 'fake/overlap'\n[[member]]\nmodel = 'fake/hash'\n"
    (desk.folder / "panel.toml").write_text(panel, encoding="utf-8")
    done = desk("run", FIXTURES / "docs_qa.jsonl", "--judge", "panel.toml", "-q", "--label", "panel")
    one = desk("drift", "label:panel", "-m", "fake/overlap", "-q")
    assert (one.code, "the model differs in members" in one.err) == (2, True)
    same = desk("drift", "label:panel", "--judge", "panel.toml", "-q")
    assert (done.code, same.code) == (0, 0), same.err
    assert same.out.startswith("no drift seen")


@pytest.mark.slow
def test_a_repeat_that_was_killed_is_paid_once(tmp_path: Path) -> None:
    """Killed with SIGKILL, it goes on: no request is asked twice but those in flight, and its folder is removed."""
    shell = Shell(tmp_path)
    (tmp_path / "data.jsonl").write_text("".join(trace.model_dump_json() + "\n" for trace in TRACES))
    with ChatServer(latency=0.004) as server:
        flags = ("--model", "openai/m", "--base-url", server.url, "--concurrency", "4", "-q")
        assert shell("run", "data.jsonl", *flags, "--label", "first", OPENAI_API_KEY="sk-x").code == 0
        asked = len(server.calls)
        command = ["drift", "label:first", *flags]
        process = Forked(command, tmp_path, shell.environment(OPENAI_API_KEY="sk-x"), tmp_path / "said")
        while len(server.calls) < asked + 60:
            time.sleep(0.005)
        process.kill()
        assert process.wait() == -9
        done = shell(*command, OPENAI_API_KEY="sk-x")
        assert done.code == 0, done.err
        assert 120 <= len(server.calls) - asked <= 128
        assert not list((tmp_path / "runs").glob(".*"))
