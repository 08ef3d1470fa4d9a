"""Whether a judge that is asked again about the same chunks is still the same judge."""

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from judge_eval.stats.distributions import normal_ppf

LOOKS_A_YEAR = 52
WINDOWS = (1, 4)
"""How many of the last looks are tested together."""
ALARM = 0.05 / (LOOKS_A_YEAR * len(WINDOWS))
"""The level of each test: .05 for a year of weekly looks through all windows."""
LEAST_FALL = 0.01
"""A fall of the share of right answers by less is no drift."""
POWER = 0.8
MOST_ANCHORS = 1_000_000
"""What is said where no number of anchors is enough, since repeats are like tossing a coin."""


@dataclass(frozen=True, slots=True)
class SameJudge:
    """How likely the answers now are if one judge gave these and the earlier ones."""

    anchors: int
    """Anchors with an answer on both sides."""
    before: float
    """The share of 1s among the earlier answers; NaN without an anchor."""
    now: float
    p_fall: float
    """Of as few 1s now, or fewer, if each anchor's answers had come in any order."""
    p_change: float
    """Of shares that differ as much from the earlier ones, or more, in whichever direction."""


def same_judge(before: npt.ArrayLike, now: npt.ArrayLike) -> SameJudge:
    """Test whether answers about the same anchors come from one judge, by permutation within each anchor.

    If nothing changed, which of an anchor's answers came last is chance: the number of 1s among its last ones is
    hypergeometric given all of them. Both p values are exact, by convolution over the anchors. Anchors may be hard or
    easy, and the judge's own noise counts as it is. It speaks of these anchors only.

    Args:
        before: Earlier answers, 0 or 1, NaN for none: shape (anchors, looks).
        now: Answers now, likewise.

    Raises:
        ValueError: The two have unlike numbers of anchors.
    """
    first, last = np.atleast_2d(np.asarray(before, np.float64)), np.atleast_2d(np.asarray(now, np.float64))
    if len(first) != len(last):
        raise ValueError(f"before has {len(first)} anchors, now {len(last)}")
    m, k = (~np.isnan(first)).sum(axis=1), (~np.isnan(last)).sum(axis=1)
    b, h = np.nansum(first, axis=1).astype(np.int64), np.nansum(last, axis=1).astype(np.int64)
    there = (m > 0) & (k > 0)
    if not there.any():
        return SameJudge(0, math.nan, math.nan, 1.0, 1.0)
    # Shares are compared, so an anchor with fewer answers weighs as much as the others; most have all of them.
    cells, counts = np.unique(np.column_stack([m, k, b + h])[there], axis=0, return_counts=True)
    hits, unlike, most = np.ones(1), np.ones(1), int(np.lcm.reduce((m * k)[there]))
    for (m_i, k_i, t_i), times in zip(cells.tolist(), counts.tolist(), strict=True):
        chances = _hypergeometric(m_i, k_i, t_i)
        places = np.arange(k_i + 1)
        hits = _convolved(hits, chances, places * (most // k_i), times)
        unlike = _convolved(unlike, chances, np.abs(places * m_i - (t_i - places) * k_i) * (most // (m_i * k_i)), times)
    seen = int((h[there] * (most // k[there])).sum())
    apart = int((np.abs(h * m - b * k)[there] * (most // (m * k)[there])).sum())
    return SameJudge(
        anchors=int(there.sum()),
        before=float((b[there] / m[there]).mean()),
        now=float((h[there] / k[there]).mean()),
        p_fall=min(1.0, float(hits[: seen + 1].sum())),
        p_change=min(1.0, float(unlike[apart:].sum())),
    )


@cache
def _hypergeometric(m: int, k: int, t: int) -> npt.NDArray[np.float64]:
    """Return the chance of each number of 1s among the last k of m + k answers with t of them 1."""
    ways = [math.comb(k, h) * math.comb(m, t - h) if 0 <= t - h <= m else 0 for h in range(k + 1)]
    return np.array(ways, dtype=np.float64) / math.comb(m + k, t)


def _convolved(
    known: npt.NDArray[np.float64], chances: npt.NDArray[np.float64], places: npt.NDArray[np.int64], times: int
) -> npt.NDArray[np.float64]:
    likely = chances > 0
    weights = np.zeros(int(places[likely].max()) + 1)
    np.add.at(weights, places[likely], chances[likely])
    if np.count_nonzero(weights) == 1:
        return np.concatenate([np.zeros(times * (len(weights) - 1)), known])
    for _ in range(times):
        known = np.convolve(known, weights)
    return known


def anchors_needed(noise: float, asked: int, fall: float = 0.05) -> int:
    """Return how many anchors show a one-way fall with 80% power within the last window, by a normal approximation.

    Args:
        noise: The share of repeated answers that differ from the anchor's usual one, 0 to 1.
        asked: How often each anchor was asked before.
        fall: By how much the share of right answers falls.
    """
    k, n = WINDOWS[-1], WINDOWS[-1] + asked
    spread = k * (asked / n) * (k / n) * (n - k) / max(n - 1, 1) if n > 1 else 0.0
    quiet = k * noise * (1 - noise) * (n - k) / n
    reach = -normal_ppf(ALARM) * math.sqrt(fall * spread + quiet) + normal_ppf(POWER) * math.sqrt(quiet)
    visible = fall * (k * asked / n) * (1 - 2 * noise)
    if visible <= 0:
        return MOST_ANCHORS
    fewest = math.ceil(math.log(ALARM) / -math.log(math.comb(n, k)))  # that must fall for any alarm
    return max(math.ceil((reach / visible) ** 2), math.ceil(fewest / fall))
