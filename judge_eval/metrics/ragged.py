"""Rows of different lengths in one flat array."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from judge_eval.errors import MetricError

SLICE = 1 << 18
SUM_OFF = 1e-6
"""By how much the probabilities of a chunk's grades may miss 1 in all."""


def offsets_of(lengths: ArrayLike) -> NDArray[np.int64]:
    """Return where each row begins, and where the last one ends: one more than there are rows."""
    lengths = np.asarray(lengths, dtype=np.int64)
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def off_scale(
    grades: NDArray[np.int8],
    offsets: NDArray[np.int64],
    ids: Sequence[str] | None,
    low: int,
    high: int | None,
) -> MetricError:
    """Make the error for the first grade that is not from `low` to `high` (127 where None)."""
    top = high or 127
    where = int(np.flatnonzero((grades < low) | (grades > top))[0])
    row = int(np.searchsorted(offsets, where, side="right")) - 1
    name, rank = row if ids is None else ids[row], where - int(offsets[row]) + 1
    return MetricError(f"trace {name}, rank {rank}: the grade {grades[where]} is off the scale 0..{top}")


def flatten_numbers(rows: Sequence[Sequence[float | None]] | None) -> NDArray[np.float64] | None:
    """Store rows of numbers one after the other, NaN for None; None where there are no rows."""
    if rows is None:
        return None
    return np.array([np.nan if v is None else v for v in chain.from_iterable(rows)], dtype=np.float64)


def flatten_chances(
    rows: Sequence[Sequence[Sequence[float] | None]] | None, maximum: int | None
) -> NDArray[np.float64] | None:
    """Store rows of the probabilities of each grade one after the other, NaN for None; None for no rows.

    Raises:
        MetricError: The highest grade is unknown, or a chunk has not one probability for each grade.
    """
    if rows is None:
        return None
    width = 0 if maximum is None else maximum + 1
    unknown = [np.nan] * width
    cells = [unknown if cell is None else cell for cell in chain.from_iterable(rows)]
    if not width or any(len(cell) != width for cell in cells):
        raise MetricError(f"the probabilities of grades are one for each of 0 to maximum={maximum}")
    return np.array(cells, dtype=np.float64).reshape(len(cells), width)


def check_beside(
    columns: Mapping[str, NDArray[Any] | None],
    chances: NDArray[np.float64] | None,
    cells: int,
    maximum: int | None,
) -> None:
    """See that what stands beside the grades fits: as many, and of each all probabilities or none.

    Raises:
        MetricError: It is not, or a number is none.
    """
    for name, values in columns.items():
        if values is not None and (len(values) != cells or np.isinf(values).any()):
            what = "truth value" if values.dtype == np.bool_ else "number"
            raise MetricError(f"{name} must hold one {what} for each of the {cells} grades")
    if chances is None:
        return
    if maximum is None or chances.shape != (cells, maximum + 1):
        raise MetricError(f"chances must hold one probability for each of {cells} grades and 0 to {maximum}")
    known = chances[~np.isnan(chances).any(axis=1)]
    if len(known) and (known.min() < 0 or np.abs(known.sum(axis=1) - 1).max() > SUM_OFF):
        raise MetricError("the probabilities of a chunk's grades are not between 0 and 1, or miss 1 in all")


def flatten(
    rows: Sequence[Sequence[int | None]],
    ids: Sequence[str] | None = None,
    *,
    missing: int | None = None,
    low: int = 0,
) -> tuple[NDArray[np.int8], NDArray[np.int64]]:
    """Store rows of grades one after the other.

    Args:
        rows: The grades of each row.
        ids: The rows' names, to say where a wrong grade stands.
        missing: The mark that None becomes; where it is None, None is an error.
        low: The least value allowed.

    Returns:
        The grades, and the offsets of the rows.

    Raises:
        MetricError: A grade is not a whole number from `low` to 127; the message names trace and rank.
    """
    lengths = [len(row) for row in rows]
    return _as_grades(list(chain.from_iterable(rows)), missing, lengths, ids, low), offsets_of(lengths)


