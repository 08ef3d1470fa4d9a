"""Agreement of raters, judge with human or with judge, with intervals that hold for few traces and good judges."""

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Literal, Protocol, get_args

import numpy as np
import numpy.typing as npt

from judge_eval.stats._arrays import Floats, Ints, check_choice, defined, group_codes, group_sums, pair
from judge_eval.stats.figure import Figure, Interval
from judge_eval.stats.intervals import bounded_interval
from judge_eval.stats.rank_correlation import kendall_tau_b, rbo, spearman, tau_ap
from judge_eval.stats.resample import ResampleMethod, Resampler

Weights = Literal["linear", "quadratic"]
MeasurementLevel = Literal["nominal", "ordinal", "interval"]
Bools = npt.NDArray[np.bool_]


def confusion_by_group(rows: Ints, columns: Ints, shape: tuple[int, int], codes: Ints, groups: int) -> Floats:
    """Count the pairs of category indices (rows, columns) in each group: shape (groups, *shape)."""
    size = shape[0] * shape[1]
    flat = np.bincount(codes * size + rows * shape[1] + columns, minlength=groups * size)
    return flat.reshape(groups, *shape).astype(np.float64)


def ratio(above: Floats, below: Floats) -> Floats:
    """Divide, with NaN where the divisor is 0."""
    above, below = np.broadcast_arrays(above, below)
    quotient = np.full(above.shape, np.nan)
    np.divide(above, below, out=quotient, where=below != 0)
    return quotient


class AgreementFigure(Protocol):
    """A figure of (..., q, q) counts of pairs of grades, one rater's in rows, the other's in columns."""

    @property
    def resampled(self) -> bool:
        """Whether its interval joins the resampled one and the bounds."""

    def __call__(self, counts: Floats) -> Floats:
        """Return the figure of each table, shape (...); NaN where it is undefined."""

    def bounds(self, tables: Floats, level: float) -> tuple[float, float]:
        """Return bounds for the figure of all traces, from the counts in each trace."""


def estimate(figure: AgreementFigure, tables: Floats, draws: Resampler, n: int) -> Figure:
    """Return a figure of counts, shape (traces, q, q), with its interval unless there are fewer than two."""
    groups, level = tables.shape[0], draws.level
    of_all = Figure(defined(figure(tables.sum(axis=0))), None, n, groups)
    if of_all.value is None or groups < 2:
        return of_all
    (low, high), method = figure.bounds(tables, level), "gaffke"
    if figure.resampled:
        drawn = draws.estimate(figure)
        of_all = replace(drawn, n=n, traces=groups)
        if drawn.interval is not None:
            low, high = min(low, drawn.interval.low), max(high, drawn.interval.high)
            method = f"{drawn.interval.method}, gaffke"
    return replace(of_all, interval=Interval(low, high, level, method))


def share_bounds(sums: Floats, sizes: Floats, limits: tuple[float, float], level: float) -> tuple[float, float]:
    """Return Gaffke's interval of a ratio over whole traces; one without a chunk that counts says nothing."""
    counted = sizes > 0
    return bounded_interval(sums[counted], sizes[counted], limits, level)


@dataclass(frozen=True, slots=True)
class Share:
    """A sum over chunks divided by a number of chunks, such as recall. Its interval is Gaffke's."""

    parts: Callable[[Floats], tuple[Floats, Floats]]
    """The sum and the number in each table."""
    limits: tuple[float, float] = (0.0, 1.0)
    resampled: ClassVar[bool] = False

    def __call__(self, counts: Floats) -> Floats:
        """Return the share."""
        return ratio(*self.parts(counts))

    def bounds(self, tables: Floats, level: float) -> tuple[float, float]:
        """Weigh whole traces."""
        return share_bounds(*self.parts(tables), self.limits, level)


@dataclass(frozen=True, slots=True)
class ChanceCorrected:
    """One minus the observed over the expected disagreement: kappa, alpha, AC1.

    Resampling sees no disagreement that did not occur: of twenty traces of a judge that is right in 99 of 100
    its interval holds kappa in 22 of 100 cases. The bounds follow from Gaffke's of the disagreement, at the
    observed margins.
    """

    distance: Callable[[Floats], Floats]
    """The disagreement of each pair of categories, shape (..., q, q)."""
    expected: Callable[[Floats, Floats], Floats]
    """The mean disagreement by chance, of counts and distances."""
    resampled: ClassVar[bool] = True

    def __call__(self, counts: Floats) -> Floats:
        """Return the figure; NaN if no disagreement is expected by chance."""
        distance = self.distance(counts)
        observed = ratio((counts * distance).sum(axis=(-2, -1)), counts.sum(axis=(-2, -1)))
        return 1 - ratio(observed, self.expected(counts, distance))

    def bounds(self, tables: Floats, level: float) -> tuple[float, float]:
        """Divide the bounds of the disagreement by that of chance."""
        total = tables.sum(axis=0)
        distance = self.distance(total)
        apart, sizes = (tables * distance).sum(axis=(1, 2)), tables.sum(axis=(1, 2))
        least, most = share_bounds(apart, sizes, (0.0, float(distance.max())), level)
        expected = float(self.expected(total, distance))
        return max(-1.0, 1 - most / expected), 1 - least / expected


