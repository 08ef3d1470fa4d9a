"""Telling the traces in rows in memory, by the shapes of files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

from judge_eval.data import catalog
from judge_eval.data.files.jsonfile import walk
from judge_eval.data.files.tables import Row
from judge_eval.data.memory import Held, no_row
from judge_eval.data.options import ReadOptions
from judge_eval.data.reading import SAMPLE, DatasetReading, nothing_in, read_records
from judge_eval.data.remarks import OnRemark
from judge_eval.data.shapes.shape import Shape
from judge_eval.errors import ConfigError, DataError
from judge_eval.schema import Trace, check_limits

_FLAG = re.compile(r"--(format|map|corpus|list-sep|depth|on-invalid|group-by|records)\b")
_MAP = re.compile(r"--map (\S+?)=([^\s;,:]+)")
_MAPS = re.compile(rf"{_MAP.pattern}(?: {_MAP.pattern})*")


@dataclass(frozen=True, slots=True)
class Told:
    """What was told of a row."""

    given: Trace | DataError
    """A trace, or why the row holds none."""
    number: int
    """Which row it is, counted from 0; of rows that were grouped the first."""
    name: str
    """What the row is called in messages."""
    remarks: tuple[str, ...] = ()
    """What is worth knowing of it."""

    def say(self, on_remark: OnRemark) -> None:
        """Pass the remarks on."""
        if on_remark is not None:
            for remark in self.remarks:
                on_remark(remark, self.number)


class Telling:
    """Tells traces, row by row; the first rows say which shape they all have.

    Args:
        options: How the rows are to be read, where they do not say so themselves.

    Raises:
        UnknownNameError: There is no such format.
    """

    def __init__(self, options: ReadOptions | None) -> None:
        self._options = options or ReadOptions()
        self._faults: list[DataError] = []
        self._remarks: list[str] = []
        self._reading = DatasetReading(self._options, "", "skip", self._faults.append, self._remark)
        self.shape: Shape | None = None

    def _remark(self, sentence: str, _: int | None) -> None:
        self._remarks.append(sentence)

    def rows(self, number: int, name: str, given: Any) -> Iterator[Row]:
        """Yield the records in what is given as a row: one, or those that stand where the options say.

        Raises:
            ConfigError: It is a trace already.
        """
        if isinstance(given, Trace):
            raise _read_already()
        if not isinstance(given, Mapping):
            yield Row(no_row(given), holder=name, number=number)
        elif (wanted := self._options.records) is None:
            yield Row(given, holder=name, number=number)
        else:
            inner = list(walk(given, wanted))
            if not inner and wanted.partition(".")[0].removesuffix("[]") not in given:
                fault = DataError(f"--records {wanted}: no list stands there")
                yield Row(fault, holder=name, number=number)
            for item, place in inner:
                data = item if isinstance(item, Mapping) else no_row(item)
                yield Row(data, prefix=place, holder=name, number=number)

    def begin(self, rows: list[Row]) -> None:
        """Let the first rows say which shape all have.

        Raises:
            DataError: They do not.
        """
        if self.shape is not None or not (records := read_records(rows)):
            return
        try:
            self.shape = self._reading.begin(records) if any(records) else catalog.OURS
        except DataError as error:
            first = "the first row" if len(records) == 1 else f"the first {len(records)} rows"
            raise _placed(error, error.file or first) from None

    def grouped(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Make a row for each trace of rows that hold a chunk each, all of which are held in memory.

        Raises:
            DataError: What is mapped is not in the first rows.
        """
        try:
            yield from self._reading.grouped(rows)
        except DataError as error:
            raise _placed(error, error.file or "the first rows") from None

    def of(self, number: int, name: str, given: Any) -> Iterator[Told]:
        """Yield the traces in a row, and what is wrong with it, each fault with the row's name.

        Raises:
            ConfigError: It is a trace already, and the options say how to read it.
        """
        if isinstance(given, Trace):
            yield Told(self._trace(name, given), number, name)
            return
        for row in self.rows(number, name, given):
            yield from self.read(row)

    def read(self, row: Row) -> Iterator[Told]:
        """Yield the traces in a record, and what is wrong with it."""
        self.begin([row])
        number = row.number or 0
        for trace in self._reading.of(row, self.shape or catalog.OURS):
            yield from self._wrong(number, row.holder)
            remarks = tuple(self._remarks)
            self._remarks.clear()
            yield Told(trace, number, row.holder, remarks)
        yield from self._wrong(number, row.holder)

    def finish(self) -> None:
        """See at the end that what is mapped inside chunks was found.

        Raises:
            DataError: It was not.
        """
        try:
            self._reading.finish()
        except DataError as error:
            raise _placed(error, error.file) from None

    def _trace(self, name: str, trace: Trace) -> Trace | DataError:
        options = self._options
        told = (options.format, options.map, options.corpus, options.list_sep, options.records)
        if self.shape is None and any(told):
            raise _read_already()
        if options.depth is not None and len(trace.chunks) > options.depth:
            trace = trace.model_copy(update={"chunks": trace.chunks[: options.depth]})
            trace.__dict__.pop("digest", None)  # of all its chunks
        try:
            check_limits(trace)  # it may have been copied, or its metadata filled, since it was made
        except ValueError as error:
            return DataError(str(error), file=name)
        return trace

    def _wrong(self, number: int, name: str) -> list[Told]:
        faults = [Told(_placed(error, error.file), number, name) for error in self._faults]
        self._faults.clear()
        return faults


