"""Calibration of a judge's grades on labelled traces, measured on other traces."""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np
import numpy.typing as npt

from judge_eval.stats._arrays import Floats, Ints, check_choice, group_codes, group_sums, pair, verdicts
from judge_eval.stats.agreement import (
    ACCURACY,
    PRECISION,
    RECALL,
    SPECIFICITY,
    AgreementFigure,
    confusion_by_group,
    estimate,
    f1_of,
    kappa,
    ratio,
)
from judge_eval.stats.figure import Figure
from judge_eval.stats.resample import Resampler

Objective = Literal["kappa", "f1", "youden"]


@dataclass(frozen=True, slots=True)
class ThresholdCalibration:
    """A threshold chosen on some traces; every figure here comes from the other traces."""

    threshold: float
    """The least grade that counts as relevant."""
    objective: Objective
    fitted_traces: int
    """How many traces it was chosen on."""
    kappa: Figure
    precision: Figure
    recall: Figure
    accuracy: Figure


@dataclass(frozen=True, slots=True)
class IsotonicCalibration:
    """A rising map from scores to relevance fitted on some traces; its figures come from the others."""

    scores: tuple[float, ...]
    """The knots, ascending."""
    relevance: tuple[float, ...]
    """The chance of relevance at each knot, in [0, 1], never falling."""
    fitted_traces: int
    """How many traces it was fitted on."""
    brier: Figure
    """Mean squared error of the map on the held-out traces."""
    brier_constant: Figure
    """The same for a constant, the share of relevant chunks among the fitted: what a map must beat."""

    def apply(self, scores: npt.ArrayLike) -> Floats:
        """Return the chance of relevance at each score, linear between knots, constant beyond them."""
        return np.interp(np.asarray(scores, np.float64), self.scores, self.relevance).astype(np.float64)


def calibrate_threshold(
    grades: npt.ArrayLike,
    labels: npt.ArrayLike,
    traces: Iterable[Hashable],
    *,
    objective: Objective = "kappa",
    between: bool = False,
    held_out: float = 0.5,
    level: float = 0.95,
    seed: int = 0,
) -> ThresholdCalibration:
    """Choose the least grade that counts as relevant, on labelled data.

    Whole traces are split at random. The threshold is chosen among the grades of one part (the lowest of
    equally good ones); the figures are measured on the other part alone.

    Args:
        grades: The judge's grades (or any scores), shape (n,).
        labels: Relevant by human label (true, 1) or not (false, 0), shape (n,).
        traces: The trace of each chunk.
        objective: `kappa`, `f1`, or `youden` (sensitivity + specificity - 1).
        between: Put the threshold half-way between two scores, as suits scores without steps.
        held_out: The share of traces held out, strictly between 0 and 1.
        level: Confidence level of the intervals, which are resampled by trace.
        seed: Seed of the split and of the bootstrap.

    Raises:
        ValueError: There are fewer than four traces, the part to choose on lacks relevant or irrelevant
            chunks, a value is missing, an option is out of range, or lengths differ.
    """
    x, y, codes, held_aside = _split(grades, labels, traces, held_out, seed)
    scorers: dict[str, Callable[[Floats], Floats]] = {
        "kappa": kappa(),
        "f1": f1_of,
        "youden": lambda counts: RECALL(counts) + SPECIFICITY(counts) - 1,
    }
    check_choice("objective", objective, tuple(scorers))
    candidates = np.unique(x[~held_aside])
    counts = np.concatenate([_counts(x[~held_aside] >= candidate, y[~held_aside]) for candidate in candidates])
    scores = np.nan_to_num(scorers[objective](counts), nan=-np.inf)
    best = int(np.argmax(scores))
    threshold = float(candidates[best])
    if between and best:
        threshold = (threshold + float(candidates[best - 1])) / 2
    parts = _counts(x[held_aside] >= threshold, y[held_aside], codes[held_aside])
    draws = Resampler(parts, level=level, seed=seed)
    n = int(held_aside.sum())

    def figure(each: AgreementFigure) -> Figure:
        return estimate(each, parts, draws, n)

    return ThresholdCalibration(
        threshold=threshold,
        objective=objective,
        fitted_traces=int(np.unique(codes[~held_aside]).size),
        kappa=figure(kappa()),
        precision=figure(PRECISION),
        recall=figure(RECALL),
        accuracy=figure(ACCURACY),
    )


