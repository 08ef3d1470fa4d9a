"""This judge as a metric of DeepEval."""

from typing import Any, Final

from judge_eval.data.options import ReadOptions
from judge_eval.digest import digest_json, short
from judge_eval.errors import JudgeEvalError
from judge_eval.eval_run import EvalRun
from judge_eval.evaluator import Evaluator
from judge_eval.integrations.asking import chosen, judged, not_importable, value_of
from judge_eval.runs.folder.describing import judged_by
from judge_eval.runs.folder.records import Dataset
from judge_eval.runs.scoring.aggregate import less_is_better, reaches
from judge_eval.schema import Trace
from judge_eval.views.trace import verdicts_in_words

PARAMETERS: Final = {"reference": "expected_output", "answer": "actual_output"}
"""What DeepEval calls the fields of a trace that a prompt may need."""


def deepeval_metric(
    evaluator: Evaluator,
    metric: str | None = None,
    *,
    threshold: float | None = 0.5,
    name: str | None = None,
    yes_ids: bool = False,
) -> Any:
    """Make a metric for `deepeval.evaluate(..., metrics=[...])` and `assert_test`.

    The metric's `score` is the value, its `reason` the verdicts chunk by chunk, its `score_breakdown` all metrics of
    the evaluator, its tokens those of the replies that the verdicts rest on, cached ones too (so it reports no cost).
    If failed verdicts leave a case without a value, `measure` raises `MissingVerdictError` and `error` says why:
    DeepEval stops there, or records the error where it was told `ErrorConfig(ignore_errors=True)`; `score` stays None.

    Args:
        evaluator: Who judges; its prompt says which fields of a test case are needed.
        metric: One of the evaluator's metrics; the first where None.
        threshold: The least value that passes, the greatest where less is better; None passes no judgement.
        name: What DeepEval calls it; the metric's name where None.
        yes_ids: Whether chunks are judged whose texts look like ids or file names; else they are refused.

    Raises:
        ConfigError: DeepEval is not installed, or the evaluator does not compute the metric.
    """
    try:
        from deepeval.errors import MissingTestCaseParamsError
        from deepeval.metrics import BaseMetric
        from deepeval.test_case import SingleTurnParams
    except ImportError as error:
        raise not_importable("DeepEval", "deepeval", error) from None
    computed, reader = chosen(evaluator, metric), ReadOptions(yes_ids=yes_ids)
    least = threshold
    needed = ["input", "retrieval_context", *(PARAMETERS[need] for need in evaluator.chosen_judge.needs)]
    judge = _judge(evaluator)

    def begun(this: Any, case: Any) -> Trace:
        this.score = this.reason = this.success = this.error = this.score_breakdown = None
        this.input_tokens = this.output_tokens = None
        missing = [name for name in needed if getattr(case, name, None) is None]
        if missing:
            this.error = f"{this.__name__} needs {', '.join(missing)} in the test case"
            raise MissingTestCaseParamsError(this.error)
        return case_trace(case)

    def ended(this: Any, run: EvalRun) -> float:
        (result,) = run.results
        this.score_breakdown = dict(result.scores)
        this.input_tokens = sum(call.input_tokens for call in result.calls)
        this.output_tokens = sum(call.output_tokens for call in result.calls)
        this.reason = verdicts_in_words(result)
        this.score = value_of(result, computed)
        this.success = this.is_successful()
        return float(this.score)

    class JudgeEvalMetric(BaseMetric):  # type: ignore[misc]
        """A metric over this judge's verdicts."""

        _required_params = [SingleTurnParams(parameter) for parameter in needed]  # noqa: RUF012

        def __init__(self, threshold: float | None = least) -> None:  # DeepEval copies a metric by these
            self.threshold = threshold
            self.evaluation_model = judge
            self.async_mode, self.include_reason, self.verbose_mode = True, True, False

        def measure(self, test_case: Any, *_: Any, **__: Any) -> float:
            """Judge a test case."""
            try:
                return ended(self, evaluator.evaluate(begun(self, test_case), reader=reader))
            except JudgeEvalError as error:
                self.error, self.success = str(error), False
                raise

        async def a_measure(self, test_case: Any, *_: Any, **__: Any) -> float:
            """Judge a test case from a running event loop."""
            try:
                return ended(self, await judged(evaluator, begun(self, test_case), reader))
            except JudgeEvalError as error:
                self.error, self.success = str(error), False
                raise

        def is_successful(self) -> bool:
            """Tell whether the value reaches the threshold, the greatest one where less is better."""
            passed: bool = super().is_successful()
            if less_is_better(computed) and self.score is not None and self.threshold is not None:
                self.success = passed = reaches(computed, self.score, self.threshold)
            return passed

        @property
        def __name__(self) -> str:
            return name or computed

    return JudgeEvalMetric()


def case_trace(case: Any) -> Trace:
    """Read a test case of DeepEval."""
    chunks = [
        chunk if isinstance(chunk, str) else {"text": chunk.context, "metadata": {"source": chunk.source}}
        for chunk in case.retrieval_context
    ]
    fields = {ours: getattr(case, theirs) for ours, theirs in PARAMETERS.items()}
    return Trace.parse({"query": case.input, "chunks": chunks, **fields})


def _judge(evaluator: Evaluator) -> str:
    """Name the judge, with a digest of all that could change a verdict: DeepEval's cache goes by the name."""
    begun = evaluator.begin(Dataset(name=""))
    return f"{judged_by(begun).removeprefix('judged by ')} ({short(digest_json([begun.judge, begun.backend]))})"
