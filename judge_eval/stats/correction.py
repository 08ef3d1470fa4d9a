"""Means of a metric, corrected by human labels on a part of the traces."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from judge_eval.stats._arrays import Floats, check_level, numbers, pair
from judge_eval.stats.distributions import normal_ppf, t_ppf
from judge_eval.stats.estimate import Interval
from judge_eval.stats.sampling import Sample

FEW_LABELS = 50
"""Below this many labelled traces a corrected mean carries a warning."""


@dataclass(frozen=True, slots=True)
class CorrectedMean:
    """A mean that rests on human labels and is sharpened by a judge's predictions."""

    value: float
    interval: Interval
    standard_error: float
    power: float
    """The weight given to the judge (lambda), in [0, 1]; 0 leaves the labels alone."""
    n_labelled: int
    n_unlabelled: int
    effective_n: float | None
    """How many labels alone would give the same standard error; None where it is 0."""
    judge_only: float
    """The uncorrected mean of all predictions, for comparison."""
    labels_only: float
    """The mean of the labels alone, for comparison."""
    warnings: tuple[str, ...] = ()

    def __str__(self) -> str:
        effective = "" if self.effective_n is None else f", worth {self.effective_n:.0f} labels"
        rests = f"{self.n_labelled} labelled{effective}, judge alone {self.judge_only:.4g}"
        return "; ".join([f"{self.value:.4g} {self.interval} ({rests})", *self.warnings])


def ppi_mean(
    labels: npt.ArrayLike,
    predictions: npt.ArrayLike,
    predictions_unlabelled: npt.ArrayLike,
    *,
    level: float = 0.95,
) -> CorrectedMean:
    """Return the prediction-powered mean of a metric (PPI++; Angelopoulos, Duchi and Zrnic 2023).

    With Y the metric under human labels and P under the judge's verdicts, the estimate is
    power * mean(P unlabelled) + mean(Y - power * P), its variance
    power^2 * Var(P unlabelled) / N + Var(Y - power * P) / n, its interval normal. The power is
    Cov(Y, P) / ((1 + n/N) * Var(P)), clipped to [0, 1]. As in the authors' code, variances and the
    covariance divide by their number, except Var(P) over all traces, which divides by the number less one.

    The labelled traces must be a simple random choice; for any other use `ppi_mean_sampled`.

    Args:
        labels: The metric of the labelled traces under human labels, shape (n,), n >= 2.
        predictions: Their metric under the judge's verdicts, shape (n,).
        predictions_unlabelled: The judge's metric of the other traces, shape (N,), N >= 1.
        level: Confidence level.

    Returns:
        The corrected mean, with a warning where fewer than 50 traces are labelled.

    Raises:
        ValueError: There are fewer than two labelled traces or no other, a value is missing, or lengths
            differ.
    """
    y, p = pair(labels, predictions, ("labels", "predictions"))
    q = numbers(predictions_unlabelled, "predictions_unlabelled")
    check_level(level)
    if y.size < 2 or q.size < 1:
        raise ValueError(f"two labelled traces and one other are needed, got {y.size} and {q.size}")
    everything = np.concatenate([p, q])
    spread = float(everything.var(ddof=1)) * (1 + y.size / q.size)
    covariance = float(np.mean((y - y.mean()) * (p - p.mean())))
    power = min(1.0, max(0.0, covariance / spread)) if spread > 0 else 0.0
    rest = y - power * p
    return _corrected(
        value=power * float(q.mean()) + float(rest.mean()),
        variance=power**2 * float(q.var()) / q.size + float(rest.var()) / y.size,
        power=power,
        labels=y,
        n_unlabelled=q.size,
        judge_only=float(everything.mean()),
        labels_only=float(y.mean()),
        alone=float(y.var()) / y.size,
        quantile=normal_ppf((1 + level) / 2),
        method="PPI++ normal",
        level=level,
    )


def ppi_mean_sampled(
    labels: npt.ArrayLike, predictions: npt.ArrayLike, sample: Sample, *, level: float = 0.95
) -> CorrectedMean:
    """Return the prediction-powered mean where traces had different chances to be labelled.

    The estimate is power * mean(P of all traces) + the mean of Y - power * P over the labelled, weighted by
    the inverse of their chances (Hajek). Its variance is that of the mean of each trace's influence (the
    augmented inverse-probability-weighted estimator; Robins, Rotnitzky and Zhao 1994), which is a little
    too large where the choice was stratified. The power makes it smallest, within [0, 1]. Unequal weights
    leave less than n labels to see the variance by: with Kish's effective number m = (sum w)^2 / sum w^2 the
    variance is multiplied by m / (m - 1), and the interval is that of t with m - 1 degrees of freedom.

    Args:
        labels: The metric under human labels of the chosen traces, in the order of `sample.chosen`.
        predictions: The metric under the judge's verdicts of all traces, in their order.
        sample: Which traces were chosen, and the chance that each had.
        level: Confidence level.

    Returns:
        The corrected mean, with a warning where fewer than 50 traces are labelled.

    Raises:
        ValueError: Fewer than two traces are labelled, a value is missing, or numbers of traces differ.
    """
    y, p = numbers(labels, "labels"), numbers(predictions, "predictions")
    check_level(level)
    if y.size < 2 or y.size != len(sample.chosen) or p.size != len(sample.probabilities):
        raise ValueError(
            f"{y.size} labels for {len(sample.chosen)} chosen traces (two or more are needed), "
            f"{p.size} predictions for {len(sample.probabilities)} traces"
        )
    chosen = np.asarray(sample.chosen)
    w = np.asarray(sample.weights)
    w *= p.size / w.sum()
    centre, judged_there = float(w @ y) / p.size, float(w @ p[chosen]) / p.size
    human, judge = np.zeros(p.size), p - p.mean()
    human[chosen] = w * (y - centre)
    judge[chosen] -= w * (p[chosen] - judged_there)
    spread = float(judge @ judge)
    power = min(1.0, max(0.0, -float(human @ judge) / spread)) if spread > 0 else 0.0
    influence = human + power * judge
    effective = p.size**2 / float(w @ w)
    correction = effective / (effective - 1)
    return _corrected(
        value=centre + power * (float(p.mean()) - judged_there),
        variance=correction * float(influence @ influence) / p.size**2,
        power=power,
        labels=y,
        n_unlabelled=p.size - y.size,
        judge_only=float(p.mean()),
        labels_only=centre,
        alone=correction * float(human @ human) / p.size**2,
        quantile=t_ppf((1 + level) / 2, effective - 1),
        method="PPI++ weighted t",
        level=level,
    )


def _corrected(
    *,
    value: float,
    variance: float,
    power: float,
    labels: Floats,
    n_unlabelled: int,
    judge_only: float,
    labels_only: float,
    alone: float,
    quantile: float,
    method: str,
    level: float,
) -> CorrectedMean:
    error = math.sqrt(variance)
    half = quantile * error
    few = f"only {labels.size} labelled traces: below {FEW_LABELS} the interval may be too short"
    return CorrectedMean(
        value=value,
        interval=Interval(value - half, value + half, level, method),
        standard_error=error,
        power=power,
        n_labelled=labels.size,
        n_unlabelled=n_unlabelled,
        effective_n=labels.size * alone / variance if variance > 0 else None,
        judge_only=judge_only,
        labels_only=labels_only,
        warnings=(few,) if labels.size < FEW_LABELS else (),
    )
