"""Agreement of raters: judge with human, judge with judge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from judge_eval.stats import contingency as tables
from judge_eval.stats._arrays import Floats, Ints, defined, pair
from judge_eval.stats.contingency import Level, Weights


@dataclass(frozen=True, slots=True)
class ConfusionMatrix:
    """How often two raters gave each pair of grades."""

    categories: tuple[float, ...]
    """The grades in ascending order."""
    counts: tuple[tuple[int, ...], ...]
    """Row: the first rater's grade; column: the second's."""

    def __str__(self) -> str:
        rows = [["", *(f"{each:g}" for each in self.categories)]]
        rows += [
            [f"{grade:g}", *map(str, row)] for grade, row in zip(self.categories, self.counts, strict=True)
        ]
        width = max(len(cell) for row in rows for cell in row)
        return "\n".join(" ".join(cell.rjust(width) for cell in row) for row in rows)


@dataclass(frozen=True, slots=True)
class Detection:
    """How well the judge finds what humans call relevant; a figure is None where it would be 0/0."""

    precision: float | None
    """Of the chunks the judge calls relevant, the share that humans do."""
    recall: float | None
    """Of the chunks humans call relevant, the share that the judge does (sensitivity)."""
    specificity: float | None
    """Of the chunks humans call irrelevant, the share that the judge does."""
    f1: float | None
    bias: float
    """The judge's rate of relevant chunks minus the humans': above 0 it is lenient."""
    n: int

    def __str__(self) -> str:
        names = ("precision", "recall", "specificity", "f1")
        shown = [
            f"{name} {'undefined' if (v := getattr(self, name)) is None else f'{v:.4g}'}" for name in names
        ]
        return ", ".join([*shown, f"bias {self.bias:+.4g}"]) + f" (n={self.n})"


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
    values = np.unique(
        np.concatenate([a, b]) if categories is None else np.asarray(categories, dtype=np.float64)
    )
    indices = []
    for name, grades in (("a", a), ("b", b)):
        index = np.minimum(np.searchsorted(values, grades), values.size - 1)
        off = np.flatnonzero(values[index] != grades)
        if off.size:
            raise ValueError(
                f"{name}[{off[0]}]: {grades[off[0]]:g} is none of the categories {values.tolist()}"
            )
        indices.append(index.astype(np.int64))
    return indices[0], indices[1], values


def confusion_matrix(
    a: npt.ArrayLike, b: npt.ArrayLike, *, categories: Sequence[float] | None = None
) -> ConfusionMatrix:
    """Count each pair of grades.

    Args:
        a: Grades of the first rater (by custom the judge), shape (n,).
        b: Grades of the second rater for the same chunks.
        categories: All grades of the scale; None takes those that occur.

    Raises:
        ValueError: A grade is missing or none of the categories, there is no pair, or lengths differ.
    """
    counts, values = _counts(a, b, categories)
    rows = counts.astype(np.int64).tolist()
    return ConfusionMatrix(tuple(values.tolist()), tuple(tuple(row) for row in rows))


def cohen_kappa(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    weights: Weights | None = None,
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
        A number in [-1, 1]. None where both raters gave one and the same grade throughout: chance alone
        explains all agreement, and kappa is 0/0.

    Raises:
        ValueError: A grade is missing or none of the categories, there is no pair, or lengths differ.
    """
    if weights not in (None, "linear", "quadratic"):
        raise ValueError(f"weights: {weights!r} is none of None, 'linear', 'quadratic'")
    counts, _ = _counts(a, b, categories)
    return defined(tables.kappa_of(counts, weights))


