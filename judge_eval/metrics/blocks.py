"""Ragged rows cut into rectangles that fit the processor's cache."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Rows: TypeAlias = slice | NDArray[np.int64]
"""Which rows of the table a block holds."""
ABSENT = -128
"""Padding in a block: the list is shorter than this rank."""
BLOCK_CELLS = 1 << 16


def cut_blocks(
    grades: NDArray[np.int8], offsets: NDArray[np.int64], lengths: NDArray[np.int64], width: int
) -> Iterator[tuple[Rows, NDArray[np.int8]]]:
    """Cut the first `width` ranks of all rows into blocks.

    Args:
        grades: All rows, one after the other.
        offsets: Where each row begins, with the end of the last one.
        lengths: How long each row is.
        width: How many ranks to take, at most the longest row's.

    Yields:
        Which rows, then their grades as (ranks, rows), `ABSENT` below the end of a list.
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
        yield rows, _grid(grades, offsets[:-1][rows], lengths[rows], width)
        start = stop


def _grid(
    grades: NDArray[np.int8], starts: NDArray[np.int64], lengths: NDArray[np.int64], width: int
) -> NDArray[np.int8]:
    if not width:
        return np.empty((0, len(starts)), dtype=np.int8)
    ranks = np.arange(width)[:, None]
    grid: NDArray[np.int8] = np.take(grades, ranks + starts, mode="clip")
    if lengths.min() < width:
        grid[ranks >= lengths] = ABSENT
    return grid
