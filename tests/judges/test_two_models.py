from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from judge_eval import Evaluator, FakeBackend, Options, Trace
from judge_eval.distributed import Worker
from judge_eval.engine import Item
from judge_eval.errors import ConfigError, RefusedError
from judge_eval.judges import Cascade, Decision, Guarantee, Pointwise
from judge_eval.judges.cascade import cascade_of
from judge_eval.llm.fake import rules
from judge_eval.schema import Judgment, Stage, Verdict
from judge_eval.wire import Completion
from tests.support.driving import drive

TRACE = Trace.parse(
    {
        "id": "t",
        "query": "q",
        "reference": "r",
        "chunks": [
            {"id": "sure", "text": "one"},
            {"id": "unsure", "text": "two"},
            {"id": "blank", "text": " "},
            {"id": "refused", "text": "three"},
            {"id": "relevant", "text": "four"},
        ],
    }
)
CHEAP: dict[Any, Any] = {
    "sure": {"verdict": False, "confidence": 0.02},
    "unsure": {"verdict": True, "confidence": 0.6},
    "refused": {"verdict": True, "confidence": 0.55},
    "relevant": {"verdict": True, "confidence": 0.97},
}
STRONG: dict[Any, Any] = {
    "sure": {"verdict": True, "evidence": "one"},
    "unsure": False,
    "refused": {"verdict": True, "evidence": "three"},
    "relevant": False,
}


def two(threshold: float | None = 0.9, **given: Any) -> Cascade:
    """Make a cascade of a decision model and a pointwise judge."""
    return cascade_of("decisions/a", "openai/b", threshold=threshold, **given)


def judged(judge: Cascade, **models: Any) -> Judgment:
    """Judge the trace under the engine, with tables for both judges."""
    backends = {"cheap": FakeBackend.table(CHEAP), "strong": FakeBackend.table(STRONG), **models}
    with Evaluator(backends, judge=judge, cache=False, metrics=["RR"]) as evaluator:
        (result,) = evaluator.evaluate([TRACE]).results
    return Judgment(trace_id="t", outcomes=result.outcomes, calls=result.calls, votes=result.votes)


def stages(found: Judgment) -> list[Stage | None]:
    """Return which judge gave each verdict."""
    return [outcome.stage for outcome in found.outcomes if outcome.kind == "verdict"]


def test_what_is_sure_stands_and_the_rest_is_asked_again() -> None:
    """Each verdict says its stage; a chunk without text is asked of none; the votes show what both said."""
    result = judged(two())
    assert stages(result) == ["cheap", "strong", "strong", "cheap"]
    assert result.votes == {"cheap": (0, 1, None, 1, 1), "strong": (None, 0, None, 1, None)}
    assert [outcome.chunk_id for outcome in result.outcomes] == [chunk.id for chunk in TRACE.chunks]
    first = result.outcomes[0]
    assert first.kind == "verdict"
    assert (first.reason, first.confidence) == (None, 0.02)  # a decision model gives no reason


@pytest.mark.parametrize(("threshold", "kept"), [(0.97, 2), (0.98, 1), (1.0, 0), (None, 0), (0.5, 4)])
def test_the_threshold_is_compared_in_hundredths(threshold: float | None, kept: int) -> None:
    """.97 is kept from .97 on, .98 is not; without a threshold nothing is kept."""
    result = stages(judged(two(threshold)))
    assert result.count("cheap") == kept
    assert result.count("strong") == 4 - kept


def test_positives_are_explained_on_demand() -> None:
    """What the cheap judge finds relevant goes on too, however sure it is, and the strong verdict stands."""
    result = judged(two(explain_positives=True))
    assert [o.stage for o in result.outcomes if o.kind == "verdict"] == ["cheap", "strong", "strong", "strong"]
    last = result.outcomes[-1]
    assert last.kind == "verdict"
    assert not last.relevant


def test_a_failure_of_the_cheap_judge_is_escalated_and_one_of_the_strong_stands() -> None:
    """No verdict of the cheap judge is made up; where the strong one fails there is none."""

    def refuse(_: Any) -> Any:
        return RefusedError("no")

    result = judged(two(), cheap=FakeBackend(refuse))
    assert [o.stage for o in result.outcomes if o.kind == "verdict"] == ["strong", "strong", "strong", "strong"]
    assert result.votes["cheap"] == (None,) * 5
    result = judged(two(), strong=FakeBackend(refuse))
    assert [o.kind for o in result.outcomes] == ["verdict", "no_verdict", "no_verdict", "no_verdict", "verdict"]


def test_known_verdicts_of_either_stage_are_not_asked_for_again() -> None:
    """A run that goes on asks for what failed alone, and keeps each verdict's stage."""
    known = {
        "sure": Verdict(chunk_id="sure", grade=0, relevant=False, reason=None, evidence=None, stage="cheap"),
        "unsure": Verdict(chunk_id="unsure", grade=1, relevant=True, stage="strong"),
    }
    asked: list[tuple[str, tuple[str, ...]]] = []

    def answer(request: Any) -> Any:
        asked.append((request.route, request.chunk_ids))
        outcome = rules.reply(request, [rules.Opinion(True, "three", confidence=0.6) for _ in request.passages])
        return outcome if isinstance(outcome, Completion) else Completion(outcome)

    result, _ = drive(two(), TRACE, answer, known)
    assert asked == [("cheap", ("refused", "relevant")), ("strong", ("refused",)), ("strong", ("relevant",))]
    assert [result.outcomes[0], result.outcomes[1]] == list(known.values())
    assert result.votes == {"cheap": (None, None, None, 1, 1), "strong": (None, None, None, 1, 1)}


