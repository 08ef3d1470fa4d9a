"""How far probabilities can be taken at their word: bins, calibration error, Brier score, log loss."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from judge_eval.stats._arrays import Floats, Ints, check_level, group_codes, group_sums, pair
from judge_eval.stats.estimate import Estimate, Interval
from judge_eval.stats.intervals import mean_interval

CLIP = 0.005
"""No probability is taken to be nearer to 0 or 1 than this where its logarithm is wanted."""
MOST_BINS = 10
IN_A_BIN = 20
"""How many chunks a bin is to hold, about, before there are more bins."""
_DRAWS = 4_000


@dataclass(frozen=True, slots=True)
class ReliabilityBin:
    """Chunks of neighbouring probabilities: what was said of them, and how many people call relevant."""

    low: float
    """The least probability in the bin."""
    high: float
    """The greatest one."""
    probability: float
    """The mean probability."""
    rate: Estimate
    """The share that is relevant by the labels; its interval is robust to chunks that share a trace."""


@dataclass(frozen=True, slots=True)
class ReliabilityFigures:
    """How far probabilities can be taken at their word, on chunks with labels."""

    bins: tuple[ReliabilityBin, ...]
    """In the order of their probabilities; none is empty."""
    ece: Estimate
    """The expected calibration error: the mean over chunks of the gap of their bin, in [0, 1]."""
    brier: Estimate
    """The mean squared difference of probability and label, in [0, 1]."""
    log_loss: Estimate
    """The mean of -log of the probability given to the label (natural logarithm, probabilities held within
    `CLIP` and 1 - `CLIP`)."""
    bias: Estimate
    """The mean probability minus the share that is relevant: above 0 the judge promises too much."""


def reliability_figures(
    probabilities: npt.ArrayLike,
    labels: npt.ArrayLike,
    traces: Iterable[Hashable],
    *,
    bins: int | None = None,
    level: float = 0.95,
    seed: int = 0,
) -> ReliabilityFigures:
    """Measure probabilities of relevance against labels.

    Bins hold about equally many chunks, and equal probabilities share one. The expected calibration error
    (Naeini et al. 2015) of few chunks is too large on average, since chance alone parts rates from
    probabilities; its interval knows of that. It is the error of these bins: within a bin, gaps of opposite
    signs cancel, so that the error of single probabilities may be larger.

    Chunks of one trace are not independent. The intervals of the means are those of `mean_interval` with
    traces as clusters. That of the calibration error rests on the triangle inequality: with the gaps of all
    bins as one vector, the error is its 1-norm, and lies no farther from the true one than the norm of the
    vector's own error, whose quantile is taken from Student's distribution with the cluster-robust
    covariance. It covers at least what it says, also where the true error is 0.

    Args:
        probabilities: That each chunk is relevant, in [0, 1], shape (n,).
        labels: Relevant by human label (true, 1) or not (false, 0), shape (n,).
        traces: The trace of each chunk.
        bins: The most bins, >= 1; None takes one for each 20 chunks, and 10 at most.
        level: Confidence level.
        seed: Of the draws behind the interval of the calibration error.

    Raises:
        ValueError: There is no chunk, a value is missing or out of range, or lengths differ.
    """
    p, y = checked_probabilities(probabilities, labels)
    codes, groups = group_codes(traces, p.size, "traces")
    check_level(level)
    if bins is not None and bins < 1:
        raise ValueError(f"bins: {bins}; at least one is needed")
    places = bins_of(p, bins or min(MOST_BINS, max(1, p.size // IN_A_BIN)))

    def mean(values: Floats, low: float, high: float) -> Estimate:
        found = mean_interval(values, clusters=codes, limits=(low, high), level=level)
        return replace(found, clusters=groups)

    return ReliabilityFigures(
        bins=tuple(_bin(p, y, codes, places == place, level) for place in range(int(places.max()) + 1)),
        ece=_calibration_error(p, y, places, codes, groups, level, seed),
        brier=mean((p - y) ** 2, 0.0, 1.0),
        log_loss=mean(losses(p, y), 0.0, -math.log(CLIP)),
        bias=mean(p - y, -1.0, 1.0),
    )


def checked_probabilities(probabilities: npt.ArrayLike, labels: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Return probabilities and labels as arrays.

    Raises:
        ValueError: There is none, one is missing or out of range, or lengths differ.
    """
    p, y = pair(probabilities, labels, ("probabilities", "labels"))
    if not p.size:
        raise ValueError("probabilities: there is none")
    if p.min() < 0 or p.max() > 1:
        raise ValueError("probabilities: each is a number from 0 to 1")
    if not np.isin(y, (0.0, 1.0)).all():
        raise ValueError("labels: only 0 and 1 are labels; binarise human grades first")
    return p, y


