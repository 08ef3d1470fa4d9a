"""JSON files read record by record, wherever the list of records is in the document."""

import codecs
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import IO, Any, TypeAlias

from judge_eval.data.files.values import WHERE
from judge_eval.errors import DataError, nearest
from judge_eval.foreign import RepeatedKeyError, single_keys
from judge_eval.record import TOO_DEEP
from judge_eval.safe_text import value_kind
from judge_eval.spelling import option

BLOCK = 1 << 18
NEAR = 64
"""Characters at the end of what was read in which an error may only mean that the rest is missing."""
SPACE = re.compile(r"[ \t\r\n]*")
DECODER = json.JSONDecoder(object_pairs_hook=single_keys)


class JsonText:
    """A window that moves over the text of a JSON file: UTF-8, a byte order mark is allowed.

    Python's own decoder reads each value; where it stops at the end of the window the window grows and the value is
    read again, each time with twice as much, so the work stays linear. `most` is the most characters of a value, and of
    brackets and commas in it a 32nd of them: so much is decoded in one go. None where the file is the user's own.
    """

    def __init__(self, file: IO[bytes], name: str | None, most: int | None = None) -> None:
        self._file, self._name, self._most = file, name, most
        self._decode = codecs.getincrementaldecoder("utf-8-sig")()
        self._text, self._at, self._bytes = "", 0, 0
        self._line, self._counted = 1, 0  # the line that the window's character of this number stands on
        self._bad: DataError | None = None
        self._ended = False

    def peek(self) -> str:
        """Return the next character that is not white space; empty at the end of the file."""
        while True:
            match = SPACE.match(self._text, self._at)
            assert match is not None
            self._at = match.end()
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more(BLOCK):
                return ""

    def take(self, wanted: str, where: str = "") -> str:
        """Pass over one character."""
        char = self.peek()
        if not char or char not in wanted:
            missing = " or ".join(repr(char) for char in wanted)
            raise self._error(f"{missing} is missing", self._at, where)
        self._at += 1
        return char

    def value(self, where: str = "") -> tuple[Any, int]:
        """Read the next value, and return it with the line it begins on, counted from 1."""
        grow, scalar = BLOCK, self.peek() not in '{["'
        line = self._count()
        while True:
            try:
                value, end = DECODER.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                cut = error.msg.startswith("Unterminated string") or error.pos + NEAR > len(self._text)
                if cut:
                    self._bound(where)
                if not (cut and self._more(grow)):
                    raise self._error(error.msg, error.pos, where) from None
            except RepeatedKeyError as error:
                raise DataError(str(error), file=self._name, line=line, field=where or None) from None
            except (ValueError, RecursionError) as error:  # a number of too many digits, too deep a nest
                fault = TOO_DEEP if isinstance(error, RecursionError) else f"not JSON: {error}"
                raise DataError(fault, file=self._name, line=line, field=where or None) from None
            else:
                # A number at the end of the window may go on behind it.
                if not (scalar and end + NEAR > len(self._text) and self._more(grow)):
                    self._at = end
                    return value, line
            grow *= 2

    def _bound(self, where: str) -> None:
        """See that the value that stands next, of which more is to be read, is not too large."""
        if self._most is None:
            return
        parts = sum(self._text.count(sign, self._at) for sign in "{[,")
        if len(self._text) - self._at > self._most or parts > self._most // 32:
            fault = f"a value is larger than {self._most:,} characters, or has too many parts"
            raise DataError(fault, file=self._name, line=self._count(), field=where or None)

    def elements(self, where: str = "") -> Iterator[tuple[Any, int]]:
        """Read the list that stands next, yielding each element with the line it begins on."""
        for place in self.places(where):
            yield self.value(f"{where}[{place}]")

    def places(self, where: str = "") -> Iterator[int]:
        """Read the list that stands next, yielding each place; whoever asks must read its value."""
        self.take("[", where)
        if self.peek() == "]":
            self._at += 1
            return
        place = 0
        while True:
            yield place
            if self.take(",]", f"{where}[{place}]") == "]":
                return
            place += 1

    def members(self) -> Iterator[str]:
        """Read the object that stands next, yielding each key; whoever asks must read its value."""
        self.take("{")
        if self.peek() == "}":
            self._at += 1
            return
        seen = set()
        while True:
            if self.peek() != '"':
                raise self._error("a key in double quotes is missing", self._at)
            key, line = self.value()
            if key in seen:
                raise DataError(str(RepeatedKeyError(key)), file=self._name, line=line)
            seen.add(key)
            self.take(":", key)
            yield key
            if self.take(",}", key) == "}":
                return

    def end(self) -> None:
        """See that nothing follows."""
        if self.peek():
            fault = "more follows after the end; a file of one object a line should be called .jsonl"
            raise self._error(fault, self._at)

    def _more(self, size: int) -> bool:
        if self._bad is not None:
            raise self._bad
        if self._ended:
            return False
        data = self._file.read(size)
        self._ended = not data
        self._count()
        rest = self._text[self._at :]
        self._at = self._counted = 0
        pending = len(self._decode.getstate()[0])
        try:
            self._text = rest + self._decode.decode(data, final=self._ended)
        except UnicodeDecodeError as error:
            # What stands before the fault can still be read.
            self._text = rest + bytes(error.object[: error.start]).decode("utf-8-sig", "replace")
            line = self._line + self._text.count("\n")
            place = self._bytes - pending + error.start
            self._bad = DataError(f"not UTF-8: {error.reason} at byte {place}", file=self._name, line=line)
        self._bytes += len(data)
        return True

    def _count(self) -> int:
        self._line += self._text.count("\n", self._counted, self._at)
        self._counted = self._at
        return self._line

    def _error(self, message: str, at: int, where: str = "") -> DataError:
        line = self._count() + self._text.count("\n", self._at, at)
        return DataError(f"not JSON: {message}", file=self._name, line=line, field=where or None)


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
DEEPEST_LIST = 8
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
    if len(steps) > DEEPEST_LIST:
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


