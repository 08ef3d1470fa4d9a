"""Completions: what a backend answers, and how it is written down."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields, replace
from math import isfinite
from typing import Any, Literal, TypeAlias, get_args

from judge_eval.errors import CallError
from judge_eval.foreign import read_json
from judge_eval.wire.filled import filled
from judge_eval.wire.questions import DecisionAnswer, answer_of_row, answer_row

Finish = Literal["stop", "length", "refusal", "filter"]
MOST_TOKENS = 2**42
"""No call takes so many tokens; a million calls of fewer sum up to what 64 bits hold."""


@dataclass(frozen=True)
class Usage:
    """Tokens as the server billed them; all counts are >= 0."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    """How many of the input tokens the server took from its own prefix cache."""
    reasoning_tokens: int = 0
    """How many of the output tokens were thoughts."""

    def __add__(self, other: Usage) -> Usage:
        return Usage(*(getattr(self, name) + getattr(other, name) for name in _USAGE))

    def __sub__(self, other: Usage) -> Usage:
        return Usage(*(getattr(self, name) - getattr(other, name) for name in _USAGE))


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """The probability of one token of the reply and of its alternatives, natural logarithms."""

    token: str
    logprob: float
    top: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class Completion:
    """A backend's answer, whether or not a verdict can be read from it."""

    text: str
    finish: Finish = "stop"
    usage: Usage = Usage()
    model: str = ""
    """The model's name as the server gave it."""
    dropped: tuple[str, ...] = ()
    """What the server would not take and was left out of the request."""
    logprobs: tuple[TokenLogprob, ...] = ()
    answers: tuple[DecisionAnswer, ...] = ()
    """Of a decision model: to each question of the request, in order; such a completion has no text."""
    cached: bool = field(default=False, compare=False)
    """Whether it came from a cache; never stored."""

    @property
    def whole(self) -> bool:
        """Whether nothing is still to be had: False where the call of some questions failed in passing."""
        return all(answer.why in _FINAL for answer in self.answers)

    @property
    def written(self) -> str:
        """What the model said, to be shown: its text, or of a decision model its answers as JSON."""
        if not self.answers:
            return self.text
        return json.dumps({f"c{number}": answer_row(one) for number, one in enumerate(self.answers, 1)})

    def encode(self) -> bytes:
        """Write it as compact JSON, without `cached`.

        Raises:
            ValueError: It has numbers that `decode` would refuse.
        """
        usage = [int(getattr(self.usage, name)) for name in _USAGE]
        if not all(0 <= count < MOST_TOKENS for count in usage):
            raise ValueError("no number of tokens")
        row: list[Any] = [self.text, self.finish, usage, self.model, list(self.dropped)]
        if self.logprobs or self.answers:
            row.append([[t.token, t.logprob, [list(pair) for pair in t.top]] for t in self.logprobs])
        if self.answers:
            rows = [answer_row(answer) for answer in self.answers]
            for each in rows:
                answer_of_row(each)
            row.append(rows)
        return _write_row(row)

    @classmethod
    def decode(cls, data: bytes) -> Completion:
        """Read what `encode` wrote; the result says `cached=True`.

        Raises:
            ValueError: The bytes are not what `encode` writes.
        """
        try:
            text, finish, usage, model, dropped, *more = read_json(data)
            fresh, written, held, thoughts = usage
            spelled = type(text) is type(model) is str and type(dropped) is type(usage) is list
            if not (spelled and finish in _FINISHES and len(more) < 3):
                raise ValueError("not a completion")
            for name in dropped:
                if type(name) is not str or not name.encode():  # which no lone surrogate survives
                    raise ValueError("a name is no text")
            for count in usage:
                if type(count) is not int or not 0 <= count < MOST_TOKENS:
                    raise ValueError("no number of tokens")
            logprobs = tuple(map(_token, more[0])) if more else ()
            answers = tuple(map(answer_of_row, more[1])) if more[1:] else ()
            tokens = {"input_tokens": fresh, "output_tokens": written}
            used = filled(Usage, {**tokens, "cached_tokens": held, "reasoning_tokens": thoughts})
            values = {"text": text, "finish": finish, "usage": used, "model": model, "cached": True}
            values |= {"dropped": tuple(dropped), "logprobs": logprobs, "answers": answers}
            return filled(cls, values)
        except (TypeError, ValueError) as error:
            raise ValueError(f"not a stored completion: {error}") from None


def joined(first: Completion, second: Completion) -> Completion:
    """Return the completion of a request whose halves were answered by two."""
    return replace(
        first,
        usage=first.usage + second.usage,
        dropped=tuple(sorted({*first.dropped, *second.dropped})),
        answers=first.answers + second.answers,
        cached=first.cached and second.cached,
    )


_FINISHES = get_args(Finish)
_FINAL = (None, "refused", "unparsable")
"""Of answers: there is one, the model gives none, or gave one of no use."""
_MOST = 2**53
"""Beyond it a number is not the same for every reader of JSON."""


def _token(row: Any) -> TokenLogprob:
    """Read one token of a stored completion."""
    token, logprob, top = row
    pairs = tuple((name, share) for name, share in top)
    if not all(type(each) is list for each in (row, top, *top)):
        raise ValueError("not a list")
    for name, share in ((token, logprob), *pairs):
        whole = type(share) is int and abs(share) <= _MOST
        if type(name) is not str or not (whole or (type(share) is float and isfinite(share))):
            raise ValueError("no probability of a token")
    return TokenLogprob(token, logprob, pairs)


_USAGE = tuple(each.name for each in fields(Usage))


def _write_row(row: list[Any]) -> bytes:
    try:
        return json.dumps(row, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    except UnicodeEncodeError:  # a lone surrogate: JSON can spell it, UTF-8 cannot
        return json.dumps(row, separators=(",", ":"), allow_nan=False).encode()


Reply: TypeAlias = Completion | CallError
"""What an inquiry is sent for each request of its wave: an answer, or why there is none."""
