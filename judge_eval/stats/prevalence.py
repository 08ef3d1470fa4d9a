"""The rate of relevant chunks, corrected for the judge's errors."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from judge_eval.stats._arrays import check_level, group_codes, group_sums, pair, verdicts
from judge_eval.stats.distributions import normal_ppf
from judge_eval.stats.estimate import Interval

LOW_YOUDEN = 0.3
"""Below this sensitivity + specificity - 1 a Rogan-Gladen estimate carries a warning."""


@dataclass(frozen=True, slots=True)
class CorrectedRate:
    """A rate of relevant chunks, corrected for the judge's sensitivity and specificity."""

    value: float | None
    """In [0, 1]; None where the judge is no better than chance."""
    interval: Interval | None
    judge_only: float
    """The uncorrected rate of chunks that the judge calls relevant."""
    sensitivity: float
    specificity: float
    warnings: tuple[str, ...] = ()

    def __str__(self) -> str:
        value = "undefined" if self.value is None else f"{self.value:.4g} {self.interval}"
        text = f"{value} (judge {self.judge_only:.4g}, sensitivity {self.sensitivity:.4g}, "
        return "; ".join([text + f"specificity {self.specificity:.4g})", *self.warnings])


def rogan_gladen(
    judged: npt.ArrayLike,
    labelled_judge: npt.ArrayLike,
    labelled_human: npt.ArrayLike,
    *,
    traces: tuple[Iterable[Hashable], Iterable[Hashable]] | None = None,
    level: float = 0.95,
) -> CorrectedRate:
    """Return the rate of relevant chunks, corrected for the judge's errors (Rogan and Gladen 1978).

    (rate + specificity - 1) / (sensitivity + specificity - 1), clipped to [0, 1], with a normal interval by
    the delta method, clipped too. It holds where the labelled chunks err as the others do.

    Args:
        judged: The judge's 0 or 1 for the chunks to estimate the rate of, shape (N,).
        labelled_judge: The judge's 0 or 1 for the labelled chunks, shape (n,).
        labelled_human: The human 0 or 1 for the same chunks.
        traces: The traces of `judged` and of the labelled chunks, for an interval that is robust to chunks
            of one trace going together; None: chunks are independent.
        level: Confidence level.

    Returns:
        The corrected rate; its value is None where sensitivity + specificity <= 1. There is a warning where
        that sum is close to 1, because then the estimate divides by next to nothing.

    Raises:
        ValueError: There is no judged chunk, or no labelled one of either kind; a value is neither 0 nor 1;
            lengths differ.
    """
    z = verdicts(judged, "judged")
    judge, human = pair(labelled_judge, labelled_human, ("labelled_judge", "labelled_human"))
    check_level(level)
    judge, human = verdicts(judge, "labelled_judge"), verdicts(human, "labelled_human")
    positive, negative = human == 1, human == 0
    if not (z.size and positive.any() and negative.any()):
        raise ValueError("a judged chunk and labelled chunks of both kinds are needed")
    rate, hit, false = float(z.mean()), float(judge[positive].mean()), float(judge[negative].mean())
    youden = hit - false
    if youden <= 1e-12:
        note = "sensitivity + specificity is not above 1: the judge is no better than chance"
        return CorrectedRate(None, None, rate, hit, 1 - false, (note,))
    raw = (rate - false) / youden
    # Each chunk's influence on the estimate; the sums by trace give a variance robust to clusters.
    influence = np.concatenate([(z - rate) / z.size, np.zeros(judge.size)]) / youden
    influence[z.size :][positive] = -raw * (judge[positive] - hit) / (positive.sum() * youden)
    influence[z.size :][negative] = -(1 - raw) * (judge[negative] - false) / (negative.sum() * youden)
    both = None if traces is None else [*traces[0], *traces[1]]
    codes, groups = group_codes(both, influence.size, "traces")
    error = math.sqrt(float((group_sums(influence, codes, groups) ** 2).sum()))
    half = normal_ppf((1 + level) / 2) * error
    low, value, high = (min(1.0, max(0.0, each)) for each in (raw - half, raw, raw + half))
    notes = []
    if youden < LOW_YOUDEN:
        notes.append(
            f"sensitivity + specificity - 1 is only {youden:.2g}: small errors in it move this a lot"
        )
    if not 0 <= raw <= 1:
        notes.append(
            f"the estimate was {raw:.4g} before clipping: the labelled chunks may differ from the others"
        )
    method = "delta normal" if traces is None else "delta normal by trace"
    return CorrectedRate(value, Interval(low, high, level, method), rate, hit, 1 - false, tuple(notes))
