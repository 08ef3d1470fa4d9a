"""What version 0.1.0 wrote is read by this version: its cache, its cassette, its runs."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Container, Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from judge_eval.eval_run import EvalRun
from judge_eval.runs.columns import parquet as loading
from judge_eval.runs.folder.describing import differences
from judge_eval.runs.folder.run import load_manifest
from judge_eval.runs.judging.verify import verify
from judge_eval.schema import Outcome
from tests.support.batch_server import BatchServer
from tests.support.blocks import PLUGIN
from tests.support.command import FIXTURES, Shell
from tests.support.desk import Desk

KEPT = FIXTURES / "kept"
TRACES = KEPT / "traces.jsonl"
SERVER = ("--base-url", "http://127.0.0.1:48613/v1")
RUNS = ("overlap", "chat", "panel")
ASKED: dict[str, tuple[str, ...]] = {
    "chat": (
        *("--model", "openai/kept-model", *SERVER, "--prompt", "support/graded@1", "--metrics", "AP@5,NDCG@5"),
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
        f'[[member]]\nname = "openai/{name}:support/binary"\nmodel = "openai/{name}"\nprompt = "support/binary@1"\n'
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
    """Every outcome of a run in a folder, as this version writes it.

    Version 0.1.0 wrote false for an instruction in the chunk where a decision model, which quotes nothing,
    had not been asked for one; now that is null.
    """
    return [tuple(map(_as_written_now, result.outcomes)) for result in EvalRun.load(folder).results]


def _as_written_now(outcome: Outcome) -> Outcome:
    if outcome.kind == "verdict" and outcome.evidence is None:
        return outcome.model_copy(update={"instruction_in_chunk": None})
    return outcome


def only_run(folder: Path) -> Path:
    """The one run in a folder of runs."""
    (run,) = (path for path in folder.iterdir() if path.is_dir())
    return run


@pytest.mark.parametrize("name", RUNS)
def test_every_verdict_comes_from_the_kept_cache(shell: Shell, name: str) -> None:
    """The keys and rows of the cache are as they were: nothing is asked, and the verdicts are the same."""
    result = shell(
        *("run", TRACES, *ASKED[name], "--offline", "--cache", shell.folder / "cache", "--out", "new"),
        OPENAI_API_KEY="x",
    )
    assert result.code == 0, result.err
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
    result = shell(*("run", TRACES, *ASKED["overlap"], "--replay", shell.folder / "cassette.jsonl", "--out", "new"))
    assert result.code == 0, result.err
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
    result = shell("score", folder, "--metrics", ",".join(means), "--json")
    assert result.code == 0, result.err
    scored = json.loads(result.out)["aggregates"]
    assert {metric: scored[metric]["mean"] for metric in means} == means


@pytest.mark.parametrize("name", RUNS)
def test_a_kept_run_is_exported_and_reported(shell: Shell, name: str) -> None:
    """Tables, qrels and the page are written from a run's folder."""
    for arguments in (
        ("export", f"runs/{name}", "-o", "verdicts.csv"),
        ("export", f"runs/{name}", "-o", "main.qrels"),
        ("report", f"runs/{name}", "-o", "report.html"),
    ):
        result = shell(*arguments)
        assert result.code == 0, result.err
    assert len((shell.folder / "main.qrels").read_text().splitlines()) == 15
    assert "docs-001" in (shell.folder / "report.html").read_text()


@pytest.mark.parametrize("other", ["chat", "panel"])
def test_kept_runs_are_compared(shell: Shell, other: str) -> None:
    """The runs judged the same traces, and the difference of their means is told."""
    result = shell("compare", "runs/overlap", f"runs/{other}", "--json")
    assert result.code == 0, result.err
    assert "AP@5" in result.out


@pytest.mark.foreign
def test_the_kept_parts_are_not_read_without_a_seal(shell: Shell) -> None:
    """A run of version 0.1.0 has no digest for its parts: they are passed over, and the results are read."""
    pytest.importorskip("pyarrow")
    folder = shell.folder / "runs" / "panel"
    run = EvalRun.load(folder)
    assert (folder / "verdicts.parquet").is_file()
    assert verify(folder).condition == "unverified"
    columns = loading.columns_of(run, run.manifest.metrics, run.manifest.intervals.cluster)
    (folder / "verdicts.parquet").unlink()
    packed = loading.columns_of(EvalRun.load(folder), run.manifest.metrics, run.manifest.intervals.cluster)
    for name in ("ids", "scores", "starts", "passages", "grades", "labels"):
        assert np.array_equal(getattr(columns, name), getattr(packed, name)), name


