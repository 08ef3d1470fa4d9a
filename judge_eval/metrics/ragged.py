"""Rows of different lengths in one flat array, and the blocks in which they are computed."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, pairwise
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from judge_eval.errors import MetricError


def offsets_of(lengths: ArrayLike) -> NDArray[np.int64]:
    """Return where each row begins, and where the last one ends: one more than there are rows."""
    lengths = np.asarray(lengths, dtype=np.int64)
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def ranks_of(offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the rank of each cell in its row, from 0."""
    return np.arange(int(offsets[-1])) - np.repeat(offsets[:-1], np.diff(offsets))


def cell_name(cell: int, offsets: NDArray[np.int64], ids: Sequence[str] | None) -> str:
    """Name a cell of rows for a message, the row by its id or its number."""
    row = int(np.searchsorted(offsets, cell, side="right")) - 1
    return f"trace {row if ids is None else ids[row]}, rank {cell - int(offsets[row]) + 1}"


def flatten_numbers(rows: Sequence[Sequence[float | None]] | None) -> NDArray[np.float64] | None:
    """Store rows of numbers one after the other, NaN for None; None where there are no rows."""
    if rows is None:
        return None
    return np.array([np.nan if v is None else v for v in chain.from_iterable(rows)], dtype=np.float64)


def flatten_chances(
    rows: Sequence[Sequence[Sequence[float] | None]] | None, maximum: int | None
) -> NDArray[np.float64] | None:
    """Store rows of the probabilities of each grade one after the other, NaN for None; None for no rows."""
    if rows is None:
        return None
    width = 0 if maximum is None else maximum + 1
    unknown = [np.nan] * width
    cells = [unknown if cell is None else cell for cell in chain.from_iterable(rows)]
    if not width or any(len(cell) != width for cell in cells):
        raise MetricError(f"chances must hold one probability for each grade from 0 to maximum={maximum}")
    return np.array(cells, dtype=np.float64).reshape(len(cells), width)


def check_beside(
    columns: Mapping[str, NDArray[Any] | None], chances: NDArray[np.float64] | None, cells: int, maximum: int | None
) -> None:
    """Check the columns beside the grades: their lengths, and that probabilities of grades sum to 1."""
    for name, values in columns.items():
        if values is not None and (len(values) != cells or np.isinf(values).any()):
            what = "truth value" if values.dtype == np.bool_ else "number"
            raise MetricError(f"{name} must hold one {what} for each of the {cells} grades")
    if chances is None:
        return
    if maximum is None or chances.shape != (cells, maximum + 1):
        raise MetricError(f"chances must hold one probability for each of {cells} grades and 0 to {maximum}")
    known = chances[~np.isnan(chances).any(axis=1)]
    if len(known) and (known.min() < 0 or np.abs(known.sum(axis=1) - 1).max() > 1e-6):
        raise MetricError("the probabilities of a chunk's grades must be from 0 to 1, with the sum 1")


def flatten(
    rows: Sequence[Sequence[int | None]], ids: Sequence[str] | None = None, *, missing: int | None = None, low: int = 0
) -> tuple[NDArray[np.int8], NDArray[np.int64]]:
    """Store rows of grades one after the other, and return them with the offsets of the rows."""
    # None becomes the mark `missing`, or is an error without one; `ids` name the rows in an error.
    flat: list[Any] = [*chain.from_iterable(rows)]
    offsets = offsets_of([len(row) for row in rows])
    values = _as_array(flat)
    gaps: list[bool] = []
    if missing is not None and values.dtype.kind == "O":
        gaps = [grade is None for grade in flat]
        flat = [low if grade is None else grade for grade in flat]
        values = _as_array(flat)
    if values.dtype.kind not in "iub" or values.ndim != 1 or (flat and not low <= values.min() <= values.max() <= 127):
        for place, grade in enumerate(flat):
            if not (isinstance(grade, int | np.integer | np.bool_) and low <= grade <= 127):
                where = cell_name(place, offsets, ids)
                raise MetricError(f"{where}: {grade!r} is not a grade; grades are whole numbers 0..127")
        values = np.array([int(grade) for grade in flat])
    grades: NDArray[np.int8] = values.astype(np.int8)
    if missing is not None and gaps:
        grades[gaps] = missing
    return grades, offsets


