"""Spans of traces, each retrieval with the conversation that it belongs to."""

import base64
import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self, TypeAlias

from judge_eval.conversation import SplitConversation, split_at_question, turns_of
from judge_eval.data.files.recorded_conversation import KEYS
from judge_eval.data.files.values import decode_mapping, first_of
from judge_eval.data.shapes.recorded_values import data_of, question_in, reranked
from judge_eval.data.shapes.shape import REMARKS, RERANKED, Data, Keys
from judge_eval.errors import DataError

GROUPS = ("resourceSpans", "resource_spans", "scopeSpans", "scope_spans", "spans")
VALUES = ("stringValue", "intValue", "doubleValue", "boolValue", "string_value", "int_value", "double_value")
_NUMBERED = re.compile(r"(?P<before>.*?)\.(?P<place>[0-9]+)\.(?P<after>.+)")


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
        match = _NUMBERED.fullmatch(key)
        if match and match["before"] == name:
            objects.setdefault(int(match["place"]), {})[match["after"]] = value
    return [objects[place] for place in sorted(objects)] if objects else None


SpanKey: TypeAlias = tuple[str | None, str | None]
"""The ids of a trace and of a span in it."""


class _Above:
    """The conversations that spans around others were given; `spans` yields all spans as often as wanted."""

    def __init__(self, spans: Callable[[], Iterable[Span]]) -> None:
        self._parents: dict[SpanKey, SpanKey] = {}
        for span in spans():
            if span.span_id:
                self._parents[span.trace_id, span.span_id] = span.trace_id, span.parent
        around = set(self._parents.values())
        self._asked: dict[SpanKey, SplitConversation] = {}
        for span in spans():
            key = span.trace_id, span.span_id
            if key in around and (asked := _asked_by(span)) is not None:
                self._asked[key] = asked

    def asked(self, span: Span) -> SplitConversation | None:
        """Return the conversation that the nearest span around this one was given, split at its question."""
        key, seen = (span.trace_id, span.parent), set[SpanKey]()
        while key in self._parents and key not in seen:
            if key in self._asked:
                return self._asked[key]
            seen.add(key)
            key = self._parents[key]
        return None


def _asked_by(span: Span) -> SplitConversation | None:
    given = decode_mapping(span.attributes.get("input.value"))
    inside = next((given[key] for key in sorted(KEYS & given.keys())), None) if isinstance(given, Mapping) else given
    for messages in (*(listed(span.attributes, name) for name in MESSAGES), inside):
        read = turns_of(messages) if messages else None
        if read is not None and (asked := split_at_question(read.turns)).query is not None:
            return asked
    return None


MESSAGES = ("llm.input_messages", "gen_ai.input.messages")
"""Attributes that hold the messages a span was given."""


def _with_question(data: dict[str, Any], asked: SplitConversation | None) -> dict[str, Any]:
    """Put the user's words into `query`; what was searched, if it is something else, into `search_query`."""
    if asked is None or asked.query is None:
        return data
    data = {**data, "history": [turn._asdict() for turn in asked.history]}
    if data["query"].strip() == asked.query.strip():
        return data
    return {**data, "query": asked.query, "search_query": data["query"]}


def span_data(span: Span, query: Any, chunks: list[Any], where: str, **more: Any) -> dict[str, Any]:
    """Make the data of the trace that a span recorded, with the ids of the span."""
    session = span.attributes.get("session.id") or span.attributes.get("gen_ai.conversation.id")
    ids = {"span_id": span.span_id, "trace_id": span.trace_id, "span_name": span.name, "session_id": session}
    metadata = {key: value for key, value in ids.items() if value}
    data = data_of(question_in(query), chunks, where, metadata=metadata, **more)
    return {**data, "id": span.span_id} if span.span_id else data


@dataclass(frozen=True)
class InConversation:
    """Reads records of spans, each retrieval with the conversation that it belongs to."""

    spans_read: Callable[[list[Span], Data], Iterator[tuple[Span, dict[str, Any]]]]
    above: _Above | None = None
    """Of all records; None if a record holds whole traces."""

    def __call__(self, record: Data) -> Iterator[dict[str, Any]]:
        """Yield the data of the retrievals in a record."""
        spans = [*spans_in(record)]
        above = self.above or _Above(lambda: spans)
        for span, data in self.spans_read(spans, record):
            yield _with_question(data, above.asked(span)) if "query" in data else data

    def beside(self, sample: Iterable[Data], records: Callable[[], Iterable[Data]]) -> Self | None:
        """Read spans whose parents stand in other records, as if all stood in one."""
        for record in sample:
            spans = [*_readable([record])]
            own = {span.span_id for span in spans}
            if any(span.parent and span.parent not in own for span in spans):
                return replace(self, above=_Above(lambda: _readable(records())))
        return None


def _readable(records: Iterable[Data]) -> Iterator[Span]:
    """Yield the spans of the records that can be read; what is wrong with others is said as they are read."""
    for record in records:
        with contextlib.suppress(DataError, RecursionError):
            yield from spans_in(record)


def reranker_data(
    span: Span, given: list[Any] | None, kept: list[Any] | None, query: Any, where: str
) -> dict[str, Any]:
    """Return what a reranker was given, with the ranks of what it kept: documents, or places with a score."""
    if given is None or kept is None:
        return {REMARKS: ["a reranker's span does not record its documents and is left out"]}
    after = []
    for item in kept:
        place = item.get("index") if isinstance(item, Mapping) else None
        after.append(given[place] if isinstance(place, int) and 0 <= place < len(given) else item)
    return {**span_data(span, query, reranked(given, after, where), f"{where} (query)"), "tags": [RERANKED]}


def has_part(keys: Keys, *parts: str) -> bool:
    """Tell whether one of these is part of a key."""
    return any(part in key for key in keys for part in parts)
