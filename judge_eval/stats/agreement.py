"""Agreement of raters: judge with human, judge with judge."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from judge_eval.stats._arrays import Floats, Ints, defined, pair
from judge_eval.stats.contingency import Weights, confusion_by_group, kappa_of


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
    return defined(kappa_of(counts, weights))


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


def _counts(a: npt.ArrayLike, b: npt.ArrayLike, categories: Sequence[float] | None) -> tuple[Floats, Floats]:
    rows, columns, values = category_codes(a, b, categories)
    zero = np.zeros(rows.size, dtype=np.int64)
    return confusion_by_group(rows, columns, (values.size, values.size), zero, 1)[0], values