@dataclass(frozen=True, slots=True)
class Separation:
    """The chance that a positive is graded above a negative, ties half (AUC), of (..., q, 2) counts.

    Its bounds follow from Gaffke's of the positives' places among the negatives, and of the negatives' among
    the positives: their distances from the figure are added in squares.
    """

    resampled: ClassVar[bool] = True

    def __call__(self, counts: Floats) -> Floats:
        """Return the AUC."""
        negative, positive = counts[..., 0], counts[..., 1]
        below = negative.cumsum(axis=-1) - negative / 2
        return ratio((positive * below).sum(axis=-1), positive.sum(axis=-1) * negative.sum(axis=-1))

    def bounds(self, tables: Floats, level: float) -> tuple[float, float]:
        """Weigh whole traces on both sides."""
        total = tables.sum(axis=0)
        below = (total.cumsum(axis=0) - total / 2) / total.sum(axis=0)
        sides = [(tables[..., 1], below[:, 0]), (tables[..., 0], 1 - below[:, 1])]
        ends = [share_bounds(each @ places, each.sum(axis=1), (0.0, 1.0), level) for each, places in sides]
        value = float(self(total))
        down, up = (math.hypot(*(value - each[k] for each in ends)) for k in (0, 1))
        return max(0.0, value - down), min(1.0, value + up)


@dataclass(frozen=True, slots=True)
class Cut:
    """A figure of two categories, made of grades by a cut: which grades are high. None keeps the grades."""

    figure: AgreementFigure
    high: tuple[Bools | None, Bools | None]
    """Of the first and of the second rater."""

    @property
    def resampled(self) -> bool:
        """As the figure."""
        return self.figure.resampled

    def __call__(self, counts: Floats) -> Floats:
        """Return the figure of the collapsed tables."""
        return self.figure(self._collapsed(counts))

    def bounds(self, tables: Floats, level: float) -> tuple[float, float]:
        """Return the bounds of the collapsed tables."""
        return self.figure.bounds(self._collapsed(tables), level)

    def _collapsed(self, counts: Floats) -> Floats:
        first, second = (None if high is None else np.stack([~high, high]) * 1.0 for high in self.high)
        counts = counts if first is None else first @ counts
        return counts if second is None else counts @ second.T


def kappa(weights: Weights | None = None) -> ChanceCorrected:
    """Return Cohen's kappa; it is undefined if both raters are constant and equal."""

    def distance(counts: Floats) -> Floats:
        places = np.arange(counts.shape[-1])
        apart: Floats = np.abs(np.subtract.outer(places, places)).astype(np.float64)
        return apart**2 if weights == "quadratic" else apart if weights else (apart > 0).astype(np.float64)

    def expected(counts: Floats, apart: Floats) -> Floats:
        rows, columns = counts.sum(axis=-1), counts.sum(axis=-2)
        return ratio(((rows @ apart) * columns).sum(axis=-1), counts.sum(axis=(-2, -1)) ** 2)

    return ChanceCorrected(distance, expected)


def alpha(values: Floats, level: MeasurementLevel, *, mirrored: bool = False) -> ChanceCorrected:
    """Return Krippendorff's alpha of coincidences of q ascending values; undefined if these do not vary."""

    # `mirrored`: the tables count pairs of two raters, and each pair counts in both directions.
    def each_of(counts: Floats) -> Floats:
        each: Floats = counts.sum(axis=-1)
        return each + counts.sum(axis=-2) if mirrored else each

    def distance(counts: Floats) -> Floats:
        if level == "ordinal":
            # The values between two categories, half of each end counted, are a difference of mid-ranks.
            each = each_of(counts)
            places = each.cumsum(axis=-1) - each / 2
            return (places[..., :, None] - places[..., None, :]) ** 2
        apart: Floats = np.subtract.outer(values, values)
        return (apart != 0).astype(np.float64) if level == "nominal" else apart**2

    def expected(counts: Floats, apart: Floats) -> Floats:
        each = each_of(counts)
        n = each.sum(axis=-1)
        return ratio((each[..., :, None] * each[..., None, :] * apart).sum(axis=(-2, -1)), n * (n - 1))

    return ChanceCorrected(distance, expected)


