"""Agreement of raters: judge with human, judge with judge."""

from collections.abc import Hashable, Iterable, Sequence
from functools import partial
from typing import get_args

import numpy as np
import numpy.typing as npt

from judge_eval.stats import figures_of_agreement
from judge_eval.stats._arrays import Floats, Ints, check_choice, defined, group_codes, group_sums, pair
from judge_eval.stats.figure import Figure
from judge_eval.stats.rank_correlation import kendall_tau_b, rbo, spearman, tau_ap
from judge_eval.stats.resample import ResampleMethod, Resampler


def category_codes(
    first: npt.ArrayLike, second: npt.ArrayLike, categories: Sequence[float] | None
) -> tuple[Ints, Ints, Floats]:
    """Return the category indices of two raters and the categories, ascending.

    Raises:
        ValueError: A grade is missing or none of the categories, there is no pair, or lengths differ.
    """
    a, b = pair(first, second, ("a", "b"))
    if a.size == 0:
        raise ValueError("there is no pair of grades to compare")
    values = np.unique(np.concatenate([a, b]) if categories is None else np.asarray(categories, dtype=np.float64))
    return _codes_of("a", a, values), _codes_of("b", b, values), values


def _codes_of(name: str, grades: Floats, values: Floats) -> Ints:
    codes = np.minimum(np.searchsorted(values, grades), values.size - 1)
    off = np.flatnonzero(values[codes] != grades)
    if off.size:
        raise ValueError(f"{name}[{off[0]}]: {grades[off[0]]:g} is not one of the categories {values.tolist()}")
    return codes.astype(np.int64)


def cohen_kappa(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    weights: figures_of_agreement.Weights | None = None,
    *,
    categories: Sequence[float] | None = None,
) -> float | None:
    """Return Cohen's kappa (1960), or weighted kappa (1968).

    kappa = 1 - sum(w * observed) / sum(w * expected), with w = 1 for unequal grades, or the distance of
    the grades' positions in the list of categories (`linear`), or its square (`quadratic`). Positions, not
    values: give `categories` where a grade of the scale may not occur.

    Args:
        a: Grades of one rater, shape (n,).
        b: Grades of the other for the same chunks.
        weights: None, `linear` or `quadratic`.
        categories: All grades of the scale; None takes those that occur.

    Returns:
        A number in [-1, 1]; None if both raters gave one and the same grade throughout (kappa is 0/0).

    Raises:
        ValueError: A grade is missing or none of the categories, there is no pair, or lengths differ.
    """
    if weights not in (None, "linear", "quadratic"):
        raise ValueError(f"weights: {weights!r} must be None, 'linear' or 'quadratic'")
    rows, columns, values = category_codes(a, b, categories)
    one_group = np.zeros(rows.size, dtype=np.int64)
    counts = figures_of_agreement.confusion_by_group(rows, columns, (values.size, values.size), one_group, 1)[0]
    return defined(figures_of_agreement.kappa(weights)(counts))


