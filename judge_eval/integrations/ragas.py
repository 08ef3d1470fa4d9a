"""This judge as a metric of ragas."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from judge_eval.data.options import ReadOptions
from judge_eval.evaluator import Evaluator
from judge_eval.integrations.asking import chosen, failure_of, judged, not_importable, value_of
from judge_eval.runs.folder.records import TraceResult
from judge_eval.schema import Trace
from judge_eval.views.trace import verdicts_in_words

COLUMNS: Final[Mapping[str, str]] = {"reference": "reference", "answer": "response"}
"""What ragas calls the fields of a trace that a prompt may need."""


def ragas_metric(
    evaluator: Evaluator, metric: str | None = None, *, name: str | None = None, yes_ids: bool = False
) -> Any:
    """Make a metric for `ragas.evaluate(..., metrics=[...])`, and for `await metric.ascore(...)`.

    It needs no LLM of ragas: `evaluator` asks. In `evaluate` each chunk's verdict with its reason, or its
    failure, is in the result's `traces`, under the metric's name. Where failed verdicts leave a row without a
    value, the metric raises `MissingVerdictError`: ragas logs what it says and puts its own sign for no value
    into the row, NaN, or ends where it was told `raise_exceptions=True`. `ascore` and `score` return a
    `MetricResult` instead, with the verdicts as its reason, and with None for its value in such a case.

    Args:
        evaluator: Who judges; its prompt says which columns are needed.
        metric: One of the evaluator's metrics; the first where None.
        name: The column's name in ragas; the metric's where None.
        yes_ids: Whether chunks are judged whose texts look like ids or file names; else they are refused.

    Raises:
        ConfigError: ragas is not installed, or the evaluator does not compute the metric.
    """
    try:
        from ragas.callbacks import ChainType, new_group
        from ragas.metrics.base import MetricType, SimpleBaseMetric, SingleTurnMetric
        from ragas.metrics.result import MetricResult
    except ImportError as error:
        raise not_importable("ragas", "ragas", error) from None
    computed, reader = chosen(evaluator, metric), ReadOptions(yes_ids=yes_ids)
    needed = {"user_input", "retrieved_contexts", *(COLUMNS[need] for need in evaluator.chosen_judge.needs)}

    def result_of(result: TraceResult) -> Any:
        value = result.scores[computed]
        reason = verdicts_in_words(result)
        if value is None:
            reason = f"{failure_of(result, computed)}\n{reason}"
        kept = result.model_dump(mode="json", include={"outcomes", "scores", "bounds", "trace"})
        traces = {"input": kept.pop("trace"), "output": kept}
        return MetricResult(value=value, reason=reason, traces=traces)

    class JudgeEvalMetric(SimpleBaseMetric, SingleTurnMetric):  # type: ignore[misc]
        """A metric over this judge's verdicts, for both of ragas' ways to call one."""

        def __init__(self) -> None:
            self.name = name or computed
            self.allowed_values = (0.0, float("inf"))
            self._required_columns = {MetricType.SINGLE_TURN: needed}

        def init(self, run_config: Any) -> None:
            """Take ragas' settings, of which none applies: the evaluator has its own."""

        async def _single_turn_ascore(self, sample: Any, callbacks: Any) -> float:
            (result,) = (await judged(evaluator, trace_of(sample.model_dump()), reader)).results
            for chunk, outcome in zip(result.trace.chunks, result.outcomes, strict=True):
                kind = {"type": ChainType.RAGAS_PROMPT}
                child, _ = new_group(outcome.chunk_id, {"data": chunk.text}, callbacks, metadata=kind)
                child.on_chain_end({"output": outcome.model_dump(mode="json")})
            return value_of(result, computed)

        async def ascore(self, **row: Any) -> Any:
            """Judge a row: `user_input`, `retrieved_contexts`, and what the prompt needs."""
            return result_of((await judged(evaluator, trace_of(row), reader)).results[0])

        def score(self, **row: Any) -> Any:
            """`ascore` for sync code, inside a running event loop too."""
            return result_of(evaluator.evaluate(trace_of(row), reader=reader).results[0])

    return JudgeEvalMetric()


def trace_of(row: Mapping[str, Any]) -> Trace:
    """Read a row of ragas."""
    chunks: Sequence[Any] | None = row.get("retrieved_contexts")
    fields = {ours: row.get(theirs) for ours, theirs in COLUMNS.items()}
    return Trace.parse(
        {"query": row.get("user_input") or "", "chunks": None if chunks is None else list(chunks), **fields}
    )
