"""What a JSON file holds, piece by piece: the records of a list, the entries of an object."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

from judge_eval.data.files.jsonlists import (
    LOOKED,
    Fits,
    Steps,
    choose_list,
    lists_in,
    no_such_list,
    path_of,
    rows_of_columns,
    steps_of,
)
from judge_eval.data.files.jsontext import JsonText
from judge_eval.errors import DataError

Found: TypeAlias = tuple[Any, int | None, str]
"""A record or its error, the line it begins on, its place in the file (`samples[3]`)."""

SKIMMED = 1000
"""The most items of a list to keep when looking at what an object is."""
DEEP = 8
"""How many objects inside each other are looked into."""


def records(path: Path, name: str, fits: Fits, wanted: str | None = None) -> Iterator[Found]:
    """Yield the records of a JSON file; lists of them are streamed.

    They are found wherever they stand: in the outermost list, in the one list inside objects and lists that
    fits, side by side as columns, or the file is one record.

    Args:
        path: The file.
        name: What to call it in messages.
        fits: Whether an object is a record.
        wanted: The path of their list, where it is not to be found (`run.cases`, `topics[].questions`).

    Raises:
        DataError: The file cannot be read, or several lists could be meant. A fault in a list of records is
            yielded, and ends it: what follows cannot be told apart any more.
    """
    with path.open("rb") as file:
        text = JsonText(file, name)
        first = text.peek()
        if not first or first not in "[{":
            value, line = text.value()
            what = f"holds a {type(value).__name__}, not an object or a list of them"
            raise DataError(what, file=name, line=line)
        document, whole = _head(text) if first == "[" and wanted is None else _skim(text)
    if wanted is not None:
        steps: Steps | None = steps_of(wanted)
        if wanted not in {path_of(found) for found, _ in lists_in(document)}:
            raise no_such_list(wanted, document, name)
    else:
        if rows_of_columns(document, fits) is not None:
            yield from _columns(path, name, fits)
            return
        steps = choose_list(document, fits, name)
    if steps is not None:
        document = None  # which holds the first items of every list
    with path.open("rb") as file:
        text = JsonText(file, name)
        if steps is None:
            yield (document if whole else text.value()[0]), None, ""
        else:
            yield from _walk(text, steps)


def walk(value: Any, path: str) -> Iterator[tuple[Any, str]]:
    """Yield the items of the lists at a path inside a value, each with its place."""
    found = [(value, "")]
    for step in (*steps_of(path), None):
        inner: list[tuple[Any, str]] = []
        for one, place in found:
            if step is None and isinstance(one, list):
                inner += [(item, f"{place}[{number}]") for number, item in enumerate(one)]
            elif step is not None and isinstance(one, Mapping) and step in one:
                inner.append((one[step], f"{place}.{step}" if place else step))
        found = inner
    yield from found


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


def _walk(text: JsonText, steps: Steps) -> Iterator[Found]:
    place = ""
    try:
        for item, line, place in _items(text, steps, ""):
            yield item, line, place
        if not steps:
            text.end()
    except DataError as error:
        yield error, error.line, error.field or place


def _items(text: JsonText, steps: Steps, before: str) -> Iterator[Found]:
    """Yield the items of the lists at the end of the way; what stands beside it is passed over."""
    opens = text.peek()
    if not steps:
        if opens != "[":
            value, line = text.value(before)
            if value is not None:
                raise DataError("not a list of records", line=line, field=before)
            return
        for place in text.places(before):
            where = f"{before}[{place}]"
            yield *text.value(where), where
    elif steps[0] is None and opens == "[":
        for place in text.places(before):
            yield from _items(text, steps[1:], f"{before}[{place}]")
    elif steps[0] is not None and opens == "{":
        for key in text.members():
            where = f"{before}.{key}" if before else key
            if key == steps[0]:
                yield from _items(text, steps[1:], where)
            else:
                text.value(where)
    else:
        text.value(before)


def _columns(path: Path, name: str, fits: Fits) -> Iterator[Found]:
    """Yield the rows of a table that was written by columns; it is in memory whole."""
    with path.open("rb") as file:
        document, _ = JsonText(file, name).value()
    rows = rows_of_columns(document, fits)
    if rows is None:
        raise DataError("columns of different lengths", file=name)
    for place, row in enumerate(rows):
        yield row, None, f"[{place}]"


def _head(text: JsonText) -> tuple[list[Any], bool]:
    """Read the first items of a list."""
    head = []
    with suppress(DataError):  # which is told of where the records are read
        for item, _ in text.elements():
            head.append(item)
            if len(head) == LOOKED:
                break
    return head, False


def _skim(text: JsonText, depth: int = DEEP) -> tuple[Any, bool]:
    """Read a value with the first items of its lists; tell whether that is all of it."""
    out, whole = _skimmed(text, depth)
    text.end()
    return out, whole


def _skimmed(text: JsonText, depth: int, where: str = "") -> tuple[Any, bool]:
    whole = True
    opens = text.peek()
    if opens == "[":
        kept = []
        for place, (item, _) in enumerate(text.elements(where)):
            if place < SKIMMED:
                kept.append(item)
            else:
                whole = False
        return kept, whole
    if opens != "{" or not depth:
        return text.value(where)[0], True
    out: dict[str, Any] = {}
    for key in text.members():
        out[key], all_of_it = _skimmed(text, depth - 1, f"{where}.{key}" if where else key)
        whole = whole and all_of_it
    return out, whole
