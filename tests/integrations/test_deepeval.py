"""The metric inside the real DeepEval."""

from __future__ import annotations

import asyncio
from importlib.util import find_spec
from typing import Any

import pytest

from judge_eval import Evaluator
from judge_eval.errors import ConfigError, MissingVerdictError
from judge_eval.integrations import deepeval_metric
from judge_eval.llm.options import Options
from tests.support.chat_server import ChatServer
from tests.support.pizza import CONTEXT, QUERY, REFERENCE, REFUSED, SCORE, pizza_judge

pytestmark = [
    pytest.mark.foreign,
    pytest.mark.skipif(
        find_spec("deepeval") is None, reason="deepeval is not installed: pip install 'context-judge[deepeval]'"
    ),
    pytest.mark.filterwarnings("ignore"),  # those of DeepEval and what it imports
]
TEXTS = [text for text, _ in CONTEXT]


def case(*texts: str, **more: Any) -> Any:
    """Make a test case of DeepEval."""
    from deepeval.test_case import LLMTestCase

    fields = {"input": QUERY, "expected_output": REFERENCE, "retrieval_context": list(texts or TEXTS)}
    return LLMTestCase(**{**fields, **more})


def evaluated(cases: list[Any], metrics: list[Any], *, run_async: bool = True, ignore: bool = False) -> Any:
    """Run DeepEval's own evaluation; returns the metrics' data of each case, in the order of the cases."""
    from deepeval import evaluate
    from deepeval.evaluate import AsyncConfig, DisplayConfig, ErrorConfig

    done = evaluate(
        cases,
        metrics=metrics,
        async_config=AsyncConfig(run_async=run_async),
        display_config=DisplayConfig(show_indicator=False, print_results=False),
        error_config=ErrorConfig(ignore_errors=ignore),
    )
    actual = sorted(done.test_results, key=lambda result: result.name)
    return [result.metrics_data for result in actual]


@pytest.mark.parametrize("run_async", [True, False])
def test_evaluate_gets_values_verdicts_and_reasons(run_async: bool) -> None:
    """Each case has the judge's value, whether it passes, and the verdicts as its reason."""
    with pizza_judge(metrics=["AP", "RR"]) as evaluator:
        metrics = [deepeval_metric(evaluator, threshold=0.6), deepeval_metric(evaluator, "RR", name="first")]
        data = evaluated([case(name="a"), case(*TEXTS[::-1], name="b")], metrics, run_async=run_async)
    assert [[item.name for item in each] for each in data] == [["AP", "first"]] * 2
    assert [[item.score for item in each] for each in data] == [[SCORE, 0.5], [pytest.approx((1 + 2 / 3) / 2), 1.0]]
    assert [[item.success for item in each] for each in data] == [[False, True], [True, True]]
    assert data[0][0].reason.splitlines()[1] == "2. c2: relevant (grade 1) it names them"
    assert data[0][0].error is None
    assert data[0][0].evaluation_model.startswith("custom with support/binary@2 (")


@pytest.mark.parametrize("run_async", [True, False])
def test_a_failure_is_an_error_with_our_reason_and_never_a_score(run_async: bool) -> None:
    """A case with a failed verdict is recorded as an error, the others as what they are; or it ends there."""
    with pizza_judge(metrics=["AP"]) as evaluator:
        metric = deepeval_metric(evaluator)
        cases = [case(name="a"), case("Salt.", TEXTS[1], f"Dough {REFUSED}.", name="b"), case(name="c")]
        data = evaluated(cases, [metric], run_async=run_async, ignore=True)
        message = "AP has no value: 1 of 3 verdicts failed (refused 1): c3 refused a content filter"
        assert [(each[0].score, each[0].success) for each in data] == [(SCORE, True), (None, False), (SCORE, True)]
        assert data[1][0].error.removeprefix("MissingVerdictError: ") == message
        assert data[0][0].error is data[2][0].error is None
        with pytest.raises(MissingVerdictError, match="1 of 3 verdicts failed"):
            evaluated(cases, [metric], run_async=run_async)


