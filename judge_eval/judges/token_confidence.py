"""How sure a judge was, read off the probabilities of its verdict token."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from judge_eval.judges.parsing import first_word
from judge_eval.schema import Scale
from judge_eval.wire import Completion, TokenLogprob

# An unescaped quote begins a field's name; inside a string of the reply it would be escaped.
_FIELD = re.compile(r'(?<!\\)"(id|verdict|grade)"\s*:\s*')
_UNLIKELY = 0.01
_LIKELY = 0.05
"""What all grades weigh together at least if the reply begins with a word that is none."""
_LEAD = ' \t\r\n":'


@dataclass(frozen=True, slots=True)
class Confidence:
    """What the probabilities of the verdict token say."""

    confidence: float
    """The probability that the passage is relevant."""
    expected_grade: float
    """The mean grade under the probabilities."""
    grades: tuple[float, ...] | None = None
    """The probability of each grade, the lowest first; None on the scale 0-1: `confidence` says both."""

    @classmethod
    def of(cls, shares: Sequence[float], scale: Scale) -> Confidence:
        """Make it of what each grade weighs, the lowest first, more than 0 in all."""
        total = sum(shares)
        sure = sum(shares[scale.relevant - scale.minimum :]) / total
        mean = sum(grade * share for grade, share in zip(scale.grades, shares, strict=True)) / total
        grades = None if scale.binary else tuple(share / total for share in shares)
        return cls(min(1.0, sure), min(float(scale.maximum), mean), grades)


def read_confidence(completion: Completion, scale: Scale, grade: int, number: int | None = None) -> Confidence | None:
    """Read off how sure the judge was of one verdict; None if the server told nothing that fits."""
    # The probabilities are those the server told for the token that holds the verdict, over the values of the
    # contract alone: what stands for none of them (white space, another word) is left out. A token that holds
    # another grade is not the one. `number` is the passage's in a listwise reply; None in a pointwise one.
    if not completion.logprobs:
        return None
    for passage, token in _decisions(completion.logprobs):
        if passage == number or number is None:
            shares = _shares(token, scale)
            own = _value(token.token, scale)
            if own != grade or not sum(shares.values()) > 0 or _begins_two(shares, scale):
                continue
            return Confidence.of([shares.get(value, 0.0) for value in scale.grades], scale)
    return None


def read_word_confidence(completion: Completion, scale: Scale) -> Confidence | None:
    """Read off how sure the judge was of a verdict that is the whole reply; None if the server told nothing that fits.

    On the scale 0-1 it is P(true) over P(true) + P(false), of the token with which the reply begins after its thoughts.
    """
    shares = _word_shares(completion, scale)
    return None if shares is None else Confidence.of([shares.get(value, 0.0) for value in scale.grades], scale)


def likely_word(completion: Completion, scale: Scale) -> int | None:
    """Return the most probable grade of a reply that begins with another word; None if no grade is likely enough."""
    shares = _word_shares(completion, scale)
    if shares is None or sum(shares.values()) < _LIKELY:
        return None
    return max(scale.grades, key=lambda grade: (shares.get(grade, 0.0), -grade))


def _word_shares(completion: Completion, scale: Scale) -> dict[int, float] | None:
    (start, word), at = first_word(completion.text), 0
    if not word:  # nothing, or thoughts that were cut: what they begin with is no verdict
        return None
    for token in completion.logprobs:
        at += len(token.token)
        if at > start:
            shares = _shares(token, scale)
            return shares if sum(shares.values()) > 0 and not _begins_two(shares, scale) else None
    return None


def _decisions(tokens: tuple[TokenLogprob, ...]) -> Iterator[tuple[int | None, TokenLogprob]]:
    """Yield the tokens that hold verdicts, each with the id that stands before it; the last ones first."""
    starts, text = [], ""
    for token in tokens:
        starts.append(len(text))
        text += token.token
    number: int | None = None
    decisions: list[tuple[int | None, TokenLogprob]] = []
    place = 0
    for match in _FIELD.finditer(text):
        if match[1] == "id":
            digits = re.match(r"\d+", text[match.end() :])
            number = int(digits[0]) if digits else None
            continue
        while place + 1 < len(starts) and starts[place + 1] <= match.end():
            place += 1
        if match.end() < len(text):
            decisions.append((number, tokens[place]))
    # A judge that thinks aloud may draft a verdict; the one that counts is the last.
    return iter(decisions[::-1])


def _shares(token: TokenLogprob, scale: Scale) -> dict[int, float]:
    shares: dict[int, float] = {}
    logprobs = dict(token.top)
    logprobs.setdefault(token.token, token.logprob)
    for text, logprob in logprobs.items():
        value = _value(text, scale)
        if value is not None:
            shares[value] = shares.get(value, 0.0) + math.exp(min(0.0, logprob))
    return shares


def _begins_two(shares: dict[int, float], scale: Scale) -> bool:
    """Tell whether a token may stand for one grade or begin a longer one, as 1 does on the scale 0-10."""
    # A model that has a token for the longer grade names it beside the other; from one that writes digit by
    # digit no probability can be read, unless neither grade is likely.
    longer = [grade for grade in scale.grades if grade > 9]
    return any(shares.get(grade // 10, 0.0) > _UNLIKELY and grade not in shares for grade in longer)


def _value(text: str, scale: Scale) -> int | None:
    """Return the value that a token stands for; the beginning of a word stands for it."""
    text = text.lstrip(_LEAD).rstrip(" \t\r\n,}").lower()
    if not text:
        return None
    if scale.binary:
        return next((value for value, word in ((1, "true"), (0, "false")) if word.startswith(text)), None)
    number = int(text) if len(text) < 5 and text.isascii() and text.isdigit() else None
    return number if number is not None and number in scale.grades else None
