"""What goes between a judge's plan and a backend: requests, and the completions that answer them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import islice
from math import isfinite
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, TypeVar, get_args

from judge_eval import conversation
from judge_eval.digest import compact_json, digest_parts
from judge_eval.errors import CallError, Why
from judge_eval.foreign import read_json
from judge_eval.schema import Scale

T = TypeVar("T")


def filled(kind: type[T], values: dict[str, Any]) -> T:
    """Make a frozen value of fields that are known to fit, all of them, without its `__init__`.

    A stored completion takes 3.6 us instead of 4.3 and a copied request 2.1 instead of 6.3, of some 40 us
    that a verdict from the cache takes in all.
    """
    made = object.__new__(kind)
    made.__dict__.update(values)
    return made


_WHYS = get_args(Why)
ROUNDED = 0.005
"""How far a probability may lie off: servers write two decimals."""
_DUST = 1e-6


class Level(NamedTuple):
    """One grade of a scale, as a decision model is told of it."""

    label: str
    description: str


class DecisionQuestion(NamedTuple):
    """One question: a statement that is true or not, or a scale of grades where `levels` are given."""

    name: str
    """Unique among those asked together; answers bear it."""
    text: str
    """What is asked, in words of ours alone."""
    data: Mapping[str, Any]
    """What the question is about, as JSON; empty if the shared data hold it."""
    levels: tuple[Level, ...] = ()
    """The grades, the lowest first; none for a statement."""
    lowest: int = 0
    """The grade of the first level."""

    @property
    def grades(self) -> int:
        """How many grades an answer gives probabilities to."""
        return len(self.levels) or 2

    @property
    def level_lines(self) -> list[str]:
        """A line for each level, for people: its grade, its label unless that is the grade, what it means."""
        graded = ((str(grade), level) for grade, level in enumerate(self.levels, self.lowest))
        return [": ".join(dict.fromkeys((grade, *level))) for grade, level in graded]


@dataclass(frozen=True, slots=True)
class Questionnaire:
    """What one request to a decision model holds."""

    rules: str
    """What holds for every question, in words of ours alone."""
    shared: Mapping[str, Any]
    """What all questions are about, as JSON data."""
    questions: tuple[DecisionQuestion, ...]
    """One for each passage of the request, in order; or where it holds claims, one for each of those."""


class DecisionAnswer(NamedTuple):
    """How one question was answered."""

    probabilities: tuple[float, ...] = ()
    """By grade from 0 on, each 0 to 1, 1 in all but for rounding; of a statement that of false, then of true.

    Empty if there is no answer.
    """
    why: Why | None = None
    """Why there is none: `refused`, `unparsable`, or what failed."""
    detail: str = ""
    """What happened, safe to show."""


def sums_up(probabilities: Sequence[float]) -> bool:
    """Tell whether numbers are the probabilities of all grades: 0 to 1 each, 1 together but for rounding."""
    for share in probabilities:
        number: object = share  # a backend of one's own may say anything
        if not isinstance(number, int | float) or not 0 <= number <= 1:  # NaN is neither
            return False
    return abs(sum(probabilities) - 1) <= ROUNDED * len(probabilities) + _DUST


def answer_row(answer: DecisionAnswer) -> Any:
    """Write an answer as JSON data: its probabilities, or why there is none and what happened."""
    return list(answer.probabilities) if answer.probabilities else [answer.why, answer.detail]


def answer_of_row(row: Any) -> DecisionAnswer:
    """Read what `answer_row` wrote. Raises `ValueError` for anything else."""
    if type(row) is not list or len(row) < 2:
        raise ValueError("no answer to a question")
    if row[0] in _WHYS and len(row) == 2 and type(row[1]) is str:
        row[1].encode()  # which no lone surrogate survives
        return DecisionAnswer(why=row[0], detail=row[1])
    for share in row:
        if (type(share) is not float and type(share) is not int) or not 0 <= share <= 1:
            raise ValueError("no probability of a grade")
    return DecisionAnswer(tuple(map(float, row)))


Finish = Literal["stop", "length", "refusal", "filter", "given_up"]
"""How a completion ended; `given_up` is what a cache keeps of a question that a judge does without."""
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
    written_tokens: int = 0
    """How many of the input tokens the server put into its prefix cache, for which some ask a higher price."""

    def __add__(self, other: Usage) -> Usage:
        added = other.__dict__
        return filled(Usage, {name: value + added[name] for name, value in self.__dict__.items()})

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
    request_id: str = field(default="", compare=False)
    """The server's name of the request, for its support; never stored, so a cache answers without one."""
    reasoned: bool = field(default=False, compare=False)
    """Whether the server gave reasoning beside its text; never stored."""
    reasoned_object: bool = field(default=False, compare=False)
    """Whether it has no text, but its reasoning holds what looks like a JSON object; never stored."""

    @property
    def whole(self) -> bool:
        """Whether every answer is final: False if the call of some questions may succeed later."""
        return all(answer.why in _FINAL for answer in self.answers)

    @property
    def written(self) -> str:
        """What the model said, to be shown: its text, or of a decision model its answers as JSON."""
        if not self.answers:
            return self.text
        return json.dumps({f"c{number}": answer_row(answer) for number, answer in enumerate(self.answers, 1)})

    def encode(self) -> bytes:
        """Write it as compact JSON, without `cached`; raises `ValueError` if `decode` would refuse its numbers."""
        usage = [int(getattr(self.usage, name)) for name in _USAGE]
        if not all(0 <= count < MOST_TOKENS for count in usage):
            raise ValueError("no number of tokens")
        if not usage[-1]:
            usage.pop()
        row: list[Any] = [self.text, self.finish, usage, self.model, list(self.dropped)]
        if self.logprobs or self.answers:
            row.append([[t.token, t.logprob, [list(pair) for pair in t.top]] for t in self.logprobs])
        if self.answers:
            rows = [answer_row(answer) for answer in self.answers]
            for each in rows:
                answer_of_row(each)
            row.append(rows)
        return compact_json(row)

    @classmethod
    def decode(cls, data: bytes) -> Completion:
        """Read what `encode` wrote, as `cached`; raises `ValueError` if the bytes are anything else."""
        try:
            text, finish, usage, model, dropped, *more = read_json(data)
            spelled = type(text) is type(model) is str and type(dropped) is type(usage) is list
            if not (spelled and finish in _FINISHES and len(more) < 3):
                raise ValueError("not a completion")
            for name in dropped:
                if type(name) is not str or not name.encode():  # which no lone surrogate survives
                    raise ValueError("a name is not a text")
            for count in usage:
                if type(count) is not int or not 0 <= count < MOST_TOKENS:
                    raise ValueError("no number of tokens")
            if len(usage) == len(_USAGE) - 1:
                usage.append(0)
            logprobs = tuple(map(_token, more[0])) if more else ()
            answers = tuple(map(answer_of_row, more[1])) if more[1:] else ()
            values = {
                "text": text,
                "finish": finish,
                "usage": filled(Usage, dict(zip(_USAGE, usage, strict=True))),
                "model": model,
                "dropped": tuple(dropped),
                "logprobs": logprobs,
                "answers": answers,
                "cached": True,
                "request_id": "",
            }
            return filled(cls, values)
        except (TypeError, ValueError) as error:
            raise ValueError(f"not a stored completion: {error}") from None


