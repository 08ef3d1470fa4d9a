"""Reliability of probabilities, and maps that correct them."""

import math
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from judge_eval.stats._arrays import Floats, Ints, check_choice, check_level, group_codes, group_sums, pair, verdicts
from judge_eval.stats.calibration import pool_adjacent_violators
from judge_eval.stats.figure import Figure, Interval
from judge_eval.stats.intervals import mean_interval
from judge_eval.stats.logistic import fit_logistic, sigmoid

CLIP = 0.005
"""Logarithms are of probabilities no nearer to 0 or 1 than this."""
MOST_BINS = 10
IN_A_BIN = 20
"""How many chunks a bin is to hold, about, before there are more bins."""
_DRAWS = 4_000


@dataclass(frozen=True, slots=True)
class ReliabilityBin:
    """Chunks of neighbouring probabilities, with the share of them that people call relevant."""

    low: float
    """The least probability in the bin."""
    high: float
    """The greatest one."""
    probability: float
    """The mean probability."""
    rate: Figure
    """The share that is relevant by the labels; its interval is robust to chunks that share a trace."""


@dataclass(frozen=True, slots=True)
class ReliabilityFigures:
    """How well probabilities match the labels of chunks."""

    bins: tuple[ReliabilityBin, ...]
    """In the order of their probabilities; none is empty."""
    ece: Figure
    """The expected calibration error: the mean over chunks of the gap of their bin, in [0, 1]."""
    brier: Figure
    """The mean squared difference of probability and label, in [0, 1]."""
    log_loss: Figure
    """The mean of -log of the probability given to the label (natural logarithm, probabilities held within
    `CLIP` and 1 - `CLIP`)."""
    bias: Figure
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
    (Naeini et al. 2015) of few chunks is too large on average, since rates differ from probabilities by
    chance; its interval allows for that. Within a bin gaps of opposite signs cancel, so that the error of
    single probabilities may be larger.

    Chunks of one trace are not independent. The intervals of the means are those of `mean_interval` with
    traces as clusters. The calibration error is the 1-norm of the vector of all bins' gaps; by the triangle
    inequality it differs from the true one by at most the norm of that vector's error, whose quantile is that
    of Student's distribution with the cluster-robust covariance. It covers at least its level.

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

    def mean(values: Floats, low: float, high: float) -> Figure:
        estimate = mean_interval(values, clusters=codes, limits=(low, high), level=level)
        return replace(estimate, traces=groups)

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
        raise ValueError("probabilities: at least one is needed")
    if p.min() < 0 or p.max() > 1:
        raise ValueError("probabilities: each is a number from 0 to 1")
    return p, verdicts(y, "labels")


def bins_of(probabilities: Floats, most: int) -> Ints:
    """Return the bin of each probability: at most `most` bins of about one size, equal ones together."""
    _, inverse, counts = np.unique(probabilities, return_inverse=True, return_counts=True)
    middle = (np.cumsum(counts) - counts / 2) / counts.sum()
    _, bins = np.unique((middle * most).astype(np.int64), return_inverse=True)
    return bins[inverse].astype(np.int64)


def clipped(probabilities: Floats) -> Floats:
    """Return probabilities held within `CLIP` and 1 - `CLIP`, so that logarithms are finite."""
    return np.clip(probabilities, CLIP, 1 - CLIP).astype(np.float64)


def losses(probabilities: Floats, labels: Floats) -> Floats:
    """Return the log loss of each probability, as `clipped` holds it."""
    limited = clipped(probabilities)
    return -np.log(np.where(labels > 0, limited, 1 - limited))


def _bin(p: Floats, y: Floats, codes: Ints, inside: npt.NDArray[np.bool_], level: float) -> ReliabilityBin:
    mine = p[inside]
    rate = mean_interval(y[inside], clusters=codes[inside], limits=(0.0, 1.0), level=level)
    return ReliabilityBin(float(mine.min()), float(mine.max()), float(mine.mean()), rate)


