"""The files of a run that has ended are what its manifest says of them, or they are refused."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from judge_eval.compare.compare import compare
from judge_eval.errors import RefusedError, RunError
from judge_eval.eval_run import EvalRun
from judge_eval.llm.fake.fake_backend import FakeBackend
from judge_eval.runs.folder.journal import Journal
from judge_eval.runs.folder.labels import Label, add_label
from judge_eval.runs.folder.records import FileDigest
from judge_eval.runs.folder.run import load_manifest
from judge_eval.runs.judging.merge import merge
from judge_eval.runs.scoring.rescore import rescore
from tests.support.runs import evaluator, lines, traces

FIRST = FakeBackend.table({f"q{n}-a": 1 for n in range(24)}, default=0)
"""Finds the first chunk of every trace relevant."""
YES = FakeBackend.table({}, default=1)


def judged(folder: Path, count: int = 12, **more: Any) -> Path:
    """Judge traces into a folder of runs, the first chunk of each relevant, and return the run's folder."""
    run = evaluator(FIRST, **more).evaluate(traces(count), out=folder)
    assert run.folder is not None
    return run.folder


def edit(folder: Path, change: Callable[[list[bytes]], list[bytes]]) -> None:
    """Change the lines of a run's results."""
    (folder / "results.jsonl").write_bytes(b"".join(change(lines(folder).splitlines(keepends=True))))


def no_digest(folder: Path) -> None:
    """Take the digests out of a manifest."""
    manifest = json.loads((folder / "manifest.json").read_bytes())
    del manifest["files"], manifest["digest"]
    (folder / "manifest.json").write_text(json.dumps(manifest))


