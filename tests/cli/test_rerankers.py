from __future__ import annotations

import json

from tests.support.desk import Desk


def test_the_gain_of_a_reranker_costs_no_call(desk: Desk) -> None:
    """The summary says what the reranker moved and dropped, by one judgment of each chunk."""
    reference = {"reference": "It opens in May."}
    rows = []
    for number in range(4):
        chunks = [{"text": f"Menu {number}.", "metadata": {"reranked": 2}}]
        chunks += [{"text": "It opens in May.", "metadata": {"reranked": 1}}]
        chunks += [{"text": f"It opens in May, says page {number}.", "metadata": {"reranked": 0}}]
        rows.append({"id": f"q{number}", "query": "When does it open?", **reference, "chunks": chunks})
    (desk.folder / "steps.jsonl").write_text("\n".join(map(json.dumps, rows)))
    shown = desk("run", "steps.jsonl", "--model", "fake/overlap", "--metrics", "RR@3", "--cache", "none")
    assert shown.code == 0, shown.err
    assert "the reranker moves RR@3 from 0.500 to 1.000, +0.500" in shown.out
    assert "it dropped 4 of 8 relevant chunks (q0: c3, q1: c3, q2: c3); 4 traces" in shown.out
    assert "12 verdicts" in shown.out
