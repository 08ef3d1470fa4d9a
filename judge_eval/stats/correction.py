"""A judge's mean corrected by a labelled sample."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from judge_eval.settings import ValueLimits
from judge_eval.stats._arrays import Floats, check_level, group_codes, group_sums, numbers, pair, verdicts
from judge_eval.stats.distributions import normal_ppf, t_ppf
from judge_eval.stats.figure import CLOSED, Interval
from judge_eval.stats.intervals import bounded_interval, mean_interval
from judge_eval.stats.sampling import Sample

LOW_YOUDEN = 0.3
"""Below this sensitivity + specificity - 1 a Rogan-Gladen estimate carries a warning."""
DoubtKind = Literal[
    "no better than chance", "low youden", "clipped", "few labels", "few labelled clusters", "few labelled chunks"
]


LabelFault = Literal["too few clusters", "too few chunk clusters", "rank without label"]
LABEL_FAULTS: dict[LabelFault, str] = {
    "too few clusters": "three labelled clusters are needed, got {count}",
    "too few chunk clusters": "labelled chunks of three traces (clusters) are needed, got {count}",
    "rank without label": (
        "no chunk at rank {count} is labelled, and the metric reads it; label chunks at all of its ranks, or take a "
        "smaller cutoff"
    ),
}


class LabelError(ValueError):
    """Labels that no mean can be corrected by."""

    def __init__(self, kind: LabelFault, count: int) -> None:
        super().__init__(LABEL_FAULTS[kind].format(count=count))
        self.kind, self.count = kind, count


@dataclass(frozen=True, slots=True)
class Doubt:
    """What makes a corrected figure doubtful."""

    kind: DoubtKind
    value: float | None = None
    """Of `low youden` sensitivity + specificity - 1 to two digits, of `clipped` the estimate before it was to four."""
    count: int = 0
    """How many traces are labelled."""
    other: int = 0
    """In how many clusters."""
    least: int = 0
    """How many labelled traces or clusters there should be."""

    __pydantic_config__ = CLOSED

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: Callable[[object], Any]) -> dict[str, Any]:
        def write(doubt: Doubt, fields: Callable[[object], Any], info: Any) -> Any:
            return (info.context or {}).get("note", fields)(doubt)

        written = {"type": "function-wrap", "function": write, "info_arg": True}
        return {**handler(source), "serialization": written}


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
    warnings: tuple[Doubt, ...] = ()

    __pydantic_config__ = CLOSED


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
        The corrected rate; its value is None if sensitivity + specificity <= 1, and there is a warning if
        that sum is close to 1.

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
        return CorrectedRate(None, None, rate, hit, 1 - false, (Doubt("no better than chance"),))
    raw = (rate - false) / youden
    # Each chunk's influence on the estimate; the sums by trace give a variance robust to clusters.
    influence = np.concatenate([(z - rate) / z.size, np.zeros(judge.size)]) / youden
    influence[z.size :][positive] = -raw * (judge[positive] - hit) / (positive.sum() * youden)
    influence[z.size :][negative] = -(1 - raw) * (judge[negative] - false) / (negative.sum() * youden)
    ids = None if traces is None else [*traces[0], *traces[1]]
    codes, groups = group_codes(ids, influence.size, "traces")
    error = math.sqrt(float((group_sums(influence, codes, groups) ** 2).sum()))
    half = normal_ppf((1 + level) / 2) * error
    low, value, high = (min(1.0, max(0.0, each)) for each in (raw - half, raw, raw + half))
    warnings = []
    if youden < LOW_YOUDEN:
        warnings.append(Doubt("low youden", float(f"{youden:.2g}")))
    if not 0 <= raw <= 1:
        warnings.append(Doubt("clipped", float(f"{raw:.4g}")))
    method = "delta normal" if traces is None else "delta normal by trace"
    return CorrectedRate(value, Interval(low, high, level, method), rate, hit, 1 - false, tuple(warnings))


FEW_LABELS = 100
"""Below this many labelled traces (or clusters) a corrected mean of values without limits carries a warning.

In simulations of AP and NDCG with means near .9 Student's interval covers .91 at 20 and at 50 labels, .93 at
100 and .94 at 150; with a mean of .97 .81, .89, .90 and .93.
"""
LEAST_LABELS = 20
"""The same for values with limits, whose interval is Gaffke's."""
END_WEIGHT, HITS_END_WEIGHT = 0.25, 0.5
"""The weight of the value that Gaffke's bound adds to the residuals: they seldom come near its ends.

Those of hits and misses do, where the judge errs rarely: .25 held .915 at 20 labels, .5 holds .99.
"""