def gwet_ac1(
    a: npt.ArrayLike, b: npt.ArrayLike, *, categories: Sequence[float] | None = None
) -> float | None:
    """Return Gwet's AC1 (2008), which stays high where nearly all grades are the same.

    (p - e) / (1 - e) with p the share of equal grades, e = sum of s(1 - s) / (q - 1) and s the mean share
    of each of the q categories.

    Args:
        a: Grades of one rater, shape (n,).
        b: Grades of the other for the same chunks.
        categories: All grades of the scale; None takes those that occur.

    Returns:
        A number in [-1, 1]; None where there is only one category.

    Raises:
        ValueError: A grade is missing or none of the categories, there is no pair, or lengths differ.
    """
    counts, _ = _counts(a, b, categories)
    return defined(tables.ac1_of(counts))


def krippendorff_alpha(ratings: npt.ArrayLike, level: Level = "ordinal") -> float | None:
    """Return Krippendorff's alpha (2004) for any number of raters, with missing ratings.

    Args:
        ratings: Shape (raters, units); None or NaN where a rater gave no rating.
        level: `nominal`, `ordinal` or `interval`.

    Returns:
        A number <= 1. None where it is undefined: no unit has two ratings, or all of them are equal.

    Raises:
        ValueError: The shape does not fit, a rating is infinite, or the level is unknown.
    """
    by_unit, values = coincidences(ratings)
    if level not in ("nominal", "ordinal", "interval"):
        raise ValueError(f"level: {level!r} is none of 'nominal', 'ordinal', 'interval'")
    return defined(tables.alpha_of(by_unit.sum(axis=0), values, level))


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
    held = (table.T[:, :, None] == values).sum(axis=1).astype(np.float64)
    pairs = held[:, :, None] * held[:, None, :]
    diagonal = np.arange(values.size)
    pairs[:, diagonal, diagonal] -= held
    return pairs / np.maximum(held.sum(axis=1) - 1, 1)[:, None, None], values


def detection(judge: npt.ArrayLike, human: npt.ArrayLike, threshold: float = 1.0) -> Detection:
    """Return precision, recall, specificity, F1 and signed bias of a judge against human grades.

    Args:
        judge: The judge's grades, shape (n,).
        human: Human grades of the same chunks.
        threshold: The least grade that counts as relevant, for both.

    Raises:
        ValueError: A grade is missing, there is no pair, or lengths differ.
    """
    counts, values = _counts(judge, human, None)
    two = tables.binarised(counts, values, values, threshold)
    return Detection(
        precision=defined(tables.precision_of(two)),
        recall=defined(tables.recall_of(two)),
        specificity=defined(tables.specificity_of(two)),
        f1=defined(tables.f1_of(two)),
        bias=float(tables.bias_of(two, np.array([0.0, 1.0]))),
        n=int(counts.sum()),
    )


def auc(scores: npt.ArrayLike, labels: npt.ArrayLike) -> float | None:
    """Return the area under the ROC curve: the chance that a positive scores above a negative, ties half.

    Args:
        scores: Any finite numbers (grades, confidences), shape (n,).
        labels: Relevant (true, 1) or not (false, 0), shape (n,).

    Returns:
        A number in [0, 1]; None where there is no positive, or no negative.

    Raises:
        ValueError: A score is missing, a label is neither 0 nor 1, or lengths differ.
    """
    s, y = pair(scores, labels, ("scores", "labels"))
    if not np.isin(y, (0.0, 1.0)).all():
        raise ValueError("labels: only 0 and 1 are labels; binarise grades first")
    values, index = np.unique(s, return_inverse=True)
    zero = np.zeros(s.size, dtype=np.int64)
    counts = tables.confusion_by_group(index.astype(np.int64), y.astype(np.int64), (values.size, 2), zero, 1)
    return defined(tables.auc_of(counts)[0])


def _counts(a: npt.ArrayLike, b: npt.ArrayLike, categories: Sequence[float] | None) -> tuple[Floats, Floats]:
    rows, columns, values = category_codes(a, b, categories)
    zero = np.zeros(rows.size, dtype=np.int64)
    return tables.confusion_by_group(rows, columns, (values.size, values.size), zero, 1)[0], values
