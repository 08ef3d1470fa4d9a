"""Prompt files: what every one says of itself, and the form that renders requests for models that write."""

import tomllib
from collections.abc import Callable, Mapping
from copy import copy
from functools import cache, cached_property
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from string import Template
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias, TypeVar

from pydantic import Discriminator, Field, Tag, ValidationError, model_validator

from judge_eval.delimiters import PUBLIC, nonces_of
from judge_eval.digest import digest_json, digest_parts
from judge_eval.errors import PromptError
from judge_eval.files import read_named
from judge_eval.record import Record, faults_of
from judge_eval.schema import BINARY, GRADED, EvidencePolicy, Scale
from judge_eval.wire import Message, Request

R = TypeVar("R", bound=Record)

ScaleName: TypeAlias = Literal["binary", "graded"]
"""The scales that are known by name: 0 and 1, and 0 to 3 with 2 and 3 relevant."""

PromptScale: TypeAlias = Annotated[
    Annotated[ScaleName, Tag("name")] | Annotated[Scale, Tag("table")],
    Discriminator(lambda value: "name" if isinstance(value, str) else "table"),
]
"""A prompt's scale: the name of a shipped one, or its levels."""


def filler(text: str) -> Callable[..., str]:
    """Return what fills a `string.Template` that was checked: a call of `str.format`, in a quarter of its time.

    No value is scanned for placeholders, and none that the text does not name is taken.
    """
    pieces, at = [], 0
    for match in Template.pattern.finditer(text):
        name = match["named"] or match["braced"]
        pieces += [_literal(text[at : match.start()]), f"{{{name}}}" if name else "$"]
        at = match.end()
    return "".join([*pieces, _literal(text[at:])]).format


