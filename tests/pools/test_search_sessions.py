from __future__ import annotations

import pytest

from judge_eval import Trace, import_verdicts
from judge_eval.pools.sessions import session_report
from judge_eval.views.blocks import Section
from judge_eval.views.steps import session_sections
from tests.support.claims import claimed, run_by_claims

GOAL = {"c1": "It opens in May.", "c2": "It closes in June.", "c3": "Tickets are free."}


def search(name: str, session: str, signs: dict[str, str], chunks: list[str]) -> Trace:
    """Make one search of an agent, held against the claims of the goal's reference."""
    return claimed(name, signs, chunks=chunks, query=f"Search {name}", texts=GOAL, session_id=session)


def sentence(section: Section) -> str:
    """Return the first sentence of a section."""
    return str(getattr(section.blocks[0], "text", ""))


def test_calls_are_held_against_the_claims_of_the_goal() -> None:
    """Each claim counts for the call that covered it first; what nobody covers stays in what there is to cover."""
    none = {"c3": ".."}
    run = run_by_claims(
        [
            search("q1", "s", {"c1": "+.", "c2": "~.", **none}, ["May.", "Menu."]),
            search("q2", "s", {"c1": "+.", "c2": "..", **none}, ["May.", "Other menu."]),
            search("q3", "s", {"c1": "..", "c2": ".+", **none}, ["Menu.", "June."]),
            search("q4", "t", {"c1": ".", "c2": ".", "c3": "."}, ["Nothing."]),
        ]
    )
    report = session_report(run)
    assert report is not None
    assert report.of_claims
    calls = report.sessions[0].calls
    assert [(c.new, c.duplicates, c.wasted) for c in calls] == [(1, 0, False), (0, 1, True), (1, 1, False)]
    assert [c.coverage for c in calls] == [(1 / 3, 1 / 3), (1 / 3, 1 / 3), (2 / 3, 2 / 3)]
    assert [f.coverage.value for f in report.by_call] == pytest.approx([1 / 6, 1 / 6, 1 / 3])
    assert [(f.sessions, f.novelty, f.wasted) for f in report.by_call] == [(2, 0.5, 0.5), (1, 0.0, 1.0), (1, 1.0, 0.0)]
    assert "2 sessions with 4 searches: 2 found nothing new, 2 of 7 chunks were" in sentence(
        next(session_sections(run))
    )


def test_claims_covered_only_together_are_found() -> None:
    """A claim that the chunks of a call cover together is covered, as in every other figure of claims."""
    both = claimed("q1", {"c1": "~~"}, texts=GOAL, session_id="s", together={"c1": True})
    other = claimed("q2", {"c1": ".."}, texts=GOAL, session_id="s")
    report = session_report(run_by_claims([both, other]))
    assert report is not None
    assert [call.new for call in report.sessions[0].calls] == [1, 0]


def test_a_failed_verdict_is_no_waste() -> None:
    """What a failure leaves open is between bounds; a call with one is not called wasted."""
    run = run_by_claims(
        [
            search("q1", "s", {"c1": "+!", "c2": ".!"}, ["May.", "Lost."]),
            search("q2", "s", {"c1": ".!", "c2": ".!"}, ["Menu.", "Also lost."]),
        ]
    )
    report = session_report(run)
    assert report is not None
    first, second = report.sessions[0].calls
    assert (first.new, first.open, first.coverage) == (1, 1, (0.5, 1.0))
    assert (second.new, second.open, second.wasted, second.coverage) == (0, 1, None, (0.5, 1.0))
    interval = report.by_call[0].coverage.interval
    assert interval is None or interval[0] <= 0.5 <= 1.0 <= interval[1]
    assert "failed verdicts leave open whether 1 found something new" in sentence(next(session_sections(run)))


def test_without_claims_failures_bound_what_a_session_found() -> None:
    """Of relevant chunks the total is open too: at least as if open chunks came to light later, at most as if now."""
    rows = {"q1": [("a", 1), ("b", None)], "q2": [("c", 1), ("d", None)]}
    traces = [
        Trace(id=q, query=q, chunks=[{"id": c, "text": c} for c, _ in row], metadata={"session_id": "s"})
        for q, row in rows.items()
    ]
    grades = {(q, c): grade for q, row in rows.items() for c, grade in row if grade is not None}
    report = session_report(import_verdicts(grades, traces, metrics=["P@2"]))
    assert report is not None
    assert [call.coverage for call in report.sessions[0].calls] == [(1 / 3, 2 / 3), (1.0, 1.0)]


def test_a_reranker_of_what_was_found_is_no_search() -> None:
    """A call of a reranker on an earlier call's chunks is left out and counted, not called wasted."""
    chunks = [{"id": "a", "text": "a"}, {"id": "b", "text": "b"}]
    ranked = [{**chunk, "metadata": {"reranked": place}} for place, chunk in enumerate(chunks)]
    session = {"session_id": "s"}
    traces = [
        Trace(id="q1", query="q1", chunks=chunks, metadata=session),
        Trace(id="q2", query="q1", chunks=ranked, metadata=session),
        Trace(id="q3", query="q3", chunks=[{"id": "c", "text": "c"}], metadata=session),
    ]
    grades = {(trace.id, chunk.id): 1 for trace in traces for chunk in trace.chunks}
    report = session_report(import_verdicts(grades, traces, metrics=["P@2"]))
    assert report is not None
    assert ([call.trace for call in report.sessions[0].calls], report.rerankers) == (["q1", "q3"], 1)
