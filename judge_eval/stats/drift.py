"""Whether a judge that is asked again about the same chunks is still the same judge."""

import math
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Literal

import numpy as np
import numpy.typing as npt

from judge_eval.stats.distributions import normal_ppf

LOOKS_A_YEAR = 52
WINDOWS = (1, 4)
"""How many of the last looks are tested together."""
ALARM = 0.05 / (LOOKS_A_YEAR * len(WINDOWS))
"""The level of each look through each window: .05 for a year of weekly looks. Two tests share it."""
LEAST = 0.01
"""A fall of the share of right answers by less is no drift, nor are fewer answers that changed beyond chance."""
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
    changed: float
    """The mean distance between an anchor's shares before and now, beyond what chance alone makes of it."""
    p_fall: float
    """Of as few 1s now, or fewer, if each anchor's answers had come in any order."""
    p_rise: float
    """Of as many 1s now, or more, likewise."""
    p_change: float
    """Of shares that differ as much from the earlier ones, or more, in whichever direction."""

    def p_share(self, *, labelled: bool) -> float:
        """Return the p of a share of 1s that fell (labelled: 1 is right), or that moved either way."""
        return self.p_fall if labelled else min(1.0, 2 * min(self.p_fall, self.p_rise))

    def alarm(self, *, labelled: bool = True) -> Literal["share", "change"] | None:
        """Return what shows another judge: the share of 1s, or more answers that changed than by repeats."""
        moved = self.before - self.now if labelled else abs(self.before - self.now)
        if self.p_share(labelled=labelled) <= ALARM / 2 and moved >= LEAST:
            return "share"
        return "change" if self.p_change <= ALARM / 2 and self.changed >= LEAST else None


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
        return SameJudge(0, math.nan, math.nan, 0.0, 1.0, 1.0, 1.0)
    # Shares are compared, so an anchor with fewer answers weighs as much as the others; most have all of them.
    cells, counts = np.unique(np.column_stack([m, k, b + h])[there], axis=0, return_counts=True)
    hits, unlike, most, by_chance = np.ones(1), np.ones(1), int(np.lcm.reduce((m * k)[there])), 0.0
    for (m_i, k_i, t_i), times in zip(cells.tolist(), counts.tolist(), strict=True):
        chances = _hypergeometric(m_i, k_i, t_i)
        places = np.arange(k_i + 1)
        distances = np.abs(places * m_i - (t_i - places) * k_i)
        by_chance += times * float(chances @ distances) / (m_i * k_i)
        hits = _convolved(hits, chances, places * (most // k_i), times)
        unlike = _convolved(unlike, chances, distances * (most // (m_i * k_i)), times)
    seen = int((h[there] * (most // k[there])).sum())
    apart = int((np.abs(h * m - b * k)[there] * (most // (m * k)[there])).sum())
    return SameJudge(
        anchors=int(there.sum()),
        before=float((b[there] / m[there]).mean()),
        now=float((h[there] / k[there]).mean()),
        changed=(apart / most - by_chance) / int(there.sum()),
        p_fall=min(1.0, float(hits[: seen + 1].sum())),
        p_rise=min(1.0, float(hits[seen:].sum())),
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


def anchors_needed(noise: float, asked: int, share: float = 0.05) -> int:
    """Return how many anchors show with 80% power within the last window that a share of them changed for good.

    By a normal approximation to the test of any change, which aims at 90%, since it is too hopeful by up to 7 points.

    Args:
        noise: The share of repeated answers that differ from the anchor's usual one, 0 to 1.
        asked: How often each anchor was asked before.
        share: Of the anchors whose usual answer changed, whichever way.
    """
    k, level = WINDOWS[-1], ALARM / 2
    (same, within, null), (moved, apart, null_moved) = (_apart(noise, now, asked, k) for now in (noise, 1 - noise))
    visible = share * moved + (1 - share) * same
    if visible <= 0:
        return MOST_ANCHORS
    reach = -normal_ppf(level) * math.sqrt((1 - share) * null + share * null_moved)
    reach += normal_ppf(0.9) * math.sqrt((1 - share) * within + share * apart)
    fewest = math.ceil(math.log(level) / -math.log(math.comb(asked + k, k))) + 1  # that must change for any alarm
    return min(MOST_ANCHORS, max(math.ceil((reach / visible) ** 2), math.ceil(fewest / share)))


def _apart(before: float, now: float, m: int, k: int) -> tuple[float, float, float]:
    """Return of one anchor's distance between shares: mean over that by chance, variance, variance by chance."""
    # `before` and `now` are the chances of an answer 1 in each of m and k answers.
    gain = square = null = 0.0
    for b, h in product(range(m + 1), range(k + 1)):
        chance = math.comb(m, b) * before**b * (1 - before) ** (m - b) * math.comb(k, h) * now**h * (1 - now) ** (k - h)
        ways = _hypergeometric(m, k, b + h)
        distances = np.abs(np.arange(k + 1) / k - (b + h - np.arange(k + 1)) / m)
        mean = float(ways @ distances)
        over = abs(h / k - b / m) - mean
        gain, square = gain + chance * over, square + chance * over**2
        null += chance * float(ways @ (distances - mean) ** 2)
    return gain, square - gain**2, null
