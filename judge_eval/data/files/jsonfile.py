"""JSON files: the records in a document, wherever their list is."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from judge_eval import limits
from judge_eval.data.files.values import WHERE, side_by_side
from judge_eval.errors import DataError, nearest
from judge_eval.foreign import RepeatedKeyError, single_keys
from judge_eval.record import TOO_DEEP
from judge_eval.safe_text import value_kind
from judge_eval.spelling import option

DECODER = json.JSONDecoder(object_pairs_hook=single_keys)


def read_document(path: Path, name: str) -> Any:
    """Read a JSON file: its value, or the list of the objects that follow each other in it.

    Raises:
        DataError: It is larger than `limits.JSON`, not UTF-8 or not JSON, or an object has a key twice.
    """
    if path.stat().st_size > limits.JSON:
        raise DataError(f"larger than {limits.JSON // 2**20:,} MiB; write its records as JSON Lines", file=name)
    data = path.read_bytes()
    try:
        values = _values(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DataError(f"not UTF-8: {error.reason} at byte {error.start}", file=name, line=line) from None
    except json.JSONDecodeError as error:
        raise DataError(f"not JSON: {error.msg}", file=name, line=error.lineno) from None
    except RecursionError:
        raise DataError(TOO_DEEP, file=name) from None
    except ValueError as error:  # a key that occurs twice, a number of too many digits
        fault = str(error) if isinstance(error, RepeatedKeyError) else f"not JSON: {error}"
        raise DataError(fault, file=name) from None
    return values[0] if len(values) == 1 else values


def _values(text: str) -> list[Any]:
    values, at = list[Any](), 0
    while True:
        while text[at : at + 1] in tuple(" \t\r\n"):
            at += 1
        if values and at == len(text):
            return values
        if values and not (isinstance(values[-1], dict) and text[at] == "{"):
            fault = "more follows after the end; a file of one object a line should be called .jsonl"
            raise json.JSONDecodeError(fault, text, at)
        value, at = DECODER.raw_decode(text, at)
        values.append(value)


Fits: TypeAlias = Callable[[Mapping[str, Any]], bool]
"""Asked about an object: whether it is a record."""
Steps: TypeAlias = tuple[str | None, ...]
"""The way to a list: keys, and None for each item of a list."""

WRAPPERS = (
    "data", "examples", "samples", "testCases", "test_cases", "goldens", "traces", "items", "rows", "runs",
)  # fmt: skip
"""Keys under which tools put the list of their records, where a JSON file is one object."""
LOOKED = 20
"""How many items of a list are looked at."""
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
    if len(steps) > 8:
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
            for inner_steps, inner in lists_in(item, (*steps, None)):
                if inner_steps not in seen:
                    seen.add(inner_steps)
                    yield inner_steps, inner


def choose_list(document: Any, fits: Fits, name: str) -> Steps | None:
    """Find the one list of records in a document; it is an error if several fit, or none of several."""
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
        names = ", ".join(option("records", path_of(steps)) for steps in fitting[:SHOWN])
        raise DataError(f"{len(fitting)} lists of records fit; name one: {names}", file=name)
    if isinstance(document, list):
        return ()
    if isinstance(document, Mapping) and len(document) > 1:
        values = list(document.values())[:LOOKED]
        if all(isinstance(value, Mapping) and value.keys() & values[0].keys() for value in values):
            keys = ", ".join(str(key)[:60] for key in list(values[0])[:SHOWN])
            raise DataError(
                f"an object of records by id, whose keys fit no format ({keys}); say "
                f"{option('records', BY_ID)}, and map the fields with {WHERE}",
                file=name,
            )
    outer = {steps[0]: steps for steps, _ in lists if len(steps) == 1}
    known = next((outer[key] for key in WRAPPERS if key in outer), None)
    if known is not None or not lists:
        return known
    keys = ", ".join(str(key)[:60] for key in list(document)[:SHOWN])
    raise DataError(
        f"no list of records fits a format; the lists found: {named_lists(lists)}; the file holds {keys}. "
        f"Name a list with {option('records')}, and map the fields with {WHERE}",
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


def rows_of_columns(document: Any, fits: Fits) -> list[dict[str, Any]] | None:
    """Read a table that was written by columns; None where the document is none."""
    # Known are `Dataset.to_dict()` (lists side by side) and `DataFrame.to_json()` (objects side by side, and
    # the orientations `split` and `index`).
    if not isinstance(document, Mapping) or not document:
        return None
    columns = list(document.values())
    rows: list[dict[str, Any]] = []
    table = side_by_side(document)
    if table is not document and any(not isinstance(each[0], Mapping | list) for each in columns if each):
        rows = table
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


BY_ID = "*"
"""The path of the values of an object of records by id."""


def records(path: Path, name: str, fits: Fits, wanted: str | None = None) -> Iterator[tuple[Any, str]]:
    """Yield the records of a JSON file, each with its place (`samples[3]`)."""
    # They are found wherever they stand: in the outermost list, in the one list inside objects and lists that
    # fits, side by side as columns, or the file is one record.
    document = read_document(path, name)
    if not isinstance(document, Mapping | list):
        raise DataError(f"holds {value_kind(document)}, not an object or a list of them", file=name)
    if wanted is None:
        if (rows := rows_of_columns(document, fits)) is not None:
            yield from ((row, f"[{number}]") for number, row in enumerate(rows))
        elif (steps := choose_list(document, fits, name)) is None:
            yield document, ""
        else:
            yield from _items(document, steps)
        return
    lists = list(lists_in(document))
    paths = [path_of(steps) for steps, _ in lists]
    if wanted not in paths and not (wanted == BY_ID and isinstance(document, Mapping)):
        near = nearest(wanted, paths)
        advice = f"; the nearest: {near}" if near else ""
        fault = f"there is no list there{advice}; the lists found: {named_lists(lists)}"
        raise DataError(f"{option('records', wanted)}: {fault}", file=name)
    yield from walk(document, wanted)


def walk(value: Any, path: str) -> Iterator[tuple[Any, str]]:
    """Yield the items of the lists at a path inside a value, each with its place; what is no list is an error."""
    if path == BY_ID and isinstance(value, Mapping):
        for key, item in value.items():
            yield ({"id": key, **item} if isinstance(item, Mapping) else item), str(key)
    else:
        yield from _items(value, steps_of(path))


def _items(value: Any, steps: Steps, before: str = "") -> Iterator[tuple[Any, str]]:
    if steps and steps[0] is not None:
        if isinstance(value, Mapping) and steps[0] in value:
            yield from _items(value[steps[0]], steps[1:], f"{before}.{steps[0]}" if before else steps[0])
    elif isinstance(value, list):
        for number, item in enumerate(value):
            place = f"{before}[{number}]"
            yield from _items(item, steps[1:], place) if steps else [(item, place)]
    elif value is not None and not steps:
        yield DataError("not a list of records"), before
