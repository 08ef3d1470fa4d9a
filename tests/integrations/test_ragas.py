"""The metric inside the real ragas."""

from __future__ import annotations

import asyncio
import math
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from judge_eval import Evaluator
from judge_eval.errors import ConfigError, DataError, MissingVerdictError
from judge_eval.integrations import ragas_metric
from judge_eval.llm.options import Options
from tests.support.canned import error
from tests.support.chat_server import ChatServer
from tests.support.pizza import CONTEXT, QUERY, REFERENCE, REFUSED, SCORE, pizza_judge

pytestmark = [
    pytest.mark.foreign,
    pytest.mark.skipif(find_spec("ragas") is None, reason="ragas is not installed: pip install 'context-judge[ragas]'"),
    pytest.mark.filterwarnings("ignore"),  # those of ragas and what it imports
]
TEXTS = [text for text, _ in CONTEXT]


def row(*texts: str, **more: Any) -> dict[str, Any]:
    """Make a row of ragas' dataset."""
    return {"user_input": QUERY, "reference": REFERENCE, "retrieved_contexts": list(texts or TEXTS), **more}


def evaluated(rows: list[dict[str, Any]], metrics: list[Any], **settings: Any) -> Any:
    """Run ragas' own evaluation."""
    from ragas import EvaluationDataset, evaluate

    dataset = EvaluationDataset.from_list(rows)
    return evaluate(dataset, metrics=metrics, show_progress=False, **settings)


def test_evaluate_gets_values_verdicts_and_reasons() -> None:
    """Each row has the judge's value, and in its traces each chunk's verdict with reason and evidence."""
    with pizza_judge(metrics=["AP", "RR"]) as evaluator:
        metrics = [ragas_metric(evaluator), ragas_metric(evaluator, "RR", name="first")]
        result = evaluated([row(), row(*TEXTS[::-1])], metrics)
    assert result["AP"] == pytest.approx([SCORE, (1 + 2 / 3) / 2])
    assert result["first"] == [0.5, 1.0]
    assert result.to_pandas()["AP"].tolist() == result["AP"]
    chunks = result.traces[0]["AP"]
    assert [chunks[f"c{rank}"]["input"] for rank in (1, 2, 3, 4)] == TEXTS
    verdict = chunks["c2"]["output"]
    assert (verdict["relevant"], verdict["reason"], verdict["evidence_found"]) == (True, "it names them", True)
    assert chunks["c1"]["output"]["relevant"] is False


def test_a_failure_is_ragas_own_sign_for_no_value_with_our_reason(caplog: pytest.LogCaptureFixture) -> None:
    """A row with a failed verdict has no number; log and traces say why, and other rows have theirs."""
    with pizza_judge(metrics=["AP"]) as evaluator:
        metric = ragas_metric(evaluator)
        result = evaluated([row("Salt.", TEXTS[1], f"Dough {REFUSED}."), row()], [metric])
        assert math.isnan(result["AP"][0])
        assert result["AP"][1] == SCORE
        message = "AP has no value: 1 of 3 verdicts failed (refused 1): c3 refused a content filter"
        assert message in caplog.text
        failure = result.traces[0]["AP"]["c3"]["output"]
        assert (failure["kind"], failure["why"], failure["detail"]) == ("no_verdict", "refused", "a content filter")
        with pytest.raises(MissingVerdictError, match="1 of 3 verdicts failed"):
            evaluated([row("Salt.", TEXTS[1], f"Dough {REFUSED}.")], [metric], raise_exceptions=True)


def test_scoring_a_sample_or_a_row_gives_the_same() -> None:
    """`single_turn_score`, `ascore`, `score` and their batches judge alike, in a running loop too."""
    from ragas import SingleTurnSample
    from ragas.metrics.result import MetricResult

    with pizza_judge(metrics=["AP"]) as evaluator:
        metric = ragas_metric(evaluator)

        async def inside() -> list[Any]:
            sample = SingleTurnSample(**row())
            scored = [metric.score(**row()), await metric.ascore(**row())]
            return [*scored, await metric.single_turn_ascore(sample), *(await metric.abatch_score([row()]))]

        for match in (*asyncio.run(inside()), metric.single_turn_score(SingleTurnSample(**row()))):
            assert float(match) == SCORE
        (result,) = metric.batch_score([row()])
    assert isinstance(result, MetricResult)
    assert result.reason.splitlines()[1] == "2. c2: relevant (grade 1) it names them"
    assert [o["relevant"] for o in result.traces["output"]["outcomes"]] == [False, True, False, True]


def test_a_failed_row_of_an_experiment_is_kept_without_a_number(tmp_path: Path) -> None:
    """In ragas' experiments a failure is a result without a value, whose reason says what failed."""
    from ragas import Dataset, experiment

    with pizza_judge(metrics=["AP"]) as evaluator:
        metric = ragas_metric(evaluator)

        @experiment()
        async def judging(given: dict[str, Any]) -> dict[str, Any]:
            result = await metric.ascore(**given)
            return {"query": given["user_input"], "value": result.value, "reason": result.reason}

        dataset = Dataset("rows", backend="inmemory")
        for each in (row(), row("Salt.", TEXTS[1], REFUSED)):
            dataset.append(each)
        done = list(asyncio.run(judging.arun(dataset)))
        assert sorted(map(str, (each["value"] for each in done))) == ["0.5", "None"]
        (failed,) = (each for each in done if each["value"] is None)
        assert failed["reason"].startswith("AP has no value: 1 of 3 verdicts failed (refused 1)")
        with pytest.raises(TypeError):
            float(metric.score(**row("Salt.", TEXTS[1], REFUSED)))


def test_the_prompt_says_which_columns_are_needed() -> None:
    """A prompt that judges by the answer takes ragas' `response`; ragas itself refuses data without it."""
    with pizza_judge(metrics=["AP"], prompt="utilisation/binary") as evaluator:
        metric = ragas_metric(evaluator)
        with pytest.raises(ValueError, match="response"):
            evaluated([row()], [metric])
        assert evaluated([row(response="San Marzano tomatoes.")], [metric])["AP"] == [SCORE]
        with pytest.raises(DataError, match="answer"):
            metric.score(**row())


def test_what_cannot_be_computed_is_refused_at_once() -> None:
    """A metric that the evaluator does not compute is refused, with those that it does."""
    with pizza_judge(metrics=["AP@5"]) as evaluator:
        assert ragas_metric(evaluator, "ContextPrecision@5").name == "AP@5"
        with pytest.raises(ConfigError, match="AP@5"):
            ragas_metric(evaluator, "AP@4")


def test_one_evaluator_serves_evaluation_after_evaluation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over real HTTP: connections outlive ragas' event loops, a second evaluation pays for nothing."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-some-key")
    with (
        ChatServer() as chat,
        Evaluator("openai/some-model", metrics=["AP"], cache="cache", options=Options(base_url=chat.url)) as evaluator,
    ):
        metric = ragas_metric(evaluator)
        first = evaluated([row(), row(*TEXTS[:2])], [metric])
        paid = chat.counts["paid"]
        assert evaluated([row(), row(*TEXTS[:2])], [metric])["AP"] == first["AP"]
        assert chat.counts["paid"] == paid == 4
        chat.script(*[error(401, "no such key")] * 20)
        result = evaluated([row("New.")], [metric])
        assert math.isnan(result["AP"][0])
        # This server has answered others, so the refusal is about this call.
        with pytest.raises(MissingVerdictError):
            evaluated([row("New.")], [metric], raise_exceptions=True)
