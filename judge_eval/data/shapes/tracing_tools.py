"""Shapes of tracing tools, in which a retrieval is a span or a run among others."""

import base64
import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from judge_eval.data.files.values import decode_mapping, first_of, maybe_list, rest
from judge_eval.data.shapes.chunks import chunk_data
from judge_eval.data.shapes.shape import REMARKS, RERANKED, Data, Keys, Shape, has, has_any
from judge_eval.errors import DataError
from judge_eval.objects import plain
from judge_eval.spelling import option

QUESTIONS = ("query", "question", "input", "user_input", "text", "search_query")
REFERENCES = (
    "reference", "expected_response", "expected_output", "expected_answer", "answer", "ground_truth",
)  # fmt: skip
LISTS = (
    "documents", "retrieved_contexts", "contexts", "retrieval_context", "context", "source_documents",
    "chunks",
)  # fmt: skip


def question_in(value: Any) -> str | None:
    """Find the question in what a retriever was called with: a text, or an object that holds one."""
    value = decode_mapping(value)
    if isinstance(value, str):
        return value.strip('"') or None
    if isinstance(value, list) and len(value) == 1:
        return question_in(value[0])
    if isinstance(value, Mapping):
        for key in QUESTIONS:
            if isinstance(value.get(key), str) and value[key]:
                return str(value[key])
        texts = [inner for inner in value.values() if isinstance(inner, str) and inner]
        if len(texts) == 1:
            return texts[0]
    return None


def documents_in(value: Any) -> list[Any] | None:
    """Find the documents in what a retriever returned: a list, or an object that holds one."""
    value = decode_mapping(value)
    if isinstance(value, list):
        return value
    if isinstance(value, Mapping):
        for key in LISTS:
            if isinstance(decode_mapping(value.get(key)), list):
                return list(decode_mapping(value[key]))
        if isinstance(value.get("output"), list | Mapping):
            return documents_in(value["output"])
    return None


def recorded(documents: list[Any] | None, where: str) -> list[Any]:
    """Return documents that were recorded; a gap is not an empty retrieval."""
    if documents is None:
        raise DataError(
            "the retrieval's documents are not recorded here (it failed, or content is hidden); "
            f"leave such records out with {option('on_invalid', 'skip')}",
            field=where,
        )
    return documents


def reference_in(value: Any) -> str | None:
    """Find the expected answer in what people wrote down: a text, or an object that holds one."""
    value = decode_mapping(value)
    if isinstance(value, str):
        return value or None
    if isinstance(value, Mapping):
        texts = [value[key] for key in REFERENCES if isinstance(value.get(key), str) and value[key]]
        return texts[0] if texts else None
    return None


GROUPS = ("resourceSpans", "resource_spans", "scopeSpans", "scope_spans", "spans")
VALUES = ("stringValue", "intValue", "doubleValue", "boolValue", "string_value", "int_value", "double_value")
PLACE = re.compile(r"(?P<before>.*?)\.(?P<place>[0-9]+)\.(?P<after>.+)")


@dataclass(frozen=True, slots=True)
class Span:
    """A span: its ids, its kind, its attributes under dotted names."""

    span_id: str | None
    trace_id: str | None
    name: str
    attributes: Mapping[str, Any]
    parent: str | None = None
    events: tuple[Mapping[str, Any], ...] = ()


def spans_in(record: Mapping[str, Any]) -> Iterator[Span]:
    """Yield the spans of a record: the record itself, or those inside an export of OTLP or a whole trace."""
    for group in GROUPS:
        inner = decode_mapping(record.get(group))
        if isinstance(inner, list):
            for item in inner:
                if isinstance(item, Mapping):
                    yield from spans_in(item)
            return
    nested = record.get("data")
    if isinstance(nested, Mapping) and isinstance(nested.get("spans"), list):
        yield from spans_in(nested)
        return
    yield _span(record)


