from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from judge_eval import Evaluator, FakeBackend, Identity, Member, Options, Panel, Pointwise, Trace
from judge_eval.errors import ConfigError, RefusedError, TransientError
from judge_eval.eval_run import EvalRun
from judge_eval.judges.panel import combine
from judge_eval.llm.fake import rules
from judge_eval.llm.stack import Routed
from judge_eval.schema import BINARY, GRADED, Judgment, NoVerdict, Outcome, Verdict
from judge_eval.study.members import member_agreement
from judge_eval.wire import Completion, Request
from tests.support.chat_server import ChatServer

TRACE = Trace.parse({"id": "t", "query": "q", "reference": "r", "chunks": ["one", "two", " "]})


def verdicts(*grades: int | None, scale: Any = GRADED) -> list[Outcome]:
    """Make an outcome of each grade; None fails."""
    return [
        NoVerdict(chunk_id="c", why="refused", detail="no")
        if g is None
        else Verdict(chunk_id="c", grade=g, relevant=g >= scale.relevant, reason=f"says {g}")
        for g in grades
    ]


def answer(request: Request, *grades: int) -> Completion:
    """Write a reply with these grades."""
    return Completion(rules.reply_text(request, [rules.Opinion(g, "x") for g in grades]))


@pytest.mark.parametrize(
    ("grades", "vote", "expected"),
    [
        ((0, 2, 3), "majority", 2),  # two of three find it relevant: the lower median of those
        ((0, 1, 3), "majority", 0),
        ((1, 2), "majority", 1),  # a tie is irrelevant
        ((0, 1, 3), "median", 1),
        ((0, 1, 2, 3), "median", 1),  # of two middle grades the lower
        ((0, 1, 3), "mean", 1),
        ((1, 2), "mean", 2),  # halves upward
        ((None, 3, 3), "majority", 3),  # a failure has no vote
    ],
)
def test_grades_are_combined(grades: tuple[int | None, ...], vote: Any, expected: int) -> None:
    """Majority, median and mean, with ties and failures, as documented; the mean grade is kept."""
    result = combine("c", verdicts(*grades), GRADED, vote, 1)
    assert result.kind == "verdict"
    assert (result.grade, result.relevant) == (expected, expected >= 2)
    there = [g for g in grades if g is not None]
    assert result.expected_grade == pytest.approx(sum(there) / len(there))
    assert result.confidence == pytest.approx(sum(g >= 2 for g in there) / len(there))


def test_without_a_quorum_there_is_no_verdict() -> None:
    """Too few verdicts make a `NoVerdict` with the first reason, never a grade."""
    result = combine("c", verdicts(3, None, None), GRADED, "majority", 2)
    assert result.kind == "no_verdict"
    assert result.why == "refused"
    assert combine("c", verdicts(None, None), GRADED, "majority", 1).kind == "no_verdict"


def test_members_ask_in_one_wave_and_a_repair_waits_for_nobody() -> None:
    """The plan alone: both members' requests come together, routed; a repair keeps its route."""
    panel = Panel([Member("a", Pointwise(), "A"), Member("b", Pointwise("relevance/binary"), "B")])
    plan = panel.plan(TRACE)
    round_ = next(plan)
    assert [(r.route, r.chunk_ids) for r in round_] == [("A", ("c1",)), ("A", ("c2",)), ("B", ("c1",)), ("B", ("c2",))]
    again = plan.send([answer(round_[0], 1), Completion("?"), answer(round_[2], 1), answer(round_[3], 1)])
    assert [(r.route, r.chunk_ids) for r in again] == [("A", ("c2",))]
    assert again[0].origin is not None
    assert again[0].origin.route == "A"
    assert again[0].origin.digest == round_[1].digest
    with pytest.raises(StopIteration) as stop:
        plan.send([answer(again[0], 0)])
    judgment: Judgment = stop.value.value
    assert judgment.votes == {"a": (1, 0, None), "b": (1, 1, None)}
    assert [o.kind == "verdict" and o.grade for o in judgment.outcomes] == [1, 0, 0]


def test_a_failing_member_does_not_sink_the_rest() -> None:
    """One member refuses everything: the verdicts of the others stand, its votes are None."""
    good = FakeBackend.table({"c1": 1, "c2": 0})
    bad = FakeBackend(lambda _: RefusedError("no"))
    panel = Panel([Member(n, Pointwise(), n) for n in ("good", "bad")])
    with Evaluator({"good": good, "bad": bad}, judge=panel, cache=False, metrics=["P@3"]) as evaluator:
        run = evaluator.evaluate(TRACE)
    (result,) = run.results
    assert run.status == "incomplete"
    assert result.votes == {"good": (1, 0, None), "bad": (None, None, None)}
    assert [o.kind == "verdict" and o.relevant for o in result.outcomes] == [True, False, False]
    outcome = member_agreement(run)
    assert outcome is not None
    assert [(m.name, m.n, m.failed) for m in outcome.members] == [("good", 2, 0), ("bad", 0, 2)]


def test_a_panel_that_fails_throughout_has_counts_and_no_figures() -> None:
    """Where no member gave any grade their agreement is unknown, not an error."""
    models = {name: FakeBackend(lambda _: RefusedError("no")) for name in ("a", "b")}
    panel = Panel([Member(n, Pointwise(), n) for n in models])
    with Evaluator(models, judge=panel, cache=False, metrics=["P@3"]) as evaluator:
        run = evaluator.evaluate([TRACE, TRACE.model_copy(update={"id": "again"})])
    measured = member_agreement(run)
    assert measured is not None
    assert [(m.n, m.failed) for m in measured.members] == [(0, 4), (0, 4)]
    assert (measured.alpha.value, measured.alpha.interval, measured.alpha.n) == (None, None, 4)


