"""Retrieval spans under OpenTelemetry's GenAI conventions."""

from collections.abc import Iterator, Mapping
from typing import Any

from judge_eval.data.files.values import first_of
from judge_eval.data.shapes.recorded_values import not_a_retrieval, recorded
from judge_eval.data.shapes.shape import Data, Shape
from judge_eval.data.shapes.spans import InConversation, Span, has_part, listed, reranker_data, span_data


def _genai(spans: list[Span], _: Data) -> Iterator[tuple[Span, dict[str, Any]]]:
    queries: dict[str | None, Any] = {}  # of the retrievals before, for rerankers that record none
    for span in spans:
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
            yield span, reranker_data(span, given, kept, query, "gen_ai.rerank")
            continue
        if documents is None and operation != "retrieval":
            if operation == "execute_tool":
                yield span, not_a_retrieval(str(known.get("gen_ai.tool.name") or span.name))
            continue
        query = known.get("gen_ai.retrieval.query.text")
        queries[span.trace_id] = query
        chunks = recorded(documents, "gen_ai.retrieval.documents")
        yield span, span_data(span, query, chunks, "gen_ai.retrieval.query.text")


_READER = InConversation(_genai)
SHAPES = (
    Shape(
        "otel-genai",
        "retrieval spans under OpenTelemetry's GenAI conventions",
        lambda keys: (
            has_part(keys, "gen_ai.operation.name", "gen_ai.retrieval") and not has_part(keys, "openinference.")
        ),
        _READER,
        frozenset({"attributes", "context", "name", "attributes.gen_ai.retrieval.documents"}),
        aliases=("opentelemetry",),
        beside=_READER.beside,
    ),
)
