"""How sure a judge is of the side of the threshold that its verdict took, in hundredths.

A threshold that was fitted on some verdicts and is applied to others holds only where both were compared
with it in one way: this one.
"""

from __future__ import annotations

import math
from typing import Final

CONFIDENCE_GRID: Final[tuple[float, ...]] = tuple(hundredth / 100 for hundredth in range(50, 101))
"""The thresholds that a cascade chooses from: .50, .51, ... 1.00."""

_SLACK = 1e-6


def side_confidence(probability: float, relevant: bool | None = None) -> float:
    """Return the probability of a verdict's own side of the threshold.

    Args:
        probability: Of being relevant, in [0, 1].
        relevant: The side the verdict took. None: the likelier one, as a yes-or-no question is read; then
            the result is max(p, 1 - p). A graded verdict may take the less likely side, below .5.

    Raises:
        ValueError: The probability is not in [0, 1].
    """
    if not 0 <= probability <= 1:
        raise ValueError(f"probability: {probability!r} is not between 0 and 1")
    if relevant is None:
        return max(probability, 1 - probability)
    return probability if relevant else 1 - probability


def hundredths(confidence: float) -> int:
    """Return the greatest number of hundredths that a confidence reaches, 0 to 100.

    Servers send two decimals, and neither .57 nor 1 - .43 times 100 is 57 in binary floating point: a
    confidence that is less than a millionth below a hundredth counts as that hundredth. This covers sums of
    probabilities, and numbers that were once single precision.

    Args:
        confidence: In [0, 1], up to a millionth.

    Raises:
        ValueError: It is no number in that range.
    """
    if not -_SLACK <= confidence <= 1 + _SLACK:
        raise ValueError(f"confidence: {confidence!r} is not between 0 and 1")
    return min(100, max(0, math.floor((confidence + _SLACK) * 100)))


def is_sure(confidence: float | None, threshold: float | None) -> bool:
    """Say whether a cascade keeps a verdict, being sure enough of its side, or escalates it.

    Kept is confidence >= threshold, both in hundredths.

    Args:
        confidence: The probability of the verdict's own side (`side_confidence`); None, where there is none,
            is never kept.
        threshold: One of `CONFIDENCE_GRID`; None escalates all.

    Raises:
        ValueError: The confidence is not in [0, 1], or the threshold is none of the grid.
    """
    if threshold is not None and threshold not in CONFIDENCE_GRID:
        raise ValueError(f"threshold: {threshold!r} is none of .50, .51, ... 1.00")
    if confidence is None or threshold is None:
        return False
    return hundredths(confidence) >= round(threshold * 100)
