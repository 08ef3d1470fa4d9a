"""Judges around judges: what the inner one states is asked of the outer one, or refused at construction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from judge_eval import Evaluator, FakeBackend, Member, Panel, Pointwise, Trace
from judge_eval.engine import Item, plan
from judge_eval.errors import ConfigError, DataError
from judge_eval.judges import Cascade, Claims, Decision
from judge_eval.judges.cascade import Guarantee
from judge_eval.judges.judge import (
    Judge,
    JudgingPlan,
    OnRoute,
    check_depth,
    check_trace,
    imagined_split,
    is_complete,
    judges_by_claims,
    judges_chunks_alone,
    plan_of,
    stages_asked,
)
from judge_eval.schema import Judgment, Verdict
from tests.support.claim_fixtures import TrueJudge
from tests.support.claiming import BORN, trace
from tests.support.driving import drive, trace_of

NAMES = ("a", "b")


class Minimal:
    """A judge with the members of `Judge` and no other."""

    scale = Pointwise().scale
    needs = ()

    def describe(self) -> dict[str, Any]:
        """Say what it is."""
        return {"judge": "minimal/1"}

    def plan(self, trace: Trace, known: Mapping[str, Verdict] = {}) -> JudgingPlan:
        """Find every chunk irrelevant, without a request."""
        yield from ()
        blank = {c.id: Verdict(chunk_id=c.id, grade=0, relevant=False, reason=None) for c in trace.chunks}
        return Judgment(trace_id=trace.id, outcomes=tuple({**blank, **known}[c.id] for c in trace.chunks))


class Particular(Minimal):
    """A judge that takes only traces with a tag."""

    def check_trace(self, trace: Trace) -> None:
        """See that a trace has the tag."""
        if "mine" not in trace.tags:
            raise DataError("this judge takes traces tagged 'mine'", field="tags")


def around(judge: Judge) -> dict[str, Judge]:
    """Put a judge into everything that wraps judges."""
    return {
        "panel": Panel([Member("a", judge), Member("b", Minimal())]),
        "cheap": Cascade(judge, Minimal(), 0.9),
        "strong": Cascade(Minimal(), judge, 0.9),
        "route": OnRoute(judge, "a"),
    }


@pytest.mark.parametrize("judge", [Claims(), TrueJudge()], ids=["claims", "one's own"])
def test_a_judge_by_claims_is_refused_where_rows_would_be_lost(judge: Any) -> None:
    """Panel and cascade refuse it when they are made, with the words of the command line."""
    with pytest.raises(ConfigError, match="a panel does not judge by claims: rows are not put to a vote"):
        Panel([Member(name, judge) for name in NAMES])
    for cheap, strong in ((judge, Pointwise()), (Pointwise(), judge)):
        with pytest.raises(ConfigError, match="a cascade does not judge by claims"):
            Cascade(cheap, strong, 0.9)


@pytest.mark.parametrize("outer", ["panel", "cheap", "strong", "route"])
def test_a_trace_is_checked_by_the_judge_that_is_wrapped(outer: str) -> None:
    """A trace that it does not take is refused before the first call, whatever is around it."""
    judge = around(Particular())[outer]
    with pytest.raises(DataError, match="tagged 'mine'"):
        check_trace(judge, trace_of("one"))
    check_trace(judge, trace_of("one", tags=["mine"]))
    backends = {name: FakeBackend.table({}, default=0) for name in (*NAMES, "cheap", "strong", "")}
    with (
        Evaluator(backends, judge=judge, cache=False, metrics=["P@1"]) as evaluator,
        pytest.raises(DataError, match="tagged 'mine'"),
    ):
        evaluator.evaluate([trace_of("one")])
    assert not any(backend.calls for backend in backends.values())


def test_a_judge_on_a_route_states_what_the_judge_states() -> None:
    """Claims stay claims: their metrics are admitted, and a plan imagines the split."""
    routed = OnRoute(Claims(), "a")
    assert judges_by_claims(routed)
    assert not judges_chunks_alone(routed)
    assert judges_chunks_alone(OnRoute(Pointwise(), "a"))
    asked = trace(BORN, claims=None)
    alone, wrapped = (
        plan(judge, FakeBackend.table({}, default=0), iter([Item(0, asked)])) for judge in (Claims(), routed)
    )
    assert (wrapped.calls, wrapped.splits) == (alone.calls, alone.splits) == (2, 1)


def test_a_fitted_cascade_on_a_route_keeps_its_depth_and_stages() -> None:
    """Other lists than those of the fit are refused, whatever is around the cascade."""
    fitted = Guarantee("ab" * 32, "strong", alpha=0.05, level=0.95, bound=0.04, traces=200, coverage=0.6, depth=2)
    cascade = Cascade(Decision(), Pointwise(), 0.9, guarantee=fitted)
    routed = OnRoute(cascade, "a")
    check_depth(routed, 2)
    with pytest.raises(ConfigError, match="the cascade was fitted to the first 2 chunks"):
        check_depth(routed, 3)
    assert [stage.name for stage in stages_asked(routed)] == ["cheap", "strong"]


def test_a_minimal_judge_needs_nothing_more() -> None:
    """What it does not state has an answer: no claims, every trace, no split, verdicts to go on from."""
    judge = Minimal()
    first = trace_of("one", "two")
    assert not judges_by_claims(judge)
    assert not judges_chunks_alone(judge)
    check_trace(judge, first)
    (request,) = next(Claims().plan(trace(BORN, claims=None)))
    assert imagined_split(judge, request) is None
    judgment, rounds = drive(judge, first, [])
    assert rounds == []
    assert is_complete(judge, first, judgment)
    with pytest.raises(StopIteration) as stop:
        next(plan_of(judge, first, judgment))
    assert stop.value.value == judgment


def test_layout_says_whether_a_decision_model_sees_chunks_alone() -> None:
    """In requests of their own chunks do not know each other; in questions of one request they may."""
    assert judges_chunks_alone(Decision(layout="request"))
    assert not judges_chunks_alone(Decision(layout="question"))
