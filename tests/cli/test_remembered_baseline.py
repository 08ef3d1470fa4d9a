from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from judge_eval import EvalRun
from judge_eval.runs.judging.merge import merge
from tests.support.application import CliRunner, app
from tests.support.blocks_of_pages import data_of
from tests.support.runs import rewrite_manifest
from tests.support.serving import judge, rows


def call(*words: object) -> Result:
    """Run a command in this process."""
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def place(tmp_path: Path) -> dict[str, Any]:
    """Make a run of the main branch, and data whose retriever is worse."""
    out = tmp_path / "runs"
    main = judge(rows()[:6], out, label="main")
    data = tmp_path / "turned.jsonl"
    lines = [json.dumps({**row, "chunks": row["chunks"][::-1]}) for row in rows()[:6]]
    data.write_text("\n".join(lines) + "\n")
    return {"out": out, "main": main, "data": data, "file": tmp_path / "report.html"}


def newest(out: Path) -> EvalRun:
    """Load the newest run of a folder."""
    return max((EvalRun.load(folder) for folder in out.iterdir()), key=lambda run: run.manifest.created)


@pytest.mark.slow
def test_a_run_judged_with_a_baseline_remembers_it(place: dict[str, Any]) -> None:
    """`run --baseline` keeps the id in the manifest; `report` shows the differences without being told."""
    judged = ["-m", "fake/overlap", "--cache", "none", "--out", place["out"], "-q"]
    done = call("run", place["data"], *judged, "--baseline", "label:main")
    assert done.exit_code == 0, done.output
    assert "is worse: AP@5 -" in done.output or "no difference is shown: AP@5 -" in done.output
    run = newest(place["out"])
    assert run.manifest.baseline == place["main"].id
    report = ["report", "latest", "--out", place["out"], "--cache", "none", "-o", place["file"]]
    assert call(*report).exit_code == 0
    page = data_of(place["file"].read_text())
    assert page["baseline"]["id"] == place["main"].id
    assert call(*report, "--baseline", "none").exit_code == 0
    assert data_of(place["file"].read_text())["baseline"] is None
    assert place["main"].folder is not None
    place["main"].folder.rename(place["out"].parent / "elsewhere")
    result = call(*report)
    assert result.exit_code == 0
    assert f"judged with the baseline {place['main'].id[:8]}, which is not here" in result.output
    assert data_of(place["file"].read_text())["baseline"] is None


def test_a_run_without_a_baseline_remembers_none(place: dict[str, Any]) -> None:
    """Runs that were compared with nothing say nothing of a baseline."""
    assert place["main"].manifest.baseline is None


def test_a_resumed_run_keeps_its_baseline_or_takes_the_new_one(place: dict[str, Any]) -> None:
    """Going on without a baseline keeps the one it began with; another one takes its place."""
    run = judge(rows()[:6], place["out"], baseline=place["main"].id)
    for given, expected in ((None, place["main"].id), (run.id, run.id)):
        folder = run.folder
        assert folder is not None
        rewrite_manifest(folder, status="interrupted")
        again = judge(rows()[:6], place["out"], resume=folder, baseline=given)
        assert again.manifest.baseline == expected


def test_merged_shards_keep_the_baseline_they_agree_on(place: dict[str, Any]) -> None:
    """What was judged in shards against one baseline is merged with it."""

    def shards(*names: str) -> list[Path]:
        runs = [judge(rows()[:6], place["out"], shard=(i, 2), baseline=name) for i, name in enumerate(names, 1)]
        return [run.folder for run in runs if run.folder is not None]

    same = merge(shards("a", "a"), place["out"])
    assert same.manifest.baseline == "a"
    assert merge(shards("a", "b"), place["out"]).manifest.baseline is None
