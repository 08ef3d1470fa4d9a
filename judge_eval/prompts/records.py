"""What every prompt file says of itself, whatever kind of model it is for."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Discriminator, Field, Tag

from judge_eval.digest import digest_json
from judge_eval.record import Record
from judge_eval.schema import BINARY, GRADED, Scale

ScaleName: TypeAlias = Literal["binary", "graded"]
"""The scales that are known by name: 0 and 1, and 0 to 3 with 2 and 3 relevant."""

PromptScale: TypeAlias = Annotated[
    Annotated[ScaleName, Tag("name")] | Annotated[Scale, Tag("table")],
    Discriminator(lambda value: "name" if isinstance(value, str) else "table"),
]
"""A prompt's scale: the name of a shipped one, or its levels."""


class Digested(Record):
    """A record that every field of changes what is asked."""

    @property
    def digest(self) -> str:
        """64 hexadecimal digits over every field."""
        return digest_json(self.model_dump(mode="json"))


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


def scale_named(name: ScaleName) -> Scale:
    """Return a shipped scale."""
    return BINARY if name == "binary" else GRADED
