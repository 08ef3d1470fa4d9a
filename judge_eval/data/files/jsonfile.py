"""What a JSON file holds, piece by piece: the records of a list, the entries of an object."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from judge_eval.data.files.jsontext import JsonText
from judge_eval.errors import DataError

Found: TypeAlias = tuple[Any, int | None, str]
"""A record or its error, the line it begins on, its place in the file (`samples[3]`)."""

WRAPPERS = (
    "data",
    "examples",
    "samples",
    "testCases",
    "test_cases",
    "goldens",
    "traces",
    "items",
    "rows",
    "runs",
)
"""Keys under which tools put the list of their records, where a JSON file is one object."""
SKIMMED = 1000
"""The most items of a list to keep when looking at what an object is."""


def records(path: Path, name: str, unwrap: Callable[[Mapping[str, Any]], bool]) -> Iterator[Found]:
    """Yield the records of a JSON file; lists of them are streamed.

    Args:
        path: The file.
        name: What to call it in messages.
        unwrap: Asked about a file that is one object, of whose lists it sees the first items: whether it
            wraps a list of records.

    Raises:
        DataError: The file cannot be read. A fault in a list of records is yielded, and ends it: what
            follows cannot be told apart any more.
    """
    with path.open("rb") as file:
        text = JsonText(file, name)
        first = text.peek()
        if first == "[":
            yield from _list(text, "")
            return
        if first != "{":
            value, line = text.value()
            what = f"holds a {type(value).__name__}, not an object or a list of them"
            raise DataError(what, file=name, line=line)
        skim, whole = _skim(text)
    before = next((key for key in WRAPPERS if _is_records(skim.get(key))), None) if unwrap(skim) else None
    with path.open("rb") as file:
        text = JsonText(file, name)
        if before is None:
            yield (skim if whole else text.value()[0]), None, ""
            return
        for key in text.members():
            if key == before:
                yield from _list(text, before)
                return
            text.value()


def objects_in(path: Path, name: str) -> set[str]:
    """Return the keys of a JSON object whose values are objects, without holding the values.

    Raises:
        DataError: It is not a JSON object.
    """
    with path.open("rb") as file:
        text = JsonText(file, name)
        return {key for key in text.members() if _pass(text)}


def entries(path: Path, name: str, under: str | None = None) -> Iterator[tuple[str, Any, int]]:
    """Yield the entries of a JSON object one by one: key, value, and the line of the value.

    Args:
        path: The file.
        name: What to call it in messages.
        under: The key of an object inside the object; None for the outer one.

    Raises:
        DataError: It is not a JSON object.
    """
    with path.open("rb") as file:
        text = JsonText(file, name)
        for key in text.members():
            if under is None:
                yield key, *text.value(key)
            elif key == under and text.peek() == "{":
                for inner in text.members():
                    yield inner, *text.value(f"{under}.{inner}")
            else:
                _pass(text)
        text.end()


def _pass(text: JsonText) -> bool:
    """Pass over a value; tell whether it is an object."""
    if text.peek() != "{":
        text.value()
        return False
    for key in text.members():
        text.value(key)
    return True


def _list(text: JsonText, before: str) -> Iterator[Found]:
    place = -1
    try:
        for place, (item, line) in enumerate(text.elements(before)):
            yield item, line, f"{before}[{place}]"
        if not before:
            text.end()
    except DataError as error:
        yield error, error.line, f"{before}[{place + 1}]"


def _skim(text: JsonText) -> tuple[dict[str, Any], bool]:
    """Read an object with the first items of its lists; tell whether that is all of it."""
    out: dict[str, Any] = {}
    whole = True
    for key in text.members():
        if text.peek() != "[":
            out[key], _ = text.value(key)
            continue
        kept = []
        for place, (item, _) in enumerate(text.elements(key)):
            if place < SKIMMED:
                kept.append(item)
            else:
                whole = False
        out[key] = kept
    text.end()
    return out, whole


def _is_records(value: Any) -> bool:
    return isinstance(value, list) and any(isinstance(item, dict) for item in value)
