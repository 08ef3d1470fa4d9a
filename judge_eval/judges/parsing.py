"""Reading replies strictly: the contract's types and nothing else, or a named problem."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from pydantic_core import from_json

from judge_eval.errors import Why
from judge_eval.quotes import is_evidence, stands_in
from judge_eval.schema import Scale
from judge_eval.wire import Completion, Passage


class Reading(NamedTuple):
    """What was read of one passage: the fields of the contract, types checked."""

    grade: int
    evidence: str | None
    """A quote; None where the model gives none at all."""
    reason: str | None
    """Why, in the model's words; None likewise."""
    instruction_in_chunk: bool


@dataclass(frozen=True, slots=True)
class Problem:
    """Why nothing could be read."""

    why: Why
    detail: str


_MOST_READ = 5_000_000  # characters of objects that turn out to be none; a thousand times a long reply
_WANTED = {d: frozenset({"evidence", "reason", "instruction_in_chunk", d}) for d in ("verdict", "grade")}


class UnreadableError(Exception):
    """Carries the clause that says what is wrong with a reply."""


_THOUGHTS = re.compile(r"\A.*</think>|<think>.*\Z", re.DOTALL)


def read_one(completion: Completion, scale: Scale) -> Reading | Problem:
    """Read the reply to a pointwise request.

    Args:
        completion: The reply.
        scale: Binary forms hold `verdict` (a bool), graded ones `grade` (an int from 0 to the maximum).

    Returns:
        The reading, or a problem whose `why` is `refused`, `truncated` or `unparsable`.
    """
    try:
        return _item(reply_object(completion.text), scale)
    except UnreadableError as error:
        return problem_of(completion, str(error))


def read_many(completion: Completion, scale: Scale, count: int) -> dict[int, Reading] | Problem:
    """Read the reply to a listwise request.

    An entry that is missing, stands twice or breaks the contract is left out, so that it can be asked
    again; an entry for a passage nobody asked about makes the whole reply a problem. Entries go by their
    id alone, so none ever shifts another's rank.

    Args:
        completion: The reply.
        scale: The grades asked for.
        count: How many passages were asked about; ids run from 1 to `count`.

    Returns:
        Readings by id (at least one), or a problem.
    """
    try:
        top = reply_object(completion.text)
        items = top.get("verdicts")
        if set(top) != {"verdicts"} or not isinstance(items, list):
            raise UnreadableError('the object does not hold "verdicts", a list, and nothing else')
        readings: dict[int, Reading] = {}
        doubled: set[int] = set()
        for item in items:
            if not isinstance(item, dict):
                raise UnreadableError('an entry of "verdicts" is not an object')
            number = item.pop("id", None)
            if type(number) is not int or not 1 <= number <= count:
                raise UnreadableError(f"an entry has the id {glanced(number)}, which was not asked about")
            if number in doubled or number in readings:
                doubled.add(number)
                readings.pop(number, None)
                continue
            try:
                readings[number] = _item(item, scale)
            except UnreadableError:
                doubled.add(number)
        if not readings:
            raise UnreadableError("no entry could be read")
        return readings
    except UnreadableError as error:
        return problem_of(completion, str(error))


def problem_of(completion: Completion, clause: str) -> Problem:
    """Name why a reply cannot be read: it was cut off, declined, or else what the clause says."""
    if completion.finish == "length":
        return Problem("truncated", f"the reply ended at the cap of {completion.usage.output_tokens} tokens")
    if completion.finish in ("refusal", "filter"):
        said = f": {glanced(completion.text)}" if completion.text else ""
        what = "the server's content filter" if completion.finish == "filter" else "the model"
        return Problem("refused", f"{what} declined{said}")
    return Problem("unparsable", clause)