def tell(held: Held, options: ReadOptions | None = None) -> Iterator[Told]:
    """Yield what rows hold.

    Raises:
        DataError: Their shape cannot be told, none of them holds a retrieval, or what is mapped inside chunks
            is in none of them.
        ConfigError: An option does not fit them.
    """
    telling = Telling(options)
    named = enumerate(held.rows())
    if options is not None and options.group_by is not None:
        rows = (row for number, (name, given) in named for row in telling.rows(number, name, given))
        yield from chain.from_iterable(map(telling.read, telling.grouped(rows)))
        telling.finish()
        return
    head = list(islice(named, SAMPLE))
    mappings = [(number, *one) for number, one in head if isinstance(one[1], Mapping)]
    telling.begin([row for one in mappings for row in telling.rows(*one)])
    number, found = -1, False
    for number, (name, given) in chain(head, named):
        for told in telling.of(number, name, given):
            found = True
            yield told
    if telling.shape is not None and not found:
        raise nothing_in(number + 1, telling.shape, "")
    telling.finish()


def _read_already() -> ConfigError:
    return ConfigError(
        "`reader` says how rows are read, and these are traces already; give no more than `depth`"
    )


def pythonic(message: str) -> str:
    """Name in a message the fields of `ReadOptions` where it names flags of the command line."""
    if not _FLAG.search(message):
        return message
    message = _MAPS.sub(_mapped, message)
    message = re.sub(r"--on-invalid (\w+)", r'on_invalid="\1"', message)
    message = re.sub(r"--format (?!NAME)([\w-]+)(?= \()", r'format="\1"', message)
    message = re.sub(r"--(group-by|records) ([^\s;:]+)", _chosen, message)
    message = message.replace("--list-sep none", 'list_sep="none"')
    message = _FLAG.sub(lambda flag: f"{flag[1].replace('-', '_')}=", message)
    return f"{message} (in Python: `reader=ReadOptions(...)`)" if "on_invalid=" not in message else message


def _mapped(found: re.Match[str]) -> str:
    return "map={" + ", ".join(f'"{ours}": "{theirs}"' for ours, theirs in _MAP.findall(found[0])) + "}"


def _chosen(found: re.Match[str]) -> str:
    return f'{found[1].replace("-", "_")}="{found[2]}"'


def _placed(error: DataError, file: str | None) -> DataError:
    return DataError(pythonic(error.message), file=file, line=error.line, field=error.field)
