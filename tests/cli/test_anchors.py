"""Anchors that are asked about before a run."""

from __future__ import annotations

from tests.support.command import FIXTURES
from tests.support.desk import Desk


def test_a_run_begins_with_its_anchors(desk: Desk) -> None:
    """The first run makes the baseline; a judge that drifted judges nothing more, and the exit code is 1."""
    data = (FIXTURES / "docs_qa.jsonl").read_text(encoding="utf-8")
    (desk.folder / "anchors.jsonl").write_text(data, encoding="utf-8")
    first = desk("run", "anchors.jsonl", "-m", "fake/overlap", "--anchors", "anchors.jsonl", "--label", "one", "-q")
    assert first.code == 0, first.err
    assert "anchors: baseline: " in first.err
    assert (desk.folder / "runs" / "anchors.jsonl.drift.jsonl").exists()
    second = desk("run", "anchors.jsonl", "-m", "fake/inverted", "--anchors", "anchors.jsonl", "--label", "two", "-q")
    assert second.code == 1
    assert "error: anchors: drifted: " in second.err
    assert "two" not in desk("runs", "list").out


def test_a_look_that_could_not_start_leaves_nothing(desk: Desk) -> None:
    """Without a key neither a cache of the look nor a folder of runs is left."""
    data = FIXTURES / "docs_qa.jsonl"
    told = desk("drift", data, "-m", "openai/some-model", "-q")
    assert (told.code, "no key" in told.err) == (2, True)
    assert [path.name for path in desk.folder.iterdir() if path.name != "xdg"] == []