GIVEN_UP = Completion("", "given_up")
"""What a cache keeps instead of an unreadable answer that its judge does without: it says nothing."""


def joined(first: Completion, second: Completion) -> Completion:
    """Return the completion of a request whose halves were answered by two."""
    return replace(
        first,
        usage=first.usage + second.usage,
        dropped=tuple(sorted({*first.dropped, *second.dropped})),
        answers=first.answers + second.answers,
        cached=first.cached and second.cached,
        request_id=" ".join(filter(None, (first.request_id, second.request_id))),
    )


_FINISHES = get_args(Finish)
_FINAL = (None, "refused", "unparsable")
"""Of answers: there is one, the model gives none, or gave one of no use."""
_MOST = 2**53  # beyond it a number is not the same for every reader of JSON


def _token(row: Any) -> TokenLogprob:
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


Reply: TypeAlias = Completion | CallError
"""What a plan is sent for each request of a round: an answer, or why there is none."""


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

    `render` is pure and deterministic: the digest of the form and the fields of the request determine every message. A
    form that is for decision models has a method `ask` too, which returns the `Questionnaire` of a request; what it
    renders is what the model reads of it, and `billed` returns it with what the questions share once for each.
    """

    @property
    def digest(self) -> bytes:
        """32 bytes over the texts, the output contract and the version of whoever reads the reply."""

    @property
    def scale(self) -> Scale:
        """The grades asked for. Binary forms ask for `verdict` (a bool), graded ones for `grade` (an int)."""

    @property
    def listwise(self) -> bool:
        """Whether one reply judges all passages: `{"verdicts": [{"id": 1, ...}, {"id": 2, ...}]}`.

        Passages are numbered from 1 in the order they are shown. A pointwise reply is one such object
        without `id`. The fields of an object, in order: `id` (listwise only), `evidence`, `reason`,
        `instruction_in_chunk`, and `verdict` or `grade`.
        """

    @property
    def schema(self) -> Mapping[str, Any]:
        """The strict JSON schema of the reply; empty if the reply is one word: `true`, `false` or a grade."""

    @property
    def schema_name(self) -> str:
        """The name the schema goes by, letters and underscores."""

    def render(self, request: Request) -> tuple[Message, ...]:
        """Write the messages: static system text, question, reference or answer, passages."""


@dataclass(frozen=True)
class Request:
    """One question to a backend.

    The fields down to `follow_up` make its digest; the rest says what to do with the answer. Messages
    are rendered when they are needed, so that a cache hit never pays for it.
    """

    form: Form
    query: str
    passages: tuple[Passage, ...]
    """What is asked about; none if the reference itself is."""
    max_tokens: int
    """The cap on the completion's tokens."""
    reference: str | None = None
    """The reference answer; None if the form does not show it."""
    answer: str | None = None
    """The generated answer; None if the form does not show it."""
    claims: tuple[str, ...] = ()
    """What the passages are held against, where the form asks about claims; numbered from 1 where shown."""
    history: str = ""
    """The conversation before the question, as it is shown; empty if there is none."""
    sample: int = 0
    """0 for the first sample; others ask again and are stored apart."""
    follow_up: tuple[Message, ...] = ()
    """Messages after the rendered ones, in a repair."""
    accepts: Callable[[Completion], bool] | None = field(default=None, compare=False, repr=False)
    """Whether a verdict can be read from a completion; one that is not accepted is never stored."""
    gives_up: Callable[[Completion], bool] | None = field(default=None, compare=False, repr=False)
    """Whether the judge goes on without an answer once an unaccepted completion came, and asks for no repair.

    Then `GIVEN_UP` is stored in its place, so that a second run does not pay for the question again.
    """
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
    """How many of the chunks hold each passage; empty if one passage is all, or each has one chunk."""

    @property
    def digest(self) -> bytes:
        """32 bytes over all that was asked (not who was asked: a cache adds the backend's identity)."""
        made: bytes | None = self.__dict__.get("digest")
        if made is None:
            parts = [self._context(), "".join(["-" if title is None else "t" for _, title in self.passages])]
            for text, title in self.passages:
                parts += (text,) if title is None else (title, text)
            for message in self.follow_up:
                parts += (message.role, message.content)
            made = self.__dict__["digest"] = digest_parts(parts)
        return made

    def _context(self) -> str:
        """Digest what all requests of a trace share; made once and handed on by `about`."""
        made: str | None = self.__dict__.get("context")
        if made is None:
            nones = f"{self.reference is None},{self.answer is None}"
            shape = f"{self.max_tokens},{self.sample},{nones}"
            texts = (self.query, self.reference or "", self.answer or "", *self.claims)
            if self.history:
                shape, texts = f"{shape},{conversation.VERSION}", (self.history, *texts)
            made = self.__dict__["context"] = digest_parts((self.form.digest.hex(), shape, *texts)).hex()
        return made

    def about(self, passages: tuple[Passage, ...], chunk_ids: tuple[str, ...]) -> Request:
        """Return the same request about other passages, with what is known of the trace's digest."""
        known = {**self.__dict__, "context": self._context(), "digest": None}
        return filled(Request, {**known, "passages": passages, "chunk_ids": chunk_ids, "held_by": ()})

    @property
    def first(self) -> Request:
        """The question that a chain of repairs began with; the request itself if it is not a repair."""
        first = self
        while first.origin is not None:
            first = first.origin
        return first

    def kept(self, completion: Completion) -> Completion | None:
        """Return what is stored of a completion, under the key of `first`; None if nothing is."""
        if self.accepts is None or self.accepts(completion):
            return completion
        return GIVEN_UP if self.gives_up is not None and self.gives_up(completion) else None

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

    @property
    def billed(self) -> tuple[Message, ...]:
        """The conversation as a server may bill it at most: what questions share, once for each."""
        bill: Callable[[Request], tuple[Message, ...]] | None = getattr(self.form, "billed", None)
        return self.messages if bill is None else bill(self)

    @property
    def operation(self) -> Literal["chat", "decisions"]:
        """What is asked for: a text, or the answers of a decision model."""
        return "decisions" if hasattr(self.form, "ask") else "chat"

    @property
    def questionnaire(self) -> Questionnaire | None:
        """The questions for a decision model; None if the request is a conversation."""
        ask: Callable[[Request], Questionnaire] | None = getattr(self.form, "ask", None)
        return None if ask is None else ask(self)

    def halves(self) -> tuple[Request, Request]:
        """Return two requests that ask together what this one asks; raises `ValueError` if it has one passage."""
        if len(self.passages) < 2:
            raise ValueError("a request about one passage has no halves")
        counts, cut = self.chunks_by_passage(), len(self.passages) // 2
        return self._part(counts, 0, cut), self._part(counts, cut, len(counts))

    def _part(self, by_passage: list[tuple[str, ...]], start: int, end: int) -> Request:
        ids = tuple(chunk_id for some in by_passage[start:end] for chunk_id in some)
        part = self.about(self.passages[start:end], ids)
        return filled(Request, {**part.__dict__, "held_by": tuple(map(len, by_passage[start:end]))})


def with_secret_fences(request: Request, secret: bytes) -> Request:
    """Return a request as it is sent: the same digest, its fences marked from a secret where the form can.

    A form can if it has a method `with_secret_fences`, which returns the same form with marks that cannot be told
    without the secret.
    """
    marked: Callable[[bytes], Form] | None = getattr(request.form, "with_secret_fences", None)
    return request if marked is None else filled(Request, {**request.__dict__, "form": marked(secret)})
