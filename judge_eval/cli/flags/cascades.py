"""The flags on cascades: a cheap judge first, a strong one if that is not confident; a judge file states the rest."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import partial
from typing import Annotated

from judge_eval.errors import ConfigError
from judge_eval.settings import Setting
from judge_eval.spelling import option

_setting = partial(Setting, panel="A cascade of two judges", changes_verdict=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class CascadeFlags:
    """A cascade: its two judges, and from which confidence the cheap one decides."""

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
    cascade_threshold: Annotated[
        float | None,
        _setting(
            "With --cascade: the confidence (.50, .51, ... 1.00) from which a cheap verdict is final. It has "
            "no guarantee; `cascade fit` finds one that has."
        ),
    ] = None

    def check_cascade(self) -> None:
        """Check that options of a cascade come with its cheap judge."""
        for field in fields(CascadeFlags):
            if getattr(self, field.name) is not None:
                raise ConfigError(
                    f"{option(field.name)} is for a cascade: name its cheap judge too, {option('cascade', 'MODEL')}"
                )
