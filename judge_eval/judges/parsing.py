"""Reading replies: what the contract says or what has the same one meaning, else a named problem."""

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeVar

from pydantic_core import from_json

from judge_eval.errors import Why
from judge_eval.quotes import fold, is_evidence, stands_in
from judge_eval.safe_text import shortened
from judge_eval.schema import GRADED, NoVerdict, Scale
from judge_eval.spelling import option
from judge_eval.wire import Completion, Passage

R = TypeVar("R")


class Reading(NamedTuple):
    """What was read about one passage: the fields of the contract, types checked."""

    grade: int
    evidence: str | None
    """A quote; None if the model never quotes."""
    reason: str | None
    """Why, in the model's words; None if it never says."""
    instruction_in_chunk: bool | None


@dataclass(frozen=True, slots=True)
class Problem:
    """Why nothing could be read."""

    why: Why
    detail: str
    final: bool = False
    """Whether asking again cannot help."""

    def no_verdict(self, chunk_id: str) -> NoVerdict:
        """Return that a chunk has no verdict because of it."""
        return NoVerdict(chunk_id=chunk_id, why=self.why, detail=without_surrogates(self.detail))


NOT_ASKED = Problem("unreachable", "the judge was not asked")


_MOST_READ = 5_000_000  # characters of objects that never end; a thousand times a long reply
_MOST_BEGUN = 5_000  # objects that never end; an error counts the lines before it
_FLAGS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_GRADE = re.compile(r"([0-9]{1,2})(?:\.0+)?(?:\s*[-–—:=,.(]+\s*(\D+))?")
_GRADED_LEVELS = ("irrelevant|not relevant", "related", "highly relevant", "perfectly relevant")
"""What TREC's assessors and many models call the grades 0 to 3, for a scale whose prompt alone describes them."""
_WANTED = {d: frozenset({"evidence", "reason", "instruction_in_chunk", d}) for d in ("verdict", "grade")}


class UnreadableError(Exception):
    """A reply breaks its contract; the message is the clause that says how."""


_OPENS = r"(?:<(?:think|thinking|thought|reasoning|seed:think)>|\[THINK\]|<\|channel\|>analysis<\|message\|>)"
_CLOSES = r"(?:</(?:think|thinking|thought|reasoning|seed:think)>|\[/THINK\]|<\|channel\|>final<\|message\|>)"
_THOUGHTS = re.compile(rf"\A.*{_CLOSES}|{_OPENS}.*\Z", re.DOTALL)
_FENCE_BEFORE = re.compile(r"(?:^|\n)[ \t]*(?:```|~~~)[ \t]*\w*\s*\Z")
_FENCE_AFTER = re.compile(r"\s*(?:```|~~~)")
_FIRST_WORD = re.compile(r"-?[^\W_]+")
_CLOSING = re.compile(r"\W*\w*\W*")
_LONGEST_CLOSING = 16  # characters; a sentence such as "Let me check again." is longer


def read_one(completion: Completion, scale: Scale, shown: Sequence[str] = ()) -> Reading | Problem:
    """Read the reply to a pointwise request: `verdict` (true or false) on the scale 0-1, else `grade` (a whole number).

    An object that stands in one of the texts `shown` to the judge is quoted and not an answer.
    """
    try:
        return _item(reply_object(completion.text, shown), scale)
    except UnreadableError as error:
        return problem_of(completion, str(error))


def read_word(completion: Completion, scale: Scale) -> Reading | Problem:
    """Read the reply to a request for a verdict alone: its first word, which ends the reply or a sentence of it."""
    start, word = first_word(completion.text)
    grade = _grade_of_word(word, scale)
    rest = completion.text[start + len(word) :].strip()
    if grade is None or (rest and rest[0].isalnum()):
        wanted = "true or false" if scale.binary else f"a grade from {scale.minimum} to {scale.maximum}"
        return problem_of(completion, f"the reply is not {wanted}: {glanced(completion.text)}")
    return Reading(grade, None, None, None)


def first_word(text: str) -> tuple[int, str]:
    """Return the first word of a reply after its thoughts, and where it begins."""
    thoughts = _THOUGHTS.match(text)
    word = _FIRST_WORD.search(text, thoughts.end() if thoughts else 0)
    return (word.start(), word[0]) if word else (0, "")