def coincidences(ratings: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Return the coincidences of each unit, shape (units, q, q), and the q values, ascending.

    A unit with m ratings adds 1 / (m - 1) for each ordered pair of them; a unit with one adds nothing.

    Raises:
        ValueError: The shape does not fit, or a rating is infinite.
    """
    table = np.asarray(ratings, dtype=np.float64)
    if table.ndim != 2:
        raise ValueError(f"ratings: shape (raters, units) is needed, got {table.shape}")
    if np.isinf(table).any():
        raise ValueError("ratings: a rating is infinite")
    values = np.unique(table[~np.isnan(table)])
    counts = (table.T[:, :, None] == values).sum(axis=1, dtype=np.float64)
    pairs = counts[:, :, None] * counts[:, None, :]
    diagonal = np.arange(values.size)
    pairs[:, diagonal, diagonal] -= counts
    pairs /= np.maximum(counts.sum(axis=1) - 1, 1)[:, None, None]
    return pairs, values


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
) -> dict[str, Figure]:
    """Return every figure of agreement of two raters, each with an interval over whole traces.

    The names are `kappa`, `kappa_linear`, `kappa_quadratic`, `alpha_nominal`, `alpha_ordinal`, `alpha_interval`, `ac1`,
    `accuracy`, `bias` (mean grade of the judge minus the humans'), and for each grade g of the scale but the lowest
    `kappa_ge{g}`, `precision_ge{g}`, `recall_ge{g}`, `specificity_ge{g}`, `bias_ge{g}` and `auc_ge{g}` (how well the
    judge's grades separate the chunks that humans grade g or more).

    Pairs of one trace share a question and are not independent: whole traces are weighed and resampled. The
    intervals of shares and biases are Gaffke's (`gaffke`); those of kappa, alpha, AC1 and AUC join the
    resampled interval and the bound that follows from the disagreement (`bca, gaffke`), because resampling
    alone is far too narrow for few traces or a good judge. No interval has zero width.

    Args:
        judge: The judge's grades, shape (n,).
        human: Human grades of the same chunks.
        traces: The trace of each chunk.
        categories: All grades of the scale; None takes those that occur.
        level: Confidence level.
        method: `bca` or `percentile`, where traces are resampled.
        replicates: Bootstrap replicates, >= 100.
        seed: Seed of the bootstrap.

    Returns:
        Estimates by name; n is the number of pairs, clusters the number of traces.

    Raises:
        ValueError: A grade is missing or none of the categories, there is no pair, or lengths differ.
    """
    rows, columns, values = category_codes(judge, human, categories)
    codes, groups = group_codes(traces, rows.size, "traces")
    parts = figures_of_agreement.confusion_by_group(rows, columns, (values.size, values.size), codes, groups)
    return agreement_of(parts, values, level=level, method=method, replicates=replicates, seed=seed)


def agreement_of(
    tables: Floats,
    values: Floats,
    *,
    level: float = 0.95,
    method: ResampleMethod = "bca",
    replicates: int = 2000,
    seed: int = 0,
) -> dict[str, Figure]:
    """Return every figure of agreement, as `agreement_figures`, from counts.

    `tables` counts each pair of grades (the judge's first) in each trace, shape (traces, q, q); `values` are
    the q grades, ascending.
    """
    draws = Resampler(tables, level=level, method=method, replicates=replicates, seed=seed)
    pairs = int(tables.sum())
    return {
        name: figures_of_agreement.estimate(figure, tables, draws, pairs)
        for name, figure in named_figures(values).items()
    }


def alpha_interval(
    ratings: npt.ArrayLike,
    traces: Iterable[Hashable],
    level: figures_of_agreement.MeasurementLevel = "ordinal",
    *,
    confidence: float = 0.95,
    replicates: int = 2000,
    seed: int = 0,
) -> Figure:
    """Return Krippendorff's alpha (2004) of any number of raters with an interval over whole traces.

    Args:
        ratings: Shape (raters, units); None or NaN where a rating is missing.
        traces: The trace of each unit.
        level: `nominal`, `ordinal` or `interval`.
        confidence: Confidence level, between 0 and 1.
        replicates: Bootstrap replicates, >= 100.
        seed: Seed of the bootstrap.

    Returns:
        A number <= 1; None where it is undefined: no unit has two ratings, or all of them are equal.

    Raises:
        ValueError: The shape does not fit, a rating is infinite, the level is unknown, or traces and units
            differ in number.
    """
    by_unit, values = coincidences(ratings)
    check_choice("level", level, get_args(figures_of_agreement.MeasurementLevel))
    units, q = by_unit.shape[:2]
    codes, groups = group_codes(traces, units, "traces")
    if not q:
        return Figure(None, None, units, groups)
    sums = [group_sums(column, codes, groups) for column in by_unit.reshape(units, -1).T]
    parts = np.stack(sums, axis=-1).reshape(groups, q, q)
    draws = Resampler(parts, level=confidence, replicates=replicates, seed=seed)
    return figures_of_agreement.estimate(figures_of_agreement.alpha(values, level), parts, draws, units)


def ranking_figures(judge: npt.ArrayLike, human: npt.ArrayLike, *, p: float = 0.9) -> dict[str, Figure]:
    """Return how well the ranking of systems by a judge matches that by people.

    Systems are ranked by their mean over traces. The names are `tau_b`, `tau_ap` (the human ranking being
    the reference), `spearman` and `rbo`.

    There is no interval: resampled traces rank systems with more noise than the traces themselves, so that
    bootstrap intervals lie too low (with 63 systems all 60 of 60 missed). Corrected intervals, the jackknife
    and split halves covered between .05 and .90 instead of .95.

    Args:
        judge: A metric under the judge's verdicts, shape (traces, systems), finite.
        human: The same metric under human labels.
        p: The persistence of `rbo`, strictly between 0 and 1.

    Returns:
        Estimates by name without interval, n being the number of traces; a value is None where a ranking
        does not vary, or there are fewer than two systems.

    Raises:
        ValueError: The shapes differ or do not fit, a value is missing, or an option is out of range.
    """
    tables = np.asarray(judge, dtype=np.float64), np.asarray(human, dtype=np.float64)
    if tables[0].ndim != 2 or tables[0].shape != tables[1].shape or tables[0].shape[0] < 1:
        shapes = f"{tables[0].shape} and {tables[1].shape}"
        raise ValueError(f"two tables of shape (traces, systems) are needed, got {shapes}")
    judged, labelled = (table.mean(axis=0).round(10).tolist() for table in tables)  # equal means stay tied
    n = tables[0].shape[0]
    return {
        "tau_b": Figure(kendall_tau_b(judged, labelled), None, n),
        "tau_ap": Figure(tau_ap(labelled, judged), None, n),
        "spearman": Figure(spearman(judged, labelled), None, n),
        "rbo": Figure(rbo(dict(enumerate(judged)), dict(enumerate(labelled)), p), None, n),
    }


def named_figures(values: Floats) -> dict[str, figures_of_agreement.AgreementFigure]:
    """Return every figure of tables of pairs of grades, by name; `values` are the grades, ascending."""
    span = float(values[-1] - values[0])
    figures: dict[str, figures_of_agreement.AgreementFigure] = {
        "kappa": figures_of_agreement.kappa(),
        "kappa_linear": figures_of_agreement.kappa("linear"),
        "kappa_quadratic": figures_of_agreement.kappa("quadratic"),
        **{
            f"alpha_{level}": figures_of_agreement.alpha(values, level, mirrored=True)
            for level in get_args(figures_of_agreement.MeasurementLevel)
        },
        "ac1": figures_of_agreement.AC1,
        "accuracy": figures_of_agreement.ACCURACY,
        "bias": figures_of_agreement.Share(partial(_gap, values=values), (-span, span)),
    }
    for grade in values[1:].tolist():
        cut = values >= grade
        for name, figure in _BINARY.items():
            figures[f"{name}_ge{grade:g}"] = figures_of_agreement.Cut(figure, (cut, cut))
        figures[f"auc_ge{grade:g}"] = figures_of_agreement.Cut(figures_of_agreement.Separation(), (None, cut))
    return figures


def _gap(counts: Floats, values: Floats) -> tuple[Floats, Floats]:
    rows, columns = counts.sum(axis=-1), counts.sum(axis=-2)
    return (rows - columns) @ values, counts.sum(axis=(-2, -1))


_BINARY: dict[str, figures_of_agreement.AgreementFigure] = {
    "kappa": figures_of_agreement.kappa(),
    "precision": figures_of_agreement.PRECISION,
    "recall": figures_of_agreement.RECALL,
    "specificity": figures_of_agreement.SPECIFICITY,
    "bias": figures_of_agreement.Share(partial(_gap, values=np.array([0.0, 1.0])), (-1.0, 1.0)),
}
