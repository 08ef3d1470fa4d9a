"""The shapes there are, with the choice of the one that a file has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from judge_eval import registry
from judge_eval.data.collections import collection
from judge_eval.data.shapes import benchmarks, flat, published, testsets, tracing_tools
from judge_eval.data.shapes.chunks import TEXT
from judge_eval.data.shapes.shape import Keys, Shape, keys_of
from judge_eval.errors import ConfigError, DataError, UnknownNameError

OURS = flat.SHAPES[0]
BUILT_IN: Mapping[str, Shape] = {
    shape.name: shape
    for shape in (
        *flat.SHAPES,
        *testsets.SHAPES,
        *published.SHAPES,
        *benchmarks.SHAPES,
        *tracing_tools.SHAPES,
    )
}
ALIASES = {alias: shape for shape in BUILT_IN.values() for alias in shape.aliases}


def find_shape(name: str) -> Shape:
    """Return the shape of a name, ours or one that an installed package registered.

    Raises:
        UnknownNameError: There is none.
        ConfigError: A package registered something else under the name.
    """
    own = BUILT_IN.get(name) or ALIASES.get(name)
    if own is not None:
        return own
    if name not in registry.names("readers"):
        known = [*BUILT_IN, *ALIASES, *registry.names("readers"), *collection.FORMATS]
        raise UnknownNameError("format", name, known)
    return _installed(name)


def _installed(name: str) -> Shape:
    shape = registry.find("readers", name, "format")
    if not isinstance(shape, Shape):
        raise ConfigError(f"the reader {name!r} is a {type(shape).__name__}; register a `Shape`")
    return shape


def shapes() -> list[Shape]:
    """Return all shapes, those of installed packages last."""
    return [
        *BUILT_IN.values(),
        *(_installed(name) for name in registry.names("readers") if name not in BUILT_IN),
    ]


def choose_shape(records: Sequence[Mapping[str, Any]], name: str) -> Shape:
    """Choose the one shape that fits the first records of a file.

    Args:
        records: The first records.
        name: What to call the file.

    Raises:
        DataError: Several shapes fit (the message names them), or none does (it names the keys that were
            found and the nearest shape).
    """
    found = fitting(records)
    keys = _keys(records)
    if len(found) == 1:
        return found[0]
    if found:
        choices = "; ".join(f"--format {shape.name} ({shape.title})" for shape in found)
        raise DataError(f"{len(found)} formats fit; choose one: {choices}", file=name)
    top = sorted(key for key in keys if "." not in key)
    if keys and OURS.known >= set(top):
        return OURS  # our own records without chunks, or with a fault that our own errors name best
    told = f"no known format has these keys: {_shown(top)}; {_nearest(keys)}{_by_rows(keys)}"
    raise DataError(told, file=name)


def fitting(records: Sequence[Mapping[str, Any]]) -> list[Shape]:
    """Return the shapes that fit the first records of a file, by all their keys together."""
    keys = _keys(records)
    return [shape for shape in shapes() if shape.fits(keys)]


def _keys(records: Sequence[Mapping[str, Any]]) -> Keys:
    return frozenset().union(*map(keys_of, records))


def any_fits(record: Mapping[str, Any]) -> bool:
    """Tell whether a single record has some shape, ours with a fault among them."""
    keys = keys_of(record)
    ours = bool(keys & {"query", "chunks"}) and {key for key in keys if "." not in key} <= OURS.known
    return ours or any(shape.fits(keys) for shape in shapes())


def _nearest(keys: Keys) -> str:
    scored = [(len(keys & shape.known) / len(keys | shape.known), shape) for shape in shapes() if shape.known]
    score, shape = max(scored, key=lambda pair: pair[0], default=(0.0, OURS))
    if not score:
        shape = OURS
    wanted = _shown(sorted(shape.known - keys)[:6])
    map_ = "say what stands where with --map query=... --map chunks=..."
    return f"the nearest is {shape.name} ({shape.title}), which also knows {wanted}; {map_}, or give --format"


def _by_rows(keys: Keys) -> str:
    """Advise to group rows that hold a question's id, the question and a passage."""
    key = next((key for key in ("query_id", "qid", "question_id") if key in keys), None)
    passage = not keys.isdisjoint(TEXT)
    return f"; where a row is a chunk, say --group-by {key}" if key is not None and passage else ""


def _shown(keys: list[str]) -> str:
    most = 20
    return ", ".join(keys[:most]) + (f" and {len(keys) - most} more" if len(keys) > most else "") or "none"
