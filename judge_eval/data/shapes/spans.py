"""Spans of tracing tools as flat attributes, whatever way they were exported."""

from __future__ import annotations

import base64
import contextlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from judge_eval.data.files.values import decode_mapping, is_missing

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
    ids |= {
        key.removeprefix("context."): value for key, value in record.items() if key.startswith("context.")
    }

    def one(*keys: str) -> str | None:
        for key in keys:
            value = record.get(key, ids.get(key))
            if not is_missing(value):
                return _hexadecimal(str(value).removeprefix("0x"))
        return None

    events = record.get("events")
    return Span(
        one("span_id", "spanId"),
        one("trace_id", "traceId"),
        str(record.get("name") or ""),
        flat,
        one("parent_id", "parentSpanId", "parent_span_id"),
        tuple(e for e in events if isinstance(e, Mapping)) if isinstance(events, list) else (),
    )


def _hexadecimal(key: str) -> str:
    """Return an id of 8 or 16 bytes as tools name it, where protobuf's JSON has it in base64."""
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
    """Return a list of objects kept in attributes: as `name.0.key`, as a list, or as JSON.

    Returns:
        The objects in their order; None where the attributes hold no such list.
    """
    whole = decode_mapping(attributes.get(name))
    if isinstance(whole, list):
        return [dict(item) for item in whole if isinstance(item, Mapping)]
    objects: dict[int, dict[str, Any]] = {}
    for key, value in attributes.items():
        match = PLACE.fullmatch(key)
        if match and match["before"] == name:
            objects.setdefault(int(match["place"]), {})[match["after"]] = value
    return [objects[place] for place in sorted(objects)] if objects else None
