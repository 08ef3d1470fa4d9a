"""What goes between a judge's plan and a backend: requests, and the completions that answer them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from itertools import islice
from math import isfinite
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, TypeVar, get_args, runtime_checkable

from judge_eval.digest import digest_parts
from judge_eval.errors import CallError
from judge_eval.foreign import read_json
from judge_eval.schema import Scale

T = TypeVar("T")
Finish = Literal["stop", "length", "refusal", "filter"]
MOST_TOKENS = 2**42
"""No call takes so many tokens; a million calls of fewer sum up to what 64 bits hold."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: str


class Passage(NamedTuple):
    """What of a chunk is shown to the judge."""

    text: str
    title: str | None = None


class Form(Protocol):
    """The part of a request that is the same for every chunk, with a digest of its own.

    `render` is pure and deterministic: the digest of the form and the fields of the request determine
    every message.
    """

    @property
    def digest(self) -> bytes:
        """32 bytes over the texts, the output contract and the version of whoever reads the reply."""
        ...

    @property
    def scale(self) -> Scale:
        """The grades asked for. Binary forms ask for `verdict` (a bool), graded ones for `grade` (an int)."""
        ...

    @property
    def listwise(self) -> bool:
        """Whether one reply judges all passages: `{"verdicts": [{"id": 1, ...}, {"id": 2, ...}]}`.

        Passages are numbered from 1 in the order they are shown. A pointwise reply is one such object
        without `id`. The fields of an object, in order: `id` (listwise only), `evidence`, `reason`,
        `instruction_in_chunk`, and `verdict` or `grade`.
        """
        ...

    @property
    def schema(self) -> Mapping[str, Any]:
        """The strict JSON schema of the reply."""
        ...

    @property
    def schema_name(self) -> str:
        """The name the schema goes by, letters and underscores."""
        ...

    def render(self, request: Request) -> tuple[Message, ...]:
        """Write the messages: static system text, question, reference or answer, passages."""
        ...


@runtime_checkable
class Sealable(Protocol):
    """A form whose fences can carry marks that follow from a secret."""

    def sealed(self, secret: bytes) -> Form:
        """Return the same form, with the same digest, whose marks cannot be told without the secret."""
        ...


@dataclass(frozen=True)
class Request:
    """One question to a backend.

    The fields down to `follow_up` make its digest; the rest says what to do with the answer. Messages
    are rendered when they are needed, so that a cache hit never pays for it.
    """

    form: Form
    query: str
    passages: tuple[Passage, ...]
    max_tokens: int
    """The cap on the completion's tokens."""
    reference: str | None = None
    """The reference answer; None where the form does not show it."""
    answer: str | None = None
    """The generated answer; None where the form does not show it."""
    sample: int = 0
    """0 for the first sample; others ask again and are stored apart."""
    follow_up: tuple[Message, ...] = ()
    """Messages after the rendered ones, in a repair."""
    accepts: Callable[[Completion], bool] | None = field(default=None, compare=False, repr=False)
    """Whether a verdict can be read from a completion; one that is not accepted is never stored."""
    origin: Request | None = field(default=None, compare=False, repr=False)
    """The request whose unreadable answer this one repairs.

    An accepted answer is stored under `origin.digest` (not under its own), so that a second run finds it
    at its first question and never repeats the failed call.
    """
    route: str = field(default="", compare=False)
    """Which of several backends is asked; not in the digest, as a cache adds who answered."""
    trace_id: str = field(default="", compare=False)
    chunk_ids: tuple[str, ...] = field(default=(), compare=False)
    held_by: tuple[int, ...] = field(default=(), compare=False)
    """How many of the chunks hold each passage; empty where one passage is all, or each has one chunk."""

    @property
    def digest(self) -> bytes:
        """32 bytes over all that was asked (not who was asked: a cache adds the backend's identity)."""
        made: bytes | None = self.__dict__.get("digest")
        if made is None:
            made = self.__dict__["digest"] = self._digest()
        return made

    def _digest(self) -> bytes:
        titled = "".join(["-" if passage.title is None else "t" for passage in self.passages])
        parts = [self._context(), titled]
        for passage in self.passages:
            if passage.title is not None:
                parts.append(passage.title)
            parts.append(passage.text)
        for message in self.follow_up:
            parts += (message.role, message.content)
        return digest_parts(parts)

    def _context(self) -> str:
        """Digest what all requests of a trace share; made once and handed on by `about`."""
        made: str | None = self.__dict__.get("context")
        if made is None:
            nones = f"{self.reference is None},{self.answer is None}"
            shape = f"{self.max_tokens},{self.sample},{nones}"
            texts = (self.query, self.reference or "", self.answer or "")
            made = self.__dict__["context"] = digest_parts((self.form.digest.hex(), shape, *texts)).hex()
        return made

    def about(self, passages: tuple[Passage, ...], chunk_ids: tuple[str, ...]) -> Request:
        """Return the same request about other passages, with what is known of the trace's digest."""
        new = {"context": self._context(), "digest": None, "passages": passages, "chunk_ids": chunk_ids}
        new["held_by"] = ()
        return _filled(Request, {**self.__dict__, **new})

    def chunks_by_passage(self) -> list[tuple[str, ...]]:
        """Return the ids of the chunks that hold each passage, in the passages' order."""
        if len(self.passages) == 1:
            return [self.chunk_ids]
        ids = iter(self.chunk_ids)
        return [tuple(islice(ids, count)) for count in self.held_by or [1] * len(self.passages)]

    @property
    def messages(self) -> tuple[Message, ...]:
        """The whole conversation, static part first."""
        return self.form.render(self) + self.follow_up