def _span(record: Mapping[str, Any]) -> Span:
    context = record.get("context")
    flat = dict(flat_attributes(record.get("attributes")))
    for key, value in record.items():
        if key.startswith("attributes."):
            flat.update(_flat_pair(key.removeprefix("attributes."), value))
    ids = dict(context) if isinstance(context, Mapping) else {}
    ids |= {key.removeprefix("context."): value for key, value in record.items() if key.startswith("context.")}

    def id_of(*keys: str) -> str | None:
        value = first_of({key: record.get(key, ids.get(key)) for key in keys}, *keys)
        return None if value is None else _hexadecimal(str(value).removeprefix("0x"))

    events = record.get("events")
    return Span(
        id_of("span_id", "spanId"),
        id_of("trace_id", "traceId"),
        str(record.get("name") or ""),
        flat,
        id_of("parent_id", "parentSpanId", "parent_span_id"),
        tuple(e for e in events if isinstance(e, Mapping)) if isinstance(events, list) else (),
    )


def _hexadecimal(key: str) -> str:
    if key.endswith("=") and len(key) in (12, 24):
        with contextlib.suppress(ValueError):
            return base64.b64decode(key, validate=True).hex()
    return key


def flat_attributes(attributes: Any) -> Iterator[tuple[str, Any]]:
    """Yield attributes under dotted names: from a flat or nested mapping, or from OTLP's list of pairs."""
    attributes = decode_mapping(attributes)
    if isinstance(attributes, list):
        for pair in attributes:
            if isinstance(pair, Mapping) and isinstance(pair.get("key"), str):
                yield pair["key"], _otlp_value(pair.get("value"))
    elif isinstance(attributes, Mapping):
        for key, value in attributes.items():
            yield from _flat_pair(str(key), value)


