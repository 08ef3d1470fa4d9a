"""NDCG in expectation on a graded scale, each chunk having each grade with a probability of its own."""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations_with_replacement
from math import comb
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from judge_eval.errors import MetricError
from judge_eval.metrics.gain import ndcg
from judge_eval.metrics.table import GradeTable, Values

MOST_STATES = 50_000
"""With more ways to count the chunks of each grade the mean is refused."""


class _States(NamedTuple):
    """How many chunks have at least each grade, each number up to the cutoff."""

    following: NDArray[np.int64]
    """Shape (states, grades): the state after a chunk of each grade."""
    ideal: Values
    """Shape (states,): what the best list of such chunks brings."""


def expected_graded_ndcg(
    table: GradeTable, k: int | None = None, *, ideal: Literal["retrieved", "top"] = "retrieved"
) -> Values:
    """Return the mean of NDCG@K over all grades that the chunks can have, independent of each other.

    Exact: the ideal list follows from how many chunks have at least grade 1, 2, ..., each number up to K. For
    each such state its probability, and that times the mean of DCG, are carried from rank to rank. It takes
    time in proportion to the ranks and the states, of which there are (K + g choose g) on a scale 0 to g.

    Args:
        table: The grades with `maximum`, and `chances`; a chunk without these has its grade for sure.
        k: The cutoff of both lists; None takes them whole.
        ideal: `"retrieved"` sorts all retrieved chunks for the ideal list, `"top"` the first `k` alone.

    Returns:
        float64 in [0, 1], one value a row; NDCG@K's where nothing is told of a row's probabilities.

    Raises:
        MetricError: The scale is unknown, a chunk has a probability of being relevant without one of each
            grade, or there are more than `MOST_STATES` states.
    """
    top = table.maximum
    if top is None:
        raise MetricError("the highest grade of the scale is unknown; give the table `maximum`")
    width = table.longest if k is None else min(k, table.longest)
    if comb(width + top, top) > MOST_STATES:
        raise MetricError(
            f"{width} ranks of grades 0 to {top} can be counted in {comb(width + top, top):,} ways, more "
            f"than {MOST_STATES:,}; take a smaller cutoff, or gain=binary, which asks what is relevant"
        )
    told = np.zeros(len(table.grades), dtype=np.bool_)
    if table.chances is not None:
        told = ~np.isnan(table.chances[:, 0])
    for known in (table.probable, table.expected):
        if known is not None and (~told & ~np.isnan(known)).any():
            raise MetricError(
                "a verdict has a probability of being relevant and not one of each grade, which is needed on "
                "a graded scale and not kept by older runs and some judges; judge again (the cache answers), "
                "or take gain=binary, which asks what is relevant, or EDCG"
            )
    values = ndcg(table, k, ideal=ideal)
    if table.chances is None:
        return values
    sure = np.eye(top + 1)[np.maximum(table.grades, 0)]
    chances = np.where(told[:, None], table.chances, sure)
    for row in range(len(table)):
        here = slice(int(table.offsets[row]), int(table.offsets[row + 1]))
        if told[here].any():
            values[row] = _mean(chances[here], k, top, ideal)
    return values


def _mean(chances: Values, k: int | None, top: int, ideal: Literal["retrieved", "top"]) -> float:
    """Return the mean of one list; `chances` has shape (ranks, grades)."""
    cutoff = len(chances) if k is None else min(k, len(chances))
    states = _states(cutoff, top)
    size, goals = len(states.ideal), states.following.ravel()
    likely, brought = np.zeros(size), np.zeros(size)
    likely[0] = 1
    grades = np.arange(top + 1.0)
    for rank, chance in enumerate(chances[:cutoff] if ideal == "top" else chances, 1):
        moved = likely[:, None] * chance
        carried = brought[:, None] * chance
        if rank <= cutoff:
            carried += moved * (grades / np.log2(rank + 1))
        likely = np.bincount(goals, weights=moved.ravel(), minlength=size).astype(np.float64)
        brought = np.bincount(goals, weights=carried.ravel(), minlength=size).astype(np.float64)
    return min(1.0, float((brought[1:] / states.ideal[1:]).sum()))


@lru_cache(maxsize=8)
def _states(cutoff: int, top: int) -> _States:
    """Number the states: how many chunks have at least grade 1, 2, ..., `top`, none above `cutoff`."""
    # By how many have at least each grade, which never rises with the grade; nothing relevant comes first.
    counts = np.array([each[::-1] for each in combinations_with_replacement(range(cutoff + 1), top)])
    places = {tuple(each): place for place, each in enumerate(counts.tolist())}
    following = np.empty((len(counts), top + 1), dtype=np.int64)
    for grade in range(top + 1):
        after = counts.copy()
        after[:, :grade] = np.minimum(after[:, :grade] + 1, cutoff)
        following[:, grade] = [places[tuple(each)] for each in after.tolist()]
    discounts = np.concatenate([[0.0], np.add.accumulate(1 / np.log2(np.arange(2.0, cutoff + 2)))])
    return _States(following, discounts[counts].sum(axis=1))
