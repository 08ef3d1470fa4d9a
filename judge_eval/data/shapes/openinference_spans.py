"""OpenInference spans, as Phoenix and OpenTelemetry export them."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from judge_eval.data.shapes.recorded_values import documents_in, not_a_retrieval, recorded, reranked
from judge_eval.data.shapes.shape import RERANKED, Data, Keys, Shape, has_any
from judge_eval.data.shapes.spans import InConversation, Span, has_part, listed, span_data


def _openinference(spans: list[Span], record: Data) -> Iterator[tuple[Span, dict[str, Any]]]:
    for span in spans:
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
            yield span, {**span_data(span, query, made, "attributes.reranker.query"), "tags": [RERANKED]}
            continue
        if kind in ("TOOL", "") and documents is None:
            documents = _tool_documents(span)
        if kind not in ("RETRIEVER", "TOOL", "") or (documents is None and kind != "RETRIEVER"):
            if kind == "TOOL":
                yield span, not_a_retrieval(span.name)
            continue
        returned = documents_in(span.attributes.get("output.value"))
        documents_read = returned if documents is None else [_undotted(document) for document in documents]
        chunks = recorded(documents_read, "attributes.retrieval.documents")
        if returned and documents is not None and len(returned) == len(chunks):
            # Some instrumentations keep the ids in the output only.
            for chunk, document in zip(chunks, returned, strict=True):
                if isinstance(document, Mapping) and isinstance(document.get("id"), str):
                    chunk.setdefault("id", document["id"])
        yield span, span_data(span, span.attributes.get("input.value"), chunks, "attributes.input.value")


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


def _is_phoenix(keys: Keys) -> bool:
    return "attributes" in keys and has_any(keys, "span_kind", "spanKind") and not has_part(keys, "gen_ai.")


_READER = InConversation(_openinference)
SHAPES = (
    Shape(
        "openinference",
        "OpenInference spans, as Phoenix and OpenTelemetry export them",
        lambda keys: (
            (has_part(keys, "retrieval.documents", "openinference.span.kind") or _is_phoenix(keys))
            and not has_part(keys, "gen_ai.retr")
        ),
        _READER,
        frozenset({"attributes", "context", "name", "attributes.retrieval.documents", "context.span_id"}),
        frozenset({"attributes.retrieval.documents"}),
        aliases=("phoenix",),
        beside=_READER.beside,
    ),
)