@dataclass(frozen=True, slots=True)
class CorrectedMean:
    """A mean that rests on human labels and is sharpened by a judge's predictions."""

    value: float
    interval: Interval | None
    """Within the limits of the values; None where equal labels without limits allow none."""
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
    warnings: tuple[Doubt, ...] = ()

    __pydantic_config__ = CLOSED


def ppi_mean(
    labels: npt.ArrayLike,
    predictions: npt.ArrayLike,
    predictions_unlabelled: npt.ArrayLike,
    *,
    clusters: Sequence[Hashable] | None = None,
    limits: ValueLimits | None = None,
    level: float = 0.95,
) -> CorrectedMean:
    """Return the prediction-powered mean of a metric (PPI++; Angelopoulos, Duchi and Zrnic 2023).

    With Y the metric under human labels and P under the judge's verdicts, the estimate is power * mean(P unlabelled) +
    mean(Y - power * P), its variance power^2 * Var(P unlabelled) / N + Var(Y - power * P) / n. The power is Cov(Y, P) /
    ((1 + n/N) * Var(P)), clipped to [0, 1]. As in the authors' code, variances and the covariance divide by their
    number, except Var(P) over all traces, which divides by the number less one.

    Their normal interval covers .87 at 20 labels of AP. With limits this one is Gaffke's bound on the
    residuals Y - power * P, joined with the normal error of the judge's mean; without, that of t with n - 1
    degrees of freedom, the error times sqrt(n / (n - 2)) for two estimated parameters (.91). With clusters
    residuals and the influences of the variance are summed by cluster (CR1), and n counts labelled clusters.

    The labelled traces must be a simple random choice; for any other use `ppi_mean_sampled`.

    Args:
        labels: The metric of the labelled traces under human labels, shape (n,), n >= 2.
        predictions: Their metric under the judge's verdicts, shape (n,).
        predictions_unlabelled: The judge's metric of the other traces, shape (N,), N >= 1.
        clusters: The cluster of each trace, the n labelled ones first; None: traces are independent.
        limits: The least and the greatest value of one trace; None: unknown.
        level: Confidence level.

    Returns:
        The corrected mean, with a warning where fewer than 100 traces or clusters are labelled.

    Raises:
        ValueError: There are fewer than three labelled traces (or clusters) or no other, a value is missing,
            or lengths differ.
    """
    y, p = pair(labels, predictions, ("labels", "predictions"))
    q = numbers(predictions_unlabelled, "predictions_unlabelled")
    check_level(level)
    if y.size < 3 or q.size < 1:
        raise ValueError(f"three labelled traces and one other are needed, got {y.size} and {q.size}")
    everything = np.concatenate([p, q])
    spread = float(everything.var(ddof=1)) * (1 + y.size / q.size)
    covariance = float(np.mean((y - y.mean()) * (p - p.mean())))
    power = min(1.0, max(0.0, covariance / spread)) if spread > 0 else 0.0
    rest = y - power * p
    influence = np.concatenate([(rest - rest.mean()) / y.size, power * (q - q.mean()) / q.size])
    alone = np.concatenate([(y - y.mean()) / y.size, np.zeros(q.size)])
    variance, units = _clustered(influence, clusters, y.size)
    if units < 3:
        raise LabelError("too few clusters", units)
    value, error = power * float(q.mean()) + float(rest.mean()), math.sqrt(variance)
    quantile = t_ppf((1 + level) / 2, units - 1) * math.sqrt(units / (units - 2))
    made = Interval(
        value - quantile * error, value + quantile * error, level, "PPI++ t" if clusters is None else "PPI++ CR1 t"
    )
    codes, groups = group_codes(None if clusters is None else list(clusters)[: y.size], y.size)
    residuals = group_sums(rest, codes, groups), group_sums(np.ones(y.size), codes, groups)
    return CorrectedMean(
        value=value,
        interval=_interval(made, y, limits, residuals, power, variance),
        standard_error=error,
        power=power,
        n_labelled=y.size,
        n_unlabelled=q.size,
        effective_n=y.size * _clustered(alone, clusters, y.size)[0] / variance if variance > 0 else None,
        judge_only=float(everything.mean()),
        labels_only=float(y.mean()),
        warnings=_few(y.size, units, limits),
    )


def _clustered(influence: Floats, clusters: Sequence[Hashable] | None, labelled: int) -> tuple[float, int]:
    if clusters is None:
        return float(influence @ influence), labelled
    codes, groups = group_codes(clusters, influence.size)
    units = int(np.unique(codes[:labelled]).size)
    sums = group_sums(influence, codes, groups)
    return float(sums @ sums) * units / max(units - 1, 1), units


