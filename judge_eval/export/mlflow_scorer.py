"""Judging inside `mlflow.genai.evaluate`, as one of its scorers."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from judge_eval.data.catalog import find_shape
from judge_eval.data.files.jsonl import mend
from judge_eval.data.options import ReadOptions
from judge_eval.data.shapes.chunks import chunk_data
from judge_eval.data.shapes.recorded_values import documents_in, question_in, recorded, reference_in
from judge_eval.errors import needs_extra
from judge_eval.export.mlflow import metric_key
from judge_eval.runs.folder.run import Run
from judge_eval.schema import Trace
from judge_eval.views.trace import failures_in_words, verdicts_in_words

FAILED = "failed_verdicts"


class Judges(Protocol):
    """What judges a trace: an `Evaluator`."""

    def evaluate(self, data: Trace, /, *, reader: ReadOptions) -> Run:
        """Judge one trace."""
        ...


def mlflow_scorer(evaluator: Judges, *, name: str = "judge_eval", yes_ids: bool = False) -> Any:
    """Make a scorer for `mlflow.genai.evaluate(..., scorers=[...])`.

    What was retrieved is taken from the retriever spans of a row's trace, else from its outputs (documents,
    texts, or an object that holds them); the question from the span or the inputs; the reference from the
    expectations (`expected_response`, `reference`, ...). Each metric is a feedback, named as `metric_key`
    spells it, with the verdicts as its rationale. Where a verdict failed the feedback holds an error and no
    value, so MLflow's mean leaves it out; the feedback `failed_verdicts` counts them.

    Args:
        evaluator: Who judges; it is called from several threads.
        name: The scorer's name.
        yes_ids: Whether chunks are judged whose texts look like ids or file names; else they are refused.

    Raises:
        ConfigError: MLflow 3 is not installed.
    """
    try:
        from mlflow.entities import AssessmentError, AssessmentSource, AssessmentSourceType, Feedback
        from mlflow.genai.scorers import scorer
    except ImportError:
        raise needs_extra("`mlflow_scorer` needs MLflow 3 and pandas", "mlflow,pandas") from None

    def judged(inputs: Any = None, outputs: Any = None, expectations: Any = None, trace: Any = None) -> list[Any]:
        out = []
        for retrieval in retrievals(inputs, outputs, expectations, trace):
            run = evaluator.evaluate(retrieval, reader=ReadOptions(yes_ids=yes_ids))
            (result,) = run.results
            backend = run.manifest.backend
            common: dict[str, Any] = {
                "source": AssessmentSource(
                    source_type=AssessmentSourceType.LLM_JUDGE,
                    source_id=f"{backend.get('provider')}/{backend.get('model')}",
                ),
                "rationale": verdicts_in_words(result),
                "span_id": retrieval.metadata.get("span_id"),
            }
            failure = failures_in_words(result)
            for metric, value in result.scores.items():
                feedback: dict[str, Any] = (
                    {"error": AssessmentError(error_code="NO_VERDICT", error_message=failure)}
                    if value is None
                    else {"value": value}
                )
                definition = {"definition": run.aggregate(metric).definition}
                out.append(Feedback(name=metric_key(metric), metadata=definition, **feedback, **common))
            out.append(Feedback(name=FAILED, value=result.failed, **common))
        return out

    return scorer(name=name)(judged)


def retrievals(inputs: Any, outputs: Any, expectations: Any, trace: Any) -> Iterator[Trace]:
    """Yield what was retrieved in a row of MLflow's evaluation, one trace for each retriever span."""
    reference = reference_in(expectations)
    rows: list[Mapping[str, Any]] = []
    if trace is not None:
        rows = list(find_shape("mlflow").read(json.loads(trace.to_json())))
    if not rows:
        chunks = recorded(documents_in(outputs), "outputs")
        rows = [{"query": question_in(inputs) or "", "chunks": chunks}]
    for data in rows:
        chunks = [chunk_data(item, f"chunks[{place}]") for place, item in enumerate(data["chunks"])]
        more = {"reference": reference} if reference else {}
        yield Trace.parse(mend({**data, **more, "chunks": chunks}))