def _grade_of_word(word: str, scale: Scale) -> int | None:
    if scale.binary:
        return {"true": 1, "false": 0}.get(word.lower())
    grade = int(word) if word.isascii() and word.isdigit() and len(word) < 5 else None
    return grade if grade is not None and scale.minimum <= grade <= scale.maximum else None


def read_many(
    completion: Completion, scale: Scale, count: int, shown: Sequence[str] = ()
) -> dict[int, Reading] | Problem:
    """Read the reply to a listwise request: readings by id (at least one, ids run from 1), or a problem."""
    # An entry that is missing, occurs twice or breaks the contract is left out, so that it can be asked
    # again; an entry for a passage nobody asked about makes the whole reply a problem. Entries are matched by
    # id, so none ever shifts another's rank.
    return read_entries(completion, "verdicts", count, partial(_item, scale=scale), shown)


def read_entries(
    completion: Completion, name: str, count: int, read: Callable[[dict[str, Any]], R], shown: Sequence[str] = ()
) -> dict[int, R] | Problem:
    """Read a reply whose field `name` lists entries with ids from 1 to `count`; see `read_many`."""
    try:
        readings: dict[int, R] = {}
        lost: set[int] = set()
        for item in items_of(completion, name, shown):
            number = number_of(item.pop("id", None), count)
            if number in lost or number in readings:
                lost.add(number)
                readings.pop(number, None)
                continue
            try:
                readings[number] = read(item)
            except UnreadableError:
                lost.add(number)
        if not readings:
            raise UnreadableError("no entry could be read")
        return readings
    except UnreadableError as error:
        return problem_of(completion, str(error))