def ppi_mean_sampled(
    labels: npt.ArrayLike,
    predictions: npt.ArrayLike,
    sample: Sample,
    *,
    clusters: Sequence[Hashable] | None = None,
    known: int = 0,
    limits: ValueLimits | None = None,
    level: float = 0.95,
) -> CorrectedMean:
    """Return the prediction-powered mean where traces had different chances to be labelled.

    The estimate is power * mean(P of all traces) + the mean of Y - power * P over the labelled, weighted by
    the inverse of their chances (Hajek). Its variance is that of the mean of each trace's influence (the
    augmented inverse-probability-weighted estimator; Robins, Rotnitzky and Zhao 1994), which is a little
    too large for a stratified choice. The power in [0, 1] makes it smallest. With Kish's effective number
    m = (sum w)^2 / sum w^2 the variance is multiplied by m / (m - 1), and the interval is that of t with
    m - 1 degrees of freedom. With clusters, influences and weights are summed by cluster first.

    Args:
        labels: The metric under human labels of the chosen traces, in the order of `sample.chosen`.
        predictions: The metric under the judge's verdicts of all traces, in their order.
        sample: Which traces were chosen, and the chance that each had.
        clusters: The cluster of each trace, in their order; None: traces are independent.
        known: How many of the chosen have a value that needs no person; they are not labels.
        limits: The least and the greatest value of one trace; None: unknown.
        level: Confidence level.

    Returns:
        The corrected mean, with a warning where fewer than 100 traces or clusters are labelled.

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
    units = y.size - known
    if clusters is not None:
        codes, groups = group_codes(clusters, p.size)
        influence, human = group_sums(influence, codes, groups), group_sums(human, codes, groups)
        w = group_sums(w, codes[chosen], groups)
        units = int(np.count_nonzero(w))
    effective = max(p.size**2 / float(w @ w), 1.5)
    correction = effective / (effective - 1)
    variance = correction * float(influence @ influence) / p.size**2
    alone = correction * float(human @ human) / p.size**2
    value, error = centre + power * (float(p.mean()) - judged_there), math.sqrt(variance)
    half = t_ppf((1 + level) / 2, effective - 1) * error
    labelled = y.size - known
    made = Interval(value - half, value + half, level, "PPI++ weighted t")
    codes, groups = group_codes(None if clusters is None else [clusters[k] for k in sample.chosen], y.size)
    each = np.asarray(sample.weights) * (y.size / np.sum(sample.weights))
    residuals = group_sums(each * (y - power * p[chosen]), codes, groups), group_sums(each, codes, groups)
    return CorrectedMean(
        value=value,
        interval=_interval(made, y, limits, residuals, power, variance),
        standard_error=error,
        power=power,
        n_labelled=labelled,
        n_unlabelled=p.size - y.size,
        effective_n=labelled * alone / variance if variance > 0 else None,
        judge_only=float(p.mean()),
        labels_only=centre,
        warnings=_few(labelled, units, limits),
    )


def _interval(
    made: Interval,
    labels: Floats,
    limits: ValueLimits | None,
    residuals: tuple[Floats, Floats],
    power: float,
    variance: float,
) -> Interval | None:
    """Return the interval by Gaffke's bound on the residuals; without limits the one that was made."""
    # Residuals, label minus power * prediction, come as the totals and sizes of units. What the variance has
    # beyond theirs is normal. An interval without width is replaced by that of the labels alone.
    if made.high - made.low <= 1e-12:
        return mean_interval(labels, limits=limits, level=made.level).interval
    if limits is None or limits[0] is None or limits[1] is None:
        return made if limits is None else made.within(*limits)
    totals, sizes = residuals
    mean = float(totals.sum() / sizes.sum())
    spread = totals - mean * sizes
    rest = max(variance - float(spread @ spread) / float(sizes.sum()) ** 2, 0.0)
    value, error = (made.low + made.high) / 2, normal_ppf((1 + made.level) / 2) * math.sqrt(rest)
    least, greatest = limits[0] - power * limits[1], limits[1] - power * limits[0]
    weight = HITS_END_WEIGHT if np.isin(labels, [limits[0], limits[1]]).all() else END_WEIGHT
    low, high = bounded_interval(totals, sizes, (least, greatest), made.level, end_weight=weight)
    ends = value - math.hypot(mean - low, error), value + math.hypot(high - mean, error)
    return Interval(*ends, made.level, made.method.removesuffix(" t") + " gaffke").within(*limits)


def _few(labels: int, units: int, limits: ValueLimits | None) -> tuple[Doubt, ...]:
    least = FEW_LABELS if limits is None or None in limits else LEAST_LABELS
    kind: DoubtKind = "few labels" if units == labels else "few labelled clusters"
    return () if units >= least else (Doubt(kind, count=labels, other=units, least=least),)
