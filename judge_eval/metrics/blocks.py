"""Ragged rows cut into rectangles that fit the processor's cache, summed alike whatever their shape."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

Cell = TypeVar("Cell", np.int8, np.float64)
Rows: TypeAlias = slice | NDArray[np.int64]
"""Which rows of the table a block holds."""
ABSENT = -128
"""Padding in a block: the list is shorter than this rank."""
BLOCK_CELLS = 1 << 16
NARROW = 64
"""Below this many rows NumPy's slower but single call wins; both ways add from the first rank to the last."""


def cut_blocks(
    cells: NDArray[Cell], offsets: NDArray[np.int64], lengths: NDArray[np.int64], width: int
) -> Iterator[tuple[Rows, NDArray[Cell]]]:
    """Cut the first `width` ranks of all rows into blocks.

    Args:
        cells: Grades, or numbers laid out like them: all rows, one after the other.
        offsets: Where each row begins, with the end of the last one.
        lengths: How long each row is.
        width: How many ranks to take, at most the longest row's.

    Yields:
        Which rows, then their cells as (ranks, rows), `ABSENT` below the end of a list.
    """
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
    cells: NDArray[Cell], starts: NDArray[np.int64], lengths: NDArray[np.int64], width: int
) -> NDArray[Cell]:
    if not width:
        return np.empty((0, len(starts)), dtype=cells.dtype)
    ranks = np.arange(width)[:, None]
    grid: NDArray[Cell] = np.take(cells, ranks + starts, mode="clip")
    if lengths.min() < width:
        grid[ranks >= lengths] = ABSENT
    return grid


def add_down(cells: NDArray[np.float64]) -> NDArray[np.float64]:
    """Add up each column of shape (ranks, rows) from the first rank to the last.

    NumPy's own sum adds in an order that depends on the shape, which would let a row's value depend on its
    neighbours, and a perfect list miss 1.0.
    """
    ranks, rows = cells.shape
    if ranks and rows < NARROW:
        last: NDArray[np.float64] = np.add.accumulate(cells, axis=0)[-1]
        return last
    total = np.zeros(rows)
    for row in cells:
        total += row
    return total


def run_down(cells: NDArray[np.float64]) -> None:
    """Replace each cell of shape (ranks, rows) by the sum of its column down to it."""
    if cells.shape[1] < NARROW:
        np.add.accumulate(cells, axis=0, out=cells)
        return
    for above, row in pairwise(cells):
        row += above
