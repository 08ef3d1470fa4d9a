"""Agreement of a judge with people, trace by trace."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from judge_eval.stats import contingency as tables
from judge_eval.stats._arrays import Floats, group_codes, group_sums, pair
from judge_eval.stats.agreement import category_codes, coincidences
from judge_eval.stats.contingency import Level
from judge_eval.stats.estimate import Estimate
from judge_eval.stats.resample import ResampleMethod, Resampler, Statistic


@dataclass(frozen=True, slots=True)
class TraceDisagreement:
    """How far judge and human are apart on the chunks of one trace."""

    trace: Hashable
    distance: float
    """Mean absolute difference of the grades."""
    bias: float
    """Mean grade of the judge minus that of the humans."""
    unequal: int
    """Chunks with unequal grades."""
    n: int
    """Chunks with both grades."""

    def __str__(self) -> str:
        return f"{self.trace}: {self.unequal} of {self.n} differ, by {self.distance:.3g} ({self.bias:+.3g})"


def agreement_figures(
    judge: npt.ArrayLike,
    human: npt.ArrayLike,
    traces: Iterable[Hashable],
    *,
    categories: Sequence[float] | None = None,
    level: float = 0.95,
    method: ResampleMethod = "bca",
    replicates: int = 2000,
    seed: int = 0,
) -> dict[str, Estimate]:
    """Return every figure of agreement of two raters, each with an interval resampled by trace.

    The names are `kappa`, `kappa_linear`, `kappa_quadratic`, `alpha_nominal`, `alpha_ordinal`,
    `alpha_interval`, `ac1`, `accuracy`, `bias` (mean grade of the judge minus the humans'), and for each
    grade g of the scale but the lowest `kappa_ge{g}`, `precision_ge{g}`, `recall_ge{g}`,
    `specificity_ge{g}`, `bias_ge{g}` and `auc_ge{g}` (how well the judge's grades separate the chunks that
    humans grade g or more).

    Pairs of one trace share a question and are not independent: whole traces are resampled.

    Args:
        judge: The judge's grades, shape (n,).
        human: Human grades of the same chunks.
        traces: The trace of each chunk.
        categories: All grades of the scale; None takes those that occur.
        level: Confidence level.
        method: `bca` or `percentile`.
        replicates: Bootstrap replicates, >= 100.
        seed: Seed of the bootstrap.

    Returns:
        Estimates by name; n is the number of pairs, clusters the number of traces.

    Raises:
        ValueError: A grade is missing or none of the categories, there is no pair, or lengths differ.
    """
    rows, columns, values = category_codes(judge, human, categories)
    codes, groups = group_codes(traces, rows.size, "traces")
    parts = tables.confusion_by_group(rows, columns, (values.size, values.size), codes, groups)
    return agreement_of(parts, values, level=level, method=method, replicates=replicates, seed=seed)


def agreement_of(
    tables: Floats,
    values: Floats,
    *,
    level: float = 0.95,
    method: ResampleMethod = "bca",
    replicates: int = 2000,
    seed: int = 0,
) -> dict[str, Estimate]:
    """Return every figure of agreement, as `agreement_figures`, from the counts of each trace.

    Args:
        tables: How often each pair of grades stands in each trace, shape (traces, q, q), the judge's grade
            first.
        values: The q grades, ascending.
        level: Confidence level.
        method: `bca` or `percentile`.
        replicates: Bootstrap replicates, >= 100.
        seed: Seed of the bootstrap.
    """
    draws = Resampler(tables, level=level, method=method, replicates=replicates, seed=seed)
    pairs, groups = int(tables.sum()), tables.shape[0]
    found: dict[str, Estimate] = {}
    for name, statistic in _statistics(values).items():
        drawn = draws.estimate(statistic)
        found[name] = Estimate(
            drawn.value, drawn.interval, pairs, groups, drawn.standard_error, drawn.undefined
        )
    return found


def alpha_interval(
    ratings: npt.ArrayLike,
    traces: Iterable[Hashable],
    level: Level = "ordinal",
    *,
    confidence: float = 0.95,
    replicates: int = 2000,
    seed: int = 0,
) -> Estimate:
    """Return Krippendorff's alpha of any number of raters with a BCa interval resampled by trace.

    Args:
        ratings: Shape (raters, units); None or NaN where a rating is missing.
        traces: The trace of each unit.
        level: `nominal`, `ordinal` or `interval`.
        confidence: Confidence level, between 0 and 1.
        replicates: Bootstrap replicates, >= 100.
        seed: Seed of the bootstrap.

    Raises:
        ValueError: As `krippendorff_alpha`, or traces and units differ in number.
    """
    by_unit, values = coincidences(ratings)
    if level not in ("nominal", "ordinal", "interval"):
        raise ValueError(f"level: {level!r} is none of 'nominal', 'ordinal', 'interval'")
    units = by_unit.shape[0]
    codes, groups = group_codes(traces, units, "traces")
    flat = by_unit.reshape(units, -1)
    parts = np.stack([group_sums(flat[:, k], codes, groups) for k in range(flat.shape[1])], axis=-1)
    draws = Resampler(
        parts.reshape(groups, *by_unit.shape[1:]), level=confidence, replicates=replicates, seed=seed
    )
    drawn = draws.estimate(partial(tables.alpha_of, values=values, level=level))
    return Estimate(drawn.value, drawn.interval, units, groups, drawn.standard_error, drawn.undefined)


def disagreements(
    judge: npt.ArrayLike, human: npt.ArrayLike, traces: Iterable[Hashable]
) -> list[TraceDisagreement]:
    """Return the traces where judge and human differ, the most different first.

    Args:
        judge: The judge's grades, shape (n,).
        human: Human grades of the same chunks.
        traces: The trace of each chunk.

    Returns:
        One entry for each trace with unequal grades, by mean absolute difference, then by number of unequal
        grades, then in order of appearance.

    Raises:
        ValueError: A grade is missing, or lengths differ.
    """
    a, b = pair(judge, human, ("judge", "human"))
    ids = list(traces)
    codes, groups = group_codes(ids, a.size, "traces")
    n = np.maximum(group_sums(np.ones(a.size), codes, groups), 1)
    apart = group_sums(np.abs(a - b), codes, groups) / n
    bias = group_sums(a - b, codes, groups) / n
    unequal = group_sums((a != b).astype(np.float64), codes, groups)
    order = np.lexsort((np.arange(groups), -unequal, -apart))
    names = list(dict.fromkeys(ids))
    return [
        TraceDisagreement(names[k], float(apart[k]), float(bias[k]), int(unequal[k]), int(n[k]))
        for k in order.tolist()
        if unequal[k]
    ]


def _statistics(values: Floats) -> dict[str, Statistic]:
    found: dict[str, Statistic] = {
        "kappa": tables.kappa_of,
        "kappa_linear": partial(tables.kappa_of, weights="linear"),
        "kappa_quadratic": partial(tables.kappa_of, weights="quadratic"),
        "alpha_nominal": partial(_alpha, values=values, level="nominal"),
        "alpha_ordinal": partial(_alpha, values=values, level="ordinal"),
        "alpha_interval": partial(_alpha, values=values, level="interval"),
        "ac1": tables.ac1_of,
        "accuracy": tables.accuracy_of,
        "bias": partial(tables.bias_of, values=values),
    }
    for grade in values[1:].tolist():
        for name, statistic in _BINARY.items():
            found[f"{name}_ge{grade:g}"] = partial(
                _binarised, values=values, grade=grade, statistic=statistic
            )
        found[f"auc_ge{grade:g}"] = partial(_auc, values=values, grade=grade)
    return found


def _alpha(counts: Floats, values: Floats, level: Level) -> Floats:
    return tables.alpha_of(counts + np.swapaxes(counts, -1, -2), values, level)


def _binarised(counts: Floats, values: Floats, grade: float, statistic: Statistic) -> Floats:
    return statistic(tables.binarised(counts, values, values, grade))


def _auc(counts: Floats, values: Floats, grade: float) -> Floats:
    two = np.stack([values < grade, values >= grade], axis=-1).astype(np.float64)
    return tables.auc_of(counts @ two)


_BINARY: dict[str, Statistic] = {
    "kappa": tables.kappa_of,
    "precision": tables.precision_of,
    "recall": tables.recall_of,
    "specificity": tables.specificity_of,
    "bias": partial(tables.bias_of, values=np.array([0.0, 1.0])),
}
