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
