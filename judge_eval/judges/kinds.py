"""The kinds of judges: from a prompt, or from what a run's manifest says, to a judge; who can be asked so."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias, cast

from judge_eval.errors import ConfigError, JudgeEvalError, advise
from judge_eval.judges.judge import Judge, models_asked, with_blank
from judge_eval.prompts import DecisionLayout
from judge_eval.registry import MODES, kind_named, kind_of_record, names, stated_of
from judge_eval.schema import EvidencePolicy
from judge_eval.spelling import option

__all__ = ["DEFAULT_PROMPT", "MODES", "Mode"]

Mode: TypeAlias = str
"""How a judge asks: the name of a kind that is made from a prompt, in `MODES` or of an installed package."""
DEFAULT_MODES = "pointwise", "decision"
"""The kind for models that write texts, and the one for those that do not."""
DEFAULT_PROMPT = "support/binary"
"""The prompt of those who name none."""


def mode_for(model: object, asked: Mode | None = None) -> Mode:
    """Return how a model is asked: as named, else (also for `claims`) by decisions if it writes no text."""
    decides = not stated_of(model).writes_text
    if asked is None:
        return DEFAULT_MODES[decides]
    return (decides and asked in MODES and kind_named(asked).for_decisions) or asked


def check_mode(model: object, mode: Mode) -> None:
    """Raise `ConfigError` if a model cannot be asked in a mode: chat model or decision model."""
    asks = kind_named(mode).asks
    if not isinstance(model, str) or asks is None:
        return
    if asks == "text" and not stated_of(model).writes_text:
        raise ConfigError(
            f"{model} answers questions and writes nothing, and the mode is {mode}; judge in decision mode "
            f"({option('mode', 'decision')}, with a prompt such as support/decision), or name a model that "
            "writes"
        )
    if asks == "questions" and not stated_of(model).answers_questions:
        raise ConfigError(
            f"{model} writes texts, and the mode is {mode}; name a decision model "
            f"({option('model', 'decisions/NAME')}), or judge in another mode ({option('mode', 'pointwise')})"
        )


def check_models(judge: Judge, models: object) -> None:
    """Check that chat models are asked for texts, and decision models questions."""
    for use in models_asked(judge):
        check_mode(models.get(use.route) if isinstance(models, Mapping) else models, use.mode)


def routes_to_tell(judge: Judge, models: object) -> list[str]:
    """Return the routes whose judge needs probabilities that a chat model gives only on request."""
    if not isinstance(models, Mapping):
        return []
    routes = {
        use.route: models.get(use.route)
        for use in models_asked(judge)
        if use.confidence and kind_named(use.mode).asks != "questions"
    }
    return [r for r, model in routes.items() if isinstance(model, str) and stated_of(model).takes_logprobs]


def make_judge(
    prompt: str | Path,
    mode: Mode,
    relevant: int | None = None,
    sample: int = 0,
    evidence: EvidencePolicy | None = None,
    layout: DecisionLayout = "question",
) -> Judge:
    """Make the judge for a prompt."""
    # In listwise mode `support/binary` means `listwise/support/binary`, in decision mode `support/decision`;
    # `support/graded` there means `support/decision-graded`. In the modes that judge by claims these two mean
    # the mode's own prompt, with verdicts on the scale that they name.
    if mode not in MODES and mode not in names("judges"):
        raise ConfigError(f"no mode {mode!r}; {advise(mode, (*MODES, *names('judges')))}")
    options = {"relevant": relevant, "sample": sample, "evidence": evidence, "layout": layout}
    return cast(Judge, kind_named(mode).make(prompt, options))


def judge_of_record(record: Mapping[str, Any]) -> Judge:
    """Make a judge again from what `describe` returned, with the versions of prompts that it had."""
    kind = kind_of_record(record)
    if kind.from_record is None:
        raise JudgeEvalError("this judge's prompts are not ones that can be rendered again")
    return with_blank(cast(Judge, kind.from_record(record)), record.get("blank"))


def judge_in_words(record: Mapping[str, Any]) -> str | None:
    """Name the prompt of a judge, or say which judges it is made of; None if its record does not say."""
    prompt = record.get("prompt")
    if isinstance(prompt, Mapping):
        return f"{prompt.get('id', 'a custom prompt')}@{prompt.get('version', '?')}"
    words = kind_of_record(record).words
    return None if words is None else words(record)
