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
    shown = desk("run", "steps.jsonl", "--model", "fake/overlap", "--metrics", "RR@3", "--no-cache")
    assert shown.code == 0, shown.err
    assert "the reranker moves RR@3 from 0.500 to 1.000, +0.500" in shown.out
    assert "it dropped 4 of 8 relevant chunks (q0: c3, q1: c3, q2: c3); 4 traces" in shown.out
    assert "12 verdicts" in shown.out


def test_searches_of_a_session_are_one_unit(desk: Desk) -> None:
    """By call: what it found first, what it had seen before, what was wasted; by hand for two sessions."""
    texts = {"a": "It opens in May.", "b": "Menu.", "c": "In May it opens, says the sign."}
    calls = [("s1", "ab"), ("s1", "ab"), ("s1", "c"), ("s2", "b"), ("s2", "a")]
    rows = [
        {
            "id": f"q{number}", "query": f"When {number}?", "reference": "It opens in May.",
            "metadata": {"session_id": session}, "chunks": [{"id": key, "text": texts[key]} for key in keys],
        }
        for number, (session, keys) in enumerate(calls)
    ]  # fmt: skip
    (desk.folder / "s.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert desk("run", "s.jsonl", "--model", "fake/overlap", "--label", "agent", "--no-cache", "-q").code == 0
    shown = desk("show", "label:agent", "--sessions").out
    assert "2 sessions with 5 searches: 2 found nothing new, 2 of 7 chunks were in an earlier search" in shown
    lines = [line.split() for line in shown.splitlines() if line.startswith(("s1 ", "s2 "))]
    assert [(line[0], line[1], line[-2], line[-1]) for line in lines] == [
        ("s1", "1", "1", "0.500"), ("s1", "2", "wasted", "0.500"), ("s1", "3", "1", "1.000"),
        ("s2", "1", "wasted", "0.000"), ("s2", "2", "1", "1.000"),
    ]  # fmt: skip
    data = json.loads(desk("show", "label:agent", "--sessions", "--json").out)
    assert [call["new"] for session in data["sessions"] for call in session["calls"]] == [1, 0, 1, 0, 1]
    assert desk("export", "label:agent", "-o", "s.md").code == 0
    assert desk("report", "label:agent", "-o", "s.html").code == 0
    assert "| s1 | 3 | q2 | When 2? | 1 | 0 | 1 | 1 | 1\\.000 |" in (desk.folder / "s.md").read_text()
    assert "2 sessions with 5 searches" in (desk.folder / "s.html").read_text()
