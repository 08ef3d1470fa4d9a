"""How metrics over claims read a table, and their bounds if cells are missing."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations_with_replacement, product
from math import comb, prod
from typing import Any, Literal, TypeAlias, TypedDict

import numpy as np
from numpy.typing import NDArray

from judge_eval.errors import MetricError
from judge_eval.metrics.bounds import Bounds, extremes, in_batches
from judge_eval.metrics.claim_table import FULLY, LEFT_ALONE, OPEN, PARTLY, Cells, ClaimTable
from judge_eval.metrics.ragged import offsets_of
from judge_eval.metrics.spec import Parameter
from judge_eval.metrics.table import GradeTable, Values

Least: TypeAlias = Literal["full", "partial"]
"""The least support that counts as support."""
Dedup: TypeAlias = Literal["none", "text"]
"""Whether a chunk that repeats an earlier text counts."""


class SupportOptions(TypedDict, total=False):
    """The parameters that say which cells are support."""

    least: Least
    dedup: Dedup


ClaimFigure: TypeAlias = Callable[..., Values]
MOST_WAYS = 512
MOST_CELLS = 1 << 18
"""A trace with more completions, or with more cells in all completions, gets outer bounds."""

LEAST = Parameter("least", "full", {"full": "support: in full", "partial": "support: in full or in part"}, "support")
CLAIM_DEDUP = Parameter(
    "dedup",
    "text",
    {
        "text": "a chunk with title and text of an earlier one takes its rank and says nothing",
        "none": "a text that is repeated counts at each of its ranks",
    },
    "repeated texts",
)
NONE = "no value if the reference makes no claim"


def claims_of(table: GradeTable, dedup: Dedup = "none") -> ClaimTable:
    """Return the claims of a table; with `dedup="text"` a repeated text says nothing of any."""
    claims = table.claims
    if claims is None:
        raise MetricError(
            "it is not known which claims of the reference each chunk supports; use a judge by claims "
            "(mode `claims`), or give the table `claims`"
        )
    return claims if dedup == "none" or table.repeats is None else claims.without(table.repeats)


def support_of(
    table: GradeTable, least: Least = "full", dedup: Dedup = "text"
) -> tuple[ClaimTable, NDArray[np.bool_], NDArray[np.bool_]]:
    """Return the claims of a table, which of their cells are support, and which cells failed."""
    claims = claims_of(table, dedup)
    return claims, claims.cells >= (FULLY if least == "full" else PARTLY), claims.cells == OPEN


def with_claims(values: Values, claims: ClaimTable) -> Values:
    """Give traces without known claims no value (NaN)."""
    return np.where(claims.counts > 0, values, np.nan)


def rising(figure: ClaimFigure, best: int = FULLY, most: float = 1.0) -> Callable[..., Bounds]:
    """Make the exact bounds of a metric that `best` cells can only raise, and `LEFT_ALONE` ones only lower.

    `most` is the greatest value that it can have if nobody knows the claims.
    """

    def bounds(table: GradeTable, k: int | None = None, **params: Any) -> Bounds:
        claims = claims_of(table)
        low = figure(replace(table, claims=claims.filled(LEFT_ALONE, LEFT_ALONE)), k, **params)
        high = figure(replace(table, claims=claims.filled(best, FULLY)), k, **params)
        return unknown_claims(claims, low, high, np.ones(len(claims), dtype=np.bool_), most)

    return bounds


def bounds_by_completion(
    table: GradeTable,
    claims: ClaimTable,
    k: int | None,
    figure: ClaimFigure,
    params: dict[str, Any],
    outer: tuple[Values, Values],
) -> Bounds:
    """Try every way to fill the open cells of a trace; take `outer` if there are too many."""
    # The metric must not depend on the order of claims: equal claims are filled by combinations.
    known = replace(table, claims=claims.filled(LEFT_ALONE, LEFT_ALONE))
    low = figure(known, k, **params)
    high, exact = low.copy(), np.ones(len(claims), dtype=np.bool_)
    with_open = np.zeros(len(claims), dtype=np.bool_)
    with_open[claims.row_of_claim[claims.claim[claims.cells == OPEN]]] = True
    chunks = claims.chunk_starts

    def completed_rows() -> Iterator[tuple[int, int, Cells]]:
        for row in np.flatnonzero(with_open).tolist():
            first, last = np.searchsorted(claims.row_of_claim, [row, row + 1]).tolist()
            columns = claims.cells[claims.starts[first] : claims.starts[last]].reshape(last - first, -1)
            ways = _ways(columns)
            if ways is None:
                low[row], high[row], exact[row] = outer[0][row], outer[1][row], False
            else:
                yield row, last - first, ways

    for batch in in_batches(completed_rows(), MOST_CELLS):
        rows, counts = [row for row, _, _ in batch], [len(ways) for _, _, ways in batch]
        by_id = None
        if claims.by_id is not None:
            by_id = np.concatenate([np.tile(claims.by_id[chunks[r] : chunks[r + 1]], len(w)) for r, _, w in batch])
        low[rows], high[rows] = extremes(figure(_side_by_side(batch, by_id), k, **params), counts)
    return unknown_claims(claims, low, high, exact, 1.0)


def _side_by_side(waiting: Sequence[tuple[int, int, Cells]], by_id: NDArray[np.int64] | None) -> GradeTable:
    """Make a table with one row for each way; `waiting` has a trace's row, its number of claims, its ways."""
    counts = np.repeat([count for _, count, _ in waiting], [len(ways) for _, _, ways in waiting])
    lengths = np.concatenate([np.full(len(ways), ways.shape[1] // count) for _, count, ways in waiting])
    every = int(counts.sum())
    claims = ClaimTable(
        np.concatenate([ways.ravel() for _, _, ways in waiting]),
        lengths,
        counts,
        np.ones(every, dtype=np.bool_),
        np.full(every, LEFT_ALONE, dtype=np.int8),
        by_id,
    )
    return GradeTable(np.zeros(int(lengths.sum()), dtype=np.int8), offsets_of(lengths), claims=claims)


def _ways(columns: Cells) -> Cells | None:
    """Fill the open cells of a trace, shape (claims, chunks), in every way that differs; None for too many.

    The result has shape (ways, claims * chunks). Each open cell is left alone or fully supported, since only
    whether the least support is reached matters.
    """
    alike = Counter(column.tobytes() for column in columns)
    kinds = [(np.frombuffer(column, dtype=np.int8), times) for column, times in alike.items()]
    counts = [comb(times + 2 ** int((column == OPEN).sum()) - 1, times) for column, times in kinds]
    if prod(counts) > MOST_WAYS or prod(counts) * columns.size > MOST_CELLS:
        return None
    choices = [combinations_with_replacement(list(_fill(column)), times) for column, times in kinds]
    return np.array(
        [np.concatenate([np.concatenate(group) for group in way]) for way in product(*choices)], dtype=np.int8
    )


def _fill(column: NDArray[np.int8]) -> Iterator[Cells]:
    gaps = np.flatnonzero(column == OPEN)
    for cells in product((LEFT_ALONE, FULLY), repeat=len(gaps)):
        filled = column.copy()
        filled[gaps] = cells
        yield filled


def unknown_claims(claims: ClaimTable, low: Values, high: Values, exact: NDArray[np.bool_], most: float) -> Bounds:
    """Give a trace whose claims nobody knows the metric's range."""
    unknown = claims.counts < 0
    low[unknown], high[unknown], exact[unknown] = 0.0, most, False
    return Bounds(low, high, exact)
