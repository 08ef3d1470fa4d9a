"""The traces of two runs brought together."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from judge_eval.runs.columns.verdict_table import Places, VerdictTable, find_ids, stated_once


@dataclass(frozen=True, slots=True)
class Pairing:
    """Which traces two runs have in common, all told by their places in the runs' columns."""

    first: VerdictTable
    second: VerdictTable
    a: Places
    """Of each pair, the place in the first run."""
    b: Places
    """And in the second."""
    only_first: Places
    only_second: Places
    other_question: Places
    """Places in the first run whose id stands for another question in the second; those are not paired."""
    unanswerable: int = 0
    """How many pairs are left out because nothing answers the question, as one of the runs says."""
    flags_differ: int = 0
    """In how many of these the other run says nothing of the kind."""

    def __len__(self) -> int:
        return len(self.a)

    def values(self, column: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return a metric's scores of both runs, shape (pairs,) each; NaN where there is none."""
        return self.first.scores[self.a, column], self.second.scores[self.b, column]


def pair_traces(first: VerdictTable, second: VerdictTable) -> Pairing:
    """Pair traces by id where they ask the same; what is left, by what it asks."""
    # An id that was made from a trace's content changes with its chunks, so a trace without a partner of its
    # id is paired with the one that asks the same question for the same reference, where there is just one.
    partner = find_ids(first.ids, second.ids)
    there = np.flatnonzero(partner >= 0)
    same = first.questions[there] == second.questions[partner[there]]
    a, b = there[same], partner[there[same]]
    other = there[~same]
    left = np.flatnonzero(partner < 0)
    free = np.ones(len(second), dtype=bool)
    free[partner[there]] = False
    open_second = np.flatnonzero(free)
    if left.size and open_second.size:
        more_a, more_b = _by_question(first, second, left, open_second)
        a, b = np.concatenate([a, more_a]), np.concatenate([b, more_b])
        left = left[~np.isin(left, more_a)]
        open_second = open_second[~np.isin(open_second, more_b)]
    here, there_too = first.unanswerable[a], second.unanswerable[b]
    out = here | there_too
    left = left[~first.unanswerable[left]]
    open_second = open_second[~second.unanswerable[open_second]]
    counts = int(out.sum()), int((here != there_too).sum())
    return Pairing(first, second, a[~out], b[~out], left, open_second, other, *counts)


def _by_question(first: VerdictTable, second: VerdictTable, left: Places, free: Places) -> tuple[Places, Places]:
    first_questions, of_left = stated_once(first.questions[left])
    second_questions, of_free = stated_once(second.questions[free])
    _, at_left, at_free = np.intersect1d(first_questions, second_questions, assume_unique=True, return_indices=True)
    rows, partners = left[of_left[at_left]], free[of_free[at_free]]
    order = np.argsort(rows)
    return rows[order], partners[order]
