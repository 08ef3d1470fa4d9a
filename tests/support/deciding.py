"""Runs judged by a decision model, and by a cascade that begins with one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from judge_eval import EvalRun, Evaluator
from judge_eval.judges import Cascade, Decision, Guarantee, Pointwise

MODELS = {"cheap": "fake/overlap", "strong": "fake/overlap"}
THRESHOLD = 0.9
RESTS = Guarantee("ab" * 32, "strong", alpha=0.05, level=0.95, bound=0.04321, traces=200, coverage=0.61)
"""What a threshold that was fitted to 200 traces may rest on."""


def decided(data: Any, out: Path | None = None, *, cache: Path | None = None, **settings: Any) -> EvalRun:
    """Judge data with an offline decision model."""
    with Evaluator("fake/overlap", mode="decision", cache=cache or False) as evaluator:
        return evaluator.evaluate(data, out=out, **settings)


def cascaded(
    data: Any,
    out: Path | None = None,
    *,
    cache: Path | None = None,
    threshold: float | None = THRESHOLD,
    rests: Guarantee | None = None,
    **settings: Any,
) -> EvalRun:
    """Judge data with an offline decision model, and with a chat model where that is not sure."""
    judge = Cascade(Decision("support/decision"), Pointwise("support/binary"), threshold, guarantee=rests)
    with Evaluator(MODELS, judge=judge, cache=cache or False) as evaluator:
        return evaluator.evaluate(data, out=out, **settings)