def _literal(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


class Digested(Record):
    """A record of texts that are asked."""

    unasked: ClassVar[set[str]] = set()
    """Fields that change nothing that is asked."""

    @property
    def digest(self) -> str:
        """64 hexadecimal digits over every field that changes what is asked."""
        return digest_json(self.model_dump(mode="json", exclude=self.unasked))


class PromptRecord(Digested):
    """The fields that prompts of all modes have."""

    id: str = Field(pattern=r"^[a-z0-9_-]+(/[a-z0-9_-]+)*$")
    version: int = Field(ge=1)
    scale: PromptScale
    needs: tuple[Literal["reference", "answer"], ...] = Field(default=(), max_length=1)
    """What a trace must bring besides the question: `reference`, `answer`, or nothing."""

    @property
    def grades(self) -> Scale:
        """The scale with its threshold."""
        return scale_named(self.scale) if isinstance(self.scale, str) else self.scale

    @property
    def ref(self) -> str:
        """The id and version, as `support/binary@1`."""
        return f"{self.id}@{self.version}"

    def with_levels(self, text: str) -> str:
        """Write out `$levels` and `$grades` in a text, if the prompt's scale describes its levels."""
        scale = self.grades
        if not scale.levels:
            return text
        lines = (f"- {grade}: {level}" for grade, level in zip(scale.grades, scale.levels, strict=True))
        grades = "true|false" if scale.binary else "|".join(map(str, scale.grades))
        return text.replace("$levels", "\n".join(lines)).replace("$grades", grades)

    @property
    def placeholders(self) -> Mapping[str, set[str]]:
        """The names that stand in each of the texts that are templates."""
        return {}

    def check(self) -> None:
        """Raise `PromptError` if placeholders in the texts are unknown, missing or malformed, with all of these."""
        faults = []
        for name, wanted in self.placeholders.items():
            template = Template(getattr(self, name))
            if not template.is_valid():
                faults.append(f"{name}: a `$` starts no name; write `$$` for a dollar sign")
            elif (names := set(template.get_identifiers())) != wanted:
                odd = ", ".join(f"${n}" for n in sorted(names - wanted))
                lost = ", ".join(f"${n}" for n in sorted(wanted - names))
                problems = "; ".join(t for t in (odd and f"unknown {odd}", lost and f"missing {lost}") if t)
                faults.append(f"{name}: the placeholders do not fit: {problems}")
        if faults:
            raise PromptError(f"prompt {self.id!r}, {'; '.join(faults)}")


class ConversationPrompt(Digested):
    """What every prompt adds for a question with a conversation before it; its limits are of the same version."""

    id: Literal["conversation"]
    version: int = Field(ge=1)
    rule: str
    """Follows the system text."""
    block: str
    """A template with `$mark` and `$history`; precedes the question."""

    @cached_property
    def fill(self) -> Callable[..., str]:
        """Write the block of a conversation."""
        return filler(self.block.strip())


def prompt_folder() -> Traversable:
    """Return the folder of the shipped prompt files."""
    packed = files("judge_eval") / "_prompts"
    return packed if packed.is_dir() else Path(__file__).parent.parent.parent / "prompts"


def toml_table(entry: Traversable, name: str) -> dict[str, Any]:
    """Read a prompt file; raises `PromptError`, which calls it `name`."""
    try:
        data = read_named(entry) if isinstance(entry, Path) else entry.read_bytes()
        return tomllib.loads(data.decode())
    except (OSError, UnicodeDecodeError) as error:
        raise PromptError(f"prompt file {name}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    except tomllib.TOMLDecodeError as error:
        raise PromptError(f"prompt file {name}: not TOML: {error}") from None


def parsed(data: dict[str, Any], kind: type[R], name: str) -> R:
    """Make the record of a prompt file; raises `PromptError` with all faults."""
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        faults = (f"{field}: {text}" if field else text for field, text in faults_of(error))
        lines = [
            fault.replace("unknown field; remove it or put it into `metadata`", "unknown key; remove it")
            for fault in faults
        ]
        raise PromptError(f"prompt file {name}: {'; '.join(lines)}") from None


@cache
def load_conversation() -> ConversationPrompt:
    """Load the texts for questions with a conversation before them."""
    return _part("conversation", ConversationPrompt)


def _part(name: str, kind: type[R]) -> R:
    """Load a file that is a part of what every prompt asks."""
    return parsed(toml_table(prompt_folder() / f"{name}.toml", name), kind, name)


class PromptedForm:
    """What the forms of all prompts have; unless it is `pinned` to its version, a resumed run keeps its own."""

    def __init__(self, prompt: PromptRecord, pinned: bool, *versions: str) -> None:
        self.prompt, self.pinned, self._versions = prompt, pinned, versions

    @cached_property
    def digest(self) -> bytes:
        """32 bytes over the prompt, what it is asked with and the version of how replies are read."""
        return digest_parts([self.prompt.digest, *self._versions])

    @cached_property
    def scale(self) -> Scale:
        """The prompt's scale."""
        return self.prompt.grades


def scale_named(name: ScaleName) -> Scale:
    """Return a shipped scale."""
    return BINARY if name == "binary" else GRADED


class FencedForm(PromptedForm):
    """A form that shows passages between fences.

    Each fence carries a mark that follows from what it fences, so requests are stable for caches, and that
    occurs in none of their texts. What is sent to a server is marked from a secret too (`with_secret_fences`).
    The contract, the form of the reply in words, follows the system text in the same message.
    """

    _key = PUBLIC
    _twin: Self | None = None

    def _show(self, system: str, contract: str, chunk: str, titled_chunk: str, unreadable: str) -> None:
        self.system = system.strip() + "\n" + contract.strip()
        """What is said first to every request: the system text and the contract."""
        self.unreadable = filler(unreadable.strip())
        """Writes what is said of an answer that could not be read because of its `problem`."""
        self._chunk, self._titled = filler(chunk.strip()), filler(titled_chunk.strip())

    def _fence(self, request: Request, asked: list[str]) -> tuple[str, str]:
        """Return the mark for what is asked, and the passages one after the other, each with its own mark."""
        # What is asked has one mark, which makes it a common prefix of all requests of a trace.
        passages, asked = request.passages, [request.history, *asked] if request.history else asked
        fenced = [asked, *([*asked, passage.title or "", passage.text] for passage in passages)]
        own, *marks = nonces_of(self._key, fenced)
        blocks = [
            (self._chunk if passage.title is None else self._titled)(  # it takes what it names
                mark=mark, text=passage.text, title=passage.title, number=number
            )
            for number, (passage, mark) in enumerate(zip(passages, marks, strict=True), 1)
        ]
        return own, "\n".join(blocks)

    def _messages(self, request: Request, mark: str, user: str) -> tuple[Message, Message]:
        """Return the messages of a request: with a conversation its rule and its block, under the question's mark."""
        system = self.system
        if request.history:
            conversation = load_conversation()
            user = f"{conversation.fill(mark=mark, history=request.history)}\n{user}"
            system = f"{system}\n{conversation.rule.strip()}"
        return Message("system", system), Message("user", user)

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


VERDICT_ALONE = "verdict"
"""The contract of a prompt whose reply is one word or digit, without evidence and reason."""
_LEAST_REPLY = 16
"""Tokens: no reply with evidence and reason is shorter."""


class WritingPrompt(PromptRecord):
    """What the prompt files for models that write have in common."""

    max_tokens: int = Field(ge=1)
    """The cap on the reply's tokens; where chunks are judged together for each of them."""
    evidence: EvidencePolicy | None = None
    """What becomes of a verdict that counts without sound evidence, where nobody says otherwise; None flags it.

    It changes nothing that is asked, so it is not part of the digest.
    """
    system: str
    contract: str
    """The form of the reply in words; follows `system` in the same message. `verdict`: the verdict alone."""
    user: str

    @property
    def verdict_alone(self) -> bool:
        """Whether a reply is a verdict and nothing else."""
        return self.contract.strip() == VERDICT_ALONE

    @model_validator(mode="after")
    def _fits_contract(self) -> Self:
        if not self.verdict_alone and self.max_tokens < _LEAST_REPLY:
            raise ValueError(f"max_tokens: must be at least {_LEAST_REPLY}")
        if self.verdict_alone and getattr(self, "mode", "") != "pointwise":
            raise ValueError('contract: a verdict alone is of one chunk; write mode = "pointwise"')
        if self.verdict_alone and self.evidence == "required":
            raise ValueError("evidence: a verdict alone quotes nothing, so evidence cannot be required")
        return self


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


@cache
def load_repair() -> Repair:
    """Load the texts of the repair rounds."""
    return _part("repair", Repair)


class PromptForm(FencedForm):
    """A prompt as a `wire.Form`; unless it is `pinned` to its version, a resumed run keeps its own."""

    prompt: Prompt

    def __init__(self, prompt: Prompt, repair: Repair | None = None, *, pinned: bool = True) -> None:
        self.repair = repair = repair or load_repair()
        contract, unreadable, versions = prompt.contract, repair.unreadable, [repair.digest, READING]
        if prompt.verdict_alone:
            scale = prompt.grades
            kind, words = ("word", "true or false") if scale.binary else ("number", ", ".join(map(str, scale.grades)))
            contract = f"Answer with one {kind} only: {words}."
            unreadable = f"That answer could not be read: $problem.\n{contract}"
            versions = [contract, unreadable, READING]
        super().__init__(prompt, pinned, *versions)
        system, contract = map(prompt.with_levels, (prompt.system, contract))
        self._show(system, contract, prompt.chunk, prompt.titled_chunk, unreadable)
        self._user = filler(prompt.user.strip())
        self.listwise = prompt.mode == "listwise"
        self.schema_name = "verdicts" if self.listwise else "verdict"

    @cached_property
    def schema(self) -> Mapping[str, Any]:
        """The strict JSON schema of the reply, fields in the order they are to be written; empty of a verdict alone."""
        if self.prompt.verdict_alone:
            return {}
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
        own, chunks = self._fence(request, asked)
        user = self._user(mark=own, query=query, reference=reference, answer=answer, chunks=chunks)
        return self._messages(request, own, user)


def object_schema(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the strict schema of an object with these fields, all of them, in this order."""
    return {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}