def _as_grades(
    flat: list[Any], missing: int | None, lengths: Sequence[int], ids: Sequence[str] | None, low: int
) -> NDArray[np.int8]:
    try:
        values = np.array(flat, dtype=None if flat else np.int8)
    except ValueError:
        values = np.empty(0, dtype=object)
    if values.dtype.kind in "iub" and values.ndim == 1:
        if not flat or (int(values.min()) >= low and int(values.max()) <= 127):
            return values.astype(np.int8)
    elif missing is not None and any(grade is None for grade in flat):
        present = [low if grade is None else grade for grade in flat]
        values = _as_grades(present, None, lengths, ids, low)
        values[[grade is None for grade in flat]] = missing
        return values
    row, rank = 0, 0
    for grade in flat:
        while rank >= lengths[row]:
            row, rank = row + 1, 0
        if not (isinstance(grade, int | np.integer | np.bool_) and low <= grade <= 127):
            break
        rank += 1
    else:
        return np.array([int(grade) for grade in flat], dtype=np.int8)
    name = row if ids is None else ids[row]
    raise MetricError(
        f"trace {name}, rank {rank + 1}: {grade!r} is not a grade; grades are whole numbers 0..127"
    )


def count_at_least(
    values: NDArray[np.int8], offsets: NDArray[np.int64], levels: Sequence[int]
) -> NDArray[np.unsignedinteger[Any]]:
    """Count the values of each row that reach each level.

    Returns:
        Shape (levels, rows), in the narrowest unsigned type that holds the longest row.
    """
    n = len(offsets) - 1
    lengths = offsets[1:] - offsets[:-1]
    dtype = np.min_scalar_type(int(lengths.max()) if n else 0)
    counts: NDArray[Any] = np.zeros((len(levels), n), dtype=dtype)
    start = 0
    while start < n:
        # Slices keep the comparison's result in the processor's cache.
        stop = n
        if len(values) > SLICE:
            stop = max(start + 1, int(np.searchsorted(offsets, offsets[start] + SLICE, side="right")) - 1)
        part, starts = values[offsets[start] : offsets[stop]], offsets[start:stop] - offsets[start]
        # reduceat gives an empty row the next row's first value, so empty rows are left out of it.
        filled = lengths[start:stop] > 0
        starts = starts[filled]
        if len(starts):
            for level, row in zip(levels, counts[:, start:stop], strict=True):
                row[filled] = np.add.reduceat((part >= level).view(np.uint8), starts, dtype=dtype)
        start = stop
    return counts


def check_layout(name: str, values: Any, offsets: Any) -> NDArray[np.int8]:
    """Make sure that values and offsets are rows one after the other, and return the values.

    Raises:
        MetricError: A type, a shape or an offset does not fit.
    """
    if not (isinstance(values, np.ndarray) and values.dtype == np.int8 and values.ndim == 1):
        raise MetricError(f"{name} must be a one-dimensional int8 array")
    if not (
        isinstance(offsets, np.ndarray) and offsets.dtype == np.int64 and offsets.ndim == 1 and len(offsets)
    ):
        raise MetricError(
            f"the offsets of {name} must be a one-dimensional int64 array, one longer than the rows"
        )
    if offsets[0] != 0 or offsets[-1] != len(values) or (offsets[1:] < offsets[:-1]).any():
        raise MetricError(f"the offsets of {name} must rise from 0 to {len(values)}")
    return values


def check_grades(name: str, grades: NDArray[np.int8], maximum: int | None) -> None:
    """Make sure that grades lie between 0 and `maximum` (127 where None).

    Raises:
        MetricError: One does not.
    """
    top = maximum or 127
    if len(grades) and not 0 <= grades.min() <= grades.max() <= top:
        raise MetricError(f"the grades of {name} must lie between 0 and {top}")


def read_only(array: Any) -> Any:
    """Return a view that cannot be written to."""
    view = array.view()
    view.flags.writeable = False
    return view
