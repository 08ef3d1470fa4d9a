"""The flags on cascades: a cheap judge first, a strong one if that is not confident."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from judge_eval.errors import ConfigError
from judge_eval.registry import MODES
from judge_eval.settings import Setting
from judge_eval.spelling import option

if TYPE_CHECKING:
    ModeName: TypeAlias = str
else:  # typer makes a choice of it
    ModeName = Literal[MODES]
_setting = partial(Setting, panel="A cascade of two judges", changes_verdict=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class CascadeModels:
    """The two judges of a cascade."""

    cascade: Annotated[
        str | None,
        _setting(
            "Judge with two models: this one first, and --strong-model if it is not confident. It must "
            "return probabilities: decisions/NAME, or a chat model with log-probabilities.",
            metavar="MODEL",
            completion="models",
            common=True,
        ),
    ] = None
    strong_model: Annotated[
        str | None,
        _setting(
            "With --cascade: the strong judge. Default: --model.", metavar="MODEL", completion="models", common=True
        ),
    ] = None
    cascade_mode: Annotated[
        ModeName | None,
        _setting(
            "How the cheap judge is asked; `listwise` shows it whole traces. Default: `decision` for "
            "decisions/NAME, else `pointwise`. --mode is that of the strong judge."
        ),
    ] = None
    cascade_prompt: Annotated[
        str | None, _setting("The cheap judge's prompt, if it is not of the family of --prompt.", completion="prompts")
    ] = None
    cascade_url: Annotated[str | None, _setting("The URL of the cheap judge's server, if it is not --base-url.")] = None
    cascade_param: Annotated[
        list[str] | None,
        _setting(
            "Sent with every request to the cheap judge (--param reaches it unless it is a decision model); "
            "repeatable.",
            metavar="NAME=VALUE",
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CascadeFlags(CascadeModels):
    """A cascade: its two judges, and from which confidence the cheap one decides."""

    cascade_threshold: Annotated[
        float | None,
        _setting(
            "With --cascade: the confidence (.50, .51, ... 1.00) from which a cheap verdict is final. It has "
            "no guarantee; `cascade fit` finds one that has."
        ),
    ] = None
    explain_positives: Annotated[
        bool, _setting("Also send what the cheap judge accepts to the strong judge, for a reason and a quote.")
    ] = False

    def check_cascade(self) -> None:
        """Check that options of a cascade come with its cheap judge."""
        for field in fields(CascadeFlags):
            if getattr(self, field.name) not in (None, False, []):
                raise ConfigError(
                    f"{option(field.name)} is for a cascade: name its cheap judge too, {option('cascade', 'MODEL')}"
                )
