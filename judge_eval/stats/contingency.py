"""Agreement as a function of count tables, many tables at a time.

The functions take float64 arrays of shape (..., q, q), work on the last two axes, and give NaN where a
figure is undefined. The public functions turn that into None.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from judge_eval.stats._arrays import Floats, Ints

Weights = Literal["linear", "quadratic"]
Level = Literal["nominal", "ordinal", "interval"]


def confusion_by_group(rows: Ints, columns: Ints, shape: tuple[int, int], codes: Ints, groups: int) -> Floats:
    """Count pairs of categories in each group.

    Args:
        rows: The category index of the first rater, shape (n,).
        columns: That of the second rater, shape (n,).
        shape: How many categories each has.
        codes: The group of each pair, shape (n,).
        groups: How many groups there are.

    Returns:
        Counts of shape (groups, *shape).
    """
    size = shape[0] * shape[1]
    flat = np.bincount(codes * size + rows * shape[1] + columns, minlength=groups * size)
    return flat.reshape(groups, *shape).astype(np.float64)


def ratio(above: Floats, below: Floats) -> Floats:
    """Divide, with NaN where the divisor is 0."""
    above, below = np.broadcast_arrays(above, below)
    quotient = np.full(above.shape, np.nan)
    np.divide(above, below, out=quotient, where=below != 0)
    return quotient


def kappa_of(counts: Floats, weights: Weights | None = None) -> Floats:
    """Cohen's kappa; NaN where no disagreement is expected by chance (both raters constant and equal)."""
    size = counts.shape[-1]
    apart = np.abs(np.subtract.outer(np.arange(size), np.arange(size))).astype(np.float64)
    disagreement = (apart > 0).astype(np.float64) if weights is None else apart
    if weights == "quadratic":
        disagreement = apart**2
    n = counts.sum(axis=(-2, -1))
    observed = (counts * disagreement).sum(axis=(-2, -1))
    rows, columns = counts.sum(axis=-1), counts.sum(axis=-2)
    expected = ((rows @ disagreement) * columns).sum(axis=-1)
    return 1 - ratio(observed * n, expected)


def ac1_of(counts: Floats) -> Floats:
    """Gwet's AC1; NaN for a table of one category, or an empty one."""
    size = counts.shape[-1]
    n = counts.sum(axis=(-2, -1))
    observed = ratio(np.trace(counts, axis1=-2, axis2=-1), n)
    share = ratio(counts.sum(axis=-1) + counts.sum(axis=-2), 2 * n[..., None])
    if size < 2:
        return np.full(n.shape, np.nan)
    chance = (share * (1 - share)).sum(axis=-1) / (size - 1)
    return ratio(observed - chance, 1 - chance)


def alpha_of(coincidences: Floats, values: Floats, level: Level) -> Floats:
    """Krippendorff's alpha; NaN where the pairable values do not vary.

    Args:
        coincidences: Shape (..., q, q), symmetric.
        values: The q categories in order, shape (q,).
        level: The level of measurement.
    """
    each = coincidences.sum(axis=-1)
    n = each.sum(axis=-1)
    if level == "ordinal":
        # The number of values between two categories, half of each end counted, is a difference of mid-ranks.
        places = each.cumsum(axis=-1) - each / 2
        distance = (places[..., :, None] - places[..., None, :]) ** 2
    else:
        apart = np.subtract.outer(values, values)
        distance = (apart != 0).astype(np.float64) if level == "nominal" else apart**2
    observed = (coincidences * distance).sum(axis=(-2, -1))
    expected = (each[..., :, None] * each[..., None, :] * distance).sum(axis=(-2, -1))
    return 1 - ratio(observed * (n - 1), expected)


def accuracy_of(counts: Floats) -> Floats:
    """Share of pairs in the same category; NaN for an empty table."""
    return ratio(np.trace(counts, axis1=-2, axis2=-1), counts.sum(axis=(-2, -1)))


def precision_of(counts: Floats) -> Floats:
    """Share of the first rater's positives that the second calls positive, of (..., 2, 2) counts."""
    return ratio(counts[..., 1, 1], counts[..., 1, :].sum(axis=-1))


def recall_of(counts: Floats) -> Floats:
    """Share of the second rater's positives that the first calls positive, of (..., 2, 2) counts."""
    return ratio(counts[..., 1, 1], counts[..., :, 1].sum(axis=-1))


def specificity_of(counts: Floats) -> Floats:
    """Share of the second rater's negatives that the first calls negative, of (..., 2, 2) counts."""
    return ratio(counts[..., 0, 0], counts[..., :, 0].sum(axis=-1))


def f1_of(counts: Floats) -> Floats:
    """Harmonic mean of precision and recall, 2TP / (2TP + FP + FN), of (..., 2, 2) counts."""
    double = 2 * counts[..., 1, 1]
    return ratio(double, double + counts[..., 0, 1] + counts[..., 1, 0])


def bias_of(counts: Floats, values: Floats) -> Floats:
    """Mean of the first rater minus mean of the second."""
    rows, columns = counts.sum(axis=-1), counts.sum(axis=-2)
    return ratio(((rows - columns) * values).sum(axis=-1), counts.sum(axis=(-2, -1)))


def auc_of(counts: Floats) -> Floats:
    """Chance that a positive is above a negative, ties half, of (..., q scores ascending, 2) counts."""
    negative, positive = counts[..., 0], counts[..., 1]
    below = negative.cumsum(axis=-1) - negative / 2
    return ratio((positive * below).sum(axis=-1), positive.sum(axis=-1) * negative.sum(axis=-1))


def binarised(counts: Floats, first: Floats, second: Floats, threshold: float) -> Floats:
    """Collapse a table to (..., 2, 2): below the threshold, and at or above it.

    Args:
        counts: Shape (..., q, r).
        first: The values of the rows, shape (q,).
        second: The values of the columns, shape (r,).
        threshold: The least value that counts as positive.
    """
    rows = np.stack([first < threshold, first >= threshold]).astype(np.float64)
    columns = np.stack([second < threshold, second >= threshold]).astype(np.float64)
    return rows @ counts @ columns.T
