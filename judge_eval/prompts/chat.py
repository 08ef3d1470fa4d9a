"""Prompts for models that write: the file's record, and the form that renders requests by it."""

from collections.abc import Mapping, Sequence
from copy import copy
from functools import cached_property
from typing import Any, Literal, Self

from pydantic import Field

from judge_eval.delimiters import PUBLIC, nonces_of
from judge_eval.prompts.prompt_record import Digested, PromptedForm, PromptRecord, filler
from judge_eval.schema import EvidencePolicy
from judge_eval.wire import Message, Passage, Request


class FencedForm(PromptedForm):
    """A form that shows passages between fences.

    Each fence carries a mark that follows from what it fences, so requests are stable for caches, and that
    occurs in none of their texts. What is sent to a server is marked from a secret too (`with_secret_fences`).
    The contract, the form of the reply in words, follows the system text in the same message.
    """

    _key = PUBLIC
    _twin: Self | None = None

    def unreadable(self, problem: str) -> str:
        """Return what is said of an answer that could not be read."""
        return self._unreadable(problem=problem)

    def _show(self, system: str, contract: str, chunk: str, titled_chunk: str, unreadable: str) -> None:
        self._system = Message("system", system.strip() + "\n" + contract.strip())
        self._chunk, self._titled = filler(chunk.strip()), filler(titled_chunk.strip())
        self._unreadable = filler(unreadable.strip())

    def _fence(self, asked: list[str], passages: Sequence[Passage]) -> tuple[str, str]:
        """Return the mark for what is asked, and the passages one after the other, each with its own mark."""
        # What is asked has one mark, which makes it a common prefix of all requests of a trace.
        fenced = [asked, *([*asked, passage.title or "", passage.text] for passage in passages)]
        own, *marks = nonces_of(self._key, fenced)
        blocks = [
            (self._chunk if passage.title is None else self._titled)(  # it takes what it names
                mark=mark, text=passage.text, title=passage.title, number=number
            )
            for number, (passage, mark) in enumerate(zip(passages, marks, strict=True), 1)
        ]
        return own, "\n".join(blocks)

    def with_secret_fences(self, secret: bytes) -> Self:
        """Return the same form, with the same digest, whose marks cannot be told without the secret."""
        if self._key == secret:
            return self
        if self._twin is None or self._twin._key != secret:
            self._twin = copy(self)
            self._twin._key, self._twin._twin = secret, None
        return self._twin


READING = "1"
"""The version of how replies are read and repaired; part of every form's digest, so of every cache key."""


class WritingPrompt(PromptRecord):
    """What the prompt files for models that write have in common."""

    max_tokens: int = Field(ge=16)
    """The cap on the reply's tokens; where chunks are judged together for each of them."""
    evidence: EvidencePolicy | None = None
    """What becomes of a verdict that counts without sound evidence, where nobody says otherwise; None flags it.

    It changes nothing that is asked, so it is not part of the digest.
    """
    system: str
    contract: str
    """The form of the reply in words; follows `system` in the same message."""
    user: str


class Prompt(WritingPrompt):
    """One prompt file: the texts the judge is given and the contract of its reply.

    The texts are `string.Template`s, filled in one pass: `$query`, `$reference` or `$answer` (whatever
    `needs` names), `$chunks` and `$mark` in `user`; `$text`, `$mark`, in listwise prompts `$number`, and in
    `titled_chunk` `$title`. A literal dollar sign there is written `$$`; `system` and `contract` are plain,
    but for `$levels` and `$grades` if the prompt's scale is a table of levels.
    """

    unasked = {"evidence"}  # noqa: RUF012
    mode: Literal["pointwise", "listwise"]
    chunk: str
    titled_chunk: str

    @property
    def placeholders(self) -> Mapping[str, set[str]]:
        """The names that stand in each of the texts that are templates."""
        number = {"number"} if self.mode == "listwise" else set()
        return {
            "user": {"mark", "query", "chunks", *self.needs},
            "chunk": {"mark", "text"} | number,
            "titled_chunk": {"mark", "text", "title"} | number,
        }


class Repair(Digested):
    """What the judge is told when an answer could not be read or quotes nothing."""

    id: Literal["repair"]
    version: int = Field(ge=1)
    unreadable: str
    """A template with `$problem`."""
    evidence: str


class PromptForm(FencedForm):
    """A prompt as a `wire.Form`; unless it is `pinned` to its version, a resumed run keeps its own."""

    prompt: Prompt

    def __init__(self, prompt: Prompt, repair: Repair, *, pinned: bool = True) -> None:
        super().__init__(prompt, pinned, repair.digest, READING)
        system, contract = map(prompt.with_levels, (prompt.system, prompt.contract))
        self._show(system, contract, prompt.chunk, prompt.titled_chunk, repair.unreadable)
        self.repair, self._user = repair, filler(prompt.user.strip())

    @property
    def listwise(self) -> bool:
        """Whether one reply judges all passages."""
        return self.prompt.mode == "listwise"

    @property
    def schema_name(self) -> str:
        """The name the schema goes by."""
        return "verdicts" if self.listwise else "verdict"

    @cached_property
    def schema(self) -> Mapping[str, Any]:
        """The strict JSON schema of the reply, fields in the order they are to be written."""
        decision: dict[str, Any] = {"verdict": {"type": "boolean"}}
        if not self.scale.binary:
            decision = {"grade": {"type": "integer", "enum": list(self.scale.grades)}}
        fields = {
            "evidence": {"type": "string"},
            "reason": {"type": "string"},
            "instruction_in_chunk": {"type": "boolean"},
            **decision,
        }
        if not self.listwise:
            return object_schema(fields)
        item = object_schema({"id": {"type": "integer"}, **fields})
        return object_schema({"verdicts": {"type": "array", "items": item}})

    def render(self, request: Request) -> tuple[Message, ...]:
        """Write the system and the user message, what is not ours between fences; see `FencedForm`."""
        query, reference, answer = asked = [request.query, request.reference or "", request.answer or ""]
        own, chunks = self._fence(asked, request.passages)
        user = self._user(mark=own, query=query, reference=reference, answer=answer, chunks=chunks)
        return (self._system, Message("user", user))


def object_schema(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the strict schema of an object with these fields, all of them, in this order."""
    return {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}
