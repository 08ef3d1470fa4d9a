"""Prompts about claims for decision models: the file's record, and the form that asks questions by it."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Literal

from judge_eval.digest import digest_json, digest_parts
from judge_eval.prompts.decision import ASKING, QuestionForm, passage_data
from judge_eval.prompts.records import PromptRecord
from judge_eval.wire import DecisionQuestion, Questionnaire, Request


class CellPrompt(PromptRecord):
    """One prompt file for decision models that are asked about claims; its texts are plain."""

    mode: Literal["claims-decision"]
    scale: Literal["binary", "graded"] = "binary"
    """The scale of the verdicts that follow from what is said of claims; nothing that is asked changes."""
    rules: str
    """What holds for every question; stands before the data."""
    question: str
    """What is asked of each claim and one chunk: a statement that is true or not."""
    together: str
    """What is asked of each claim and all chunks."""

    @property
    def digest(self) -> str:
        """64 hexadecimal digits over every field that changes what is asked."""
        return digest_json(self.model_dump(mode="json", exclude={"scale"}))

    def check(self) -> None:
        """See that nothing is wrong: the texts have no placeholders."""


class CellForm(QuestionForm):
    """A prompt about claims as a `wire.Form` for decision models: one question for each claim.

    A chunk stands in the input, alone, so that no chunk is seen beside another; a claim stands in its own
    question.

    Args:
        prompt: The prompt.
        together: Whether it asks about all chunks at once, which then stand in the input together.
        pinned: Whether this very version was asked for; else a run that is resumed keeps its own.
    """

    prompt: CellPrompt

    def __init__(self, prompt: CellPrompt, *, together: bool = False, pinned: bool = True) -> None:
        self.prompt, self.together, self.pinned = prompt, together, pinned
        self._rules = prompt.rules.strip()
        self._question = (prompt.together if together else prompt.question).strip()

    @cached_property
    def digest(self) -> bytes:
        """32 bytes over the prompt, what it asks about and the version of the asking."""
        return digest_parts([self.prompt.digest, "together" if self.together else "alone", ASKING])

    def ask(self, request: Request) -> Questionnaire:
        """Return the questions of a request, one a claim, named `c1`, `c2`, ... in their order.

        Every text that is not ours stands in JSON data.
        """
        shared: dict[str, Any] = {"question": request.query}
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
        return Questionnaire(self._rules, shared, tuple(questions))
