"""Which of the lists in a JSON document holds its records."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from judge_eval.errors import DataError, nearest

Fits: TypeAlias = Callable[[Mapping[str, Any]], bool]
"""Asked about an object: whether it is a record."""
Steps: TypeAlias = tuple[str | None, ...]
"""The way to a list: keys, and None for each item of a list."""

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
LOOKED = 20
"""How many items of a list are looked at."""
DEEP = 8
"""How many steps a list may be away."""
SHOWN = 8
"""How many lists, and keys of each, a message names."""


def steps_of(path: str) -> Steps:
    """Read the path of a list: keys joined by dots, `[]` for each item of a list (`topics[].questions`)."""
    steps: list[str | None] = []
    for part in path.split("."):
        bare = part.rstrip()
        count = 0
        while bare.endswith("[]"):
            bare, count = bare[:-2], count + 1
        steps += [*([bare] if bare else []), *[None] * count]
    return tuple(steps)


def path_of(steps: Steps) -> str:
    """Write the way to a list as people give it."""
    path = ""
    for step in steps:
        path += "[]" if step is None else f".{step}" if path else step
    return path


def lists_in(value: Any, steps: Steps = ()) -> Iterator[tuple[Steps, list[Mapping[str, Any]]]]:
    """Yield the lists of objects in a document, outer ones first, each with its first objects."""
    if len(steps) > DEEP:
        return
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from lists_in(inner, (*steps, str(key)))
    elif isinstance(value, list):
        objects = [item for item in value[:LOOKED] if isinstance(item, Mapping)]
        if objects:
            yield steps, objects
        seen = set()
        for item in objects:
            for inner_steps, found in lists_in(item, (*steps, None)):
                if inner_steps not in seen:
                    seen.add(inner_steps)
                    yield inner_steps, found


def choose_list(document: Any, fits: Fits, name: str) -> Steps | None:
    """Find the one list of records in a document.

    Args:
        document: The document; of long lists the first items are enough.
        fits: Whether an object is a record.
        name: What to call the file.

    Returns:
        The way to it; None where the document itself is the one record.

    Raises:
        DataError: Several lists fit, or of several none does; the message names them.
    """
    if isinstance(document, Mapping) and fits(document):
        return None
    lists = list(lists_in(document))
    fitting: list[Steps] = []
    for steps, objects in lists:
        inside = any(steps[: len(outer)] == outer for outer in fitting)
        if not inside and any(fits(item) for item in objects):
            fitting.append(steps)
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        names = ", ".join(f"--records {path_of(steps)}" for steps in fitting[:SHOWN])
        raise DataError(f"{len(fitting)} lists of records fit; name one: {names}", file=name)
    if isinstance(document, list):
        return ()
    outer = {steps[0]: steps for steps, _ in lists if len(steps) == 1}
    known = next((outer[key] for key in WRAPPERS if key in outer), None)
    if known is not None or not lists:
        return known
    keys = ", ".join(str(key)[:60] for key in list(document)[:SHOWN])
    raise DataError(
        f"no list of records fits a format; the lists found: {named_lists(lists)}; the file holds {keys}. "
        "Name a list with --records, and say what stands where with --map query=... --map chunks=...",
        file=name,
    )


def named_lists(lists: Sequence[tuple[Steps, list[Mapping[str, Any]]]]) -> str:
    """Name lists with the keys of their objects, for a message."""
    shown = []
    for steps, objects in lists[:SHOWN]:
        keys = list(dict.fromkeys(str(key)[:60] for item in objects for key in item))
        more = ", ..." if len(keys) > SHOWN else ""
        shown.append(f"{path_of(steps) or 'the outermost'} ({', '.join(keys[:SHOWN])}{more})")
    more = f" and {len(lists) - SHOWN} more" if len(lists) > SHOWN else ""
    return "; ".join(shown) + more if shown else "none"


def no_such_list(path: str, document: Any, name: str) -> DataError:
    """Make the error for a path at which no list of records stands."""
    lists = list(lists_in(document))
    near = nearest(path, [path_of(steps) for steps, _ in lists])
    advice = f"; the nearest: {near}" if near else ""
    return DataError(
        f"--records {path}: no list stands there{advice}; the lists found: {named_lists(lists)}", file=name
    )


def rows_of_columns(document: Any, fits: Fits) -> list[dict[str, Any]] | None:
    """Read a table that was written by columns; None where the document is none.

    Known are `Dataset.to_dict()` (lists side by side) and `DataFrame.to_json()` (objects side by side, and
    the orientations `split` and `index`).
    """
    if not isinstance(document, Mapping) or not document:
        return None
    columns = list(document.values())
    rows: list[dict[str, Any]] = []
    if all(isinstance(column, list) for column in columns):
        even = len({len(column) for column in columns}) == 1
        values = any(not isinstance(item, Mapping | list) for column in columns for item in column[:1])
        if even and values:
            rows = [dict(zip(document, row, strict=True)) for row in zip(*columns, strict=True)]
    if document.keys() >= {"columns", "data"} and document.keys() <= {"columns", "data", "index"}:
        names, cells = document["columns"], document["data"]
        tables = isinstance(names, list) and isinstance(cells, list)
        if tables and all(isinstance(row, list) and len(row) == len(names) for row in cells):
            rows = [dict(zip(map(str, names), row, strict=True)) for row in cells]
    if not rows and all(isinstance(column, Mapping) for column in columns):
        if all(fits(column) for column in columns[:LOOKED]):
            numbered = all(str(key).isdecimal() for key in document)
            rows = [row if numbered else {"id": key, **row} for key, row in document.items()]
        elif all(column.keys() == columns[0].keys() for column in columns):
            rows = [{name: document[name][key] for name in document} for key in columns[0]]
    return rows if rows and fits(rows[0]) else None
