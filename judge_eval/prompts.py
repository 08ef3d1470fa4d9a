"""The prompt files: found, checked, fingerprinted, made into forms that render requests."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from copy import copy
from functools import cache, cached_property
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from string import Template
from typing import Any, Literal, TypeVar

from pydantic import Field

from judge_eval.digest import digest_json, digest_parts
from judge_eval.errors import DataError, PromptError, UnknownNameError
from judge_eval.fences import PUBLIC, marks_of
from judge_eval.record import Record
from judge_eval.schema import BINARY, GRADED, EvidencePolicy, Scale
from judge_eval.wire import Message, Request

READING = "1"
"""The version of how replies are read and repaired; part of every form's digest, so of every cache key."""

_NAMES = {
    "reference": {"mark", "query", "reference", "chunks"},
    "answer": {"mark", "query", "answer", "chunks"},
    "": {"mark", "query", "chunks"},
}


R = TypeVar("R", bound=Record)


class _Digested(Record):
    @property
    def digest(self) -> str:
        """64 hexadecimal digits over every field."""
        return digest_json(self.model_dump(mode="json"))


class Prompt(_Digested):
    """One prompt file: the texts the judge is given and the contract of its reply.

    The texts are `string.Template`s, filled in one pass: `$query`, `$reference` or `$answer` (whatever
    `needs` names), `$chunks` and `$mark` in `user`; `$text`, `$mark`, in listwise prompts `$number`, and in
    `titled_chunk` `$title`. A literal dollar sign there is written `$$`; `system` and `contract` are plain.
    """

    id: str = Field(pattern=r"^[a-z0-9_-]+(/[a-z0-9_-]+)*$")
    version: int = Field(ge=1)
    mode: Literal["pointwise", "listwise"]
    scale: Literal["binary", "graded"]
    needs: tuple[Literal["reference", "answer"], ...] = Field(default=(), max_length=1)
    """What a trace must bring besides the question: `reference`, `answer`, or nothing."""
    max_tokens: int = Field(ge=16)
    """The cap on the reply's tokens; in a listwise prompt for each chunk."""
    evidence: EvidencePolicy | None = None
    """What becomes of a relevant verdict without sound evidence, where nobody says otherwise; None flags it.

    It changes nothing that is asked, so it is no part of the digest.
    """
    system: str
    contract: str
    """The form of the reply in words; follows `system` in the same message."""
    user: str
    chunk: str
    titled_chunk: str

    @property
    def digest(self) -> str:
        """64 hexadecimal digits over every field that changes what is asked."""
        return digest_json(self.model_dump(mode="json", exclude={"evidence"}))

    @property
    def grades(self) -> Scale:
        """The scale with its threshold."""
        return BINARY if self.scale == "binary" else GRADED

    @property
    def ref(self) -> str:
        """The id and version, as `support/binary@1`."""
        return f"{self.id}@{self.version}"

    def check(self) -> None:
        """Compare the placeholders in the texts with the names that will be given.

        Raises:
            PromptError: A placeholder is unknown, missing or malformed.
        """
        need = self.needs[0] if self.needs else ""
        number = {"number"} if self.mode == "listwise" else set()
        expected = {
            "user": _NAMES[need],
            "chunk": {"mark", "text"} | number,
            "titled_chunk": {"mark", "text", "title"} | number,
        }
        for name, wanted in expected.items():
            template = Template(getattr(self, name))
            if not template.is_valid():
                raise PromptError(
                    f"prompt {self.id!r}, {name}: a `$` starts no name; write `$$` for a dollar sign"
                )
            names = set(template.get_identifiers())
            if names != wanted:
                odd = ", ".join(f"${n}" for n in sorted(names - wanted))
                lost = ", ".join(f"${n}" for n in sorted(wanted - names))
                faults = "; ".join(t for t in (odd and f"unknown {odd}", lost and f"missing {lost}") if t)
                raise PromptError(f"prompt {self.id!r}, {name}: the placeholders do not fit: {faults}")


class Repair(_Digested):
    """What the judge is told when an answer could not be read or quotes nothing."""

    id: Literal["repair"]
    version: int = Field(ge=1)
    unreadable: str
    """A template with `$problem`."""
    evidence: str


class PromptForm:
    """A prompt as a `wire.Form`: renders messages, knows the reply's schema, has a digest.

    Args:
        prompt: The prompt.
        repair: What is said in repairs.
        pinned: Whether this very version was asked for; else a run that is resumed keeps its own.
    """

    def __init__(self, prompt: Prompt, repair: Repair, *, pinned: bool = True) -> None:
        self.prompt, self.repair, self.pinned = prompt, repair, pinned
        self._key = PUBLIC
        self._system = Message("system", prompt.system.strip() + "\n" + prompt.contract.strip())
        self._user, self._chunk, self._titled = (
            Template(text.strip()) for text in (prompt.user, prompt.chunk, prompt.titled_chunk)
        )

    @cached_property
    def digest(self) -> bytes:
        """32 bytes over the prompt, the repair texts and the version of the reading."""
        return digest_parts([self.prompt.digest, self.repair.digest, READING])

    @cached_property
    def scale(self) -> Scale:
        """The prompt's scale."""
        return self.prompt.grades

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
        if self.prompt.scale == "graded":
            decision = {"grade": {"type": "integer", "enum": list(range(self.scale.maximum + 1))}}
        fields = {
            "evidence": {"type": "string"},
            "reason": {"type": "string"},
            "instruction_in_chunk": {"type": "boolean"},
            **decision,
        }
        if not self.listwise:
            return _object(fields)
        item = _object({"id": {"type": "integer"}, **fields})
        return _object({"verdicts": {"type": "array", "items": item}})

    def render(self, request: Request) -> tuple[Message, ...]:
        """Write the system and the user message.

        Each fence carries a mark that follows from what it fences, so requests are stable for caches, and
        that occurs in none of their texts. Question and reference share a mark, which makes them a common
        prefix of all requests of a trace. What is sent to a server is `sealed`: its marks follow from a
        secret too.
        """
        query, reference, answer = asked = [request.query, request.reference or "", request.answer or ""]
        passages = request.passages
        fenced = [asked, *([*asked, passage.title or "", passage.text] for passage in passages)]
        own, *marks = marks_of(self._key, fenced)
        blocks = []
        for number, (passage, mark) in enumerate(zip(passages, marks, strict=True), 1):
            template = self._chunk if passage.title is None else self._titled
            blocks.append(  # a template takes what it names
                template.substitute(mark=mark, text=passage.text, title=passage.title, number=number)
            )
        user = self._user.substitute(
            mark=own, query=query, reference=reference, answer=answer, chunks="\n".join(blocks)
        )
        return (self._system, Message("user", user))

    def sealed(self, secret: bytes) -> PromptForm:
        """Return the same form, with the same digest, whose marks cannot be told without the secret."""
        if self._key == secret:
            return self
        form = copy(self)
        form._key = secret
        return form


