"""Biases from the command line."""

from __future__ import annotations

import json

from tests.study.test_bias import traces
from tests.support.desk import Desk


def test_the_command_prints_the_table_and_edits_chunks(desk: Desk) -> None:
    """`bias` needs labels or a judge; with a judge chunks are edited and asked again."""
    rows = [trace.model_dump(mode="json", exclude_defaults=True) for trace in traces(25)]
    (desk.folder / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert desk("run", "data.jsonl", "-m", "fake/biased", "-q").code == 0
    done = desk("bias", "latest", "--origin", "reference=fake/biased", "-m", "fake/biased", "--limit", "4")
    assert done.code == 0, done.err
    assert "change of P(relevant)" in done.out
    assert "echo-bait" in done.out
    assert desk("bias", "latest", "--origin", "reranker").code == 2
