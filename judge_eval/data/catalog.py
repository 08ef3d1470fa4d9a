"""The known shapes, and the choice of the one that a file has."""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from types import UnionType
from typing import Any

from judge_eval import registry
from judge_eval.data import collection
from judge_eval.data import shapes as modules
from judge_eval.data.files.values import WHERE, WHOLE, decode_list, is_missing, is_number, is_urls, side_by_side
from judge_eval.data.mapping import dig, numbered_columns
from judge_eval.data.remarks import FILE_NAME, OnRemark
from judge_eval.data.shapes.chunks import TEXT, same_texts
from judge_eval.data.shapes.shape import Keys, Shape, keys_of
from judge_eval.errors import ConfigError, DataError, UnknownNameError
from judge_eval.lazy import modules_in
from judge_eval.safe_text import type_of
from judge_eval.spelling import option

BUILT_IN: Mapping[str, Shape] = {
    shape.name: shape for module in modules_in(modules) for shape in getattr(module, "SHAPES", ())
}
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
    if len(candidates) > 1:
        without = [{key: value for key, value in record.items() if not is_urls(value)} for record in records]
        candidates = [shape for shape in candidates if shape.fits(_keys(without))] or candidates
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
    r"(?:^|_)(?:chunks|contexts?|passages|documents|docs|nodes|hits|retrieved|retrievals?|search_results)(?:_|$)"
)
"""Names of fields that may hold the chunks."""
BESIDE = re.compile(r"reference|ground|gold|expected|relevant|positive|negative|(?:^|_)(?:ids?|scores?)$")
"""Names of fields that do not."""


def check_one_list(records: Sequence[Mapping[str, Any]], shape: Shape, name: str, *, by_id: bool) -> None:
    """Check that records of a known shape have only one field that may hold the chunks.

    Lists of URLs do not, unless the chunks are joined `by_id`.
    """
    lists = _lists(records)
    urls = [] if by_id else [key for key, value in lists.items() if is_urls(value)]
    own = [key for key in lists if key in shape.lists | shape.known and key not in urls]
    others = [key for key in lists if key not in shape.lists | shape.known and key not in urls]
    if not own and (read := [key for key in urls if key in shape.lists]):
        fault = f"`{read[0]}` holds URLs, not passages; give their texts with {option('corpus')}, or name the field"
        where = ", ".join(option("map", {"chunks": key}) for key in others) or option("map", {"chunks": "..."})
        raise DataError(f"{fault} that holds passages: {where}", file=name)
    rivals = [*(own if others or len(shape.lists & set(own)) > 1 else ()), *others]
    if len(rivals) > 1 and any(not same_texts(lists[rivals[0]], lists[key]) for key in rivals[1:]):
        choices = ", ".join(option("map", {"chunks": key}) for key in rivals)
        raise DataError(f"{len(rivals)} fields may hold the chunks; name one: {choices}", file=name)


