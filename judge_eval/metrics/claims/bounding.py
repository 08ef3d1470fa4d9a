"""What a metric over claims can be, whatever the failed cells would have said."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations_with_replacement, product
from math import comb, prod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from judge_eval import limits
from judge_eval.metrics.bounds import Bounds
from judge_eval.metrics.cells import FULLY, LEFT_ALONE, OPEN, Cells, ClaimTable
from judge_eval.metrics.claims.covering import Dedup, Least, claims_of, least_of, redundancy
from judge_eval.metrics.claims.ranking import (
    Intents,
    alpha_ndcg,
    best_of_intent,
    discounted_gain,
    err_ia,
    ideal_gain,
    intent_gains,
    most_gain,
)
from judge_eval.metrics.ragged import offsets_of
from judge_eval.metrics.table import GradeTable, Values

ClaimFigure: TypeAlias = Callable[..., Values]

MOST_NOVEL = float(limits.CLAIMS)
"""No trace has more claims, and so none more of them a rank."""
MOST_WAYS = 512
"""A trace with more ways to be completed gets outer bounds."""
MOST_CELLS = 1 << 18
"""And so does one whose completions hold more cells together."""


def rising(figure: ClaimFigure, best: int = FULLY, most: float = 1.0) -> Callable[..., Bounds]:
    """Make the bounds of a metric that never falls where a cell becomes `best`: exact.

    Args:
        figure: The metric.
        best: The cell that can only raise it; what leaves a claim alone can only lower it.
        most: The greatest value it can have where nobody knows the claims.
    """

    def bounds(table: GradeTable, k: int | None = None, **params: Any) -> Bounds:
        claims = claims_of(table)
        low = figure(replace(table, claims=claims.filled(LEFT_ALONE, LEFT_ALONE)), k, **params)
        high = figure(replace(table, claims=claims.filled(best, FULLY)), k, **params)
        return _unknown(claims, low, high, np.ones(len(claims), dtype=np.bool_), most)

    return bounds


def err_ia_bounds(
    table: GradeTable,
    k: int | None = None,
    *,
    alpha: float = 0.5,
    of: Intents = "found",
    least: Least = "full",
    dedup: Dedup = "text",
) -> Bounds:
    """Return the bounds of ERR-IA: exact.

    What one claim brings never falls where another chunk supports it: its t-th best rank can only improve.
    Claims do not touch each other, but one that is found at all is averaged over; so the least and the
    greatest mean are over those that are found anyway and the worst, or the best, of the others.
    """
    claims = claims_of(table, dedup)
    fixed: dict[str, Any] = {"alpha": alpha, "of": of, "least": least, "dedup": dedup}
    if of == "all":
        return rising(err_ia)(table, k, **fixed)
    sure, possible = claims.cells >= least_of(least), claims.cells == OPEN
    low = err_ia(replace(table, claims=claims.filled(LEFT_ALONE, LEFT_ALONE)), k, **fixed)
    high = low.copy()
    found, maybe = claims.any_claim(sure), claims.any_claim(possible)
    least_gain = intent_gains(claims, sure, k, alpha)
    most = intent_gains(claims, sure | possible, k, alpha)
    last = np.zeros(len(claims.vital), dtype=np.int64)
    np.maximum.at(last, claims.claim[possible], claims.rank[possible] + 1)
    alone = np.where((last > 0) & (k is None or last <= k), 1.0 / np.maximum(last, 1), 0.0)
    whole = best_of_intent(claims, k, alpha)
    for row in np.flatnonzero(np.bincount(claims.row_of_claim[maybe], minlength=len(claims))).tolist():
        mine = slice(*np.searchsorted(claims.row_of_claim, [row, row + 1]).tolist())
        anyway, other = found[mine], maybe[mine] & ~found[mine]
        low[row] = _least_mean(least_gain[mine][anyway], alone[mine][other]) / whole[row]
        high[row] = min(1.0, -_least_mean(-most[mine][anyway], -most[mine][other]) / whole[row])
    return _unknown(claims, low, high, np.ones(len(claims), dtype=np.bool_), 1.0)


def _least_mean(sure: Values, other: Values) -> float:
    """Return the least mean of all `sure` and any of `other`; 0 over none, which is less or more than all."""
    means = [] if len(sure) else [0.0]
    values = np.concatenate([sure, np.sort(other)])
    sums = np.cumsum(values)
    means += [sums[count - 1] / count for count in range(max(1, len(sure)), len(values) + 1)]
    return float(min(means))


def alpha_ndcg_bounds(
    table: GradeTable,
    k: int | None = None,
    *,
    alpha: float = 0.5,
    least: Least = "full",
    dedup: Dedup = "text",
) -> Bounds:
    """Return the bounds of alpha-nDCG: over all completions where they are few, else outer ones.

    Alpha-DCG never falls where another chunk supports a claim. So the least is over what no order can exceed,
    and the greatest over what the first chunk of the ideal list gains at least.
    """
    claims = claims_of(table, dedup)
    sure, possible = claims.cells >= least_of(least), claims.cells == OPEN
    best = most_gain(claims, sure | possible, k, alpha)
    low = discounted_gain(claims, sure, k, alpha)
    np.divide(low, best, out=low, where=best > 0)
    first = ideal_gain(claims, sure, 1, alpha)
    high = discounted_gain(claims, sure | possible, k, alpha)
    high = np.where(first > 0, np.minimum(high / np.maximum(first, 1), 1.0), high > 0)
    fixed = {"alpha": alpha, "least": least, "dedup": "none"}
    return _by_completion(table, claims, k, alpha_ndcg, fixed, (low, high))


def redundancy_bounds(table: GradeTable, k: int | None = None, *, least: Least = "full") -> Bounds:
    """Return the bounds of Redundancy: over all completions where they are few, else outer ones.

    At least those chunks are redundant whose row is known and whose claims are all known to be supported
    above; at least those are not, and at least one, of which a claim cannot be supported above.
    """
    whole = claims_of(table)
    claims = (
        whole
        if k is None
        else replace(whole, cells=np.where(whole.down_to(k), whole.cells, LEFT_ALONE).astype(np.int8))
    )
    sure, possible = claims.cells >= least_of(least), claims.cells == OPEN
    supporting, open_ = claims.any_chunk(sure), claims.any_chunk(possible)
    seen, maybe = claims.seen_before(sure) > 0, claims.seen_before(possible) > 0
    idle = supporting & ~open_ & ~claims.any_chunk(sure & ~seen)
    new = claims.any_chunk(sure & ~seen & ~maybe)
    there = claims.per_row_of_chunks(supporting | open_)
    low, high = claims.per_row_of_chunks(idle), there - np.maximum(claims.per_row_of_chunks(new), 1.0)
    for values in (low, high):
        np.divide(values, there, out=values, where=there > 0)
    high = np.maximum(high, 0.0)
    return _by_completion(table, claims, k, redundancy, {"least": least}, (low, high))


def _by_completion(
    table: GradeTable,
    claims: ClaimTable,
    k: int | None,
    figure: ClaimFigure,
    params: dict[str, Any],
    outer: tuple[Values, Values],
) -> Bounds:
    """Try every way in which the open cells of a trace can be filled; where these are too many, take `outer`.

    A metric that does not ask which claim is which needs each choice of columns once for claims that are
    known to be alike.
    """
    known = replace(table, claims=claims.filled(LEFT_ALONE, LEFT_ALONE))
    low = figure(known, k, **params)
    high, exact = low.copy(), np.ones(len(claims), dtype=np.bool_)
    with_open = np.zeros(len(claims), dtype=np.bool_)
    with_open[claims.row_of_claim[claims.claim[claims.cells == OPEN]]] = True
    waiting: list[tuple[int, int, Cells]] = []
    weight = 0

    def settle() -> None:
        if waiting:
            starts = np.concatenate([[0], np.cumsum([len(ways) for _, _, ways in waiting])[:-1]])
            values = figure(_side_by_side(waiting), k, **params)
            rows = [row for row, _, _ in waiting]
            low[rows], high[rows] = np.minimum.reduceat(values, starts), np.maximum.reduceat(values, starts)
            waiting.clear()

    for row in np.flatnonzero(with_open).tolist():
        first, last = np.searchsorted(claims.row_of_claim, [row, row + 1]).tolist()
        columns = claims.cells[claims.starts[first] : claims.starts[last]].reshape(last - first, -1)
        ways = _ways(columns)
        if ways is None:
            low[row], high[row], exact[row] = outer[0][row], outer[1][row], False
            continue
        waiting.append((row, last - first, ways))
        weight += ways.size
        if weight > MOST_CELLS:
            settle()
            weight = 0
    settle()
    return _unknown(claims, low, high, exact, 1.0)


def _side_by_side(waiting: Sequence[tuple[int, int, Cells]]) -> GradeTable:
    """Make a table with one row for each way in which the cells of some traces can be filled.

    Args:
        waiting: For each trace its row, how many claims it has, and its cells filled in every way.
    """
    counts = np.repeat([count for _, count, _ in waiting], [len(ways) for _, _, ways in waiting])
    lengths = np.concatenate([np.full(len(ways), ways.shape[1] // count) for _, count, ways in waiting])
    every = int(counts.sum())
    claims = ClaimTable(
        np.concatenate([ways.ravel() for _, _, ways in waiting]),
        lengths,
        counts,
        np.ones(every, dtype=np.bool_),
        np.full(every, LEFT_ALONE, dtype=np.int8),
    )
    return GradeTable(np.zeros(int(lengths.sum()), dtype=np.int8), offsets_of(lengths), claims=claims)


def _ways(columns: Cells) -> Cells | None:
    """Fill the open cells of a trace in every way that differs; None where there are too many.

    Args:
        columns: Shape (claims, chunks).

    Returns:
        Shape (ways, claims * chunks); each open cell is left alone or fully supported, since only whether
        the least support is reached matters.
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


def _unknown(claims: ClaimTable, low: Values, high: Values, exact: NDArray[np.bool_], most: float) -> Bounds:
    """Give a trace of which nobody knows the claims the metric's range."""
    unknown = claims.counts < 0
    low[unknown], high[unknown], exact[unknown] = 0.0, most, False
    return Bounds(low, high, exact)