def test_a_run_goes_on_where_the_strong_judge_failed(tmp_path: Path) -> None:
    """The next sitting asks about the chunks without a verdict, and counts each stage once."""

    def refuse(_: Any) -> Any:
        return RefusedError("no")

    made = {"cheap": FakeBackend.table(CHEAP), "strong": FakeBackend(refuse)}
    with Evaluator(made, judge=two(), cache=False, metrics=["RR"]) as evaluator:
        first = evaluator.evaluate([TRACE], out=tmp_path)
    assert first.status == "incomplete"
    assert first.manifest.tally.stages == {"cheap": 2}
    cheap, strong = FakeBackend.table(CHEAP), FakeBackend.table(STRONG)
    with Evaluator({"cheap": cheap, "strong": strong}, judge=two(), cache=False, metrics=["RR"]) as evaluator:
        again = evaluator.evaluate([TRACE], out=tmp_path, resume=True)
    assert again.status == "done"
    assert again.manifest.tally.stages == {"cheap": 2, "strong": 2}
    assert (cheap.calls, strong.calls) == (0, 2)


def test_both_stages_are_cached_apart(tmp_path: Path) -> None:
    """The same again makes no call, though both judges are one model asked in two ways."""
    judge = cascade_of("fake/overlap", "fake/overlap", threshold=0.9, cheap_mode="decision")
    models = {"cheap": "fake/overlap", "strong": "fake/overlap"}
    for calls in (1 + 4, 0):
        with Evaluator(models, judge=judge, cache=tmp_path, metrics=["RR"]) as evaluator:
            run = evaluator.evaluate([TRACE.model_copy(update={"reference": "one four"})])
        assert run.manifest.tally.calls <= calls
        assert bool(run.manifest.tally.calls) == bool(calls)


def test_a_listwise_pass_may_come_first() -> None:
    """Whole traces are read before single chunks, by the same model where that is wished."""
    judge = cascade_of("openai/b", "openai/b", threshold=0.9, cheap_mode="listwise")
    assert judge.cheap.describe()["mode"] == "listwise"
    with pytest.raises(ConfigError, match="asked alike"):
        cascade_of("openai/b", "openai/b", threshold=0.9)


def test_a_cheap_chat_model_is_asked_for_probabilities(monkeypatch: pytest.MonkeyPatch) -> None:
    """The evaluator asks for log-probabilities of the cheap judge alone; what was set stays."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-x")
    models = {"cheap": "openai/a", "strong": "openai/b"}
    judge = cascade_of("openai/a", "openai/b", threshold=0.9)
    with Evaluator(models, judge=judge, options=Options(params={"top_logprobs": 3}), cache=False) as evaluator:
        values = {route: dict(i.params) for route, i in evaluator.stack.identities().items() if i is not None}
    assert (values["cheap"]["logprobs"], values["cheap"]["top_logprobs"]) == ("true", "3")
    assert "logprobs" not in values["strong"]


def test_a_bound_for_labels_does_not_hold_where_positives_are_explained() -> None:
    """Against people the cheap judge may be right where the strong one errs: the pair is refused."""
    rests = Guarantee("0" * 64, "people", 0.05, 0.95, 0.05, 100, 0.5)
    with pytest.raises(ConfigError, match="does not hold where positives are explained"):
        Cascade(Decision(), Pointwise(), 0.9, explain_positives=True, guarantee=rests)
    result = Cascade(Decision(), Pointwise(), 0.9, guarantee=rests).describe()
    assert json.loads(json.dumps(result))["guarantee"]["bound"] == 0.05


def test_a_worker_of_a_cluster_judges_by_two() -> None:
    """A cascade goes to a worker as it is, by pickle: the verdicts and stages are those of one machine."""
    judge = cascade_of("fake/overlap", "fake/hash", threshold=0.75, cheap_mode="decision")
    models = {"cheap": "fake/overlap", "strong": "fake/hash"}
    texts = [[f"Thing {n} is blue.", f"Nobody knows whether {n} or {n + 1} is blue."] for n in range(6)]
    traces = [
        Trace.parse({"id": f"t{n}", "query": "q", "reference": f"Thing {n} is blue and round.", "chunks": each})
        for n, each in enumerate(texts)
    ]
    with Evaluator(models, judge=judge, cache=False, metrics=["RR"]) as evaluator:
        here = evaluator.evaluate(traces)
        sent = pickle.loads(pickle.dumps(evaluator))
        block = Worker(sent, 1).judge([Item(n, trace) for n, trace in enumerate(traces)])
        sent.close()
    assert block.error is None
    there = {judged.position: judged.judgment for judged in block.judged}
    assert [r.outcomes for r in here.results] == [there[n].outcomes for n in range(6)]
    assert [r.votes for r in here.results] == [there[n].votes for n in range(6)]
    assert len(here.manifest.tally.stages) == 2
