"""What version 0.1.0 wrote is read by this version: its cache, its cassette, its runs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from judge_eval.eval_run import EvalRun
from judge_eval.runs.columns import loading
from judge_eval.runs.columns.packed import pack
from judge_eval.runs.folder.differing import differences
from judge_eval.runs.folder.run import load_manifest
from tests.support.command import FIXTURES, Shell

KEPT = FIXTURES / "kept"
TRACES = KEPT / "traces.jsonl"
SERVER = ("--base-url", "http://127.0.0.1:48613/v1")
RUNS = ("overlap", "chat", "panel")
ASKED: dict[str, tuple[str, ...]] = {
    "chat": (
        *(
            "--model",
            "openai/kept-model",
            *SERVER,
            "--prompt",
            "support/graded@1",
            "--metrics",
            "AP@5,NDCG@5",
        ),
        *("-p", "temperature=0", "--mode", "listwise"),
    ),
    "panel": ("--panel", "panel.toml", *SERVER),
    "overlap": ("--model", "fake/overlap", "--metrics", "AP@5,NDCG@5,MRR", "--prompt", "support/binary@1"),
}


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """A folder to work in, with copies of the cache, the cassette and the runs."""
    shutil.copytree(KEPT, tmp_path, dirs_exist_ok=True)
    members = [  # under the names that an id without a version gave them
        f'[[member]]\nname = "openai/{name}:support/binary"\nmodel = "openai/{name}"\n'
        'prompt = "support/binary@1"\n'
        for name in ("kept-model", "other-model")
    ]
    (tmp_path / "panel.toml").write_text("".join(members))
    return Shell(tmp_path)


def manifest_of(folder: Path) -> dict[str, Any]:
    """The manifest of a run in a folder."""
    manifest: dict[str, Any] = json.loads((folder / "manifest.json").read_bytes())
    return manifest


def means_of(folder: Path) -> dict[str, float]:
    """The mean of every metric of a run in a folder."""
    return {name: aggregate["mean"] for name, aggregate in manifest_of(folder)["aggregates"].items()}


def outcomes_of(folder: Path) -> list[Any]:
    """Every outcome of a run in a folder."""
    return [result.outcomes for result in EvalRun.load(folder).results]


def only_run(folder: Path) -> Path:
    """The one run in a folder of runs."""
    (run,) = (path for path in folder.iterdir() if path.is_dir())
    return run


@pytest.mark.parametrize("name", RUNS)
def test_every_verdict_comes_from_the_kept_cache(shell: Shell, name: str) -> None:
    """The keys and rows of the cache are as they were: nothing is asked, and the verdicts are the same."""
    told = shell(
        *("run", TRACES, *ASKED[name], "--offline", "--cache", shell.folder / "cache", "--out", "new"),
        OPENAI_API_KEY="x",
    )
    assert told.code == 0, told.err
    folder = only_run(shell.folder / "new")
    tally = manifest_of(folder)["tally"]
    assert (tally["verdicts"], tally["failed_verdicts"], tally["calls"]) == (15, 0, 0)
    assert tally["hits"] == {"overlap": 15, "chat": 3, "panel": 30}[name]
    assert means_of(folder) == means_of(KEPT / "runs" / name)
    assert outcomes_of(folder) == outcomes_of(KEPT / "runs" / name)
    now, then = load_manifest(folder), load_manifest(KEPT / "runs" / name)
    assert differences(then, now) == ""
    assert now.backend == then.backend


def test_the_kept_cassette_answers(shell: Shell) -> None:
    """Every request of a run is found in the cassette."""
    told = shell(
        *("run", TRACES, *ASKED["overlap"], "--replay", shell.folder / "cassette.jsonl", "--out", "new")
    )
    assert told.code == 0, told.err
    folder = only_run(shell.folder / "new")
    assert manifest_of(folder)["tally"]["verdicts"] == 15
    assert means_of(folder) == means_of(KEPT / "runs" / "overlap")
    assert outcomes_of(folder) == outcomes_of(KEPT / "runs" / "overlap")


@pytest.mark.parametrize("name", RUNS)
def test_a_kept_run_is_loaded_and_rescored(shell: Shell, name: str) -> None:
    """Loaded, a run has the means it was written with; computed again from its verdicts they are the same."""
    folder = shell.folder / "runs" / name
    means = means_of(folder)
    assert {metric: EvalRun.load(folder)[metric] for metric in means} == means
    told = shell("score", folder, "--metrics", ",".join(means), "--json")
    assert told.code == 0, told.err
    scored = json.loads(told.out)["aggregates"]
    assert {metric: scored[metric]["mean"] for metric in means} == means


@pytest.mark.parametrize("name", RUNS)
def test_a_kept_run_is_exported_and_reported(shell: Shell, name: str) -> None:
    """Tables, qrels and the page are written from a run's folder."""
    for arguments in (
        ("export", f"runs/{name}", "-o", "verdicts.csv"),
        ("export", f"runs/{name}", "-o", "main.qrels"),
        ("report", f"runs/{name}", "-o", "report.html"),
    ):
        told = shell(*arguments)
        assert told.code == 0, told.err
    assert len((shell.folder / "main.qrels").read_text().splitlines()) == 15
    assert "docs-001" in (shell.folder / "report.html").read_text()