def _calibration_error(p: Floats, y: Floats, places: Ints, codes: Ints, groups: int, level: float, seed: int) -> Figure:
    """Return the calibration error of these bins with its interval; see `reliability_figures`."""
    n, bins = p.size, int(places.max()) + 1
    cells = codes * bins + places
    sums = group_sums(p - y, cells, groups * bins).reshape(groups, bins)
    gaps = sums.sum(axis=0) / n
    value = float(np.abs(gaps).sum())
    if groups < 2:
        return Figure(value, None, n, groups)
    counts = group_sums(np.ones(n), cells, groups * bins).reshape(groups, bins)
    apart = sums - counts.sum(axis=1, keepdims=True) * gaps
    covariance = groups / (groups - 1) * (apart.T @ apart)
    # One more trace in each bin with unknown labels: else a bin without variation would have no error.
    size = counts.sum(axis=0) / (counts > 0).sum(axis=0)
    mean = group_sums(p, places, bins) / counts.sum(axis=0)
    covariance += np.diag(size**2 * (mean**2 + (1 - mean) ** 2) / 2)
    rng = np.random.default_rng(seed)
    values, vectors = np.linalg.eigh(covariance / n**2)
    drawn = rng.standard_normal((_DRAWS, bins)) @ ((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)
    drawn /= np.sqrt(rng.chisquare(groups - 1, size=_DRAWS) / (groups - 1))[:, None]
    reach = float(np.quantile(np.abs(drawn).sum(axis=1), level))
    interval = Interval(value - reach, value + reach, level, "CR1 t, 1-norm").within(0.0, 1.0)
    return Figure(value, interval, n, groups)


MapMethod: TypeAlias = Literal["isotonic", "logistic"]
METHODS: tuple[MapMethod, ...] = ("logistic", "isotonic")
"""Every way of fitting, the one with fewer parameters first: it is taken where both do equally well."""
FEWEST = 10
"""The fewest traces to fit on."""


@dataclass(frozen=True, slots=True)
class ProbabilityMap:
    """A map from probabilities to probabilities that never falls."""

    method: MapMethod
    knots: tuple[float, ...] = ()
    """Of an isotonic map: the probabilities where it is known, ascending."""
    heights: tuple[float, ...] = ()
    """Its values there, never falling; it is linear between them and constant beyond."""
    slope: float = 1.0
    """Of a logistic map, >= 0: sigmoid(slope * logit(p) + intercept), p held within .005 and .995."""
    intercept: float = 0.0

    def apply(self, probabilities: npt.ArrayLike) -> Floats:
        """Return the mapped probabilities, within .005 and .995."""
        p = np.asarray(probabilities, dtype=np.float64)
        if self.method == "isotonic":
            mapped = np.interp(p, self.knots, self.heights)
        else:
            mapped = sigmoid(self.slope * logit(p) + self.intercept)
        return clipped(mapped)


@dataclass(frozen=True, slots=True)
class ProbabilityCalibration:
    """A map fitted on all labelled traces; every figure is of maps fitted on other traces than it is of."""

    map: ProbabilityMap
    before: ReliabilityFigures
    """Of the probabilities as they are."""
    after: ReliabilityFigures
    """Of the mapped ones, each mapped by what was fitted, choice of method included, without its trace."""
    gain: Figure
    """How much smaller the log loss is after than before."""
    log_losses: dict[MapMethod, float]
    """By method the log loss on held-out traces that the choice was made by."""
    folds: int


def calibrate_probabilities(
    probabilities: npt.ArrayLike,
    labels: npt.ArrayLike,
    traces: Iterable[Hashable],
    *,
    method: MapMethod | None = None,
    folds: int = 5,
    level: float = 0.95,
    seed: int = 0,
) -> ProbabilityCalibration:
    """Fit a map from a judge's probabilities to the share that people call relevant.

    `isotonic` pools adjacent violators (Ayer et al. 1955); `logistic` is Platt's (1999), a line on the logit
    with his smoothed labels, its slope held at 0 where it would fall. Where no method is named, the one with
    the lesser log loss on held-out traces is taken.

    The map is fitted on all traces. Its figures are cross-fitted: whole traces are dealt into folds, and the
    probabilities of each fold are mapped by a fit, choice of a method included, on the others alone.

    Args:
        probabilities: That each chunk is relevant, in [0, 1], shape (n,).
        labels: Relevant by human label (true, 1) or not (false, 0), shape (n,).
        traces: The trace of each chunk.
        method: The method; None chooses.
        folds: How many folds, >= 2.
        level: Confidence level of the intervals.
        seed: Of the folds, and of the draws behind intervals.

    Raises:
        ValueError: There are fewer than ten traces, all labels are equal or nearly so, a value is missing
            or out of range, an option is, or lengths differ.
    """
    p, y = checked_probabilities(probabilities, labels)
    codes, groups = group_codes(traces, p.size, "traces")
    if method is not None:
        check_choice("method", method, get_args(MapMethod))
    if folds < 2:
        raise ValueError(f"folds: {folds}; at least 2 are needed")
    if groups < FEWEST:
        raise ValueError(
            f"{groups} labelled traces are too few for a map; at least {FEWEST} are needed, 100 are sensible"
        )
    wanted = METHODS if method is None else (method,)
    part = deal_folds(codes, groups, folds, seed)
    mapped = np.empty_like(p)
    for fold in range(folds):
        test_fold = part == fold
        inner = ~test_fold
        if np.unique(y[inner]).size < 2:
            raise ValueError("the traces to fit on hold only one kind of label; label more traces")
        _, local = np.unique(codes[inner], return_inverse=True)
        best = _best(p[inner], y[inner], local.astype(np.int64), wanted, folds, seed)[0]
        mapped[test_fold] = fit_map(p[inner], y[inner], best).apply(p[test_fold])
    chosen, scores = _best(p, y, codes, wanted, folds, seed)
    # What the gain of a chunk can be, whichever label it had: the limits of its mean.
    either = [losses(p, label) - losses(mapped, label) for label in (np.zeros_like(y), np.ones_like(y))]
    limits = float(np.min(either)), float(np.max(either))
    gain = mean_interval(losses(p, y) - losses(mapped, y), clusters=codes, limits=limits, level=level)
    return ProbabilityCalibration(
        map=fit_map(p, y, chosen),
        before=reliability_figures(p, y, codes, level=level, seed=seed),
        after=reliability_figures(mapped, y, codes, level=level, seed=seed),
        gain=replace(gain, traces=groups),
        log_losses=scores,
        folds=folds,
    )


def fit_map(probabilities: Floats, labels: Floats, method: MapMethod) -> ProbabilityMap:
    """Fit a map on these probabilities and labels; see `calibrate_probabilities`."""
    if method == "isotonic":
        knots, heights = pool_adjacent_violators(probabilities, labels)
        # Inside a run of equal heights a knot says nothing.
        needed = np.ones(knots.size, dtype=np.bool_)
        needed[1:-1] = (heights[1:-1] != heights[:-2]) | (heights[1:-1] != heights[2:])
        kept = tuple(knots[needed].tolist()), tuple(heights[needed].tolist())
        return ProbabilityMap("isotonic", knots=kept[0], heights=kept[1])
    slope, intercept = _platt(logit(probabilities), labels)
    return ProbabilityMap("logistic", slope=slope, intercept=intercept)


def _best(
    p: Floats, y: Floats, codes: Ints, methods: tuple[MapMethod, ...], folds: int, seed: int
) -> tuple[MapMethod, dict[MapMethod, float]]:
    part = deal_folds(codes, int(codes.max()) + 1, folds, seed + 1)
    scores: dict[MapMethod, float] = {}
    for method in methods:
        mapped = np.empty_like(p)
        for fold in range(folds):
            test_fold = part == fold
            mapped[test_fold] = fit_map(p[~test_fold], y[~test_fold], method).apply(p[test_fold])
        scores[method] = float(losses(mapped, y).mean())
    return min(scores, key=lambda name: scores[name]), scores


def deal_folds(codes: Ints, groups: int, folds: int, seed: int) -> Ints:
    """Return the fold of each chunk: whole traces, as evenly as can be."""
    order = np.random.default_rng(seed).permutation(groups)
    fold = np.empty(groups, dtype=np.int64)
    fold[order] = np.arange(groups) % folds
    return fold[codes]


def logit(p: Floats) -> Floats:
    """Return the log odds of probabilities held within `CLIP` and 1 - `CLIP`."""
    limited = clipped(p)
    return np.log(limited / (1 - limited))


def _platt(x: Floats, y: Floats) -> tuple[float, float]:
    """Return slope and intercept of Platt's fit."""
    ones = float(y.sum())
    target = np.where(y > 0, (ones + 1) / (ones + 2), 1 / (y.size - ones + 2))
    share = float(target.mean())
    flat = 0.0, float(np.log(share / (1 - share)))
    if x.min() == x.max():
        return flat
    slope, intercept = fit_logistic(np.column_stack([x, np.ones_like(x)]), target).tolist()
    return (slope, intercept) if slope > 0 else flat