def calibrate_isotonic(
    scores: npt.ArrayLike,
    labels: npt.ArrayLike,
    traces: Iterable[Hashable],
    *,
    held_out: float = 0.5,
    level: float = 0.95,
    seed: int = 0,
) -> IsotonicCalibration:
    """Fit a map from scores to the chance of relevance that never falls (isotonic regression).

    Whole traces are split at random; the map is fitted on one part by pooling adjacent violators (Ayer et al.
    1955), its figures are measured on the other part alone. `scores` are the judge's grades, expected grades or
    confidences, shape (n,); the other arguments are those of `calibrate_threshold`, which raises the same errors.
    """
    x, y, codes, held_aside = _split(scores, labels, traces, held_out, seed)
    knots, heights = pool_adjacent_violators(x[~held_aside], y[~held_aside])
    fitted = np.interp(x[held_aside], knots, heights)
    share = float(y[~held_aside].mean())
    _, local = np.unique(codes[held_aside], return_inverse=True)
    local, groups = local.astype(np.int64), int(local.max()) + 1
    columns = (np.ones(fitted.size), (fitted - y[held_aside]) ** 2, (share - y[held_aside]) ** 2)
    draws = Resampler(np.column_stack([group_sums(c, local, groups) for c in columns]), level=level, seed=seed)
    brier, constant = (
        replace(draws.estimate(partial(_mean_of, column=k)), n=fitted.size, traces=groups) for k in (1, 2)
    )
    return IsotonicCalibration(
        scores=tuple(knots.tolist()),
        relevance=tuple(heights.tolist()),
        fitted_traces=int(np.unique(codes[~held_aside]).size),
        brier=brier,
        brier_constant=constant,
    )


def pool_adjacent_violators(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Return the distinct x, ascending, and the rising heights there that are closest to y in squares."""
    knots, inverse, counts = np.unique(x, return_inverse=True, return_counts=True)
    sums = np.bincount(inverse, weights=y, minlength=knots.size)
    blocks: list[list[float]] = []
    for total, count in zip(sums.tolist(), counts.tolist(), strict=True):
        blocks.append([total, count, 1])
        # Products, so that rounding does not make equal means of different blocks differ.
        while len(blocks) > 1 and blocks[-2][0] * blocks[-1][1] >= blocks[-1][0] * blocks[-2][1]:
            last = blocks.pop()
            blocks[-1] = [a + b for a, b in zip(blocks[-1], last, strict=True)]
    heights = np.concatenate([np.full(int(width), total / count) for total, count, width in blocks])
    return knots, heights.astype(np.float64)


def _split(
    scores: npt.ArrayLike, labels: npt.ArrayLike, traces: Iterable[Hashable], held_out: float, seed: int
) -> tuple[Floats, Floats, Ints, npt.NDArray[np.bool_]]:
    x, y = pair(scores, labels, ("scores", "labels"))
    codes, groups = group_codes(traces, x.size, "traces")
    y = verdicts(y, "labels")
    if not 0 < held_out < 1:
        raise ValueError(f"held_out: {held_out} is not between 0 and 1")
    if groups < 4:
        raise ValueError(f"{groups} labelled traces cannot be split; at least 4 are needed, 50 are sensible")
    size = min(groups - 2, max(2, round(held_out * groups)))
    aside = np.zeros(groups, dtype=np.bool_)
    aside[np.random.default_rng(seed).choice(groups, size=size, replace=False)] = True
    held_aside = aside[codes]
    if np.unique(y[~held_aside]).size < 2:
        raise ValueError("the traces to fit on hold only one kind of label; label more traces")
    return x, y, codes, held_aside


def _counts(judged: npt.NDArray[np.bool_], labels: Floats, codes: Ints | None = None) -> Floats:
    kept = np.zeros(labels.size, dtype=np.int64)
    if codes is not None:
        _, inverse = np.unique(codes, return_inverse=True)
        kept = inverse.astype(np.int64)
    groups = int(kept.max()) + 1
    return confusion_by_group(judged.astype(np.int64), labels.astype(np.int64), (2, 2), kept, groups)


def _mean_of(sums: Floats, column: int) -> Floats:
    return ratio(sums[:, column], sums[:, 0])
