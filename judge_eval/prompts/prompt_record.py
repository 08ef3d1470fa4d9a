"""What every prompt file says of itself, whatever kind of model it is for."""

from collections.abc import Callable, Mapping
from functools import cached_property
from string import Template
from typing import Annotated, ClassVar, Literal, TypeAlias

from pydantic import Discriminator, Field, Tag

from judge_eval.digest import digest_json, digest_parts
from judge_eval.errors import PromptError
from judge_eval.record import Record
from judge_eval.schema import BINARY, GRADED, Scale

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
