"""A server that asks to wait: how the run ends, and what is said meanwhile."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from judge_eval import Evaluator, Trace
from judge_eval.cli.printing.output import watching
from judge_eval.llm import retry
from judge_eval.llm.options import Options
from judge_eval.runs.scoring.counting import Progress
from judge_eval.views.progress import progress_line
from tests.support.canned import Canned, error
from tests.support.chat_server import ChatServer
from tests.support.command import Shell

KEYS = {"OPENAI_API_KEY": "sk-x"}


@pytest.mark.slow
def test_a_wait_of_days_ends_the_run(tmp_path: Path) -> None:
    """The run stops with the server's words and exit code 2; resumed later, it asks only what was not answered."""
    shell = Shell(tmp_path)
    lines = [
        {"id": str(n), "query": "q", "reference": "r", "chunks": [f"the first text {n}", f"another text {n}"]}
        for n in range(30)
    ]
    (tmp_path / "data.jsonl").write_text("\n".join(map(json.dumps, lines)))
    with ChatServer() as server:
        asked = ("run", "data.jsonl", "--model", "openai/x", "--base-url", server.url)
        closed = error(429, "the free tier opens again in December", retry_after="1382400")
        server.script(*[Canned()] * 3, *[closed] * 500)
        ended = shell(*asked, **KEYS)
        assert ended.code == 2, ended.err
        assert "the free tier opens again in December" in ended.err
        assert "a wait of 1382400 s was asked for, 600 s are allowed" in ended.err
        assert "--resume" in ended.err
        server.reset()
        resumed = shell(*asked, "--resume", **KEYS)
        assert resumed.code == 0, resumed.err
        assert server.counts["calls"] == 57


@pytest.mark.slow
def test_a_wait_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the only calls wait as the server asks, the progress says for how long; afterwards no more."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-x")
    monkeypatch.setattr(retry, "_LONG", 2.0)
    told: list[Progress] = []
    with ChatServer() as server:
        server.script(error(429, "slow down", retry_after="3"))
        with Evaluator("openai/m", cache=tmp_path, options=Options(base_url=server.url)) as evaluator:
            run = evaluator.evaluate(Trace(query="q", reference="r", chunks=["a"]), watch=told.append)
    assert run.status == "done"
    assert told[0].wait == 3.0
    assert told[-1].wait == 0.0
    assert progress_line(told[0]).endswith("; the server asks to wait 3 s")


def test_a_log_tells_a_wait_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    """In a log, where lines of progress are half a minute apart, a wait that begins is told at once, and once."""
    counts = {"traces": 1, "total": 3, "verdicts": 2, "failed": 0, "calls": 2, "hits": 0, "retries": 0}
    with watching(quiet=False) as watch:
        assert watch is not None
        for wait in (0.0, 200.0, 200.0):
            watch(Progress(**counts, seconds=1.0, folder=None, wait=wait))
    assert capsys.readouterr().err.count("the server asks to wait 200 s") == 1