def test_models_never_answer_for_each_other_from_the_cache(tmp_path: Path) -> None:
    """Equal requests to two models are two calls with two answers, cold and from a shared cache."""

    def evaluate() -> tuple[EvalRun, list[int]]:
        backends = {
            name: FakeBackend(
                lambda request, g=grade: rules.reply_text(request, [rules.Opinion(g, "one")]),
                identity=Identity("fake", name),
            )
            for name, grade in (("yes", 1), ("no", 0))
        }
        panel = Panel([Member(n, Pointwise(), n) for n in ("yes", "no")])
        with Evaluator(backends, judge=panel, cache=tmp_path, metrics=["P@3"]) as evaluator:
            return evaluator.evaluate(TRACE), [b.calls for b in backends.values()]

    cold, calls = evaluate()
    assert calls == [2, 2]
    assert cold.manifest.tally.calls == 4
    assert cold.results[0].votes == {"yes": (1, 1, None), "no": (0, 0, None)}
    warm, calls = evaluate()
    assert calls == [0, 0]
    assert (warm.manifest.tally.calls, warm.manifest.tally.hits) == (0, 4)
    assert warm.results[0].votes == cold.results[0].votes
    assert warm.manifest.backend["provider"] == "panel"
    assert list(warm.manifest.backend["members"]) == ["yes", "no"]  # type: ignore[arg-type]


def test_a_budget_holds_for_all_models_together() -> None:
    """Three calls allowed, two models with two requests each: three are made, one has no verdict."""
    models = {name: FakeBackend.table({}, default=1) for name in ("a", "b")}
    panel = Panel([Member(n, Pointwise(), n) for n in models], quorum=2)
    options = Options(max_calls=3)
    with Evaluator(models, judge=panel, cache=False, metrics=["P@3"], options=options) as evaluator:
        run = evaluator.evaluate(TRACE)
    assert sum(backend.calls for backend in models.values()) <= 3
    assert run.manifest.tally.failures["budget"] >= 1


def test_samples_are_distinct_requests_and_flips_are_counted() -> None:
    """Each sample is asked for by itself; the share of chunks whose verdict flips is exact."""

    def by_sample(request: Request) -> str:
        grade = int(request.passages[0].text == "one" or request.sample == 2)
        return rules.reply_text(request, [rules.Opinion(grade, request.passages[0].text)])

    backend = FakeBackend(by_sample)
    with Evaluator(backend, repeat=3, cache=False, metrics=["P@3"]) as evaluator:
        run = evaluator.evaluate(TRACE)
    assert sorted(r.sample for r in backend.requests) == [0, 0, 1, 1, 2, 2]
    assert run.results[0].votes["sample 3"] == (1, 1, None)
    assert [o.kind == "verdict" and o.grade for o in run.results[0].outcomes] == [1, 0, 0]
    result = member_agreement(run)
    assert result is not None
    assert (result.chunks, result.flips.value) == (2, 0.5)
    assert [m.dissents for m in result.members] == [0, 0, 1]


def test_a_resumed_panel_keeps_what_it_decided(tmp_path: Path) -> None:
    """Chunks with a verdict are not put to the vote again when the rest of their trace is; votes stay."""
    fails = {"two": True}

    def reply(request: Request) -> Any:
        if fails["two"] and request.passages[0].text == "two":
            return TransientError("down", kind="server")
        return rules.reply_text(request, [rules.Opinion(1, request.passages[0].text)])

    backend = FakeBackend(reply)
    options = Options(attempts=1)
    with Evaluator(backend, repeat=2, cache=False, metrics=["P@3"], options=options) as evaluator:
        first = evaluator.evaluate([TRACE], out=tmp_path)
        assert first.status == "incomplete"
        fails["two"], backend.calls = False, 0
        second = evaluator.evaluate([TRACE], out=tmp_path, resume=True)
    assert backend.calls == 2
    assert second.status == "done"
    assert second.results[0].votes["sample 1"] == (1, 1, None)


def test_panels_that_cannot_work_are_refused() -> None:
    """One member, two of a name, another scale, an odd quorum: each is named before anything is asked."""
    first = Member("a", Pointwise())
    for members, more in (
        ([first], {}),
        ([first, first], {}),
        ([first, Member("b", Pointwise("support/graded"))], {}),
        ([first, Member("b", Pointwise())], {"quorum": 3}),
        ([first, Member("b", Pointwise())], {"vote": "loudest"}),
    ):
        with pytest.raises(ConfigError):
            Panel(members, **more)  # type: ignore[arg-type]
    assert Routed({"a": FakeBackend.table({})}).identity is None
    assert Panel([first, Member("b", Pointwise())]).scale == BINARY


def test_concurrency_bounds_all_models_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """A panel of two models has no more calls in flight than one model would."""
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    panel = Panel([Member("a", Pointwise(), "a"), Member("b", Pointwise(), "b")])
    models = {"a": "openai/a", "b": "openai/b"}
    chunks = [f"Passage {k}." for k in range(8)]
    with ChatServer(latency=0.05) as server:
        options = Options(base_url=server.url, concurrency=4)
        with Evaluator(models, judge=panel, cache=False, options=options) as evaluator:
            run = evaluator.evaluate({"id": "q", "query": "Which?", "reference": "This.", "chunks": chunks})
        assert server.counts["calls"] == 16
        assert server.most_in_flight == 4
    assert run.status == "done"
