"""A run as document annotations of Phoenix."""

import json
from collections.abc import Iterator
from itertools import chain
from typing import Any

from judge_eval.errors import DataError
from judge_eval.export.format import Format
from judge_eval.files import json_list
from judge_eval.runs.folder.records import TraceResult
from judge_eval.runs.folder.run import Run


def document_annotations(run: Run) -> Iterator[str]:
    """Return, in parts, the JSON body of `POST /v1/document_annotations`."""
    # Each annotation names the retriever's span and the document's place in it (counted from 0), so the
    # traces must have been read from spans. A failed verdict has a label and no score. Phoenix takes no
    # identifiers here: of two runs over the same spans the later replaces the earlier.
    annotations = chain.from_iterable(annotated(result, run.id) for result in run.results)
    lines = (json.dumps(each, ensure_ascii=False, allow_nan=False) for each in annotations)
    return json_list('{"data": [', lines, "]}")


def annotated(result: TraceResult, run_id: str) -> list[dict[str, Any]]:
    """Return the annotations of one trace, which must have been read from a span."""
    span = result.trace.metadata.get("span_id")
    if not isinstance(span, str) or not span:
        raise DataError(
            f"trace {result.trace_id!r} names no span; Phoenix annotations need traces read from spans, "
            "with `span_id` in their metadata"
        )
    out = []
    for position, outcome in enumerate(result.outcomes):
        if outcome.kind == "verdict":
            label = "relevant" if outcome.relevant else "not relevant"
            judged: dict[str, Any] = {"label": label, "score": float(outcome.grade), "explanation": outcome.explanation}
        else:
            judged = {"label": f"no verdict: {outcome.why}", "score": None, "explanation": outcome.detail}
        details = outcome.model_dump(include={"confidence", "stage"}, exclude_none=True)
        out.append(
            {
                "span_id": span,
                "document_position": position,
                "name": "judge_eval",
                "annotator_kind": "LLM",
                "result": {key: value for key, value in judged.items() if value not in (None, "")},
                "metadata": {"chunk_id": outcome.chunk_id, "run_id": run_id, **details},
            }
        )
    return out


EXPORTS = (Format("phoenix", document_annotations),)