def begun(shell: Shell | Desk, name: str) -> Path:
    """A kept run as it was when it was stopped before its last trace."""
    folder = shell.folder / "runs" / name
    for part in folder.glob("*.parquet"):
        part.unlink()
    lines = (folder / "results.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "results.jsonl").write_bytes(b"".join(lines[:-1]))
    manifest = manifest_of(folder) | {"status": "interrupted", "finished": None, "aggregates": {}}
    manifest["results"] = None  # what was written is sealed when a run ends
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
    result = shell("run", TRACES, *unversioned(name), *how, OPENAI_API_KEY="x")
    assert result.code == 0, result.err
    assert manifest_of(folder)["status"] == "done"
    assert manifest_of(folder)["judge"] == manifest_of(KEPT / "runs" / name)["judge"]
    assert means_of(folder) == means_of(KEPT / "runs" / name)
    assert outcomes_of(folder) == outcomes_of(KEPT / "runs" / name)


def test_a_version_that_is_asked_for_is_not_changed(shell: Shell) -> None:
    """A run of version 1 does not go on with version 2 that a command names, nor with another policy."""
    folder = begun(shell, "overlap")
    asked = unversioned("overlap")
    for more, answers in (
        (["--prompt", "support/binary@2"], "the judge differs in prompt"),
        (["--evidence", "required"], "the judge differs in evidence ('flag' there; 'required' here)"),
    ):
        result = shell("run", TRACES, *asked, *more, "--out", "runs", "--resume", folder)
        assert result.code == 2, result.out
        assert answers in result.err


# What was written before the package was reshaped: a run of every judge kind

MADE_IN = "/tmp/keptkinds"
"""Where `kinds/` was made; a batch names its data and its cache by their whole paths."""
KINDS: dict[str, dict[str, Any]] = tomllib.loads((KEPT / "kinds" / "kinds.toml").read_text())
SERVERS: dict[str, str] = KINDS.pop("servers")
STOPPED = ("interrupted", "killed", "budget")
FORMATS = {
    "v.csv": (), "v.jsonl": (), "v.json": (), "v.md": (), "main.run": (), "main.qrels": (),
    "t.csv": ("--table", "traces"), "v.parquet": (),
    "log": ("--format", "inspect"),
}  # fmt: skip
KEY = {"OPENAI_API_KEY": "sk-kept"}


def table(names: Iterable[str], some: Container[str]) -> list[Any]:
    """Return the names as parameters, those that are not among some of them slow."""
    return [
        pytest.param(
            name,
            marks=[
                *([] if name in some else [pytest.mark.slow]),
                *([pytest.mark.foreign] if name == "columnar" else []),  # writes Parquet
            ],
        )
        for name in names
    ]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Desk:
    """A folder to work in, with copies of all that was kept of the kinds."""
    shutil.copytree(KEPT / "kinds", tmp_path, dirs_exist_ok=True)
    for secret in tmp_path.rglob("cache.fence"):
        secret.chmod(0o600)  # as it was written: what others can read is drawn anew
        secret.parent.chmod(0o700)
    for state in tmp_path.glob("batch/*/batch.json"):
        state.write_text(state.read_text().replace(MADE_IN, str(tmp_path)))
    return Desk.at(tmp_path, monkeypatch, capsys)


def kept_run(name: str) -> Path:
    """The folder of a kept run."""
    return KEPT / "kinds" / "runs" / name


def judged_again(home: Desk, name: str, *how: str | Path) -> None:
    """Judge by a kind as it was asked for."""
    kind = KINDS[name]
    arguments = [word.format(**SERVERS) for word in kind["arguments"]]
    metrics = () if name == "configured" else ("--metrics", "AP@5,NDCG@5")
    home.patch.chdir(home.folder / kind.get("folder", "."))
    result = home("run", kind.get("data", "traces.jsonl"), *arguments, *metrics, "-q", *how, **KEY)
    home.patch.chdir(home.folder)
    assert result.code == 0, result.err


def same_run(new: Path, kept: Path) -> None:
    """Check that two runs have the same verdicts, claims, means, judge and data."""
    now, then = EvalRun.load(new), EvalRun.load(kept)
    assert outcomes_of(new) == outcomes_of(kept)
    assert [result.claims for result in now.results] == [result.claims for result in then.results]
    assert means_of(new) == means_of(kept)
    for field in ("judge", "backend", "backends", "scale", "metrics"):
        assert manifest_of(new).get(field) == manifest_of(kept).get(field), field
    for field in ("digest", "traces", "chunks", "skipped", "limit", "seed"):
        assert manifest_of(new)["dataset"].get(field) == manifest_of(kept)["dataset"].get(field), field


def test_every_kept_run_is_of_a_kind_or_a_case() -> None:
    """Each folder of runs is asked about below, and each kind has one."""
    assert {path.name for path in kept_run("").iterdir()} == {*KINDS, *STOPPED, "imported"}


@pytest.mark.parametrize("name", table(KINDS, KINDS))
def test_a_kind_is_judged_from_the_kept_cache(home: Desk, name: str) -> None:
    """Nothing is asked: the keys of the cache are what they were, and so is all that follows."""
    how = ("--offline", "--cache", home.folder / "cache", "--out", home.folder / "new")
    judged_again(home, name, *how)
    folder = only_run(home.folder / "new")
    tally, before = manifest_of(folder)["tally"], manifest_of(kept_run(name))["tally"]
    assert (tally["calls"], tally["failed_verdicts"]) == (0, 0)
    assert tally["hits"] == before["hits"] + before["calls"]
    assert tally["stages"] == before["stages"]
    same_run(folder, kept_run(name))


@pytest.mark.parametrize("name", table(KINDS, ("cascade",)))
def test_a_kind_goes_on(home: Desk, name: str) -> None:
    """A run without its last trace is resumed, from the cache, to what it was."""
    folder = begun(home, name)
    how = ("--offline", "--cache", home.folder / "cache", "--out", home.folder / "runs", "--resume", folder)
    judged_again(home, name, *how)
    assert manifest_of(folder)["status"] == "done"
    same_run(folder, kept_run(name))


@pytest.mark.parametrize("name", STOPPED)
def test_a_stopped_run_goes_on(home: Desk, name: str) -> None:
    """Runs that Ctrl-C, SIGKILL and a budget ended are finished from the cache."""
    folder = home.folder / "runs" / name
    judged_again(home, "plain", "--offline", "--cache", home.folder / "cache", "--resume", folder)
    assert manifest_of(folder)["status"] == "done"
    assert manifest_of(folder)["tally"]["failed_verdicts"] == 0
    assert outcomes_of(folder) == outcomes_of(kept_run("plain"))
    assert means_of(folder) == means_of(kept_run("plain"))


@pytest.mark.slow
@pytest.mark.parametrize("name", table([*KINDS, *STOPPED, "imported"], ("claims-decision",)))
def test_a_kind_is_scored_compared_exported_and_reported(home: Desk, name: str) -> None:
    """Whatever reads a run reads it: its means follow from its verdicts, and each format has its rows."""
    run = f"runs/{name}"
    means = means_of(kept_run(name))
    judged = [each for each in outcomes_of(kept_run(name)) if all(item.kind == "verdict" for item in each)]
    rows = sum(map(len, judged))  # of a trace with a failed verdict TREC files hold nothing
    result = home("score", run, "--metrics", ",".join(means or ["AP@5"]), "--json")
    assert result.code == 0, result.err
    aggregates = json.loads(result.out)["aggregates"]
    for metric, mean in means.items():
        again = aggregates[metric]
        if again["n_expected"]:  # open traces count by expectation since; they were left out before
            assert again["bounds"][0] <= again["mean"] <= again["bounds"][1]
        else:
            assert again["mean"] == mean
    formats = dict(FORMATS) | ({"c.csv": ("--table", "claims")} if name.startswith("claims") else {})
    for file, how in formats.items():
        if file == "v.parquet" and find_spec("pyarrow") is None:
            continue
        result = home("export", run, "-o", file, *how)
        assert result.code == 0, (file, result.err)
    assert len((home.folder / "v.csv").read_text().splitlines()) >= rows + 1
    assert len((home.folder / "main.qrels").read_text().splitlines()) == rows
    for arguments in (("report", run, "-o", "r.html"), ("show", run), ("show", run, "t0")):
        result = home(*arguments)
        assert result.code == 0, result.err
    assert "What of the kettle?" in (home.folder / "r.html").read_text()
    result = home("compare", "runs/plain", run, "--json")
    assert result.code == 0, result.err


@pytest.mark.parametrize("name", ["pointwise", "listwise", "claims", "decision"])
def test_a_kept_cassette_answers(home: Desk, name: str) -> None:
    """A cassette is replayed by the command that recorded it."""
    cassette = home.folder / "cassettes" / f"{name}.jsonl"
    judged_again(home, name, "--no-cache", "--replay", cassette, "--out", home.folder / "new")
    folder = only_run(home.folder / "new")
    assert outcomes_of(folder) == outcomes_of(kept_run(name))
    assert means_of(folder) == means_of(kept_run(name))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["chat", "decided"])