def _lists(records: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return by name the first list of each field that may hold the chunks."""
    lists: dict[str, list[Any]] = {}
    for record in records:
        for key, value in record.items():
            if RETRIEVED.search(words := snake(key)) and not BESIDE.search(words):
                listed = _listed(value, words)
                if listed and all(isinstance(item, str | Mapping) for item in listed):
                    lists.setdefault(key, listed)
    return lists


def _listed(value: Any, words: str) -> list[Any]:
    if isinstance(value, str):
        bare = value.strip()
        if bare.startswith("[") and bare.endswith("]"):
            with suppress(DataError):
                value = decode_list(value, words, WHOLE)
        elif words in ("context", "contexts") and " " in bare:
            return [bare]
    value = side_by_side(value)
    return value if isinstance(value, list) else []


def snake(key: str) -> str:
    """Write `retrievedChunks` as `retrieved_chunks`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+", "_", key).lower()


def any_fits(record: Mapping[str, Any]) -> bool:
    """Tell whether a single record has some shape, ours with a fault among them."""
    keys = keys_of(record)
    ours = bool(keys & {"query", "chunks"}) and {key for key in keys if "." not in key} <= OURS.known
    return ours or bool(fitting([record]))


_OTHER = r"(?:^|_)(?:ids?|type|kind|count|n|tokens?|language|category|model|time|latency|session|urls?|scores?)$"
"""Ends of names that say something about a field of ours, and do not hold it."""
_GOLD = r"reference|ground|truth|expected|gold|target|ideal|(?:correct|human)_answer|(?:^|_)gt(?:_|$)"
_MADE = r"(?<!expected_)(?<!reference_)(?<!golden_)(?<!gold_)(?<!target_)(?<!ideal_)(?<!truth_)(?:response|output)"
"""What a system gave, unless it is the one that was expected."""
_MAKER = r"(?:^|_)(?:llm|ai|rag|bot|chatbot|agent|assistant|system|model|gpt)_"
"""In names of answers: a system wrote them."""
LIKELY: Mapping[str, tuple[re.Pattern[str], re.Pattern[str]]] = {
    "query": (
        re.compile(r"quer|question|input|prompt|ask|frage|utterance|instruction|request|(?:^|_)q(?:_|$)|user_message"),
        re.compile(_OTHER),
    ),
    "chunks": (
        re.compile(r"chunk|context|passage|document|docs|retriev|source|node|hit|result"),
        re.compile(rf"{_GOLD}|answer|evidence|supporting|correct|human|relevant|positive|negative|{_OTHER}"),
    ),
    "reference": (
        re.compile(rf"{_GOLD}|answer|label"),
        re.compile(
            rf"generat|{_MADE}|{_MAKER}|predict|actual|bot"
            rf"|retriev|chunk|context|passage|document|docs|evidence|source|{_OTHER}"
        ),
    ),
}
"""By field of ours: likely names in other tools' data, and names that are never meant."""
_LOGGED = re.compile(
    r"latency|session|duration|elapsed|tokens?(?:_|$)|(?:^|_)cost(?:_|$)|feedback|timestamp|created|trace_id|run_id"
    r"|user_id|thread|model(?:_|$)"
)
"""Names of fields in logs of a system in use, where `answer` is what it generated."""
_LIKELIER: Mapping[str, re.Pattern[str]] = {
    "query": re.compile(r"quer|question"),
    "chunks": re.compile(r"retriev"),
    "reference": re.compile(_GOLD),
}
"""Names that are more likely than others."""
_WANTED: Mapping[str, type | UnionType] = {"query": str, "chunks": list, "reference": str | list}
"""What a field holds at best."""


def likely_map(records: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Guess by name and kind of value which keys hold the question, the chunks and the reference.

    Numbered columns of passages (`context_1`, `context_2`) are one guess (`context_*`).
    """
    kinds: dict[str, Any] = {}
    for record in records:
        for key in keys_of(record):
            value = dig(record, key)
            if not is_missing(value) and not is_urls(value):
                kinds.setdefault(key, value)
    words = {key: snake(key.rpartition(".")[2]) for key in kinds}
    logged = any(_LOGGED.search(name) for name in words.values())
    guess: dict[str, str] = {}
    for field, (names, others) in LIKELY.items():
        wanted = _WANTED[field]
        open_ = [
            key
            for key in sorted(kinds)
            if isinstance(kinds[key], wanted | str) and key not in guess.values() and not others.search(words[key])
        ]
        if field == "chunks":
            open_ = [key for key in open_ if not _no_passages(kinds[key])]
        named = [key for key in open_ if names.search(words[key])]
        if field == "reference" and logged:
            named = [key for key in named if _LIKELIER["reference"].search(words[key])]
        rows = numbered_columns(named) if field == "chunks" else {}
        if rows:
            guess[field] = next(iter(rows))
            continue
        likelier = _LIKELIER[field]
        named.sort(key=lambda key: (not isinstance(kinds[key], wanted), not likelier.search(words[key])))
        if not named and field == "chunks":
            named = [key for key in open_ if _holds_passages(kinds[key])]
        elif not named:
            named = [key for key in open_ if get_close_matches(words[key], [field], cutoff=0.8)]
        if named:
            first = named[0]
            guess[field] = f"{first}.0" if field == "reference" and isinstance(kinds[first], list) else first
    return guess


def _holds_passages(value: Any) -> bool:
    """Tell whether a list under any name holds what may be passages: objects that are no messages, or sentences."""
    items = value if isinstance(value, list) else []
    return any("role" not in item if isinstance(item, Mapping) else len(str(item).split()) > 4 for item in items)


def _no_passages(value: Any) -> bool:
    """Tell whether a value is numbers, ids or names of files, and no passage."""
    items = value if isinstance(value, list) else [value]
    return bool(items) and all(
        isinstance(item, int | float)
        or (isinstance(item, str) and bool(FILE_NAME.fullmatch(item.strip()) or is_number(item)))
        for item in items
    )


def _nearest(keys: Keys, records: Sequence[Mapping[str, Any]]) -> str:
    shapes = [shape for shape in BUILT_IN.values() if shape.known]
    shape = max(shapes, key=lambda shape: len(keys & shape.known) / len(keys | shape.known))
    shape = shape if keys & shape.known else OURS
    wanted = _shown(sorted(shape.known - keys)[:6])
    guess = likely_map(records)
    where = f"perhaps with {option('map', guess)}" if guess else f"with {WHERE}"
    advice = f"map the fields, {where}, or give {option('format')}"
    if guess:
        lacking = {"query": "the question", "chunks": "what was retrieved"}
        advice += "".join(f"; no field seems to hold {what}" for ours, what in lacking.items() if ours not in guess)
    if "chunks" not in guess and "query" in guess:
        advice += f", which {option('retriever')} can find"
    return f"the nearest is {shape.name} ({shape.title}), which also knows {wanted}; {advice}"


def _by_rows(keys: Keys) -> str:
    key = next((key for key in ("query_id", "qid", "question_id") if key in keys), None)
    passage = not keys.isdisjoint(TEXT)
    return f"; where a row is a chunk, say {option('group_by', key)}" if key is not None and passage else ""


def _shown(keys: list[str]) -> str:
    most = 20
    return ", ".join(keys[:most]) + (f" and {len(keys) - most} more" if len(keys) > most else "") or "none"
