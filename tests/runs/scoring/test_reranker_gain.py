from __future__ import annotations

import pytest

from judge_eval import EvalRun, Trace, import_verdicts
from judge_eval.compare.compare import compare
from judge_eval.runs.scoring.reranker import reranker_gain
from judge_eval.views.run import reranker_sections

GRADES = {"q0": [0, 1, 1], "q1": [0, None, 1], "q2": [1, 0, None], "q3": [None, 0, 0]}
RANKS = {"q0": [0, 2, 1], "q1": [2, 1, 0], "q2": [1, 2, 3], "q3": [0, 1, 2]}


def judged(order: dict[str, list[int]], *, steps: bool) -> EvalRun:
    """Make a run of four questions, three with a failed verdict, their chunks in an order."""
    traces = [
        Trace(
            id=q,
            query=q,
            chunks=[
                {"id": f"{q}-{n}", "text": f"{q} {n}", "metadata": {"reranked": RANKS[q][n]} if steps else {}}
                for n in order[q]
            ],
        )
        for q in GRADES
    ]
    grades = {(q, f"{q}-{n}"): grade for q, row in GRADES.items() for n, grade in enumerate(row) if grade is not None}
    return import_verdicts(grades, traces, metrics=["AP@3", "P@2"])


def test_failed_verdicts_count_as_in_the_means_of_two_runs() -> None:
    """Means before and after are those of two runs with these lists; so is the difference, with its failures."""
    retrieved = judged({q: [0, 1, 2] for q in GRADES}, steps=True)
    kept = {q: [n for _, n in sorted((rank, n) for n, rank in enumerate(ranks) if rank)] for q, ranks in RANKS.items()}
    reranked = judged(kept, steps=False)
    gain = reranker_gain(retrieved)
    assert gain is not None
    assert (gain.traces, gain.failed) == (4, 3)
    assert (gain.relevant, gain.n_dropped, gain.open, gain.dropped) == (4, 1, 1, (("q1", "q1-2"),))
    compared = compare(retrieved, reranked)
    for each, difference in zip(gain.metrics, compared.differences, strict=True):
        old, new = (run.manifest.aggregates[each.metric] for run in (retrieved, reranked))
        assert (each.before, each.after) == (pytest.approx(old.mean), pytest.approx(new.mean))
        assert each.difference.value == pytest.approx(difference.difference)
        assert each.difference.interval == pytest.approx(difference.interval)


def test_which_traces_count_does_not_depend_on_verdicts() -> None:
    """A failure widens the interval and is said; it removes no trace."""
    (section,) = reranker_sections(judged({q: [0, 1, 2] for q in GRADES}, steps=True))
    sentence = getattr(section.blocks[0], "text", "")
    assert "it dropped 1 of 4 relevant chunks (q1: q1-2) and 1 without a verdict" in sentence
    assert "4 traces, 3 with failed verdicts" in sentence


def test_unanswerable_questions_are_in_no_mean_of_a_reranker() -> None:
    """They are counted neither among its traces, nor as failed, nor with what it dropped."""
    chunks = [
        {"id": "x", "text": "x", "metadata": {"reranked": 0}},
        {"id": "y", "text": "y", "metadata": {"reranked": 1}},
    ]
    traces = [Trace.parse({"id": q, "query": q, "chunks": chunks, "answerable": q != "q0"}) for q in ("q0", "q1", "q2")]
    grades = {(q, chunk): int(chunk == "x") for q in ("q0", "q1", "q2") for chunk in ("x", "y")}
    gain = reranker_gain(import_verdicts(grades, traces, metrics=["P@2"]))
    assert gain is not None
    assert (gain.traces, gain.failed, gain.relevant, gain.n_dropped, gain.open) == (2, 0, 2, 2, 0)
