"""What moved between a baseline and a candidate: their traces paired, and what changed in each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from judge_eval.comparison.changes import KINDS, Kinds, kinds_of
from judge_eval.comparison.movedclaims import ClaimsMoved, moved_claims
from judge_eval.comparison.pairing import Pairing, pair_traces
from judge_eval.runs.columns.packed import Columns
from judge_eval.runs.folder.run import Run
from judge_eval.runs.scoring.aggregate import is_partial, is_without_claims

_BY_CLAIMS = (KINDS.index(None), KINDS.index("scores"))
"""What a claim that was won or lost says more of."""


@dataclass(frozen=True, slots=True, eq=False)
class Moved:
    """Two runs brought together."""

    pairing: Pairing
    kinds: Kinds
    """What changed in each pair, as places in `KINDS`."""
    claims: ClaimsMoved | None
    """None where no pair was judged by claims."""
    undefined: tuple[int, ...]
    """By metric of the pairing how many pairs have nothing to measure in one of the runs: no claim."""


def moved_between(
    runs: tuple[Run, Run], scored: tuple[Run, Run], columns: tuple[Columns, Columns], candidate: int
) -> Moved:
    """Bring two runs together; see `pair_traces` for which traces are one.

    Args:
        runs: The baseline and the candidate.
        scored: The same, scored by what is compared.
        columns: The columns of these.
        candidate: The candidate's place among the runs.
    """
    pairing = pair_traces(*columns)
    kinds = kinds_of(pairing)
    claims, places = moved_claims(pairing, *runs, candidate)
    kinds[places[np.isin(kinds[places], _BY_CLAIMS)]] = KINDS.index("claims")
    return Moved(pairing, kinds, claims, _undefined(pairing, *scored))


def _undefined(pairing: Pairing, before: Run, after: Run) -> tuple[int, ...]:
    """Count by metric the pairs that have nothing to measure; only those without a value are read."""
    counts = dict.fromkeys(pairing.first.metrics, 0)
    without: dict[str, NDArray[np.bool_]] = {
        name: np.asarray(np.isnan(np.column_stack(pairing.values(column))).any(axis=1))
        for column, name in enumerate(counts)
        if is_partial(name)
    }
    empty = np.zeros(len(pairing), dtype=np.bool_)
    for rows in without.values():
        empty |= rows
    for place in np.flatnonzero(empty).tolist():
        sides = before.results[int(pairing.a[place])], after.results[int(pairing.b[place])]
        for name, rows in without.items():
            counts[name] += bool(rows[place]) and any(is_without_claims(side, name) for side in sides)
    return tuple(counts.values())