Element: TypeAlias = tuple[Any, int | None, str]
"""A record or its error, the line it begins on, its place in the file (`samples[3]`)."""

BY_ID = "*"
"""The path of the values of an object of records by id."""


def _identified(key: str, item: Any) -> Any:
    return {"id": key, **item} if isinstance(item, Mapping) else item


SKIMMED = 1000
"""The most items of a list to keep when looking at what an object is."""
DEEP = 8
"""How many objects inside each other are looked into."""


def records(path: Path, name: str, fits: Fits, wanted: str | None = None) -> Iterator[Element]:
    """Yield the records of a JSON file; lists of them are streamed."""
    # They are found wherever they stand: in the outermost list, in the one list inside objects and lists that
    # fits, side by side as columns, or the file is one record. A fault in a list of records is yielded, and
    # ends it: what follows cannot be told apart any more.
    with path.open("rb") as file:
        text = JsonText(file, name)
        first = text.peek()
        if not first or first not in "[{":
            value, line = text.value()
            what = f"holds {value_kind(value)}, not an object or a list of them"
            raise DataError(what, file=name, line=line)
        document: Any
        if first == "[" and wanted is None:
            document, whole = _head(text), False
        else:
            document, whole = _skimmed(text)
            text.end()
    if wanted is not None:
        by_id = wanted == BY_ID and isinstance(document, Mapping)
        steps: Steps | None = (BY_ID,) if by_id else steps_of(wanted)
        if not by_id and wanted not in {path_of(each) for each, _ in lists_in(document)}:
            lists = list(lists_in(document))
            near = nearest(wanted, [path_of(each) for each, _ in lists])
            advice = f"; the nearest: {near}" if near else ""
            fault = f"there is no list there{advice}; the lists found: {named_lists(lists)}"
            raise DataError(f"{option('records', wanted)}: {fault}", file=name)
    else:
        if rows_of_columns(document, fits) is not None:
            with path.open("rb") as file:  # now the whole of it
                document, _ = JsonText(file, name).value()
            rows = rows_of_columns(document, fits)
            if rows is None:
                raise DataError("columns of different lengths", file=name)
            for number, row in enumerate(rows):
                yield row, None, f"[{number}]"
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
    if path == BY_ID and isinstance(value, Mapping):
        yield from ((_identified(key, item), str(key)) for key, item in value.items())
        return
    values = [(value, "")]
    for step in (*steps_of(path), None):
        inner: list[tuple[Any, str]] = []
        for outer, place in values:
            if step is None and isinstance(outer, list):
                inner += [(item, f"{place}[{number}]") for number, item in enumerate(outer)]
            elif step is not None and isinstance(outer, Mapping) and step in outer:
                inner.append((outer[step], f"{place}.{step}" if place else step))
        values = inner
    yield from values


def objects_in(path: Path, name: str) -> set[str]:
    """Return the keys of a JSON object whose values are objects, without holding the values."""
    with path.open("rb") as file:
        text = JsonText(file, name)
        return {key for key in text.members() if _pass(text)}


def entries(path: Path, name: str, under: str | None = None) -> Iterator[tuple[str, Any, int]]:
    """Yield key, value and line of the entries of a JSON object, or of the object under the key `under`."""
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


def _walk(text: JsonText, steps: Steps) -> Iterator[Element]:
    place = ""
    try:
        for item, line, place in _items(text, steps, ""):
            yield item, line, place
        if not steps:
            text.end()
    except DataError as error:
        yield error, error.line, error.field or place


def _items(text: JsonText, steps: Steps, before: str) -> Iterator[Element]:
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
    elif steps[0] == BY_ID and opens == "{":
        for key in text.members():
            value, line = text.value(key)
            yield _identified(key, value), line, key
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


def _head(text: JsonText) -> list[Any]:
    head = []
    with suppress(DataError):  # the reading of the records raises it
        for item, _ in islice(text.elements(), LOOKED):
            head.append(item)
    return head


def _skimmed(text: JsonText, depth: int = DEEP, where: str = "") -> tuple[Any, bool]:
    """Read a value with the first items of its lists; tell whether that is all of it."""
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
