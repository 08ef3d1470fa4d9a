"""Sums down the ranks of a block, in one order whatever the block's shape."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

NARROW = 64
"""Below this many rows NumPy's slower but single call wins; both ways add from the first rank to the last."""


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
