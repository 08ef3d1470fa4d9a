"""Requests: what a judge asks a backend."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal, NamedTuple, Protocol

from judge_eval.digest import digest_parts
from judge_eval.schema import Scale
from judge_eval.wire.completions import Completion
from judge_eval.wire.filled import filled
from judge_eval.wire.questions import Questionnaire


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
    every message. A form that is for decision models has a method `ask` too, which returns the
    `Questionnaire` of a request; what it renders is what the model reads of it, and `billed` returns it
    with what the questions share once for each.
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


@dataclass(frozen=True)
class Request:
    """One question to a backend.

    The fields down to `follow_up` make its digest; the rest says what to do with the answer. Messages
    are rendered when they are needed, so that a cache hit never pays for it.
    """

    form: Form
    query: str
    passages: tuple[Passage, ...]
    """What is asked about; none where the reference itself is."""
    max_tokens: int
    """The cap on the completion's tokens."""
    reference: str | None = None
    """The reference answer; None where the form does not show it."""
    answer: str | None = None
    """The generated answer; None where the form does not show it."""
    claims: tuple[str, ...] = ()
    """What the passages are held against, where the form asks about claims; numbered from 1 where shown."""
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
            texts = (self.query, self.reference or "", self.answer or "", *self.claims)
            made = self.__dict__["context"] = digest_parts((self.form.digest.hex(), shape, *texts)).hex()
        return made

    def about(self, passages: tuple[Passage, ...], chunk_ids: tuple[str, ...]) -> Request:
        """Return the same request about other passages, with what is known of the trace's digest."""
        new = {"context": self._context(), "digest": None, "passages": passages, "chunk_ids": chunk_ids}
        new["held_by"] = ()
        return filled(Request, {**self.__dict__, **new})

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
        """What a decision model is asked; None where the request is a conversation."""
        ask: Callable[[Request], Questionnaire] | None = getattr(self.form, "ask", None)
        return None if ask is None else ask(self)

    def halves(self) -> tuple[Request, Request]:
        """Return two requests that ask together what this one asks.

        Raises:
            ValueError: It is about one passage alone.
        """
        if len(self.passages) < 2:
            raise ValueError("a request about one passage has no halves")
        held, cut = self.chunks_by_passage(), len(self.passages) // 2
        return self._part(held, 0, cut), self._part(held, cut, len(held))

    def _part(self, held: list[tuple[str, ...]], start: int, end: int) -> Request:
        ids = tuple(chunk_id for some in held[start:end] for chunk_id in some)
        part = self.about(self.passages[start:end], ids)
        return filled(Request, {**part.__dict__, "held_by": tuple(map(len, held[start:end]))})


def sealed(request: Request, secret: bytes) -> Request:
    """Return a request as it is sent: the same digest, its fences marked from a secret where the form can.

    A form can if it has a method `sealed`, which returns the same form with marks that cannot be told
    without the secret.
    """
    seal: Callable[[bytes], Form] | None = getattr(request.form, "sealed", None)
    return request if seal is None else filled(Request, {**request.__dict__, "form": seal(secret)})