def half(written: list[bytes]) -> list[bytes]:
    """Keep the first half."""
    return written[: len(written) // 2]


def scored(written: list[bytes]) -> list[bytes]:
    """Write other scores."""
    return [line.replace(b'"AP@3":1.0', b'"AP@3":0.0') for line in written]


def decided(written: list[bytes]) -> list[bytes]:
    """Write another verdict into the fourth line."""
    changed = written[3].replace(b'"grade":1', b'"grade":0').replace(b'"relevant":true', b'"relevant":false')
    assert changed != written[3]
    return [*written[:3], changed, *written[4:]]


def torn(written: list[bytes]) -> list[bytes]:
    """Leave something after the last line."""
    return [*written, b'{"v":1,']


def test_the_manifest_of_a_run_that_ended_holds_the_digest_of_its_results(tmp_path: Path) -> None:
    """It is the file's SHA-256, as every tool computes it, with its size; the manifest has a digest of its own."""
    folder = judged(tmp_path)
    manifest = load_manifest(folder)
    data = lines(folder)
    assert manifest.files == {"results.jsonl": FileDigest(bytes=len(data), sha256=hashlib.sha256(data).hexdigest())}
    assert manifest.digest is not None


@pytest.mark.parametrize("change", [half, scored, decided, torn])
@pytest.mark.parametrize("use", ["iterate", "count", "compare", "rescore", "resume", "merge"])
def test_changed_results_are_refused(tmp_path: Path, change: Callable[[list[bytes]], list[bytes]], use: str) -> None:
    """Whatever reads results that are not those of the manifest says so, and names the file."""
    folder = judged(tmp_path / "a")
    other = judged(tmp_path / "b")
    edit(folder, change)
    uses: dict[str, Callable[[], Any]] = {
        "iterate": lambda: list(EvalRun.load(folder).results),
        "count": lambda: len(EvalRun.load(folder).results),
        "compare": lambda: compare(EvalRun.load(other), EvalRun.load(folder)),
        "rescore": lambda: rescore(EvalRun.load(folder), ["AP@3"]),
        "resume": lambda: evaluator(YES).evaluate(traces(12), resume=folder),
        "merge": lambda: merge([shard(tmp_path, 1, change), shard(tmp_path, 2)], tmp_path / "merged"),
    }
    before = lines(folder)
    with pytest.raises(RunError, match=r"results.jsonl(:\d+)?: (holds|is not what was written)"):
        uses[use]()
    assert lines(folder) == before
    assert not (tmp_path / "merged").exists() or not list((tmp_path / "merged").iterdir())


def shard(root: Path, index: int, change: Callable[[list[bytes]], list[bytes]] | None = None) -> Path:
    """Judge half of a dataset, and change what was written."""
    data = root / "data.jsonl"
    data.write_text("".join(trace.model_dump_json() + "\n" for trace in traces(24)))
    folder = evaluator(FIRST).evaluate(data, out=root / "shards", shard=(index, 2)).folder
    assert folder is not None
    if change is not None:
        edit(folder, change)
    return folder


def test_results_that_change_after_they_were_checked_are_refused(tmp_path: Path) -> None:
    """A run in hand reads nothing from a file that is another one since."""
    folder = judged(tmp_path)
    run = EvalRun.load(folder)
    assert len(run.results) == 12
    edit(folder, scored)
    with pytest.raises(RunError, match="was changed while it was read"):
        run.results[3]


def test_a_manifest_with_other_numbers_is_refused(tmp_path: Path) -> None:
    """All but label, tags and address is as it was written."""
    folder = judged(tmp_path)
    path = folder / "manifest.json"
    manifest = json.loads(path.read_bytes())
    named = {**manifest, "label": "by hand", "tags": ["new"], "href": "https://example.org"}
    path.write_text(json.dumps(named))
    assert EvalRun.load(folder).label == "by hand"
    for change in (
        {"aggregates": {"AP@3": {**manifest["aggregates"]["AP@3"], "mean": 0.9}}},
        {"tally": {**manifest["tally"], "failed_verdicts": 1}},
        {"backend": {**manifest["backend"], "model": "other"}},
        {"files": {}},
        {"digest": None},
        {"files": {}, "digest": None},
    ):
        path.write_text(json.dumps({**manifest, **change}))
        with pytest.raises(RunError, match=r"manifest.json: its contents are not what was written when the run ended"):
            EvalRun.load(folder)


def test_a_run_that_goes_on_gets_new_digests(tmp_path: Path) -> None:
    """While a run is written its manifest has no digest; when it ends it has that of all its results."""
    failing = FakeBackend.table({"q1-b": RefusedError("no")}, default=1)
    run = evaluator(failing).evaluate(traces(3), out=tmp_path)
    folder = run.folder or Path()
    assert run.status == "incomplete"
    before = load_manifest(folder).files
    assert before
    journal = Journal(folder, load_manifest(folder))
    under_way = json.loads((folder / "manifest.json").read_bytes())
    assert (under_way["files"], under_way["digest"]) == ({}, None)
    (folder / "manifest.json").write_text(json.dumps(under_way | {"status": "running"}))  # as a session does
    journal.close()
    done = evaluator(YES).evaluate(traces(3), resume=folder)
    assert done.status == "done"
    after = load_manifest(folder)
    assert after.files
    assert after.files != before
    assert after == done.manifest
    assert [result.failed for result in EvalRun.load(folder).results] == [0, 0, 0]


def test_labels_given_later_change_no_digest(tmp_path: Path) -> None:
    """Labels are kept in a file of their own: the run is what it was."""
    folder = judged(tmp_path)
    add_label(folder, Label(trace_id="q1", chunk_id="q1-a", label=1))
    assert len(EvalRun.load(folder).results) == 12


def test_merged_shards_have_a_digest(tmp_path: Path) -> None:
    """The merged run has a digest of its own."""
    merged = merge([shard(tmp_path, 1), shard(tmp_path, 2)], tmp_path / "merged")
    folder = merged.folder or Path()
    results = load_manifest(folder).files["results.jsonl"]
    assert results.sha256 == hashlib.sha256(lines(folder)).hexdigest()
    assert len(EvalRun.load(folder).results) == 24
