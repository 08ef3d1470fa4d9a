"""Metrics over claims written from their formulas, one list at a time, chunk by chunk and claim by claim."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from hypothesis import strategies as st

from judge_eval.metrics import ClaimTable, GradeTable, Metric
from judge_eval.metrics.metric import SPECS


@dataclass(frozen=True)
class Case:
    """One trace: its chunks' words by claim, and what else is known."""

    rows: tuple[tuple[str | None, ...], ...]
    vital: tuple[bool, ...]
    together: tuple[bool | str | None, ...] = ()
    repeats: tuple[bool, ...] = ()

    @property
    def asked(self) -> tuple[bool | str | None, ...]:
        """What is known of the chunks together, one a claim."""
        return self.together or ("unasked",) * len(self.vital)

    def top(self, k: int | None) -> Case:
        """The same with the first `k` chunks alone."""
        return replace(self, rows=self.rows[:k], repeats=self.repeats[:k])

    def once(self) -> Case:
        """The same with repeated texts that say nothing."""
        values = [
            ("none",) * len(row) if again else row
            for row, again in zip(self.rows, self.repeats or (False,) * len(self.rows), strict=True)
        ]
        return replace(self, rows=tuple(values))


def table_of(cases: Sequence[Case]) -> GradeTable:
    """The table of several traces, without a grade that means anything."""
    claims = ClaimTable.from_rows(
        [case.rows for case in cases],
        [case.vital for case in cases],
        [case.asked for case in cases],
        [[f"{rank:03}" for rank in range(len(case.rows))] for case in cases],
    )
    repeats = [case.repeats or (False,) * len(case.rows) for case in cases]
    return GradeTable.from_rows([[0] * len(case.rows) for case in cases], repeats=repeats, claims=claims)


def supports(word: str | None, least: str = "full") -> bool:
    """Whether a word is support enough."""
    return word == "full" or (least == "partial" and word == "partial")


def best(case: Case, claim: int) -> str:
    """The best support of a claim by any chunk."""
    words = [row[claim] for row in case.rows]
    return "full" if "full" in words else "partial" if "partial" in words else "none"


def claim_recall(case: Case, k: int | None, partial: str = "none", of: str = "all") -> float | None:
    """Mean credit over claims."""
    credit = {"full": 1.0, "partial": {"none": 0.0, "half": 0.5, "full": 1.0}[partial], "none": 0.0}
    claims = [j for j, vital in enumerate(case.vital) if vital or of == "all"]
    return sum(credit[best(case.top(k), j)] for j in claims) / len(claims) if claims else None


def nugget_recall(case: Case, k: int | None, score: str = "vital_strict") -> float | None:
    """Weighted mean of nugget scores."""
    credit = {"full": 1.0, "partial": 0.0 if score.endswith("strict") else 0.5, "none": 0.0}
    okay = {"all": 1.0, "vital": 0.0, "weighted": 0.5}[score.split("_")[0]]
    weights = [1.0 if vital else okay for vital in case.vital]
    got = sum(weight * credit[best(case.top(k), j)] for j, weight in enumerate(weights))
    return got / sum(weights) if sum(weights) else None


def sufficiency(case: Case, k: int | None) -> float | None:
    """All vital claims, alone or by the whole list."""
    vital = [j for j, must in enumerate(case.vital) if must]
    if not vital:
        return None
    whole = bool(case.rows) and (k is None or k >= len(case.rows))
    return float(all(best(case.top(k), j) == "full" or (whole and case.asked[j] is True) for j in vital))


def share_of(case: Case, k: int | None, chosen: Callable[[str | None], bool]) -> float | None:
    """Chunks with a chosen cell over the chunks there are."""
    if not case.vital:
        return None
    rows = case.top(k).rows
    return sum(any(map(chosen, row)) for row in rows) / len(rows) if rows else 0.0


def claim_precision(case: Case, k: int | None, least: str = "full", dedup: str = "text") -> float | None:
    """Share of chunks that support anything."""
    return share_of(case.once() if dedup == "text" else case, k, lambda word: supports(word, least))


def conflict(case: Case, k: int | None, dedup: str = "text") -> float | None:
    """Share of chunks that contradict anything."""
    return share_of(case.once() if dedup == "text" else case, k, lambda word: word == "contradicts")


def novelty(case: Case, k: int | None, least: str = "full") -> float | None:
    """Covered claims a rank."""
    if not case.vital:
        return None
    rows = case.top(k).rows
    result = sum(any(supports(row[j], least) for row in rows) for j in range(len(case.vital)))
    return result / len(rows) if rows else 0.0


def redundancy(case: Case, k: int | None, least: str = "full") -> float | None:
    """Supporting chunks with nothing new."""
    if not case.vital:
        return None
    seen: set[int] = set()
    idle = relevant = 0
    for row in case.top(k).rows:
        mine = {j for j, word in enumerate(row) if supports(word, least)}
        relevant += bool(mine)
        idle += bool(mine) and mine <= seen
        seen |= mine
    return idle / relevant if relevant else 0.0


