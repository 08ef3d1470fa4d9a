"""The sentence a comparison opens with: what is shown, how many questions lost, where their answers went."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from judge_eval.comparison.findings import Difference
from judge_eval.comparison.pairing import Pairing
from judge_eval.record import Record
from judge_eval.runs.columns.packed import Columns, Places
from judge_eval.runs.folder.wording import signed_pair

_NONE = np.iinfo(np.int64).max


class Opening(Record):
    """What a comparison says first of a candidate, by the metric that is looked at first."""

    candidate: int = Field(ge=1)
    """Its place in `Comparison.runs`."""
    metric: str
    finding: Literal["worse", "better", "unclear", "same"]
    """`worse` and `better` only where the 95% interval of the difference leaves 0 out."""
    first_before: int | None = None
    """Of the questions that lost (under `better`, that won) the median rank of the first relevant chunk in
    the baseline; None where the median one has none, or there is no such question."""
    first_after: int | None = None
    """The same in the candidate."""
    rest: str
    """The sentence but for whom it is about."""

    def told(self, who: str, *, several: bool = False) -> str:
        """Return the sentence.

        Args:
            who: What the candidate is called where it is read: its name, or `B`.
            several: Whether there are other candidates; then each sentence names its own.
        """
        if self.finding in ("worse", "better"):
            return f"{who} is {self.rest}"
        return f"{who}: {self.rest}" if several else self.rest


def opening_of(d: Difference, pairing: Pairing, relevant: tuple[int, int], compared: int) -> Opening:
    """Say what a difference shows.

    Args:
        d: The difference of the metric that is looked at first.
        pairing: The traces it is about, with their scores.
        relevant: The least relevant grades of baseline and candidate.
        compared: How many differences `d.p_holm` is adjusted for.
    """
    told = {"candidate": d.candidate, "metric": d.metric}
    if d.finding == "same":
        rest = f"no difference: {d.metric} is the same on {'all ' if d.n > 1 else ''}{_questions(d.n)}"
        return Opening(**told, finding="same", rest=rest)
    size = f"{d.metric} {signed_pair(d.difference, d.interval)}"
    unknown = f"; {d.n_excluded} more have no value" if d.n_excluded else ""
    losses, wins, finding = d.losses, d.wins, d.way
    if finding == "unsure":
        least = "" if d.detectable is None else f"; they could show a difference of {d.detectable:.3f}"
        if d.too_few:
            least = "; they are too few to show any"
        counts = f"{losses} of {_questions(d.n)} lost ({wins} won{unknown}){least}"
        return Opening(**told, finding="unclear", rest=f"no difference is shown: {size}; {counts}")
    lower, worse = d.difference < 0, finding == "worse"
    which, n, others = ("lost", losses, f"{wins} won") if worse else ("won", wins, f"{losses} lost")
    first, told_first = _first_relevant(pairing, d.metric, lower, worse, relevant)
    doubt = ""
    if d.p_holm > 0.05:
        among = f", adjusted for {compared} comparisons" if compared > 1 else ""
        doubt = f"; the randomisation test does not show it (p={d.p_holm:.3g}{among})"
    rest = f"{finding}: {size}; {n} of {_questions(d.n)} {which} ({others}{unknown}){told_first}{doubt}"
    return Opening(**told, finding=finding, first_before=first[0], first_after=first[1], rest=rest)


def first_relevant(columns: Columns, traces: Places, relevant: int) -> NDArray[np.int64]:
    """Return the rank of the first relevant chunk of some traces.

    Args:
        columns: The run.
        traces: The places of the traces, shape (n,).
        relevant: The least relevant grade.

    Returns:
        Shape (n,); 0 where no chunk is relevant, -1 where a failed verdict before it leaves it open.
    """
    rows, chunks, ranks = columns.chunks_of(traces)
    grades = columns.grades[chunks]
    tells = np.flatnonzero((grades >= relevant) | (grades < 0))
    found, at = np.unique(rows[tells], return_index=True)
    first = np.zeros(len(traces), dtype=np.int64)
    first[found] = np.where(grades[tells[at]] < 0, -1, ranks[tells[at]])
    return first


def _first_relevant(
    pairing: Pairing, metric: str, lower: bool, worse: bool, relevant: tuple[int, int]
) -> tuple[tuple[int | None, int | None], str]:
    """Return the median ranks of the first relevant chunk where a metric lost or won, and say them."""
    before, after = pairing.values(pairing.first.metrics.index(metric))
    with np.errstate(invalid="ignore"):
        moved = np.flatnonzero(after < before if lower else after > before)
    was = first_relevant(pairing.first, pairing.a[moved], relevant[0])
    now = first_relevant(pairing.second, pairing.b[moved], relevant[1])
    known = (was >= 0) & (now >= 0)
    if not known.any():
        return (None, None), ""
    a, b = _median(was[known]), _median(now[known])
    if a is None:
        where = "is missing in both" if b is None else f"was missing and is at rank {b}"
    elif b is None:
        where = f"was at rank {a} and is missing"
    else:
        where = f"stayed at rank {a}" if a == b else f"moved from rank {a} to {b}"
    whose = "the lost ones" if worse else "the won ones"
    return (a, b), f"; in {whose} the first relevant chunk {where} (median)"


def _median(ranks: NDArray[np.int64]) -> int | None:
    """Return the lower median, 0 standing for a rank behind all; None where that is the median."""
    ordered = np.sort(np.where(ranks == 0, _NONE, ranks))
    middle = int(ordered[(len(ordered) - 1) // 2])
    return None if middle == _NONE else middle


def _questions(n: int) -> str:
    return f"{n} question{'s' if n != 1 else ''}"