def items_of(completion: Completion, name: str, shown: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Return the entries of the only list in a reply, or raise `UnreadableError`."""
    top = reply_object(completion.text, shown)
    items = top.get(name)
    if set(top) != {name} or not isinstance(items, list):
        raise UnreadableError(f'the object does not hold "{name}", a list, and nothing else')
    if not all(isinstance(item, dict) for item in items):
        raise UnreadableError(f'an entry of "{name}" is not an object')
    return items


def check_fields(item: dict[str, Any], wanted: Collection[str], what: str) -> None:
    """Check that an entry has these fields and no others. Raises `UnreadableError` otherwise."""
    if missing := sorted(set(wanted) - item.keys()):
        raise UnreadableError(f"{what} lacks {', '.join(missing)}")
    if extra := sorted(map(glanced, item.keys() - set(wanted))):
        raise UnreadableError(f"{what} holds {', '.join(extra)}, which was not asked for")


def number_of(value: Any, count: int) -> int:
    """Check that an id is one of those asked about, 1 to `count`. Raises `UnreadableError` otherwise."""
    if type(value) is not int or not 1 <= value <= count:
        raise UnreadableError(f"an entry has the id {glanced(value)}, which was not asked about")
    return value


def problem_of(completion: Completion, clause: str) -> Problem:
    """Return why a reply cannot be read: it was cut off, declined, or what the clause says."""
    if completion.finish == "length":
        if _repeats_itself(completion.text):
            return Problem("truncated", "the model repeats itself", final=True)
        detail = f"the reply ended at the cap of {completion.usage.output_tokens} tokens"
        if reasoned := _reasoned(completion):
            detail += f", which thoughts took: {_LESS_THOUGHT}"
        return Problem("truncated", detail, final=not reasoned)
    if completion.finish in ("refusal", "filter"):
        words = f": {glanced(completion.text)}" if completion.text else ""
        what = "the server's content filter" if completion.finish == "filter" else "the model"
        return Problem("refused", f"{what} declined{words}")
    if completion.reasoned_object:
        clause += "; its reasoning holds a JSON object, which is not an answer"
    return Problem("unparsable", clause)


_EFFORT = {"reasoning_effort": "low"}
_LESS_THOUGHT = (
    f"set {option('param', _EFFORT, python=f'params={json.dumps(_EFFORT)}')} if the model takes it, "
    "or raise `max_tokens` in a copy of the prompt"
)
_SHORTEST_LOOP, _LOOKED_AT = 90, 30_000  # characters of a reply in which a repetition is looked for


def _repeats_itself(text: str) -> bool:
    """Tell whether a text ends in one piece, three times or more, that takes its last third at least."""
    if len(text) < _SHORTEST_LOOP:
        return False
    text = text[-_LOOKED_AT:]
    tail = text[-(_SHORTEST_LOOP // 6) :]
    at = text.rfind(tail, 0, -1)
    while at >= 0 and 3 * (period := len(text) - len(tail) - at) <= len(text):
        end = text[-max(len(text) // 3, 3 * period) :]
        if end[period:] == end[:-period]:
            return True
        at = text.rfind(tail, 0, at + len(tail) - 1)
    return False


def _reasoned(completion: Completion) -> bool:
    """Tell whether thoughts took tokens of a reply, or nothing of it can be seen."""
    text = completion.text
    thoughts = completion.reasoned or completion.usage.reasoning_tokens > 0
    return thoughts or not text.strip() or _THOUGHTS.search(text) is not None


def _item(item: dict[str, Any], scale: Scale) -> Reading:
    binary = scale.binary
    decision = "verdict" if binary else "grade"
    wanted = _WANTED[decision]
    if item.keys() != wanted:
        check_fields(item, wanted, "the object")
    evidence, reason, seen = item["evidence"], item["reason"], item["instruction_in_chunk"]
    if type(evidence) is not str or type(reason) is not str:
        raise UnreadableError('"evidence" and "reason" must be strings')
    seen = flag_of(seen, '"instruction_in_chunk"')
    value = item[decision]
    grade = int(flag_of(value, '"verdict"')) if binary else _grade(value, scale)
    if not (evidence.isascii() and reason.isascii()):
        evidence, reason = without_surrogates(evidence), without_surrogates(reason)
    return Reading(grade, evidence, reason, seen)


def flag_of(value: Any, name: str) -> bool:
    """Read true or false, also as a word or as 1 or 0. Raises `UnreadableError` otherwise."""
    if type(value) is bool:
        return value
    flag = _FLAGS.get(value.strip().lower()) if isinstance(value, str) else None
    if flag is None and type(value) in (int, float) and value in (0, 1):
        flag = value == 1
    if flag is None:
        raise UnreadableError(f"{name} must be true or false, not {glanced(value)}")
    return flag


def _grade(value: Any, scale: Scale) -> int:
    """Read a whole number on the scale, also as a word, perhaps with the description of its level after it."""
    number = value if type(value) is int else None
    if type(value) is float and value.is_integer():
        number = int(value)
    elif isinstance(value, str) and (match := _GRADE.fullmatch(value.strip())):
        number = int(match[1])
        levels = scale.levels or (_GRADED_LEVELS if scale.span == GRADED.span else ())
        described = levels[number - scale.minimum] if levels and number in scale.grades else ""
        if match[2] and _words(match[2]) not in [_words(each) for each in described.split("|")]:
            number = None
    if number is None or not scale.minimum <= number <= scale.maximum:
        raise UnreadableError(
            f'"grade" must be a whole number from {scale.minimum} to {scale.maximum}, not {glanced(value)}'
        )
    return number


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


def without_surrogates(text: str) -> str:
    """Replace lone surrogates, which no file can hold."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def glanced(value: Any) -> str:
    """Show a value of a reply in a few characters."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=True, default=str)
    return repr(shortened(without_surrogates(text), 60))


def reply_object(text: str, shown: Sequence[str] = ()) -> dict[str, Any]:
    """Find the JSON object that a reply is, ends with or fences, after its thoughts.

    An object in the middle of prose may be a quote or a draft. One that stands in a text `shown` to the judge is
    a quote wherever it stands in the reply.
    """
    value = _whole(text)
    if value is None:
        value, text = _only_object(_THOUGHTS.sub("", text))
    # Folding a text takes long, so only those that name all fields are looked at.
    if any(all(name in other for name in value) and _squeezed(text) in _squeezed(other) for other in shown):
        raise UnreadableError("the JSON object of the reply stands in a text that was shown, so it is not an answer")
    return value


def _only_object(text: str) -> tuple[dict[str, Any], str]:
    """Return the only object of a text, with its own text; raise `UnreadableError` if it is not the answer."""
    if not text.strip():
        raise UnreadableError("the reply is empty")
    candidates = list(_embedded(text))
    if not candidates:
        text = _double_quoted(text)
        candidates = list(_embedded(text))
    if not candidates:
        raise UnreadableError(f"the reply holds no JSON object: {glanced(text)}")
    if len(candidates) > 1:
        raise UnreadableError(f"the reply holds {len(candidates)} JSON objects instead of one")
    value, start, end = candidates[0]
    after = text[end:]
    closing = after.strip()
    ends = len(closing) <= _LONGEST_CLOSING and _CLOSING.fullmatch(closing)
    fenced = _FENCE_BEFORE.search(text[:start]) and _FENCE_AFTER.match(after)
    if not ends and not fenced:
        raise UnreadableError(f"the reply goes on after its JSON object: {glanced(closing)}")
    return value, text[start:end]


_SINGLE_QUOTED = re.compile(r"\{\s*'")
_TOKEN = re.compile(r"""\\.|"(?:[^"\\]|\\.)*"|'((?:[^'\\]|\\.)*)'|\b(?:True|False|None)\b""", re.DOTALL)
_IN_QUOTES = re.compile(r"""\\.|\"""", re.DOTALL)
_CONSTANTS = {"True": "true", "False": "false", "None": "null"}


