"""Reading TREC's judgments (qrels) and runs."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from judge_eval.data.files.opening import reading_file
from judge_eval.errors import DataError

T = TypeVar("T")
WHOLE = re.compile(r"[+-]?[0-9]{1,9}")


def read_qrels(path: Path | str) -> dict[str, dict[str, int]]:
    """Read judgments: lines of query, iteration, document, grade, separated by white space.

    Empty lines and lines that begin with `#` are passed over.

    Returns:
        Query id to document id to grade, in the file's order; a negative grade means "in the pool, unjudged".

    Raises:
        DataError: A line does not fit or a document is judged twice for a query; file and line are named.
    """
    qrels: dict[str, dict[str, int]] = {}
    for line, fields in _lines(path):
        if len(fields) != 4:
            raise DataError(
                f"{len(fields)} fields; a judgment has 4: query, iteration, document, grade",
                file=str(path),
                line=line,
            )
        if not WHOLE.fullmatch(fields[3]):
            raise DataError(f"{fields[3]!r} is not a whole number", file=str(path), line=line, field="grade")
        _put(qrels, fields[0], fields[2], int(fields[3]), path, line)
    return qrels


def read_run(path: Path | str) -> dict[str, dict[str, float]]:
    """Read a run: lines of query, `Q0`, document, rank, score, tag, separated by white space.

    The rank is not read, as in trec_eval: the order follows from the scores. What stands behind the tag is
    passed over, as are empty lines and lines that begin with `#`.

    Returns:
        Query id to document id to score, in the file's order.

    Raises:
        DataError: A line does not fit or a document is retrieved twice for a query; file and line are named.
    """
    run: dict[str, dict[str, float]] = {}
    for line, fields in _lines(path):
        if len(fields) < 6:
            raise DataError(
                f"{len(fields)} fields; a retrieved document has 6: query, Q0, document, rank, score, tag",
                file=str(path),
                line=line,
            )
        try:
            score = float(fields[4])
        except ValueError:
            score = math.nan
        if math.isnan(score) or "_" in fields[4]:
            raise DataError(f"{fields[4]!r} is not a number", file=str(path), line=line, field="score")
        _put(run, fields[0], fields[2], score, path, line)
    return run


def _lines(path: Path | str) -> Iterator[tuple[int, list[str]]]:
    with reading_file(path), Path(path).open("rb") as file:
        for number, raw in enumerate(file, 1):
            data = raw.removeprefix(b"\xef\xbb\xbf") if number == 1 else raw
            try:
                # Split as bytes: an id may hold any white space that is not ASCII.
                fields = [field.decode() for field in data.split()]
            except UnicodeDecodeError:
                raise DataError("not UTF-8 text", file=str(path), line=number) from None
            if fields and not fields[0].startswith("#"):
                yield number, fields


def _put(
    table: dict[str, dict[str, T]], query: str, document: str, value: T, path: Path | str, line: int
) -> None:
    row = table.setdefault(query, {})
    if document in row:
        raise DataError(f"document {document!r} stands twice for query {query!r}", file=str(path), line=line)
    row[document] = value
