"""MLflow traces."""

import contextlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from judge_eval.data.files.values import decode_mapping, maybe_list
from judge_eval.data.shapes.recorded_values import (
    REFERENCES,
    documents_in,
    not_a_retrieval,
    question_in,
    recorded,
    reference_in,
)
from judge_eval.data.shapes.shape import Data, Shape, has
from judge_eval.data.shapes.spans import has_part, reranker_data, span_data, spans_in


def _mlflow(record: Data) -> Iterator[dict[str, Any]]:
    whole = decode_mapping(record.get("trace"))
    if isinstance(whole, Mapping) and isinstance(whole.get("data"), Mapping):
        record = whole  # a row of `search_traces`, whose other columns CSV spells in Python's notation
    info = record.get("info")
    info = info if isinstance(info, Mapping) else record
    reference = None
    for assessment in maybe_list({"assessments": decode_mapping(info.get("assessments"))}, "assessments"):
        if isinstance(assessment, Mapping) and isinstance(assessment.get("expectation"), Mapping):
            name, value = assessment.get("assessment_name"), assessment["expectation"].get("value")
            if name in REFERENCES:
                reference = reference or reference_in(value)
    spans = list(spans_in(record))
    root = next((span for span in spans if span.parent is None), None)
    answer = None if root is None else decode_mapping(_unquoted(root.attributes.get("mlflow.spanOutputs")))
    for span in spans:
        kind = _unquoted(span.attributes.get("mlflow.spanType"))
        if kind == "RERANKER":  # a traced function: what it was called with, by the names of its arguments
            inputs = decode_mapping(span.attributes.get("mlflow.spanInputs"))
            values = map(decode_mapping, inputs.values()) if isinstance(inputs, Mapping) else ()
            lists = [value for value in values if isinstance(value, list)]
            kept = documents_in(span.attributes.get("mlflow.spanOutputs"))
            given = lists[0] if len(lists) == 1 else documents_in(inputs)
            yield reranker_data(span, given, kept, question_in(inputs), "mlflow.spanInputs")
            continue
        if kind != "RETRIEVER":
            if kind == "TOOL":
                yield not_a_retrieval(span.name)
            continue
        chunks = recorded(documents_in(span.attributes.get("mlflow.spanOutputs")), "mlflow.spanOutputs")
        query = span.attributes.get("mlflow.spanInputs")
        own = answer if isinstance(answer, str) and span is not root else None
        data = span_data(span, query, chunks, "mlflow.spanInputs", reference=reference, answer=own)
        trace_id = info.get("trace_id") or info.get("request_id")
        if trace_id:
            data["metadata"]["trace_id"] = str(trace_id)
        yield data


def _unquoted(value: Any) -> Any:
    if isinstance(value, str) and len(value) > 1 and value[0] == value[-1] == '"':
        with contextlib.suppress(ValueError):
            return json.loads(value)
    return value


SHAPES = (
    Shape(
        "mlflow",
        "MLflow traces",
        lambda keys: (
            has(keys, "info", "data.spans") or ("spans" in keys and has_part(keys, "mlflow.", "trace_metadata"))
        ),
        _mlflow,
        frozenset({"info", "data", "data.spans", "info.trace_id", "info.assessments"}),
    ),
)