def _double_quoted(text: str) -> str:
    """Write the objects of a text whose strings are in single quotes, as Python prints them, as JSON."""
    begins = _SINGLE_QUOTED.search(text)
    if begins is None:
        return text

    def written(token: re.Match[str]) -> str:
        if token[1] is None:
            return _CONSTANTS.get(token[0], token[0])
        inner = _IN_QUOTES.sub(lambda sign: {"\\'": "'", '"': '\\"'}.get(sign[0], sign[0]), token[1])
        return f'"{inner}"'

    return text[: begins.start()] + _TOKEN.sub(written, text[begins.start() :])


def _squeezed(text: str) -> str:
    """Fold a text without white space, with one kind of quotation marks and in lower case."""
    return "".join(fold(text).split()).replace('"', "'").casefold()


def holding_objects(texts: Iterable[str | None]) -> tuple[str, ...]:
    """Return those of the texts shown to a judge that may hold a JSON object."""
    return tuple(text for text in texts if text is not None and "{" in text)


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        raise UnreadableError("a field occurs twice in one object")
    return out


def _no_constant(name: str) -> Any:
    raise ValueError(name)


_DECODER = json.JSONDecoder(object_pairs_hook=_no_duplicates, parse_constant=_no_constant)


def _whole(text: str) -> dict[str, Any] | None:
    try:
        fast = from_json(text, allow_inf_nan=False)
        if type(fast) is dict:
            texts = len(fast) + list(map(type, fast.values())).count(str)
            if text.count('"') == 2 * texts:  # so no field occurs twice, and no object is nested
                return fast
    except (TypeError, ValueError):  # the former of half a character
        pass
    try:
        value = _DECODER.decode(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _embedded(text: str) -> Iterator[tuple[dict[str, Any], int, int]]:
    """Yield the objects of a text that stand in no other, with their places."""
    at, read, begun = text.find("{"), 0, 0
    while at >= 0:
        try:
            value, end = _DECODER.raw_decode(text, at)
            yield value, at, end
            at = end
        except RecursionError:
            # Trying again from every brace of such a text would take seconds.
            raise UnreadableError("the reply is nested too deeply") from None
        except ValueError as error:
            read += (error.pos if isinstance(error, json.JSONDecodeError) else len(text)) - at
            begun += 1
            if read > _MOST_READ or begun > _MOST_BEGUN:
                raise UnreadableError("the reply holds too many objects that do not end") from None
            at += 1
        at = text.find("{", at)


def evidence_found(evidence: str, passage: Passage) -> bool | None:
    """Tell whether a quote occurs in a passage's text or title (`is_evidence`); None if there is no quote."""
    if not evidence.strip():
        return None
    return is_evidence(passage.text, evidence) or is_evidence(passage.title or "", evidence)


def fault_of(evidence: str, passage: Passage) -> str:
    """Return a clause that says why a quote is not evidence."""
    if not evidence.strip():
        return "it quotes nothing"
    short = stands_in(passage.text, evidence) or stands_in(passage.title or "", evidence)
    return f"its quote is {'too short' if short else 'not in the chunk'}: {glanced(evidence)}"