def bins_of(probabilities: Floats, most: int) -> Ints:
    """Return the bin of each probability, from 0: about equally many in each, equal ones together.

    Args:
        probabilities: Shape (n,), n >= 1.
        most: The most bins, >= 1.
    """
    _, inverse, counts = np.unique(probabilities, return_inverse=True, return_counts=True)
    middle = (np.cumsum(counts) - counts / 2) / counts.sum()
    _, bins = np.unique((middle * most).astype(np.int64), return_inverse=True)
    places: Ints = bins[inverse].astype(np.int64)
    return places


def clipped(probabilities: Floats) -> Floats:
    """Return probabilities held within `CLIP` and 1 - `CLIP`, so that logarithms are finite."""
    return np.clip(probabilities, CLIP, 1 - CLIP).astype(np.float64)


def losses(probabilities: Floats, labels: Floats) -> Floats:
    """Return the log loss of each probability, as `clipped` holds it."""
    held = clipped(probabilities)
    return -np.log(np.where(labels > 0, held, 1 - held))


def _bin(p: Floats, y: Floats, codes: Ints, inside: npt.NDArray[np.bool_], level: float) -> ReliabilityBin:
    mine = p[inside]
    rate = mean_interval(y[inside], clusters=codes[inside], limits=(0.0, 1.0), level=level)
    return ReliabilityBin(float(mine.min()), float(mine.max()), float(mine.mean()), rate)


def _calibration_error(
    p: Floats, y: Floats, places: Ints, codes: Ints, groups: int, level: float, seed: int
) -> Estimate:
    """Return the calibration error of these bins with its interval; see `reliability_figures`."""
    n, bins = p.size, int(places.max()) + 1
    cells = codes * bins + places
    sums = group_sums(p - y, cells, groups * bins).reshape(groups, bins)
    gaps = sums.sum(axis=0) / n
    value = float(np.abs(gaps).sum())
    if groups < 2:
        return Estimate(value, None, n, groups)
    held = group_sums(np.ones(n), cells, groups * bins).reshape(groups, bins)
    apart = sums - held.sum(axis=1, keepdims=True) * gaps
    covariance = groups / (groups - 1) * (apart.T @ apart)
    # One trace more in each bin, whose labels nobody knows: else a bin without a surprise had no error.
    size = held.sum(axis=0) / (held > 0).sum(axis=0)
    mean = group_sums(p, places, bins) / held.sum(axis=0)
    covariance += np.diag(size**2 * (mean**2 + (1 - mean) ** 2) / 2)
    rng = np.random.default_rng(seed)
    drawn = rng.standard_normal((_DRAWS, bins)) @ _root(covariance / n**2)
    drawn /= np.sqrt(rng.chisquare(groups - 1, size=_DRAWS) / (groups - 1))[:, None]
    reach = float(np.quantile(np.abs(drawn).sum(axis=1), level))
    interval = Interval(value - reach, value + reach, level, "CR1 t, 1-norm").within(0.0, 1.0)
    return Estimate(value, interval, n, groups)


def _root(covariance: Floats) -> Floats:
    values, vectors = np.linalg.eigh(covariance)
    root: Floats = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return root