def _as_array(flat: list[Any]) -> NDArray[Any]:
    try:
        return np.array(flat, dtype=None if flat else np.int8)
    except ValueError:  # not one shape
        return np.empty(0, dtype=object)


def count_at_least(
    values: NDArray[np.int8], offsets: NDArray[np.int64], levels: Sequence[int]
) -> NDArray[np.unsignedinteger[Any]]:
    """Count the values of each row that reach each level, shape (levels, rows), in the narrowest type."""
    lengths = np.diff(offsets)
    dtype = np.min_scalar_type(int(lengths.max(initial=0)))
    counts: NDArray[Any] = np.zeros((len(levels), len(lengths)), dtype=dtype)
    # reduceat gives an empty row the next row's first value, so empty rows are left out of it.
    filled = lengths > 0
    starts = offsets[:-1][filled]
    if len(starts):
        for level, row in zip(levels, counts, strict=True):
            row[filled] = np.add.reduceat((values >= level).view(np.uint8), starts, dtype=dtype)
    return counts


def check_layout(name: str, values: Any, offsets: Any) -> NDArray[np.int8]:
    """Return the values of rows; raise a `MetricError` if a type, a shape or an offset does not fit."""
    if not (isinstance(values, np.ndarray) and values.dtype == np.int8 and values.ndim == 1):
        raise MetricError(f"{name} must be a one-dimensional int8 array")
    if not (isinstance(offsets, np.ndarray) and offsets.dtype == np.int64 and offsets.ndim == 1 and len(offsets)):
        raise MetricError(f"the offsets of {name} must be a one-dimensional int64 array, one longer than the rows")
    if offsets[0] != 0 or offsets[-1] != len(values) or (offsets[1:] < offsets[:-1]).any():
        raise MetricError(f"the offsets of {name} must rise from 0 to {len(values)}")
    return values


def read_only(array: Any) -> Any:
    """Return a view that cannot be written to."""
    view = array.view()
    view.flags.writeable = False
    return view


CellType = TypeVar("CellType", np.int8, np.float64)
Rows: TypeAlias = slice | NDArray[np.int64]
"""Which rows of the table a block holds."""
ABSENT = -128
"""Padding in a block: the list is shorter than this rank."""
BLOCK_CELLS = 1 << 16


def cut_blocks(
    cells: NDArray[CellType], offsets: NDArray[np.int64], lengths: NDArray[np.int64], width: int
) -> Iterator[tuple[Rows, NDArray[CellType]]]:
    """Cut the first `width` ranks (at most the longest row's) of all rows into blocks."""
    # A block is its rows, then their cells as (ranks, rows), `ABSENT` below the end of a list; each row is in one.
    n = len(lengths)
    order = None
    if width * n > BLOCK_CELLS:
        clipped = np.minimum(lengths, width)
        if width * n > 2 * int(clipped.sum()):
            # Sorted by length, so that one long list does not widen the blocks of all others.
            order = np.argsort(-clipped, kind="stable")
    start = 0
    while start < n:
        if order is not None:
            width = int(clipped[order[start]])
        stop = min(n, start + max(1, BLOCK_CELLS // max(1, width)))
        rows: Rows = slice(start, stop) if order is None else order[start:stop]
        yield rows, _grid(cells, offsets[:-1][rows], lengths[rows], width)
        start = stop


def _grid(
    cells: NDArray[CellType], starts: NDArray[np.int64], lengths: NDArray[np.int64], width: int
) -> NDArray[CellType]:
    if not width:
        return np.empty((0, len(starts)), dtype=cells.dtype)
    ranks = np.arange(width)[:, None]
    grid: NDArray[CellType] = np.take(cells, ranks + starts, mode="clip")
    if lengths.min() < width:
        grid[ranks >= lengths] = ABSENT
    return grid


def add_down(cells: NDArray[np.float64]) -> NDArray[np.float64]:
    """Add up each column of shape (ranks, rows) from the first rank to the last."""
    # NumPy's own sum adds in an order that depends on the shape, which would let a row's value depend on its
    # neighbours, and a perfect list miss 1.0.
    total = np.zeros(cells.shape[1])
    for row in cells:
        total += row
    return total


def run_down(cells: NDArray[np.float64]) -> None:
    """Replace each cell of shape (ranks, rows) by the sum of its column down to it."""
    for above, row in pairwise(cells):
        row += above
