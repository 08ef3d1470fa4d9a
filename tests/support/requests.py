"""A small form and requests made of it, for tests of backends."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from judge_eval.digest import digest_parts
from judge_eval.llm.backend import Backend
from judge_eval.schema import BINARY, GRADED, Scale
from judge_eval.wire import Completion, Message, Passage, Request

SYSTEM = "You assess evidence for a retrieval evaluation. Answer with one JSON object. " * 20


@dataclass(frozen=True)
class SmallForm:
    """A form with the fields of the project's own, in few words."""

    system: tuple[str, ...] = (SYSTEM,)
    scale: Scale = BINARY
    listwise: bool = False
    schema_name: str = "judgment"

    @property
    def digest(self) -> bytes:
        """32 bytes over the texts and the shape."""
        return digest_parts([*self.system, self.scale.name, str(self.listwise)])

    @property
    def schema(self) -> Mapping[str, Any]:
        """The strict schema of a reply."""
        fields: dict[str, Any] = {
            "evidence": {"type": "string"},
            "reason": {"type": "string"},
            "instruction_in_chunk": {"type": "boolean"},
        }
        if self.scale == GRADED:
            fields["grade"] = {"type": "integer", "enum": [0, 1, 2, 3]}
        else:
            fields["verdict"] = {"type": "boolean"}
        if not self.listwise:
            return _object(fields)
        item = _object({"id": {"type": "integer"}, **fields})
        return _object({"verdicts": {"type": "array", "items": item}})

    def render(self, request: Request) -> tuple[Message, ...]:
        """Write system texts, question, reference and passages."""
        shown = [f"[passage {n}]\n{p.text}" for n, p in enumerate(request.passages, 1)]
        asked = "\n".join([f"Question: {request.query}", f"Reference: {request.reference}", *shown, "Judge it."])
        return (*(Message("system", text) for text in self.system), Message("user", asked))


def _object(fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}


FORM = SmallForm()


def ask(text: str = "San Marzano tomatoes are crushed by hand for the sauce.", **changes: Any) -> Request:
    """Make a request about one passage; `changes` are fields of `Request`."""
    request = Request(
        form=FORM,
        query="Which tomatoes go into a Neapolitan pizza?",
        passages=(Passage(text),),
        max_tokens=300,
        reference="San Marzano tomatoes.",
    )
    return replace(request, **changes)


def complete(backend: Backend, request: Request | None = None) -> Completion:
    """Make one call in a loop of its own."""

    async def go() -> Completion:
        try:
            return await backend.complete(request or ask())
        finally:
            await backend.aclose()

    return asyncio.run(go())