def test_a_metric_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """`measure` and `a_measure` set what DeepEval reads of a metric; nothing is left of an earlier case."""
    with pizza_judge(metrics=["AP", "RR"]) as evaluator:
        metric = deepeval_metric(evaluator, threshold=0.5)
        assert metric.measure(case()) == asyncio.run(metric.a_measure(case())) == SCORE
        assert metric.is_successful() is True
        assert metric.score_breakdown == {"AP": SCORE, "RR": 0.5}
        with pytest.raises(MissingVerdictError):
            metric.measure(case("Salt.", TEXTS[1], REFUSED))
        assert metric.score is None
        assert metric.is_successful() is False
        assert "1 of 3 verdicts failed" in metric.error
        metric.measure(case("San Marzano."))
        assert (metric.score, metric.error) == (1.0, None)
        unlimited = deepeval_metric(evaluator, threshold=None)
        unlimited.measure(case())
        assert unlimited.is_successful() is None


def test_where_less_is_better_the_threshold_is_the_greatest_value() -> None:
    """Of two chunks that say the same, one is redundant: that passes under 0.6 and fails under 0.4."""
    twice = case(REFERENCE, f"So it is: {REFERENCE}")
    with Evaluator("fake/overlap", mode="claims", metrics=["Redundancy"], cache=False) as evaluator:
        for threshold, passes in ((0.6, True), (0.4, False)):
            metric = deepeval_metric(evaluator, threshold=threshold)
            assert metric.measure(twice) == 0.5
            assert metric.is_successful() is metric.success is passes


def test_assert_test_fails_below_the_threshold() -> None:
    """DeepEval's own assertion fails with our value and reason in its message."""
    from deepeval import assert_test

    with pizza_judge(metrics=["AP"]) as evaluator:
        assert_test(case(), [deepeval_metric(evaluator, threshold=0.5)])
        with pytest.raises(AssertionError, match=r"AP.*0\.5"):
            assert_test(case(), [deepeval_metric(evaluator, threshold=0.6)])


def test_the_prompt_says_which_fields_are_needed() -> None:
    """A field that the prompt needs and the case lacks is what DeepEval calls a missing parameter."""
    from deepeval.errors import MissingTestCaseParamsError
    from deepeval.test_case import RetrievedContextData

    with pizza_judge(metrics=["AP"], prompt="utilisation/binary") as evaluator:
        metric = deepeval_metric(evaluator)
        with pytest.raises(MissingTestCaseParamsError, match="actual_output"):
            metric.measure(case())
        from_shop = [RetrievedContextData(context=TEXTS[1], source="shop")]
        assert metric.measure(case(actual_output="San Marzano.", retrieval_context=from_shop)) == 1.0


def test_what_could_change_a_verdict_is_in_the_judges_name() -> None:
    """DeepEval's cache goes by the judge's name, so two that could differ have two names."""
    names = set()
    for settings in (
        {"prompt": "support/binary"},
        {"prompt": "support/graded"},
        {"prompt": "support/graded", "relevant": 3},
        {"prompt": "support/binary", "evidence": "required"},
    ):
        with pizza_judge(metrics=["AP"], **settings) as evaluator:
            names.add(deepeval_metric(evaluator).evaluation_model)
            with pytest.raises(ConfigError, match="AP"):
                deepeval_metric(evaluator, "AP@4")
    assert len(names) == 4


def test_one_evaluator_serves_evaluation_after_evaluation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over real HTTP: a second evaluation pays for nothing, and what was paid for is told."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-some-key")
    with (
        ChatServer() as chat,
        Evaluator("openai/some-model", metrics=["AP"], cache="cache", options=Options(base_url=chat.url)) as evaluator,
    ):
        metric = deepeval_metric(evaluator, threshold=0.0)
        first = evaluated([case(name="a")], [metric])
        assert chat.counts["paid"] == 4
        assert evaluated([case(name="a")], [metric])[0][0].score == first[0][0].score
        assert chat.counts["paid"] == 4
        assert first[0][0].input_tokens > 0