@pytest.mark.parametrize("other", ["chat", "panel"])
def test_kept_runs_are_compared(shell: Shell, other: str) -> None:
    """The runs judged the same traces, and the difference of their means is told."""
    told = shell("compare", "runs/overlap", f"runs/{other}", "--json")
    assert told.code == 0, told.err
    assert "AP@5" in told.out


@pytest.mark.foreign
def test_the_kept_parts_are_accepted(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Parquet parts fit the results beside them: columns come from them, and none are packed anew."""
    pytest.importorskip("pyarrow")
    run = EvalRun.load(shell.folder / "runs" / "panel")
    metrics, cluster = run.manifest.metrics, run.manifest.intervals.cluster
    packed = pack(run.results, tuple(metrics), cluster)
    monkeypatch.setattr(loading, "pack", None)
    columns = loading.columns_of(run, metrics, cluster)
    for name in ("ids", "scores", "starts", "passages", "grades", "labels"):
        assert np.array_equal(getattr(columns, name), getattr(packed, name)), name


def begun(shell: Shell, name: str) -> Path:
    """A kept run as it was when it was stopped before its last trace."""
    folder = shell.folder / "runs" / name
    for part in folder.glob("*.parquet"):
        part.unlink()
    lines = (folder / "results.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "results.jsonl").write_bytes(b"".join(lines[:-1]))
    manifest = manifest_of(folder) | {"status": "interrupted", "finished": None, "aggregates": {}}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def unversioned(name: str) -> list[str]:
    """What the kept run was asked for, in the words of that time: ids of prompts without a version."""
    if name == "panel":
        return ["--member", "openai/kept-model", "--member", "openai/other-model", *SERVER]
    return [word.removesuffix("@1") for word in ASKED[name]]


@pytest.mark.parametrize("name", RUNS)
def test_a_run_that_goes_on_keeps_its_prompts(shell: Shell, name: str) -> None:
    """An id without a version, which means another now, finishes a run in the version it began with."""
    folder = begun(shell, name)
    how = ("--offline", "--cache", shell.folder / "cache", "--out", "runs", "--resume", folder)
    told = shell("run", TRACES, *unversioned(name), *how, OPENAI_API_KEY="x")
    assert told.code == 0, told.err
    assert manifest_of(folder)["status"] == "done"
    assert manifest_of(folder)["judge"] == manifest_of(KEPT / "runs" / name)["judge"]
    assert means_of(folder) == means_of(KEPT / "runs" / name)
    assert outcomes_of(folder) == outcomes_of(KEPT / "runs" / name)


def test_a_version_that_is_asked_for_is_not_changed(shell: Shell) -> None:
    """A run of version 1 does not go on with version 2 that a command names, nor with another policy."""
    folder = begun(shell, "overlap")
    asked = unversioned("overlap")
    for more, said in (
        (["--prompt", "support/binary@2"], "the judge differs in prompt"),
        (["--evidence", "required"], "the judge differs in evidence ('flag' there; 'required' here)"),
    ):
        told = shell("run", TRACES, *asked, *more, "--out", "runs", "--resume", folder)
        assert told.code == 2, told.out
        assert said in told.err