def sealed(request: Request, secret: bytes) -> Request:
    """Return a request as it is sent: the same digest, its fences marked from a secret where the form can."""
    form = request.form
    return replace(request, form=form.sealed(secret)) if isinstance(form, Sealable) else request


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
    cached: bool = field(default=False, compare=False)
    """Whether it came from a cache; never stored."""

    def encode(self) -> bytes:
        """Write it as compact JSON, without `cached`.

        Raises:
            ValueError: It has numbers that `decode` would refuse.
        """
        usage = [int(getattr(self.usage, name)) for name in _USAGE]
        if not all(0 <= count < MOST_TOKENS for count in usage):
            raise ValueError("no number of tokens")
        row: list[Any] = [self.text, self.finish, usage, self.model, list(self.dropped)]
        if self.logprobs:
            row.append([[t.token, t.logprob, [list(pair) for pair in t.top]] for t in self.logprobs])
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
            if not (spelled and finish in _FINISHES and len(more) < 2):
                raise ValueError("not a completion")
            for name in dropped:
                if type(name) is not str or not name.encode():  # which no lone surrogate survives
                    raise ValueError("a name is no text")
            for count in usage:
                if type(count) is not int or not 0 <= count < MOST_TOKENS:
                    raise ValueError("no number of tokens")
            logprobs = tuple(map(_token, more[0])) if more else ()
            tokens = {"input_tokens": fresh, "output_tokens": written}
            used = _filled(Usage, {**tokens, "cached_tokens": held, "reasoning_tokens": thoughts})
            values = {"text": text, "finish": finish, "usage": used, "model": model, "cached": True}
            return _filled(cls, {**values, "dropped": tuple(dropped), "logprobs": logprobs})
        except (TypeError, ValueError) as error:
            raise ValueError(f"not a stored completion: {error}") from None


_FINISHES = get_args(Finish)
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


def _filled(kind: type[T], values: dict[str, Any]) -> T:
    """Make a frozen value of fields that are known to fit, all of them, without its `__init__`.

    A stored completion takes 3.6 us instead of 4.3 and a copied request 2.1 instead of 6.3, of some 40 us
    that a verdict from the cache takes in all.
    """
    made = object.__new__(kind)
    made.__dict__.update(values)
    return made


def _write_row(row: list[Any]) -> bytes:
    try:
        return json.dumps(row, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    except UnicodeEncodeError:  # a lone surrogate: JSON can spell it, UTF-8 cannot
        return json.dumps(row, separators=(",", ":"), allow_nan=False).encode()


Reply: TypeAlias = Completion | CallError
"""What an inquiry is sent for each request of its wave: an answer, or why there is none."""
