"""Shapes of tracing tools, where a retrieval is a span or a run among others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from judge_eval.data.files.values import decode_mapping, maybe_list, rest
from judge_eval.data.shapes.finding import REFERENCES, documents_in, question_in, recorded, reference_in
from judge_eval.data.shapes.shape import Data, Keys, Shape, has, has_any
from judge_eval.data.shapes.spans import Span, listed, spans_in
from judge_eval.errors import DataError
from judge_eval.objects import plain


def _data(query: str | None, chunks: list[Any], where: str, **more: Any) -> dict[str, Any]:
    if not query:
        raise DataError("the retriever's question is missing", field=where)
    return {"query": query, "chunks": chunks, **{key: value for key, value in more.items() if value}}


def _span_data(span: Span, query: Any, chunks: list[Any], where: str) -> dict[str, Any]:
    ids = {"span_id": span.span_id, "trace_id": span.trace_id, "span_name": span.name}
    metadata = {key: value for key, value in ids.items() if value}
    data = _data(question_in(query), chunks, where, metadata=metadata)
    return {**data, "id": span.span_id} if span.span_id else data


def _openinference(record: Data) -> Iterator[dict[str, Any]]:
    for span in spans_in(record):
        kind = str(
            span.attributes.get(
                "openinference.span.kind", record.get("span_kind", record.get("spanKind", ""))
            )
        ).upper()
        documents = listed(span.attributes, "retrieval.documents")
        if kind not in ("RETRIEVER", "") or (documents is None and kind == ""):
            continue
        returned = documents_in(span.attributes.get("output.value"))
        documents_read = returned if documents is None else [_undotted(document) for document in documents]
        chunks = recorded(documents_read, "attributes.retrieval.documents")
        if returned and documents is not None and len(returned) == len(chunks):
            # Some instrumentations keep the ids in the output only.
            for chunk, document in zip(chunks, returned, strict=True):
                if isinstance(document, Mapping) and isinstance(document.get("id"), str):
                    chunk.setdefault("id", document["id"])
        yield _span_data(span, span.attributes.get("input.value"), chunks, "attributes.input.value")


def _undotted(document: Mapping[str, Any]) -> dict[str, Any]:
    """Take `document.` off the keys, whichever way they were nested."""
    inner = document.get("document")
    flat = dict(inner) if isinstance(inner, Mapping) else {}
    flat |= {k.removeprefix("document."): v for k, v in document.items() if k != "document" or not flat}
    extra = {k.removeprefix("metadata."): flat.pop(k) for k in list(flat) if k.startswith("metadata.")}
    return {**flat, "metadata": extra} if extra else flat


def _genai(record: Data) -> Iterator[dict[str, Any]]:
    for span in spans_in(record):
        known = dict(span.attributes)
        for event in span.events:
            inner = event.get("attributes")
            known |= inner if isinstance(inner, Mapping) else {}
        documents = listed(known, "gen_ai.retrieval.documents")
        if documents is None and known.get("gen_ai.operation.name") != "retrieval":
            continue
        query = known.get("gen_ai.retrieval.query.text")
        chunks = recorded(documents, "gen_ai.retrieval.documents")
        yield _span_data(span, query, chunks, "gen_ai.retrieval.query.text")


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
        if _unquoted(span.attributes.get("mlflow.spanType")) != "RETRIEVER":
            continue
        chunks = recorded(documents_in(span.attributes.get("mlflow.spanOutputs")), "mlflow.spanOutputs")
        query = span.attributes.get("mlflow.spanInputs")
        more = {
            "reference": reference,
            "answer": answer if isinstance(answer, str) and span is not root else None,
        }
        data = _span_data(span, query, chunks, "mlflow.spanInputs")
        data |= {key: value for key, value in more.items() if value}
        trace_id = info.get("trace_id") or info.get("request_id")
        if trace_id:
            data["metadata"]["trace_id"] = str(trace_id)
        yield data


def _unquoted(value: Any) -> Any:
    """Take the quotes of JSON off a text."""
    quoted = isinstance(value, str) and len(value) > 1 and value[0] == value[-1] == '"'
    if not quoted:
        return value
    import json

    try:
        return json.loads(value)
    except ValueError:
        return value


def _langsmith(record: Data) -> Iterator[dict[str, Any]]:
    if record.get("run_type") == "retriever":
        outputs = decode_mapping(record.get("outputs"))
        data = _data(
            question_in(record.get("inputs")),
            recorded(documents_in(outputs), "outputs.documents"),
            "inputs.query",
            reference=reference_in(decode_mapping(record.get("reference_outputs"))),
            tags=[tag for tag in maybe_list(record, "tags") if isinstance(tag, str)],
            metadata={
                key: plain(record[key]) for key in ("name", "trace_id", "session_id") if record.get(key)
            },
        )
        yield {**data, "id": str(record["id"])} if record.get("id") else data
    for child in maybe_list(record, "child_runs"):
        if isinstance(child, Mapping):
            yield from _langsmith(child)


def _langfuse(record: Data) -> Iterator[dict[str, Any]]:
    """An observation, a trace with its observations, or an item of a dataset."""
    inner = record.get("observations")
    if isinstance(inner, list) and any(isinstance(item, Mapping) for item in inner):
        answer = reference_in(record.get("output"))
        for item in inner:
            if isinstance(item, Mapping):
                for data in _langfuse({**item, "traceId": item.get("traceId", record.get("id"))}):
                    yield {**data, "answer": answer} if answer and "answer" not in data else data
        return
    if record.get("type") is not None and not _is_retriever(record):
        return
    given, output = decode_mapping(record.get("input")), record.get("output")
    expected = record.get("expectedOutput", record.get("expected_output"))
    chunks = documents_in(output)
    for place in (given, record.get("metadata")):
        chunks = documents_in(place) if chunks is None and not isinstance(place, list) else chunks
    chunks = recorded(chunks, "output")
    used = ("id", "input", "output", "expectedOutput", "expected_output", "type")
    metadata = rest(
        record, *used, *[key for key in record if "Token" in key or "Price" in key or "Cost" in key]
    )
    if record.get("type") is not None and record.get("id"):
        metadata["span_id"] = str(record["id"])
    data = _data(question_in(given), chunks, "input", reference=reference_in(expected), metadata=metadata)
    yield {**data, "id": str(record["id"])} if record.get("id") else data


def _is_retriever(record: Data) -> bool:
    """Tell whether an observation is a retrieval; older exports call retrievals spans too."""
    kind = str(record["type"]).upper()
    if kind == "RETRIEVER":
        return True
    named = "retriev" in str(record.get("name", "")).lower()
    return kind == "SPAN" and named and documents_in(record.get("output")) is not None


def _is_phoenix(keys: Keys) -> bool:
    return "attributes" in keys and has_any(keys, "span_kind", "spanKind") and not _ends(keys, "gen_ai.")


def _ends(keys: Keys, *endings: str) -> bool:
    return any(ending in key for key in keys for ending in endings)


SHAPES = (
    Shape(
        "openinference",
        "OpenInference spans, as Phoenix and OpenTelemetry export them",
        lambda keys: (
            (_ends(keys, "retrieval.documents", "openinference.span.kind") or _is_phoenix(keys))
            and not _ends(keys, "gen_ai.retr")
        ),
        _openinference,
        frozenset({"attributes", "context", "name", "attributes.retrieval.documents", "context.span_id"}),
        frozenset({"attributes.retrieval.documents"}),
        aliases=("phoenix",),
    ),
    Shape(
        "otel-genai",
        "retrieval spans under OpenTelemetry's GenAI conventions",
        lambda keys: (
            _ends(keys, "gen_ai.operation.name", "gen_ai.retrieval") and not _ends(keys, "openinference.")
        ),
        _genai,
        frozenset({"attributes", "context", "name", "attributes.gen_ai.retrieval.documents"}),
        aliases=("opentelemetry",),
    ),
    Shape(
        "mlflow",
        "MLflow traces",
        lambda keys: (
            has(keys, "info", "data.spans") or ("spans" in keys and _ends(keys, "mlflow.", "trace_metadata"))
        ),
        _mlflow,
        frozenset({"info", "data", "data.spans", "info.trace_id", "info.assessments"}),
    ),
    Shape(
        "langsmith",
        "retriever runs of LangSmith",
        lambda keys: "run_type" in keys and has_any(keys, "inputs", "outputs"),
        _langsmith,
        frozenset({"id", "run_type", "inputs", "outputs", "trace_id", "child_runs"}),
    ),
    Shape(
        "langfuse",
        "Langfuse observations, traces or dataset items",
        lambda keys: (
            "input" in keys
            and has_any(keys, "traceId", "observations", "datasetId", "datasetName", "dataset_id")
        ),
        _langfuse,
        frozenset(
            {"id", "traceId", "type", "input", "output", "expectedOutput", "observations", "datasetId"}
        ),
    ),
)
