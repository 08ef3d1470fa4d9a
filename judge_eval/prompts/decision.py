"""Prompts for decision models: the file's record, and the form that asks questions by it."""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Literal, Self, TypeAlias, get_args

from pydantic import Field, model_validator

from judge_eval.errors import ConfigError, advise
from judge_eval.prompts.chat import PromptedForm, PromptRecord, filler, load_conversation
from judge_eval.record import Record
from judge_eval.wire import DecisionQuestion, Level, Message, Passage, Questionnaire, Request

ASKING = "1"
"""The version of how questions are put and answers are read; part of every such form's digest."""

DecisionLayout: TypeAlias = Literal["question", "input", "request"]
"""Where a chunk stands: inside its own question, so that none sees another; with all others in the shared
input; or in the input of a request of its own."""

MOST_LEVELS = 10
"""The most levels of a question: what servers take."""

_CALLED: Mapping[DecisionLayout, str] = {
    "question": "the chunk given with this question",
    "input": "chunk {name} of the input",
    "request": "the chunk of the input",
}


class GradeLevel(Record):
    """One grade of a graded prompt, in words."""

    label: str
    description: str


class DecisionPrompt(PromptRecord):
    """One prompt file for decision models, which answer with probabilities and write nothing.

    `question` is a `string.Template` with `$chunk`, in whose place stands what the chunk is called; a
    literal dollar sign there is written `$$`. The other texts are plain.
    """

    mode: Literal["decision"]
    rules: str
    """What holds for every question; stands before the data."""
    question: str
    """What is asked of each chunk: a statement that is true or not where the scale is binary."""
    levels: tuple[GradeLevel, ...] = Field(default=(), max_length=MOST_LEVELS)
    """The grades of a scale but 0-1, the lowest first; those of a table of levels if empty."""

    @model_validator(mode="after")
    def _levels_of_scale(self) -> Self:
        scale, stated = self.grades, len(self.levels)
        count = 0 if scale.binary else len(scale.grades)
        if count > MOST_LEVELS:
            raise ValueError(
                f"scale: a decision model takes 2 to {MOST_LEVELS} levels, and {scale.span} has {count}; "
                "take fewer levels, or a prompt for a model that writes"
            )
        if stated != count and (stated or not scale.levels):
            raise ValueError(f"levels: a {scale.name} scale has {count}, not {stated}")
        return self

    @property
    def described(self) -> tuple[Level, ...]:
        """The levels as a model is told of them; none on the scale 0-1, which is a statement."""
        scale = self.grades
        if self.levels or scale.binary:
            return tuple(Level(level.label, level.description) for level in self.levels)
        return tuple(Level(str(grade), text) for grade, text in zip(scale.grades, scale.levels, strict=True))

    @property
    def placeholders(self) -> Mapping[str, set[str]]:
        """The names that stand in each of the texts that are templates."""
        return {"question": {"chunk"}}


class QuestionForm(PromptedForm, ABC):
    """What all prompts for decision models are as a `wire.Form`: questions, and no text to be written."""

    listwise = False
    schema_name = ""
    schema: Mapping[str, Any] = {}
    _rules: str

    def _rules_of(self, request: Request) -> str:
        return f"{self._rules}\n{load_conversation().rule.strip()}" if request.history else self._rules

    def _asked_of(self, request: Request) -> dict[str, Any]:
        asked = {"conversation": request.history} if request.history else {}
        return {**asked, "question": request.query}

    @abstractmethod
    def ask(self, request: Request) -> Questionnaire:
        """Return the questions of a request, named `c1`, `c2`, ...; what is not ours stands in JSON data."""

    def render(self, request: Request) -> tuple[Message, ...]:
        """Write out all that the model reads: the rules, the input, and each question with its data."""
        asked = self.ask(request)
        questions = [Message("user", _written(question)) for question in asked.questions]
        return (Message("system", asked.rules), Message("user", json_text(asked.shared)), *questions)

    def billed(self, request: Request) -> tuple[Message, ...]:
        """Write out what the model reads, rules and input once for each question: some servers bill it so."""
        rules, shared, *questions = self.render(request)
        return (rules, shared) * len(questions) + tuple(questions)


class DecisionForm(QuestionForm):
    """A prompt for decision models, a question a passage; unless `pinned`, a resumed run keeps its own."""

    prompt: DecisionPrompt

    def __init__(self, prompt: DecisionPrompt, layout: DecisionLayout = "question", *, pinned: bool = True) -> None:
        if layout not in get_args(DecisionLayout):
            raise ConfigError(f"no layout {layout!r}; {advise(layout, get_args(DecisionLayout))}")
        super().__init__(prompt, pinned, layout, ASKING)
        self.layout = layout
        self._rules = prompt.with_levels(prompt.rules).strip()
        self._question, self._called = filler(prompt.question.strip()), _CALLED[layout]
        self._text = None if layout == "input" else self._asked("")
        self._levels = prompt.described

    def ask(self, request: Request) -> Questionnaire:
        """Return a request's questions, one a passage, named `c1`, `c2`, ...; other texts are JSON data."""
        shared = self._asked_of(request)
        if request.reference is not None:
            shared["reference"] = request.reference
        if request.answer is not None:
            shared["answer"] = request.answer
        own = self.layout == "question"
        if self.layout == "request":
            shared["chunk"] = passage_data(request.passages[0])
        elif self.layout == "input":
            texts = map(passage_data, request.passages)
            shared["chunks"] = {f"c{number}": data for number, data in enumerate(texts, 1)}
        questions = [
            DecisionQuestion(
                f"c{number}",
                self._text or self._asked(f"c{number}"),
                {"chunk": passage_data(passage)} if own else {},
                self._levels,
                self.scale.minimum,
            )
            for number, passage in enumerate(request.passages, 1)
        ]
        return Questionnaire(self._rules_of(request), shared, tuple(questions))

    def _asked(self, name: str) -> str:
        asked = self._question(chunk=self._called.format(name=name))
        return asked[:1].upper() + asked[1:]


def _written(question: DecisionQuestion) -> str:
    levels = "".join(f"\n{line}" for line in question.level_lines)
    return f"{question.text}{levels}" + (f"\n{json_text(question.data)}" if question.data else "")


def json_text(data: Any) -> str:
    """Write data as JSON in the fewest characters, other scripts as they are."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


def passage_data(passage: Passage) -> dict[str, str]:
    """Return a passage as JSON data."""
    if passage.title is None:
        return {"text": passage.text}
    return {"title": passage.title, "text": passage.text}
