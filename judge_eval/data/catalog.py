"""The known shapes, and the choice of the one that a file has."""

import pkgutil
import re
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from judge_eval import registry
from judge_eval.data import collection
from judge_eval.data import shapes as modules
from judge_eval.data.files.values import WHERE
from judge_eval.data.mapping import dig
from judge_eval.data.remarks import OnRemark
from judge_eval.data.shapes.chunks import TEXT
from judge_eval.data.shapes.shape import Keys, Shape, keys_of
from judge_eval.errors import ConfigError, DataError, UnknownNameError
from judge_eval.safe_text import type_of
from judge_eval.spelling import option


def _built_in() -> dict[str, Shape]:
    names = sorted(module.name for module in pkgutil.iter_modules(modules.__path__))
    homes = [import_module(f"{modules.__name__}.{name}") for name in names]
    return {shape.name: shape for home in homes for shape in getattr(home, "SHAPES", ())}


BUILT_IN: Mapping[str, Shape] = _built_in()
OURS = BUILT_IN["judge-eval"]
ALIASES = {alias: shape for shape in BUILT_IN.values() for alias in shape.aliases}


def find_shape(name: str) -> Shape:
    """Return the shape of a name, ours or one that an installed package registered."""
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
        raise ConfigError(f"the reader {name!r} is {type_of(shape)}; register a `Shape`")
    return shape


def choose_shape(records: Sequence[Mapping[str, Any]], name: str, on_remark: OnRemark = None) -> Shape:
    """Choose the one shape that fits the first records of the file `name`; else name the nearest."""
    candidates = fitting(records, on_remark)
    keys = _keys(records)
    if len(candidates) == 1:
        return candidates[0]
    if candidates:
        choices = "; ".join(f"{option('format', shape.name)} ({shape.title})" for shape in candidates)
        raise DataError(f"{len(candidates)} formats fit; choose one: {choices}", file=name)
    top = sorted({key for record in records for key in record})
    if keys and OURS.known >= set(top):
        return OURS  # our own records without chunks, or with a fault that our own errors name best
    message = f"no known format has these keys: {_shown(top)}; {_nearest(keys, records)}{_by_rows(keys)}"
    raise DataError(message, file=name)


def fitting(records: Sequence[Mapping[str, Any]], on_remark: OnRemark = None) -> list[Shape]:
    """Return the shapes that fit the first records of a file; an installed reader that raises is skipped."""
    keys = _keys(records)
    shapes = [shape for shape in BUILT_IN.values() if shape.fits(keys)]
    for name in registry.names("readers"):
        try:
            if name not in BUILT_IN and (shape := _installed(name)).fits(keys):
                shapes.append(shape)
        except Exception as error:  # the fault of another package
            if on_remark is not None:
                on_remark(f"the installed reader {name!r} was skipped: {type(error).__name__}: {error}", None)
    return shapes


def _keys(records: Sequence[Mapping[str, Any]]) -> Keys:
    return frozenset().union(*map(keys_of, records))


RETRIEVED = re.compile(
    r"(?:^|_)(?:chunks|contexts|passages|documents|docs|nodes|hits|retrieved|retrievals?|search_results)(?:_|$)"
)
"""Names of lists that may hold the chunks."""
BESIDE = re.compile(r"reference|ground|gold|expected|relevant|positive|negative|(?:^|_)(?:ids?|scores?)$")
"""Names of lists that are not the chunks."""


def check_one_list(records: Sequence[Mapping[str, Any]], shape: Shape, name: str) -> None:
    """Check that records of a known shape have only one list that may hold the chunks."""
    lists: dict[str, Any] = {}
    for record in records:
        for key, value in record.items():
            texts = isinstance(value, list) and value and all(isinstance(v, str | Mapping) for v in value)
            if texts and RETRIEVED.search(words := snake(key)) and not BESIDE.search(words):
                lists.setdefault(key, value)
    own = [key for key in lists if key in shape.lists | shape.known]
    others = [key for key in lists if key not in own]
    rivals = [*(own if others or shape.name == "documents" else ()), *others]
    if len(rivals) > 1 and any(lists[key] != lists[rivals[0]] for key in rivals):
        choices = ", ".join(option("map", {"chunks": key}) for key in rivals)
        raise DataError(f"{len(rivals)} lists may hold the chunks; name one: {choices}", file=name)


def snake(key: str) -> str:
    """Write `retrievedChunks` as `retrieved_chunks`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+", "_", key).lower()


def any_fits(record: Mapping[str, Any]) -> bool:
    """Tell whether a single record has some shape, ours with a fault among them."""
    keys = keys_of(record)
    ours = bool(keys & {"query", "chunks"}) and {key for key in keys if "." not in key} <= OURS.known
    return ours or bool(fitting([record]))


LIKELY: Mapping[str, re.Pattern[str]] = {
    "query": re.compile(r"quer|question|input|prompt|ask|frage|utterance|instruction"),
    "chunks": re.compile(r"chunk|context|passage|document|docs|retriev|source|node|hit|result|evidence"),
    "reference": re.compile(r"reference|ground|truth|expected|gold|target|answer|label|ideal"),
}
"""Likely names of our fields in other tools' data."""


def likely_map(records: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Guess by name and kind of value which keys hold the question, the chunks and the reference."""
    kinds: dict[str, Any] = {}
    for record in records:
        for key in keys_of(record):
            value = dig(record, key)
            if value is not None:
                kinds.setdefault(key, value)
    guess: dict[str, str] = {}
    for field, names in LIKELY.items():
        wanted = list if field == "chunks" else str
        fitting = [key for key in sorted(kinds) if isinstance(kinds[key], wanted | str) and key not in guess.values()]
        named = [key for key in fitting if names.search(key.rpartition(".")[2].lower())]
        best = [key for key in named if isinstance(kinds[key], wanted)] or named
        if not best and field == "chunks":
            best = [key for key in fitting if isinstance(kinds[key], list) and kinds[key]]
        if best:
            guess[field] = best[0]
    return guess


def _nearest(keys: Keys, records: Sequence[Mapping[str, Any]]) -> str:
    shapes = [shape for shape in BUILT_IN.values() if shape.known]
    shape = max(shapes, key=lambda shape: len(keys & shape.known) / len(keys | shape.known))
    shape = shape if keys & shape.known else OURS
    wanted = _shown(sorted(shape.known - keys)[:6])
    guess = likely_map(records)
    where = f"perhaps with {option('map', guess)}" if guess else f"with {WHERE}"
    advice = f"map the fields, {where}, or give {option('format')}"
    return f"the nearest is {shape.name} ({shape.title}), which also knows {wanted}; {advice}"


def _by_rows(keys: Keys) -> str:
    key = next((key for key in ("query_id", "qid", "question_id") if key in keys), None)
    passage = not keys.isdisjoint(TEXT)
    return f"; where a row is a chunk, say {option('group_by', key)}" if key is not None and passage else ""


def _shown(keys: list[str]) -> str:
    most = 20
    return ", ".join(keys[:most]) + (f" and {len(keys) - most} more" if len(keys) > most else "") or "none"