def _object(fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}


def _root() -> Traversable:
    packed = files("judge_eval") / "_prompts"
    return packed if packed.is_dir() else Path(__file__).parent.parent / "prompts"


def _walk(folder: Traversable, prefix: str = "") -> dict[str, Traversable]:
    entries: dict[str, Traversable] = {}
    for entry in sorted(folder.iterdir(), key=lambda e: e.name):
        if entry.is_dir():
            entries |= _walk(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(".toml"):
            entries[prefix + entry.name.removesuffix(".toml")] = entry
    return entries


def prompt_ids() -> list[str]:
    """List the ids of the shipped prompts, sorted; an id alone means the newest version."""
    return sorted(name for name in _walk(_root()) if name != "repair" and "@" not in name)


def prompt_versions(name: str) -> list[int]:
    """List the shipped versions of a prompt, newest first; none where there is no such id."""
    entries = _walk(_root())
    if name not in entries or name == "repair":
        return []
    older = (int(entry.rpartition("@")[2]) for entry in entries if entry.startswith(f"{name}@"))
    return [_shipped(name).version, *sorted(older, reverse=True)]


@cache
def _shipped(name: str) -> Prompt:
    entries = _walk(_root())
    wanted, _, version = name.partition("@")
    if wanted not in entries or wanted == "repair":
        raise UnknownNameError("prompt", wanted, prompt_ids())
    prompt = _read(entries[wanted], Prompt, wanted)
    if version and str(prompt.version) != version:
        if name not in entries:
            known = ", ".join(map(str, prompt_versions(wanted)))
            raise PromptError(f"prompt {wanted!r} has no version {version!r}; known: {known}")
        prompt = _read(entries[name], Prompt, name)
    prompt.check()
    return prompt


def _read(entry: Traversable, kind: type[R], name: str) -> R:
    try:
        data = tomllib.loads(entry.read_text(encoding="utf-8"))
        return kind.parse(data)
    except (OSError, UnicodeDecodeError) as error:
        raise PromptError(f"prompt file {name}: cannot be read: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise PromptError(f"prompt file {name}: not TOML: {error}") from None
    except DataError as error:
        raise PromptError(f"prompt file {name}: {error}") from None


def load_prompt(name: str | Path) -> Prompt:
    """Load a prompt by id, or a file of your own by its `Path`.

    `support/binary@1` is that version; `support/binary` the newest.

    Raises:
        UnknownNameError: There is no prompt of that id.
        PromptError: The file cannot be read or its placeholders do not fit.
    """
    if isinstance(name, Path):
        prompt = _read(name, Prompt, str(name))
        prompt.check()
        return prompt
    return _shipped(name)


@cache
def load_repair() -> Repair:
    """Load the texts of the repair waves."""
    return _read(_root() / "repair.toml", Repair, "repair")


def load_form(name: str | Path) -> PromptForm:
    """Load a prompt and make a form of it."""
    pinned = isinstance(name, Path) or "@" in name
    return PromptForm(load_prompt(name), load_repair(), pinned=pinned)


def form_of_version(name: str, version: int, *, pinned: bool) -> PromptForm:
    """Load a prompt in a version, or in the newest where it has no such version, and make a form of it.

    Raises:
        UnknownNameError: There is no prompt of that id.
    """
    ref = f"{name}@{version}" if version in prompt_versions(name) else name
    return PromptForm(load_prompt(ref), load_repair(), pinned=pinned)


def lock() -> dict[str, str]:
    """Read the LOCK: the digest of every released prompt, by `id@version`."""
    lines = (_root() / "LOCK").read_text(encoding="utf-8").splitlines()
    rows = (line.split() for line in lines if line.strip() and not line.startswith("#"))
    return {ref: digest for digest, ref in rows}


def check_lock() -> list[str]:
    """Compare the shipped prompts with the LOCK.

    Returns:
        One sentence for each prompt that was changed after its release or is not in the LOCK; empty where
        all is well.
    """
    locked, digests = lock(), {}
    for name in _walk(_root()):
        record: Prompt | Repair = load_repair() if name == "repair" else _shipped(name)
        digests[f"{record.id}@{record.version}"] = record.digest
    faults = [f"{ref} is not in the LOCK" for ref in digests if ref not in locked]
    changed = [ref for ref, digest in digests.items() if locked.get(ref, digest) != digest]
    faults += [f"{ref} was changed after its release: give it a new version" for ref in changed]
    return faults + [f"{ref} is in the LOCK, but its file is gone" for ref in locked if ref not in digests]
