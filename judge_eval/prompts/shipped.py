"""The prompt files: found, checked against the LOCK, made into forms."""

from collections.abc import Callable
from functools import cache
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TypeAlias

from judge_eval.errors import PromptError, UnknownNameError
from judge_eval.prompts.chat import (
    ConversationPrompt,
    Prompt,
    PromptForm,
    Repair,
    load_conversation,
    load_repair,
    parsed,
    prompt_folder,
    toml_table,
)
from judge_eval.prompts.claims import CellForm, CellPrompt, ClaimsForm, ClaimsPrompt
from judge_eval.prompts.decision import DecisionForm, DecisionPrompt

AnyPrompt: TypeAlias = Prompt | DecisionPrompt | ClaimsPrompt | CellPrompt
"""A prompt file, whatever kind of model it is for and whatever it asks about."""
AnyForm: TypeAlias = PromptForm | DecisionForm | ClaimsForm | CellForm
"""The form of one."""
_KINDS: dict[str, type[DecisionPrompt] | type[CellPrompt] | type[ClaimsPrompt]] = {
    "decision": DecisionPrompt,
    "claims-decision": CellPrompt,
    **dict.fromkeys(("split", "claims", "claims-list", "together"), ClaimsPrompt),
}

_FORMS: dict[type[AnyPrompt], Callable[..., AnyForm]] = {
    Prompt: PromptForm,
    DecisionPrompt: DecisionForm,
    ClaimsPrompt: ClaimsForm,
    CellPrompt: CellForm,
}
_PARTS: dict[str, Callable[[], Repair | ConversationPrompt]] = {
    "repair": load_repair,
    "conversation": load_conversation,
}
"""The files that are parts of what every prompt asks, and no prompts by themselves."""


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
    return sorted(name for name in _walk(prompt_folder()) if name not in _PARTS and "@" not in name)


def prompt_versions(name: str) -> list[int]:
    """List the shipped versions of a prompt, newest first; none where there is no such id."""
    entries = _walk(prompt_folder())
    if name not in entries or name in _PARTS:
        return []
    older = (int(entry.rpartition("@")[2]) for entry in entries if entry.startswith(f"{name}@"))
    return [_shipped(name).version, *sorted(older, reverse=True)]


@cache
def _shipped(name: str) -> AnyPrompt:
    entries = _walk(prompt_folder())
    wanted, _, version = name.partition("@")
    if wanted not in entries or wanted in _PARTS:
        advice = f"a file is named by its `Path`: Path({name!r})" if name.endswith(".toml") else None
        raise UnknownNameError("prompt", wanted, prompt_ids(), advice)
    prompt = _read_prompt(entries[wanted], wanted)
    if version and str(prompt.version) != version:
        if name not in entries:
            known = ", ".join(map(str, prompt_versions(wanted)))
            raise PromptError(f"prompt {wanted!r} has no version {version!r}; known: {known}")
        prompt = _read_prompt(entries[name], name)
    return prompt


def _read_prompt(entry: Traversable, name: str) -> AnyPrompt:
    data = toml_table(entry, name)
    kind: type[AnyPrompt] = _KINDS.get(str(data.get("mode")), Prompt)
    prompt = parsed(data, kind, name)
    prompt.check()
    return prompt


def prompt_text(name: str | Path) -> str:
    """Return the file of a prompt as it stands, by id or by its `Path`; raises as `load_prompt`."""
    if isinstance(name, Path):
        toml_table(name, str(name))
        return name.read_text(encoding="utf-8")
    entries = _walk(prompt_folder())
    if name in _PARTS:
        return entries[name].read_text(encoding="utf-8")
    prompt = _shipped(name)
    return entries.get(prompt.ref, entries[prompt.id]).read_text(encoding="utf-8")


def load_prompt(name: str | Path) -> AnyPrompt:
    """Load a prompt by id (`support/binary@1`; without a version the newest), or a file by its `Path`.

    Raises:
        PromptError: It cannot be read, or there is no such version.
        UnknownNameError: There is no such id.
    """
    return _read_prompt(name, str(name)) if isinstance(name, Path) else _shipped(name)


def load_form(name: str | Path) -> AnyForm:
    """Load a prompt and make a form of it."""
    return _form(load_prompt(name), pinned=isinstance(name, Path) or "@" in name)


def form_of_version(name: str, version: int, *, pinned: bool) -> AnyForm:
    """Load a prompt in a version, or in the newest where it has no such version, and make a form of it."""
    ref = f"{name}@{version}" if version in prompt_versions(name) else name
    return _form(load_prompt(ref), pinned=pinned)


def _form(prompt: AnyPrompt, *, pinned: bool) -> AnyForm:
    return _FORMS[type(prompt)](prompt, pinned=pinned)


def lock() -> dict[str, str]:
    """Read the LOCK: the digest of every released prompt, by `id@version`."""
    lines = (prompt_folder() / "LOCK").read_text(encoding="utf-8").splitlines()
    rows = (line.split() for line in lines if line.strip() and not line.startswith("#"))
    return {ref: digest for digest, ref in rows}


def check_lock() -> list[str]:
    """Compare the shipped prompts with the LOCK: a sentence for each that was changed or is not in it."""
    locked, digests = lock(), {}
    for name in _walk(prompt_folder()):
        record: AnyPrompt | Repair | ConversationPrompt = _PARTS[name]() if name in _PARTS else _shipped(name)
        digests[f"{record.id}@{record.version}"] = record.digest
    faults = [f"{ref} is not in the LOCK" for ref in digests if ref not in locked]
    changed = [ref for ref, digest in digests.items() if locked.get(ref, digest) != digest]
    faults += [f"{ref} was changed after its release: give it a new version" for ref in changed]
    return faults + [f"{ref} is in the LOCK, but its file is missing" for ref in locked if ref not in digests]
