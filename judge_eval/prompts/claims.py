"""Prompts about claims: the files' records, and the forms that render requests or ask questions by them."""

from collections.abc import Mapping
from string import Template
from typing import Any, Literal

from pydantic import Field

from judge_eval.errors import PromptError
from judge_eval.prompts.chat import FencedForm, PromptRecord, PromptScale, WritingPrompt, filler, object_schema
from judge_eval.prompts.decision import ASKING, QuestionForm, passage_data
from judge_eval.wire import DecisionQuestion, Message, Questionnaire, Request

CLAIM_READING = "1"
"""The version of how replies about claims are read and repaired; part of every such form's digest."""

_TEXT: dict[str, Any] = {"type": "string"}
_CELL = object_schema(
    {
        "id": {"type": "integer"},
        "quote": _TEXT,
        "support": {"type": "string", "enum": ["full", "partial", "contradicts"]},
    }
)
_ROW = {"instruction_in_chunk": {"type": "boolean"}, "claims": {"type": "array", "items": _CELL}}


def _list_of(name: str, fields: dict[str, Any]) -> dict[str, Any]:
    return object_schema({name: {"type": "array", "items": object_schema(fields)}})


_SCHEMAS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "split": ("split", _list_of("claims", {"quote": _TEXT, "claim": _TEXT, "vital": {"type": "boolean"}})),
    "claims": ("support", object_schema(_ROW)),
    "claims-list": ("supports", _list_of("chunks", {"id": {"type": "integer"}, **_ROW})),
    "together": (
        "together",
        _list_of(
            "claims",
            {"id": {"type": "integer"}, "quotes": {"type": "array", "items": _TEXT}, "covered": {"type": "boolean"}},
        ),
    ),
}


class ClaimsPrompt(WritingPrompt):
    """One prompt file about claims: the texts the judge is given and the contract of its reply.

    The texts are `string.Template`s, filled in one pass. In `user` stand `$mark` and `$query`, where the
    reference is split `$reference`, else `$claims` and `$chunks`; in `claim` `$number` and `$text`; in
    `chunk` what stands there in other prompts; in `unreadable` and `second_look` `$problem`. A literal
    dollar sign there is written `$$`; `system` and `contract` are plain.
    """

    unasked = {"evidence", "scale"}  # noqa: RUF012
    mode: Literal["split", "claims", "claims-list", "together"]
    scale: PromptScale = "binary"
    """The scale of the verdicts that follow from what is said of claims; nothing that is asked changes."""
    claim_tokens: int = Field(default=0, ge=0)
    """What each claim adds to the cap."""
    claim: str = ""
    chunk: str = ""
    titled_chunk: str = ""
    unreadable: str
    """What the judge is told when an answer could not be read."""
    second_look: str = ""
    """What it is told when an answer lacks something; empty where nothing of the kind is said."""

    @property
    def placeholders(self) -> Mapping[str, set[str]]:
        """The names that stand in each of the texts that are templates."""
        if self.mode == "split":
            return {"user": {"mark", "query", "reference"}, "unreadable": {"problem"}}
        numbered = {"number"} if self.mode in ("claims-list", "together") else set()
        return {
            "user": {"mark", "query", "claims", "chunks"},
            "unreadable": {"problem"},
            "claim": {"number", "text"},
            "chunk": {"mark", "text"} | numbered,
            "titled_chunk": {"mark", "text", "title"} | numbered,
        }

    def check(self) -> None:
        """Raise `PromptError` if a placeholder in the texts is unknown, missing or malformed."""
        super().check()
        if not Template(self.second_look).is_valid():
            raise PromptError(f"prompt {self.id!r}, second_look: a `$` starts no name")


class ClaimsForm(FencedForm):
    """A prompt about claims as a `wire.Form`; unless it is `pinned`, a resumed run keeps its own version."""

    prompt: ClaimsPrompt

    def __init__(self, prompt: ClaimsPrompt, *, pinned: bool = True) -> None:
        super().__init__(prompt, pinned, CLAIM_READING)
        self._show(prompt.system, prompt.contract, prompt.chunk, prompt.titled_chunk, prompt.unreadable)
        self._user, self._claim = filler(prompt.user.strip()), filler(prompt.claim.strip())
        self.listwise = prompt.mode in ("claims-list", "together")
        self.schema_name, self.schema = _SCHEMAS[prompt.mode]

    def second_look(self, problem: str = "") -> str:
        """Return what is said of an answer that lacks something."""
        return Template(self.prompt.second_look.strip()).safe_substitute(problem=problem)

    def render(self, request: Request) -> tuple[Message, ...]:
        """Write the system and the user message, what is not ours between fences; see `FencedForm`."""
        own, chunks = self._fence(request, [request.query, request.reference or "", *request.claims])
        claims = [
            self._claim(number=number, text=" ".join(text.split())) for number, text in enumerate(request.claims, 1)
        ]
        user = self._user(
            mark=own, query=request.query, reference=request.reference or "", claims="\n".join(claims), chunks=chunks
        )
        return self._messages(request, own, user)


class CellPrompt(PromptRecord):
    """One prompt file for decision models that are asked about claims; its texts are plain."""

    unasked = {"scale"}  # noqa: RUF012
    mode: Literal["claims-decision"]
    scale: PromptScale = "binary"
    """The scale of the verdicts that follow from what is said of claims; nothing that is asked changes."""
    rules: str
    """What holds for every question; stands before the data."""
    question: str
    """What is asked of each claim and one chunk: a statement that is true or not."""
    together: str
    """What is asked of each claim and all chunks."""


class CellForm(QuestionForm):
    """A prompt about claims as a `wire.Form` for decision models: one question for each claim.

    A chunk stands in the input, alone, so that no chunk is seen beside another; a claim stands in its own
    question. If the prompt asks about all chunks at once, they stand in the input `together`. A `pinned`
    version was asked for; else a run that is resumed keeps its own.
    """

    prompt: CellPrompt

    def __init__(self, prompt: CellPrompt, *, together: bool = False, pinned: bool = True) -> None:
        super().__init__(prompt, pinned, "together" if together else "alone", ASKING)
        self.together = together
        self._rules = prompt.rules.strip()
        self._question = (prompt.together if together else prompt.question).strip()

    def ask(self, request: Request) -> Questionnaire:
        """Return a request's questions, one a claim, named `c1`, `c2`, ...; texts of others are JSON data."""
        shared = self._asked_of(request)
        if self.together:
            texts = enumerate(map(passage_data, request.passages), 1)
            shared["chunks"] = {f"c{number}": data for number, data in texts}
        else:
            (passage,) = request.passages
            shared["chunk"] = passage_data(passage)
        questions = (
            DecisionQuestion(f"c{number}", self._question, {"claim": text})
            for number, text in enumerate(request.claims, 1)
        )
        return Questionnaire(self._rules_of(request), shared, tuple(questions))