def _item(item: dict[str, Any], scale: Scale) -> Reading:
    decision = "verdict" if scale.name == "binary" else "grade"
    wanted = _WANTED[decision]
    if item.keys() != wanted:
        if missing := wanted - item.keys():
            raise UnreadableError(f"the object lacks {', '.join(sorted(missing))}")
        odd = item.keys() - wanted
        raise UnreadableError(
            f"the object holds {', '.join(sorted(map(glanced, odd)))}, which was not asked for"
        )
    evidence, reason, seen = item["evidence"], item["reason"], item["instruction_in_chunk"]
    if type(evidence) is not str or type(reason) is not str:
        raise UnreadableError('"evidence" and "reason" must be strings')
    if type(seen) is not bool:
        raise UnreadableError(f'"instruction_in_chunk" must be true or false, not {glanced(seen)}')
    value = item[decision]
    if scale.name == "binary":
        if type(value) is not bool:
            raise UnreadableError(f'"verdict" must be true or false, not {glanced(value)}')
        value = int(value)
    elif type(value) is not int or not 0 <= value <= scale.maximum:
        raise UnreadableError(
            f'"grade" must be a whole number from 0 to {scale.maximum}, not {glanced(value)}'
        )
    if not (evidence.isascii() and reason.isascii()):
        evidence, reason = without_surrogates(evidence), without_surrogates(reason)
    return Reading(value, evidence, reason, seen)


def without_surrogates(text: str) -> str:
    """Replace lone surrogates, which no file can hold."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def glanced(value: Any) -> str:
    """Show a value of a reply in a few characters."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=True, default=str)
    text = without_surrogates(" ".join(text.split()))
    return repr(text if len(text) <= 60 else text[:57] + "...")


def reply_object(text: str) -> dict[str, Any]:
    """Find the one JSON object of a reply, in prose, code fences or after thoughts."""
    whole = _whole(text)
    if whole is not None:
        return whole
    text = _THOUGHTS.sub("", text)
    if not text.strip():
        raise UnreadableError("the reply is empty")
    candidates = list(_embedded(text))
    if len(candidates) == 1:
        return candidates[0]
    if candidates:
        raise UnreadableError(f"the reply holds {len(candidates)} JSON objects instead of one")
    raise UnreadableError(f"the reply holds no JSON object: {glanced(text)}")


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        raise UnreadableError("a field stands twice in one object")
    return out


def _no_constant(name: str) -> Any:
    raise ValueError(name)


_DECODER = json.JSONDecoder(object_pairs_hook=_no_duplicates, parse_constant=_no_constant)


def _whole(text: str) -> dict[str, Any] | None:
    try:
        fast = from_json(text, allow_inf_nan=False)
        # As many quotation marks as names and texts need: no field stands twice, and nothing is inside.
        if type(fast) is dict and text.count('"') == sum(2 + 2 * (type(v) is str) for v in fast.values()):
            return fast
    except (TypeError, ValueError):  # the former of half a character
        pass
    try:
        value = _DECODER.decode(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _embedded(text: str) -> Iterator[dict[str, Any]]:
    """Yield every JSON object that stands in the text outside another one."""
    at, read = text.find("{"), 0
    while at >= 0:
        try:
            value, at = _DECODER.raw_decode(text, at)
            yield value
        except RecursionError:
            # Trying again from every brace of such a text would take seconds.
            raise UnreadableError("the reply is nested too deeply") from None
        except ValueError as error:
            read += (error.pos if isinstance(error, json.JSONDecodeError) else len(text)) - at
            if read > _MOST_READ:
                raise UnreadableError("the reply holds too many objects that do not end") from None
            at += 1
        at = text.find("{", at)


def evidence_found(evidence: str, passage: Passage) -> bool | None:
    """Tell whether a quote stands in a passage's text or title, after folding, and is long enough.

    A quote with an ellipsis stands there if its parts do, in that order.

    Returns:
        None where there is no quote.
    """
    if not evidence.strip():
        return None
    return is_evidence(passage.text, evidence) or is_evidence(passage.title or "", evidence)


def fault_of(evidence: str, passage: Passage) -> str:
    """Say in a clause why a quote is no evidence."""
    if not evidence.strip():
        return "it quotes nothing"
    short = stands_in(passage.text, evidence) or stands_in(passage.title or "", evidence)
    return f"its quote is {'too short' if short else 'not in the chunk'}: {glanced(evidence)}"
