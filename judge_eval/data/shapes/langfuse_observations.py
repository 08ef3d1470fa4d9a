"""Langfuse observations, traces and dataset items."""

from collections.abc import Iterator, Mapping
from typing import Any

from judge_eval.data.files.values import decode_mapping, rest
from judge_eval.data.shapes.recorded_values import (
    data_of,
    documents_in,
    not_a_retrieval,
    question_in,
    recorded,
    reference_in,
)
from judge_eval.data.shapes.shape import Data, Shape, has_any


def _langfuse(record: Data) -> Iterator[dict[str, Any]]:
    inner = record.get("observations")
    if isinstance(inner, list) and any(isinstance(item, Mapping) for item in inner):
        answer = reference_in(record.get("output"))
        for item in inner:
            if isinstance(item, Mapping):
                for data in _langfuse({**item, "traceId": item.get("traceId", record.get("id"))}):
                    yield {**data, "answer": answer} if answer and "answer" not in data else data
        return
    if record.get("type") is not None and not _is_retriever(record):
        if str(record["type"]).upper() == "TOOL":
            yield not_a_retrieval(str(record.get("name") or ""))
        return
    inputs, output = decode_mapping(record.get("input")), record.get("output")
    expected = record.get("expectedOutput", record.get("expected_output"))
    chunks = documents_in(output)
    for place in (inputs, record.get("metadata")):
        chunks = documents_in(place) if chunks is None and not isinstance(place, list) else chunks
    chunks = recorded(chunks, "output")
    used = ("id", "input", "output", "expectedOutput", "expected_output", "type")
    metadata = rest(record, *used, *[key for key in record if "Token" in key or "Price" in key or "Cost" in key])
    if record.get("id"):
        if record.get("type") is not None:
            metadata["span_id"] = str(record["id"])
        elif "observations" in record:  # a trace that is one retrieval itself
            metadata["traceId"] = str(record["id"])
    data = data_of(question_in(inputs), chunks, "input", reference=reference_in(expected), metadata=metadata)
    yield {**data, "id": str(record["id"])} if record.get("id") else data


def _is_retriever(record: Data) -> bool:
    """Tell whether an observation is a retrieval; older exports call retrievals spans too."""
    kind = str(record["type"]).upper()
    if kind == "RETRIEVER":
        return True
    named = "retriev" in str(record.get("name", "")).lower()
    return kind == "SPAN" and named and documents_in(record.get("output")) is not None


SHAPES = (
    Shape(
        "langfuse",
        "Langfuse observations, traces or dataset items",
        lambda keys: (
            "input" in keys and has_any(keys, "traceId", "observations", "datasetId", "datasetName", "dataset_id")
        ),
        _langfuse,
        frozenset({"id", "traceId", "type", "input", "output", "expectedOutput", "observations", "datasetId"}),
    ),
)
