"""Reading replies about claims strictly: the contract's types and nothing else, or a named problem."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, get_args

from judge_eval import limits
from judge_eval.judges.parsing import Problem, UnreadableError, glanced, problem_of, reply_object
from judge_eval.judges.parsing import without_surrogates as writable
from judge_eval.quotes import stands_in
from judge_eval.schema import Claim, Support
from judge_eval.wire import Completion

_SUPPORTS = get_args(Support)


class CellReading(NamedTuple):
    """What was read of one claim and one chunk."""

    number: int
    """The claim's, from 1."""
    support: Support
    quote: str


class RowReading(NamedTuple):
    """What was read of one chunk: the claims that it does not leave alone, in their order."""

    cells: tuple[CellReading, ...]
    instruction_in_chunk: bool = False


class TogetherReading(NamedTuple):
    """What was read of one claim and all chunks."""

    covered: bool
    quotes: tuple[str, ...]


def read_split(completion: Completion, reference: str) -> tuple[Claim, ...] | Problem:
    """Read the claims of a reference; two that say the same to the letter are one.

    Args:
        completion: The reply.
        reference: Every quote must stand in it.

    Returns:
        The claims, with ids `1`, `2`, ... in their order, or a problem.
    """
    try:
        claims: dict[str, Claim] = {}
        for number, item in enumerate(_items(completion, "claims"), 1):
            _check_fields(item, ("quote", "claim", "vital"), f"claim {number}")
            text, quote, vital = item["claim"], item["quote"], item["vital"]
            if type(text) is not str or type(quote) is not str or not text.strip():
                raise UnreadableError(f'"claim" and "quote" of claim {number} must be strings with words')
            if type(vital) is not bool:
                raise UnreadableError(f'"vital" of claim {number} must be true or false')
            if not stands_in(reference, quote):
                raise UnreadableError(
                    f"claim {number} quotes what does not stand in the reference: {glanced(quote)}"
                )
            text = " ".join(writable(text).split())
            claim = Claim(id=str(len(claims) + 1), text=text, vital=vital, quote=writable(quote))
            claims.setdefault(text.casefold(), claim)
        if len(claims) > limits.CLAIMS:
            raise UnreadableError(f"there are more than {limits.CLAIMS:,} claims")
        return tuple(claims.values())
    except UnreadableError as error:
        return problem_of(completion, str(error))


def read_row(completion: Completion, claims: int) -> RowReading | Problem:
    """Read the reply about one chunk.

    Args:
        completion: The reply.
        claims: How many were asked about; their ids run from 1.
    """
    try:
        return _row(reply_object(completion.text), claims)
    except UnreadableError as error:
        return problem_of(completion, str(error))


def read_rows(completion: Completion, chunks: int, claims: int) -> dict[int, RowReading] | Problem:
    """Read the reply about the chunks of a trace.

    An entry that is missing, stands twice or breaks the contract is left out, so that it can be asked
    again; an entry for a chunk nobody asked about makes the whole reply a problem.

    Args:
        completion: The reply.
        chunks: How many were asked about; their ids run from 1.
        claims: Likewise.

    Returns:
        Rows by chunk (at least one), or a problem.
    """
    try:
        rows: dict[int, RowReading] = {}
        lost: set[int] = set()
        for item in _items(completion, "chunks"):
            number = _number(item.pop("id", None), chunks)
            if number in lost or number in rows:
                lost.add(number)
                rows.pop(number, None)
                continue
            try:
                rows[number] = _row(item, claims)
            except UnreadableError:
                lost.add(number)
        if not rows:
            raise UnreadableError("no entry could be read")
        return rows
    except UnreadableError as error:
        return problem_of(completion, str(error))


def read_together(completion: Completion, claims: int) -> dict[int, TogetherReading] | Problem:
    """Read which claims the chunks cover together.

    Returns:
        A reading by claim, all of them, or a problem.
    """
    try:
        readings: dict[int, TogetherReading] = {}
        for item in _items(completion, "claims"):
            _check_fields(item, ("id", "quotes", "covered"), "an entry")
            number = _number(item["id"], claims)
            quotes, covered = item["quotes"], item["covered"]
            if number in readings:
                raise UnreadableError(f"claim {number} stands twice")
            if not isinstance(quotes, list) or any(type(quote) is not str for quote in quotes):
                raise UnreadableError(f'"quotes" of claim {number} must be a list of strings')
            if type(covered) is not bool:
                raise UnreadableError(f'"covered" of claim {number} must be true or false')
            readings[number] = TogetherReading(covered, tuple(map(writable, quotes)))
        if len(readings) < claims:
            missing = next(number for number in range(1, claims + 1) if number not in readings)
            raise UnreadableError(f"there is no entry for claim {missing}")
        return readings
    except UnreadableError as error:
        return problem_of(completion, str(error))


def _items(completion: Completion, name: str) -> list[dict[str, Any]]:
    top = reply_object(completion.text)
    items = top.get(name)
    if set(top) != {name} or not isinstance(items, list):
        raise UnreadableError(f'the object does not hold "{name}", a list, and nothing else')
    if not all(isinstance(item, dict) for item in items):
        raise UnreadableError(f'an entry of "{name}" is not an object')
    return items


def _check_fields(item: dict[str, Any], wanted: Sequence[str], what: str) -> None:
    if missing := sorted(set(wanted) - item.keys()):
        raise UnreadableError(f"{what} lacks {', '.join(missing)}")
    if more := sorted(item.keys() - set(wanted)):
        raise UnreadableError(f"{what} holds {', '.join(map(glanced, more))}, which was not asked for")


def _number(value: Any, count: int) -> int:
    if type(value) is not int or not 1 <= value <= count:
        raise UnreadableError(f"an entry has the id {glanced(value)}, which was not asked about")
    return value


def _row(item: dict[str, Any], claims: int) -> RowReading:
    _check_fields(item, ("instruction_in_chunk", "claims"), "the object")
    cells, steered = item["claims"], item["instruction_in_chunk"]
    if type(steered) is not bool:
        raise UnreadableError(f'"instruction_in_chunk" must be true or false, not {glanced(steered)}')
    if not isinstance(cells, list):
        raise UnreadableError('"claims" must be a list')
    read: dict[int, CellReading] = {}
    for cell in cells:
        if not isinstance(cell, dict):
            raise UnreadableError('an entry of "claims" is not an object')
        _check_fields(cell, ("id", "quote", "support"), "an entry")
        number = _number(cell["id"], claims)
        if number in read:
            raise UnreadableError(f"claim {number} stands twice")
        if type(cell["quote"]) is not str:
            raise UnreadableError(f'"quote" of claim {number} must be a string')
        if cell["support"] not in _SUPPORTS:
            known = ", ".join(_SUPPORTS)
            raise UnreadableError(
                f'"support" of claim {number} is {glanced(cell["support"])}, none of {known}'
            )
        read[number] = CellReading(number, cell["support"], writable(cell["quote"]))
    return RowReading(tuple(read[number] for number in sorted(read)), steered)