def _dcg(rows: Sequence[set[int]], alpha: float, k: int) -> float:
    seen: dict[int, int] = {}
    total = 0.0
    for rank, mine in enumerate(rows[:k], 1):
        total += sum((1 - alpha) ** seen.get(j, 0) for j in mine) / math.log2(rank + 1)
        for j in mine:
            seen[j] = seen.get(j, 0) + 1
    return total


def _greedy(rows: Sequence[set[int]], alpha: float) -> list[set[int]]:
    left, order, seen = list(rows), [], dict[int, int]()
    while left:
        gains = [round(sum((1 - alpha) ** seen.get(j, 0) for j in mine), 12) for mine in left]
        mine = left.pop(gains.index(max(gains)))
        order.append(mine)
        for j in mine:
            seen[j] = seen.get(j, 0) + 1
    return order


def _sets(case: Case, least: str, dedup: str) -> list[set[int]]:
    seen = case.once() if dedup == "text" else case
    return [{j for j, word in enumerate(row) if supports(word, least)} for row in seen.rows]


def alpha_ndcg(
    case: Case, k: int | None, alpha: float = 0.5, ties: str = "rank", least: str = "full", dedup: str = "text"
) -> float | None:
    """Alpha-DCG over that of the greedy order; in `table_of` ids rise with the rank."""
    if not case.vital:
        return None
    rows = _sets(case, least, dedup)
    cut = len(rows) if k is None else k
    ideal = _dcg(_greedy(rows if ties == "rank" else rows[::-1], alpha), alpha, cut)
    return min(1.0, _dcg(rows, alpha, cut) / ideal) if ideal else 0.0


def err_ia(
    case: Case, k: int | None, alpha: float = 0.5, of: str = "found", least: str = "full", dedup: str = "text"
) -> float | None:
    """The mean over claims of each claim's own sum."""
    if not case.vital:
        return None
    rows = _sets(case, least, dedup)
    cut = len(rows) if k is None else k
    claims = [j for j in range(len(case.vital)) if of == "all" or any(j in mine for mine in rows)]
    if not claims or not cut:
        return 0.0
    whole = sum((1 - alpha) ** (rank - 1) / rank for rank in range(1, cut + 1))
    sums = []
    for j in claims:
        ranks = [rank for rank, mine in enumerate(rows[:cut], 1) if j in mine]
        sums.append(sum((1 - alpha) ** times / rank for times, rank in enumerate(ranks)))
    return sum(sums) / len(sums) / whole


NAIVE: dict[str, Callable[..., float | None]] = {
    "ClaimRecall": claim_recall,
    "ClaimPrecision": claim_precision,
    "Sufficiency": sufficiency,
    "alpha-NDCG": alpha_ndcg,
    "ERR-IA": err_ia,
    "Novelty": novelty,
    "Redundancy": redundancy,
    "Conflict": conflict,
    "NuggetRecall": nugget_recall,
}
"""By the metric's name."""


def naive(metric: Any, case: Case) -> float | None:
    """The value of a metric, from its formula."""
    return NAIVE[metric.name](case, metric.cutoff, **dict(metric.params))


WORDS = ("none", "none", "partial", "full", "contradicts")


def variants() -> list[str]:
    """Every metric with every choice of its parameters, and some of its numbers."""
    names = []
    for spec in (spec for spec in SPECS.values() if spec.claims):
        choices = [list(parameter.choices) or [0.5, 0.3] for parameter in spec.parameters]
        for values in product(*choices):
            pairs = zip((parameter.name for parameter in spec.parameters), values, strict=True)
            names.append(str(Metric(spec.name, None, tuple(pairs))))
    ends = [f"{name}(alpha={alpha})" for name in ("alpha-NDCG", "ERR-IA") for alpha in (0, 1)]
    return sorted({*names, *ends})


VARIANTS = variants()


@st.composite
def cases(draw: st.DrawFn, most: int = 6, words: tuple[str | None, ...] = WORDS) -> Case:
    """Any small trace: chunks, claims, repeats and what the chunks say together."""
    chunks, claims = draw(st.integers(0, most)), draw(st.integers(0, most))
    row = st.tuples(*[st.sampled_from(words)] * claims)
    return Case(
        tuple(draw(st.lists(row, min_size=chunks, max_size=chunks))),
        tuple(draw(st.lists(st.booleans(), min_size=claims, max_size=claims))),
        tuple(draw(st.lists(st.sampled_from([True, False, "unasked"]), min_size=claims, max_size=claims))),
        tuple(draw(st.lists(st.sampled_from([False, False, True]), min_size=chunks, max_size=chunks))),
    )