def test_a_cassette_of_the_pytest_plugin_answers(home: Desk, name: str) -> None:
    """Tests replay what they recorded."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *PLUGIN, "-p", "no:cacheprovider"],
        cwd=home.folder / "plugin" / name,
        env=Shell(home.folder).environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "1 passed" in done.stdout, done.stdout


@pytest.mark.parametrize("stage", ["exported", "submitted", "fetched"])
def test_a_batch_goes_on_after_each_step(home: Desk, stage: str) -> None:
    """Whatever step a batch was left at, the next ones lead to its run, and nobody is asked online."""
    folder = home.folder / "batch" / stage
    if stage != "fetched":
        result = home("batch", "import", folder, "--finish", "later", "--out", "new", **KEY)
        assert result.code == 3, result.err
        assert not (home.folder / "new").exists()
    with BatchServer() as server:
        there = ("--base-url", server.url)
        if stage == "exported":
            result = home("batch", "submit", folder, *there, **KEY)
            assert result.code == 0, result.err
        if stage == "submitted":  # the server that took it knows its file and its batch
            (part,) = json.loads((folder / "batch.json").read_text())["rounds"][0]["parts"]
            server.files[part["file_id"]] = (folder / "round-1" / part["name"]).read_bytes()
            order = {"endpoint": "/v1/chat/completions", "completion_window": "24h"}
            _, made = server._create({"input_file_id": part["file_id"], **order})
            server.batches[part["batch_id"]] = server.batches.pop(made["id"]) | {"id": part["batch_id"]}
        if stage != "fetched":
            result = home("batch", "fetch", folder, *there, **KEY)
            assert result.code == 0, result.err
            assert server.counts["create"] == (stage == "exported")
        assert server.online == 0
    result = home("batch", "import", folder, "--finish", "later", "--out", "new", **KEY)
    assert result.code == 0, result.err
    run = only_run(home.folder / "new")
    tally = manifest_of(run)["tally"]
    assert (tally["verdicts"], tally["failed_verdicts"]) == (8, 0)
    assert manifest_of(run)["judge"] == manifest_of(kept_run("plain"))["judge"]


def test_kept_labels_and_calibration_are_read(home: Desk) -> None:
    """A filled-in sample measures a judge; a calibration is applied to the judge it was made of alone."""
    traces = map(json.loads, (home.folder / "traces.jsonl").read_text().splitlines())
    truth = {chunk["id"]: chunk["label"] for trace in traces for chunk in trace["chunks"]}
    sample = [json.loads(line) for line in (home.folder / "sample.jsonl").read_text().splitlines()]
    for row in sample:
        for chunk in row["chunks"]:
            chunk["label"] = truth[chunk["id"]]
    (home.folder / "sample.jsonl").write_text("".join(json.dumps(row) + "\n" for row in sample))
    result = home("agree", "runs/plain", "--labels", "sample.jsonl", "--json")
    assert result.code == 0, result.err
    assert (json.loads(result.out)["n"], json.loads(result.out)["traces"]) == (6, 2)
    result = home("cascade", "show", "cascade.json")
    assert result.code == 0, result.err
    how = ("--metrics", "SoftP@5", "--calibration", "calibration.json", "--json")
    result = home("score", "runs/confidence", *how)
    assert result.code == 0, result.err
    assert home("score", "runs/pointwise", *how).code == 2