def _gwet(counts: Floats, _: Floats) -> Floats:
    """Return the disagreement by chance of Gwet's AC1; NaN for a table of one category, or an empty one."""
    size = counts.shape[-1]
    share = ratio(counts.sum(axis=-1) + counts.sum(axis=-2), 2 * counts.sum(axis=(-2, -1))[..., None])
    if size < 2:
        return np.full(share.shape[:-1], np.nan)
    chance: Floats = (share * (1 - share)).sum(axis=-1) / (size - 1)
    return 1 - chance


def _cell(counts: Floats, cell: tuple[int, int], axis: int) -> tuple[Floats, Floats]:
    """Return a cell of (..., 2, 2) counts, and the sum of its row (axis 0) or its column (axis 1)."""
    line = counts[..., cell[0], :] if axis == 0 else counts[..., :, cell[1]]
    return counts[..., cell[0], cell[1]], line.sum(axis=-1)


AC1 = ChanceCorrected(kappa().distance, _gwet)
ACCURACY = Share(lambda counts: (np.trace(counts, axis1=-2, axis2=-1), counts.sum(axis=(-2, -1))))
"""Share of pairs in the same category."""
PRECISION = Share(partial(_cell, cell=(1, 1), axis=0))
"""Share of the first rater's positives that the second calls positive."""
RECALL = Share(partial(_cell, cell=(1, 1), axis=1))
"""Share of the second rater's positives that the first calls positive."""
SPECIFICITY = Share(partial(_cell, cell=(0, 0), axis=1))
"""Share of the second rater's negatives that the first calls negative."""


def f1_of(counts: Floats) -> Floats:
    """Harmonic mean of precision and recall, 2TP / (2TP + FP + FN), of (..., 2, 2) counts."""
    double = 2 * counts[..., 1, 1]
    return ratio(double, double + counts[..., 0, 1] + counts[..., 1, 0])


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
    a: npt.ArrayLike, b: npt.ArrayLike, weights: Weights | None = None, *, categories: Sequence[float] | None = None
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
    counts = confusion_by_group(rows, columns, (values.size, values.size), one_group, 1)[0]
    return defined(kappa(weights)(counts))


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
    parts = confusion_by_group(rows, columns, (values.size, values.size), codes, groups)
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
    return {name: estimate(figure, tables, draws, pairs) for name, figure in named_figures(values).items()}


def alpha_interval(
    ratings: npt.ArrayLike,
    traces: Iterable[Hashable],
    level: MeasurementLevel = "ordinal",
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
    check_choice("level", level, get_args(MeasurementLevel))
    units, q = by_unit.shape[:2]
    codes, groups = group_codes(traces, units, "traces")
    if not q:
        return Figure(None, None, units, groups)
    sums = [group_sums(column, codes, groups) for column in by_unit.reshape(units, -1).T]
    parts = np.stack(sums, axis=-1).reshape(groups, q, q)
    draws = Resampler(parts, level=confidence, replicates=replicates, seed=seed)
    return estimate(alpha(values, level), parts, draws, units)


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


def named_figures(values: Floats) -> dict[str, AgreementFigure]:
    """Return every figure of tables of pairs of grades, by name; `values` are the grades, ascending."""
    span = float(values[-1] - values[0])
    figures: dict[str, AgreementFigure] = {
        "kappa": kappa(),
        "kappa_linear": kappa("linear"),
        "kappa_quadratic": kappa("quadratic"),
        **{f"alpha_{level}": alpha(values, level, mirrored=True) for level in get_args(MeasurementLevel)},
        "ac1": AC1,
        "accuracy": ACCURACY,
        "bias": Share(partial(_gap, values=values), (-span, span)),
    }
    for grade in values[1:].tolist():
        cut = values >= grade
        for name, figure in _BINARY.items():
            figures[f"{name}_ge{grade:g}"] = Cut(figure, (cut, cut))
        figures[f"auc_ge{grade:g}"] = Cut(Separation(), (None, cut))
    return figures


def _gap(counts: Floats, values: Floats) -> tuple[Floats, Floats]:
    rows, columns = counts.sum(axis=-1), counts.sum(axis=-2)
    return (rows - columns) @ values, counts.sum(axis=(-2, -1))


_BINARY: dict[str, AgreementFigure] = {
    "kappa": kappa(),
    "precision": PRECISION,
    "recall": RECALL,
    "specificity": SPECIFICITY,
    "bias": Share(partial(_gap, values=np.array([0.0, 1.0])), (-1.0, 1.0)),
}
