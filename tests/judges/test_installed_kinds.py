"""A kind of judge that an installed package registers in one file gets what the package's own kinds get."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from judge_eval.eval_run import EvalRun
from judge_eval.judges.judge import judge_of_record, make_judge
from judge_eval.pages.report import store_at
from judge_eval.registry import MODES, kind_named
from judge_eval.runs.judging.recall import Memory
from judge_eval.runs.keeping.lookup import run_folders
from tests.support.batch_server import BatchServer
from tests.support.desk import Desk
from tests.support.installing import install_judges
from tests.support.plugin_example.judge_eval_example import QUOTING


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Desk:
    """A folder with traces, and the example's kind installed."""
    install_judges(monkeypatch, {"quoting": QUOTING})
    rows = [
        {"id": f"q{n}", "query": "What colour?", "reference": f"Thing {n} is blue.", "chunks": [text, "Grey."]}
        for n, text in enumerate(("Thing 0 is blue.", "Thing 1 is blue.", "Thing 2 is red."))
    ]
    (tmp_path / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return Desk.at(tmp_path, monkeypatch, capsys)


HOW = ("--model", "fake/overlap", "--judge", "quoting", "--cache", "cache", "--metrics", "AP@5")


def newest(out: Path) -> EvalRun:
    """The newest run in a folder of runs."""
    return EvalRun.load(next(run_folders(out))[0])


def test_it_runs_by_its_name_and_its_calls_are_shown(desk: Desk) -> None:
    """`--judge NAME` judges; the manifest names the kind; prompt and reply stand on the page of the run."""
    outcome = desk("run", "data.jsonl", *HOW, "--out", "runs")
    assert outcome.code == 0, outcome.err
    run = newest(desk.folder / "runs")
    record = run.manifest.judge
    assert (record["mode"], record["judge"]) == ("quoting", "quoting/1")
    assert judge_of_record(record).describe() == record
    memory = Memory(run.manifest, store_at(desk.folder / "cache"))
    assert (memory.problem, memory.reply_problem) == ("", "")
    for result in run.results:
        calls = memory.calls(result)
        assert len(calls) == len(result.calls) == 2
        assert all(call is not None and call.reply is not None for call in calls)


def test_a_dry_run_counts_its_calls(desk: Desk) -> None:
    """The plan of an installed kind says what would be asked, and nobody is asked."""
    result = desk("run", "data.jsonl", *HOW, "--dry-run")
    assert result.code == 0, result.err
    assert "6 calls" in result.out + result.err
    assert not (desk.folder / "runs").exists()


def test_a_resumed_run_keeps_the_version_of_its_prompt(desk: Desk) -> None:
    """An id without a version finishes a run in the version that it began with."""
    asked = ("run", "data.jsonl", *HOW, "--out", "runs")
    assert desk(*asked, "--prompt", "support/binary@1").code == 0
    ((folder, whole),) = run_folders(desk.folder / "runs")
    lines = (folder / "results.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "results.jsonl").write_bytes(b"".join(lines[:-1]))
    state = json.loads((folder / "manifest.json").read_text())
    state |= {"status": "interrupted", "finished": None, "aggregates": {}, "files": {}, "digest": None}
    (folder / "manifest.json").write_text(json.dumps(state))
    result = desk(*asked, "--prompt", "support/binary", "--offline", "--resume", folder)
    assert result.code == 0, result.err
    manifest = EvalRun.load(folder).manifest
    assert manifest.status == "done"
    prompt: Any = manifest.judge["prompt"]
    assert prompt["version"] == 1
    assert manifest.judge == whole.judge


@pytest.mark.slow
def test_its_batch_is_the_online_run(desk: Desk) -> None:
    """`batch export --judge NAME` writes what it asks, and the imported run is the one judged online."""
    with BatchServer() as server:
        model = ("--model", "openai/m", "--judge", "quoting", "--base-url", server.url)
        scored = ("--metrics", "AP@5", "--max-failures", "9")  # the server quotes what no chunk holds
        key = {"OPENAI_API_KEY": "sk-test-1234567890"}
        for words in (
            ("run", "data.jsonl", *model, "--cache", "none", "--out", "online", *scored),
            ("batch", "export", "data.jsonl", *model, "--cache", "cache", "--out", "batch"),
            ("batch", "submit", "batch"),
            ("batch", "fetch", "batch"),
            ("batch", "import", "batch", "--out", "runs", *scored),
        ):
            result = desk(*words, **key)
            assert result.code == 0, result.err
        assert desk("batch", "export", "data.jsonl", *model, "--cascade", "openai/n", "--out", "b").code == 2
    online, batched = newest(desk.folder / "online"), newest(desk.folder / "runs")
    assert batched.manifest.judge == online.manifest.judge
    assert [r.outcomes for r in batched.results] == [r.outcomes for r in online.results]
    assert batched["AP@5"] == online["AP@5"]


def test_its_settings_are_never_dropped(desk: Desk) -> None:
    """What the kind does not take is refused, with its name, before the first call."""
    result = desk("run", "data.jsonl", *HOW, "--repeat", "3")
    assert result.code == 2
    assert "'quoting' already has a policy; leave `sample` out" in result.err
    result = desk("run", "data.jsonl", *HOW, "--evidence", "required")
    assert result.code == 2
    assert "leave `evidence` out" in result.err


@pytest.mark.parametrize("mode", MODES)
def test_every_kind_is_made_again_from_its_record(mode: str) -> None:
    """A judge of the package's own kinds is the same after its record was written and read."""
    assert kind_named(mode).name == mode
    for prompt in ("support/binary", "support/graded"):
        judge = make_judge(prompt, mode, 1, 0 if "claims" in mode else 2)
        record = json.loads(json.dumps(judge.describe()))
        again = judge_of_record(record)
        assert type(again) is type(judge)
        assert again.describe() == judge.describe()