def _flat_pair(key: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for inner, deeper in value.items():
            yield from _flat_pair(f"{key}.{inner}", deeper)
    else:
        yield key, value


def _otlp_value(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    for key in VALUES:
        if key in value:
            return value[key]
    array = value.get("arrayValue") or value.get("array_value")
    if isinstance(array, Mapping):
        return [_otlp_value(item) for item in array.get("values") or []]
    pairs = value.get("kvlistValue") or value.get("kvlist_value")
    if isinstance(pairs, Mapping):
        return dict(flat_attributes(pairs.get("values") or []))
    return None


def listed(attributes: Mapping[str, Any], name: str) -> list[dict[str, Any]] | None:
    """Return a list of objects kept in attributes: as `name.0.key`, as a list, or as JSON."""
    whole = decode_mapping(attributes.get(name))
    if isinstance(whole, list):
        return [dict(item) for item in whole if isinstance(item, Mapping)]
    objects: dict[int, dict[str, Any]] = {}
    for key, value in attributes.items():
        match = PLACE.fullmatch(key)
        if match and match["before"] == name:
            objects.setdefault(int(match["place"]), {})[match["after"]] = value
    return [objects[place] for place in sorted(objects)] if objects else None


def _data(query: str | None, chunks: list[Any], where: str, **more: Any) -> dict[str, Any]:
    if not query:
        raise DataError("the retriever's question is missing", field=where)
    return {"query": query, "chunks": chunks, **{key: value for key, value in more.items() if value}}


def _span_data(span: Span, query: Any, chunks: list[Any], where: str, **more: Any) -> dict[str, Any]:
    session = span.attributes.get("session.id") or span.attributes.get("gen_ai.conversation.id")
    ids = {"span_id": span.span_id, "trace_id": span.trace_id, "span_name": span.name, "session_id": session}
    metadata = {key: value for key, value in ids.items() if value}
    data = _data(question_in(query), chunks, where, metadata=metadata, **more)
    return {**data, "id": span.span_id} if span.span_id else data


def reranked(before: list[Any], after: list[Any], where: str) -> list[dict[str, Any]]:
    """Return what a reranker was given, each chunk with its rank in what it returned, by id, else by text."""
    chunks = [chunk_data(item, where) for item in before]
    ranks: dict[Any, int] = {}
    for rank, item in enumerate(after, 1):
        chunk = chunk_data(item, where)
        for key in (("id", chunk.get("id")), ("text", chunk.get("text"))):
            if key[1] is not None:
                ranks.setdefault(key, rank)
    for chunk in chunks:
        rank = ranks.get(("id", chunk.get("id"))) or ranks.get(("text", chunk.get("text"))) or 0
        chunk["metadata"] = {**chunk.get("metadata", {}), RERANKED: rank}
    return chunks


def not_a_retrieval(tool: str) -> dict[str, Any]:
    """Name a tool whose call is left out."""
    return {REMARKS: [f"a call of the tool {tool or 'without a name'} is not a retrieval and is left out"]}


def _openinference(record: Data) -> Iterator[dict[str, Any]]:
    for span in spans_in(record):
        kind = str(
            span.attributes.get("openinference.span.kind", record.get("span_kind", record.get("spanKind", "")))
        ).upper()
        documents = listed(span.attributes, "retrieval.documents")
        if kind == "RERANKER":
            lists = [listed(span.attributes, f"reranker.{name}_documents") for name in ("input", "output")]
            given, kept = (None if docs is None else [_undotted(doc) for doc in docs] for docs in lists)
            before, after = (recorded(docs, "attributes.reranker") for docs in (given, kept))
            query = span.attributes.get("reranker.query") or span.attributes.get("input.value")
            made = reranked(before, after, "attributes.reranker")
            yield {**_span_data(span, query, made, "attributes.reranker.query"), "tags": [RERANKED]}
            continue
        if kind in ("TOOL", "") and documents is None:
            documents = _tool_documents(span)
        if kind not in ("RETRIEVER", "TOOL", "") or (documents is None and kind != "RETRIEVER"):
            if kind == "TOOL":
                yield not_a_retrieval(span.name)
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


_SEARCHES = re.compile(r"search|retriev|lookup", re.IGNORECASE)


def _tool_documents(span: Span) -> list[dict[str, Any]] | None:
    """Return what a tool with the name of a search returned (also over MCP), if these are documents with texts."""
    name = str(span.attributes.get("tool.name") or span.name)
    returned = documents_in(span.attributes.get("output.value")) if _SEARCHES.search(name) else None
    documents = [{"text": item} if isinstance(item, str) else item for item in returned or ()]
    return documents if documents and all(isinstance(each, Mapping) for each in documents) else None


def _undotted(document: Mapping[str, Any]) -> dict[str, Any]:
    """Take `document.` off the keys, whichever way they were nested."""
    inner = document.get("document")
    flat = dict(inner) if isinstance(inner, Mapping) else {}
    flat |= {k.removeprefix("document."): v for k, v in document.items() if k != "document" or not flat}
    extra = {k.removeprefix("metadata."): flat.pop(k) for k in list(flat) if k.startswith("metadata.")}
    return {**flat, "metadata": extra} if extra else flat


def _reranker(span: Span, given: list[Any] | None, kept: list[Any] | None, query: Any, where: str) -> dict[str, Any]:
    """Return what a reranker was given, with the ranks of what it kept: documents, or places with a score."""
    if given is None or kept is None:
        return {REMARKS: ["a reranker's span does not record its documents and is left out"]}
    after = []
    for item in kept:
        place = item.get("index") if isinstance(item, Mapping) else None
        after.append(given[place] if isinstance(place, int) and 0 <= place < len(given) else item)
    return {**_span_data(span, query, reranked(given, after, where), f"{where} (query)"), "tags": [RERANKED]}


def _genai(record: Data) -> Iterator[dict[str, Any]]:
    queries: dict[str | None, Any] = {}  # of the retrievals before, for rerankers that record none
    for span in spans_in(record):
        known = dict(span.attributes)
        for event in span.events:
            inner = event.get("attributes")
            known |= inner if isinstance(inner, Mapping) else {}
        documents = listed(known, "gen_ai.retrieval.documents")
        operation = str(known.get("gen_ai.operation.name") or "")
        if operation.startswith("rerank"):
            # The conventions name no reranker yet; these are the names that instrumentations share.
            given, kept = (listed(known, f"gen_ai.rerank.{end}_documents") for end in ("input", "output"))
            names = ("gen_ai.rerank.query.text", "gen_ai.retrieval.query.text")
            query = first_of(known, *names) or queries.get(span.trace_id)
            yield _reranker(span, given, kept, query, "gen_ai.rerank")
            continue
        if documents is None and operation != "retrieval":
            if operation == "execute_tool":
                yield not_a_retrieval(str(known.get("gen_ai.tool.name") or span.name))
            continue
        query = known.get("gen_ai.retrieval.query.text")
        queries[span.trace_id] = query
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
        kind = _unquoted(span.attributes.get("mlflow.spanType"))
        if kind == "RERANKER":  # a traced function: what it was called with, by the names of its arguments
            inputs = decode_mapping(span.attributes.get("mlflow.spanInputs"))
            values = map(decode_mapping, inputs.values()) if isinstance(inputs, Mapping) else ()
            lists = [value for value in values if isinstance(value, list)]
            kept = documents_in(span.attributes.get("mlflow.spanOutputs"))
            given = lists[0] if len(lists) == 1 else documents_in(inputs)
            yield _reranker(span, given, kept, question_in(inputs), "mlflow.spanInputs")
            continue
        if kind != "RETRIEVER":
            if kind == "TOOL":
                yield not_a_retrieval(span.name)
            continue
        chunks = recorded(documents_in(span.attributes.get("mlflow.spanOutputs")), "mlflow.spanOutputs")
        query = span.attributes.get("mlflow.spanInputs")
        own = answer if isinstance(answer, str) and span is not root else None
        data = _span_data(span, query, chunks, "mlflow.spanInputs", reference=reference, answer=own)
        trace_id = info.get("trace_id") or info.get("request_id")
        if trace_id:
            data["metadata"]["trace_id"] = str(trace_id)
        yield data


def _unquoted(value: Any) -> Any:
    if isinstance(value, str) and len(value) > 1 and value[0] == value[-1] == '"':
        with contextlib.suppress(ValueError):
            return json.loads(value)
    return value


def _langsmith(record: Data) -> Iterator[dict[str, Any]]:
    children = [child for child in maybe_list(record, "child_runs") if isinstance(child, Mapping)]
    if record.get("run_type") == "retriever":
        outputs = decode_mapping(record.get("outputs"))
        chunks = recorded(documents_in(outputs), "outputs.documents")
        base = [child for child in children if child.get("run_type") == "retriever"]
        if len(base) == 1:  # a retriever around another, as `ContextualCompressionRetriever`, reranks what that returns
            before = recorded(documents_in(decode_mapping(base[0].get("outputs"))), "child_runs.outputs.documents")
            chunks = reranked(before, chunks, "outputs.documents")
            children.remove(base[0])
        data = _data(
            question_in(record.get("inputs")),
            chunks,
            "inputs.query",
            reference=reference_in(decode_mapping(record.get("reference_outputs"))),
            tags=[tag for tag in maybe_list(record, "tags") if isinstance(tag, str)],
            metadata={key: plain(record[key]) for key in ("name", "trace_id", "session_id") if record.get(key)},
        )
        yield {**data, "id": str(record["id"])} if record.get("id") else data
    elif record.get("run_type") == "tool":
        yield not_a_retrieval(str(record.get("name") or ""))
    for child in children:
        yield from _langsmith(child)


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
    if record.get("type") is not None and record.get("id"):
        metadata["span_id"] = str(record["id"])
    data = _data(question_in(inputs), chunks, "input", reference=reference_in(expected), metadata=metadata)
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
        lambda keys: _ends(keys, "gen_ai.operation.name", "gen_ai.retrieval") and not _ends(keys, "openinference."),
        _genai,
        frozenset({"attributes", "context", "name", "attributes.gen_ai.retrieval.documents"}),
        aliases=("opentelemetry",),
    ),
    Shape(
        "mlflow",
        "MLflow traces",
        lambda keys: has(keys, "info", "data.spans") or ("spans" in keys and _ends(keys, "mlflow.", "trace_metadata")),
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
            "input" in keys and has_any(keys, "traceId", "observations", "datasetId", "datasetName", "dataset_id")
        ),
        _langfuse,
        frozenset({"id", "traceId", "type", "input", "output", "expectedOutput", "observations", "datasetId"}),
    ),
)
