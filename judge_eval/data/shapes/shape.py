"""What a shape is: the keys it is known by, with the reading of one record."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

Keys: TypeAlias = frozenset[str]
Data: TypeAlias = Mapping[str, Any]
Read: TypeAlias = Callable[[Data], Iterable[dict[str, Any]]]

REMARKS = "remarks"
"""Where a shape puts sentences on a record that are worth knowing, beside the fields of a trace."""
RERANKED = "reranked"
"""In a chunk's metadata, its rank after reranking, from 1; 0 if the reranker dropped it. The chunks stand as they were
retrieved, so that one judgment serves both lists."""
PLACE = "place"
"""Where a shape puts the place of a trace inside its record, for messages."""
NESTS = frozenset({"resourceSpans", "resource_spans", "scopeSpans", "scope_spans", "spans", "observations"})
DEPTH = 5


@dataclass(frozen=True, slots=True)
class Shape:
    """How one tool lays out its records.

    Packages add their own under the entry point group `judge_eval.readers`.

    Args:
        name: What the option `format` calls it.
        title: What it is, for people.
        fits: Whether records with these keys have this shape. Keys inside mappings are joined by a dot
            (`inputs.query`), and those inside lists of spans or attributes are there as well.
        read: Yields the data of the traces in a record, none where it holds no retrieval: mappings with the fields of
            `Trace`, chunks as `chunks.chunk_data` takes them, and perhaps `remarks`: sentences on the record that are
            worth knowing, also alone, of a record without a retrieval. It raises `DataError` with the field; file and
            line are added by the caller.
        known: The keys it is known by, to find the nearest shape where none fits.
        lists: Keys whose value is a list. Where a file holds a text instead (a CSV cell, JSON inside JSON)
            it is decoded before `read` is called.
        aliases: Other names for it.
        beside: Called with the first records, and with what yields all of them as often as wanted: returns how a record
            is read beside the others; None if none needs them.
    """

    name: str
    title: str
    fits: Callable[[Keys], bool]
    read: Read
    known: Keys = frozenset()
    lists: Keys = frozenset()
    aliases: tuple[str, ...] = ()
    beside: Callable[[Iterable[Data], Callable[[], Iterable[Data]]], Read | None] | None = None


def keys_of(record: Data) -> Keys:
    """Return the keys of a record, those of mappings inside it joined by a dot."""
    keys: set[str] = set()
    _collect(record, "", keys, DEPTH)
    return frozenset(keys)


def _collect(value: Data, prefix: str, keys: set[str], depth: int) -> None:
    for key, inner in value.items():
        path = f"{prefix}{key}"
        keys.add(path)
        if depth <= 1:
            continue
        if isinstance(inner, Mapping):
            _collect(inner, f"{path}.", keys, depth - 1)
        elif isinstance(inner, list) and key in NESTS:
            for item in inner[:50]:
                if isinstance(item, Mapping):
                    _collect(item, f"{path}.", keys, depth - 1)
        elif isinstance(inner, list) and key == "attributes":
            keys.update(f"{path}.{item['key']}" for item in inner if isinstance(item, Mapping) and "key" in item)


def has(keys: Keys, *wanted: str) -> bool:
    """Tell whether all of the wanted keys are there."""
    return keys.issuperset(wanted)


def has_any(keys: Keys, *wanted: str) -> bool:
    """Tell whether one of the wanted keys is there."""
    return not keys.isdisjoint(wanted)
