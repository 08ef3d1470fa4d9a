"""What every prompt file says of itself, whatever kind of model it is for."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from judge_eval.digest import digest_json
from judge_eval.record import Record
from judge_eval.schema import BINARY, GRADED, Scale


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
    scale: Literal["binary", "graded"]
    needs: tuple[Literal["reference", "answer"], ...] = Field(default=(), max_length=1)
    """What a trace must bring besides the question: `reference`, `answer`, or nothing."""

    @property
    def grades(self) -> Scale:
        """The scale with its threshold."""
        return BINARY if self.scale == "binary" else GRADED

    @property
    def ref(self) -> str:
        """The id and version, as `support/binary@1`."""
        return f"{self.id}@{self.version}"
