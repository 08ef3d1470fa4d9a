"""Figures of agreement as functions of counts, with intervals that hold for few traces and good judges."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Literal, Protocol

import numpy as np
import numpy.typing as npt

from judge_eval.stats._arrays import Floats, Ints, defined
from judge_eval.stats.figure import Figure, Interval
from judge_eval.stats.intervals import bounded_interval
from judge_eval.stats.resample import Resampler

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


def _bounds(sums: Floats, sizes: Floats, limits: tuple[float, float], level: float) -> tuple[float, float]:
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
        return _bounds(*self.parts(tables), self.limits, level)


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
        least, most = _bounds(apart, sizes, (0.0, float(distance.max())), level)
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
        ends = [_bounds(each @ places, each.sum(axis=1), (0.0, 1.0), level) for each, places in sides]
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
