"""Expected values of metrics over the grades that failed verdicts could have."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from judge_eval.metrics.bounds import Bounding
from judge_eval.metrics.ragged import ranks_of
from judge_eval.metrics.table import MISSING, GradeTable, Values, taken

MOST_FILLINGS = 1024
"""A row with more ways to be filled is filled this many times at random, by a fixed seed."""
_CELLS = 1 << 20


def rank_counts(grades: NDArray[np.int8], offsets: NDArray[np.int64], levels: int) -> NDArray[np.int64]:
    """Count the verdicts of each grade at each rank, shape (longest row, levels)."""
    # The grades of all rows stand one after the other, from 0 for the lowest grade, below 0 without a
    # verdict; `offsets` says where each row begins, and where the last one ends.
    judged = grades >= 0
    cells = ranks_of(offsets)[judged] * levels + grades[judged]
    width = int(np.diff(offsets).max(initial=0))
    return np.bincount(cells, minlength=width * levels).reshape(width, levels)


def fill_chances(table: GradeTable, counts: NDArray[np.int64]) -> Values:
    """Return the probability of each grade for every failed verdict.

    It is relevant with the share of relevant chunks at its rank in the run, times (R + 2) / (E + 2), R = the relevant
    chunks seen in its trace, E = as many as these shares expect there.
    """
    # A rank's share has one verdict of the overall share added, which has one half of a relevant and of an
    # irrelevant one. How relevant, or irrelevant, grades are spread is as in all verdicts (`rank_counts`).
    # Shape (failed verdicts, grades), in the order of the table.
    least, levels = table.relevant, counts.shape[1]
    by_rank = counts[:, least:].sum(axis=1), counts.sum(axis=1)
    overall = (by_rank[0].sum() + 0.5) / (by_rank[1].sum() + 1.0)
    shares = np.full(max(table.longest, len(counts)), overall)
    shares[: len(counts)] = (by_rank[0] + overall) / (by_rank[1] + 1.0)
    rows = np.repeat(np.arange(len(table)), table.lengths)
    ranks = ranks_of(table.offsets)
    judged = table.grades >= 0
    seen = np.bincount(rows, table.grades >= least, len(table))
    expected = np.bincount(rows, np.where(judged, shares[ranks], 0.0), len(table))
    failed = table.grades == MISSING
    relevant = np.minimum(shares[ranks] * ((seen + 2) / (expected + 2))[rows], 1.0)[failed]
    spread = counts.sum(axis=0).astype(np.float64)
    for part, usual in ((slice(None, least), 0), (slice(least, None), least)):
        if not spread[part].any():
            spread[usual] = 1.0
        spread[part] /= spread[part].sum()
    chances = np.where(np.arange(levels) >= least, relevant[:, None], 1 - relevant[:, None]) * spread
    return np.asarray(chances, dtype=np.float64)


def expected_values(table: GradeTable, question: Bounding, chances: Values, two_levels: bool) -> Values:
    """Return the mean value of each row over the grades of its failed verdicts, independent of each other."""
    # `two_levels`: only relevant or not matters, at the table's threshold.
    if two_levels:
        least = table.relevant
        chances = np.column_stack([chances[:, :least].sum(axis=1), chances[:, least:].sum(axis=1)])
    grades_of = np.array([0, table.top_grade]) if two_levels else np.arange(chances.shape[1])
    cells = np.flatnonzero(table.grades == MISSING)
    rows = np.searchsorted(table.offsets, cells, side="right") - 1
    ranks = cells - table.offsets[rows]
    if not question.below and question.cutoff is not None:
        read = ranks < question.cutoff
        rows, ranks, chances = rows[read], ranks[read], chances[read]
    base = np.where(table.grades == MISSING, 0, table.grades).astype(np.int8)
    shapes = np.stack([table.lengths, np.bincount(rows, minlength=len(table))], axis=1)
    values = np.empty(len(table))
    for length, count in np.unique(shapes, axis=0).tolist():
        alike = np.flatnonzero((shapes == (length, count)).all(axis=1))
        ways = min(chances.shape[1] ** count, MOST_FILLINGS)
        step = max(1, _CELLS // (ways * max(length, count, 1)))
        for here in (alike[start : start + step] for start in range(0, len(alike), step)):
            own = np.searchsorted(rows, here)[:, None] + np.arange(count)
            choices, weights = _fillings(chances[own])
            grids = np.repeat(base[table.offsets[here][:, None, None] + np.arange(length)], ways, axis=1)
            at = np.broadcast_to(ranks[own][:, None, :], choices.shape)
            np.put_along_axis(grids, at, grades_of[choices].astype(np.int8), axis=2)
            filled = question.compute(taken(table, np.repeat(here, ways), grids.reshape(-1)))
            values[here] = (filled.reshape(len(here), ways) * weights).sum(axis=1)
    return values


def _fillings(chances: Values) -> tuple[NDArray[np.int64], Values]:
    """Return ways to fill the cells of each row, shape (rows, ways, cells), and their weights, which sum to 1."""
    rows, count, levels = chances.shape
    if levels**count <= MOST_FILLINGS:
        choices = _all_choices(count, levels)
        weights: Values = chances[:, np.arange(count), choices].prod(axis=2)
        return np.broadcast_to(choices, (rows, *choices.shape)), weights / weights.sum(axis=1, keepdims=True)
    draws = np.random.default_rng(0).random((MOST_FILLINGS, count, 1))
    drawn = (draws > chances.cumsum(axis=2)[:, None, :, :-1]).sum(axis=3)
    return drawn, np.full((rows, MOST_FILLINGS), 1 / MOST_FILLINGS)


@lru_cache(maxsize=64)
def _all_choices(count: int, levels: int) -> NDArray[np.int64]:
    return np.indices((levels,) * count).reshape(count, levels**count).T
