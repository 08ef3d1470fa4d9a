"""`runs verify` says whether a run is what was written, and what was changed where it is not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from judge_eval.errors import RunError
from judge_eval.runs.folder.labels import Label, add_label
from judge_eval.runs.folder.run import Run
from judge_eval.runs.judging.verify import verify
from tests.runs.folder.test_integrity import decided, edit, half, judged, no_digest, scored, torn
from tests.support.application import CliRunner, app
from tests.support.runs import lines


def told(folder: Path) -> list[str]:
    """What is found in a run's folder."""
    return [str(finding) for finding in verify(folder).findings]


def test_a_run_as_it_was_written_is_whole(tmp_path: Path) -> None:
    """Labels do not change that; nor do its label and tags."""
    folder = judged(tmp_path, 600)
    add_label(folder, Label(trace_id="q1", chunk_id="q1-a", label=1))
    result = verify(folder)
    assert (result.condition, result.findings, result.results) == ("whole", (), 600)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (half, ["results.jsonl: holds 6 results, and was written with 12", "results.jsonl: not what"]),
        (decided, ["results.jsonl: not what was written", "results.jsonl:4: AP@3 is 1, and its verdicts give 0"]),
        (scored, ["results.jsonl: not what was written", "results.jsonl:1: AP@3 is 0, and its"]),
        (torn, ["results.jsonl: ends in 7 bytes that are not a line"]),
        (lambda w: [*w[:2], b"no json\n", *w[3:]], ["results.jsonl:3: not a result of a run"]),
        (lambda w: [w[1], w[0], *w[2:]], ["results.jsonl: not what was written"]),
        (
            lambda w: [*w[:5], w[5].replace(b"Question", b"Quention"), *w[6:]],
            ["results.jsonl:6: the trace is not the one that its digest was made of"],
        ),
    ],
)
def test_changed_lines_are_named(
    tmp_path: Path, change: Callable[[list[bytes]], list[bytes]], found: list[str]
) -> None:
    """Each change is told with its lines."""
    folder = judged(tmp_path)
    edit(folder, change)
    assert verify(folder).condition == "changed"
    for expected in found:
        assert any(text.startswith(expected) for text in told(folder)), (expected, told(folder))


def test_a_change_that_contradicts_nothing_is_told(tmp_path: Path) -> None:
    """Another reason of one verdict: the digest of the file says that it was changed."""
    folder = judged(tmp_path)
    edit(folder, lambda w: [*w[:4], w[4].replace(b"From the table", b"By hand"), *w[5:]])
    assert told(folder) == ["results.jsonl: not what was written"]


@pytest.mark.parametrize("without_digest", [False, True])
def test_a_changed_manifest_is_told(tmp_path: Path, without_digest: bool) -> None:
    """A mean that the results do not give, a count that is wrong, and that it is not what was written."""
    folder = judged(tmp_path)
    path = folder / "manifest.json"
    manifest = json.loads(path.read_bytes())
    manifest["aggregates"]["AP@3"]["mean"] = 0.25
    manifest["tally"]["failed_verdicts"] = 2
    path.write_text(json.dumps(manifest))
    if without_digest:
        no_digest(folder)
    result = told(folder)
    assert "manifest.json: aggregates.AP@3: mean is 0.25, and the results give 1" in result
    assert "manifest.json: tally.failed_verdicts is 2, and the results give 0" in result
    assert "manifest.json: not what was written" in result
    path.write_text("{")
    assert told(folder)[0].startswith("manifest.json: not a run's manifest")


@pytest.mark.parametrize(
    ("part", "change"), [("backend", {"model": "other"}), ("judge", {"mode": "other"}), ("dataset", {"name": "x"})]
)
def test_another_judge_in_the_manifest_is_told(tmp_path: Path, part: str, change: dict[str, str]) -> None:
    """No number follows from who judged what: the digest of the manifest tells."""
    folder = judged(tmp_path)
    path = folder / "manifest.json"
    manifest = json.loads(path.read_bytes())
    path.write_text(json.dumps({**manifest, part: {**manifest[part], **change}}))
    with pytest.raises(RunError, match="its contents are not what was written"):
        Run.at(folder)
    assert "manifest.json: not what was written" in told(folder)


def test_links_and_other_files_are_told(tmp_path: Path) -> None:
    """Links and labels that are none are findings."""
    folder = judged(tmp_path / "runs")
    (folder / "labels.jsonl").write_text("no label\n")
    (folder / ".lock").unlink()
    (folder / ".lock").symlink_to(tmp_path / "elsewhere")
    result = told(folder)
    assert ".lock: it is a link, which is never followed" in result
    assert "labels.jsonl:1: not a label; the file was changed or damaged" in result
    (folder / "results.jsonl").rename(tmp_path / "moved")
    (folder / "results.jsonl").symlink_to(tmp_path / "moved")
    assert any("results.jsonl: cannot be read: it is a link" in text for text in told(folder))


def test_exit_codes(tmp_path: Path) -> None:
    """0 where nothing was changed, 1 where something was, 2 where there is no run."""
    folder = judged(tmp_path)
    run = CliRunner().invoke
    whole = run(app, ["runs", "verify", str(folder)])
    assert (whole.exit_code, whole.stdout.split(":")[0]) == (0, "whole")
    edit(folder, half)
    changed = run(app, ["runs", "verify", str(folder)])
    assert changed.exit_code == 2
    assert "results.jsonl: not what was written" in changed.stdout
    listed = run(app, ["runs", "verify", str(folder), "--json"])
    assert json.loads(listed.stdout)["condition"] == "changed"
    assert run(app, ["runs", "verify", str(tmp_path / "absent")]).exit_code == 2
    assert len(lines(folder).splitlines()) == 6
