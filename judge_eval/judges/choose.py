"""From a prompt and a way of asking to a judge."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from judge_eval.judges.base import Judge
from judge_eval.judges.listwise import Listwise
from judge_eval.judges.panel import Panel
from judge_eval.judges.pointwise import Pointwise
from judge_eval.judges.votes import Vote
from judge_eval.ranges import check_ranges


def make_judge(
    prompt: str | Path,
    mode: Literal["pointwise", "listwise"] = "pointwise",
    relevant: int | None = None,
    sample: int = 0,
) -> Judge:
    """Make the judge for a prompt; in listwise mode `support/binary` means `listwise/support/binary`."""
    if mode == "pointwise":
        return Pointwise(prompt, relevant=relevant, sample=sample)
    if isinstance(prompt, str) and not prompt.startswith("listwise/"):
        prompt = f"listwise/{prompt}"
    return Listwise(prompt, relevant=relevant, sample=sample)


def repeated(
    prompt: str | Path,
    mode: Literal["pointwise", "listwise"] = "pointwise",
    relevant: int | None = None,
    repeat: int = 1,
    vote: Vote = "majority",
) -> Judge:
    """Make the judge for a prompt, or a panel of samples of it where it is to be asked several times.

    Raises:
        ConfigError: `repeat` or `relevant` is out of its range.
    """
    check_ranges({"repeat": repeat, "relevant": relevant})
    if repeat == 1:
        return make_judge(prompt, mode, relevant)
    return Panel.of_samples(lambda k: make_judge(prompt, mode, relevant, k), repeat, vote=vote)
