from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge_eval.metrics import GradeTable, parse_metric
from judge_eval.metrics import ragged as blocks
from judge_eval.metrics.families import gain
from judge_eval.metrics.ragged import count_at_least, offsets_of

ROW = st.lists(st.integers(0, 3), max_size=45)
CUT = st.one_of(st.none(), st.integers(1, 45))
NAMES = [
    "AP", "AP(norm=min)", "AP(norm=total)", "P", "P(norm=k)", "Recall", "F1", "HitRate", "RR", "DCG", "NDCG",
    "DCG(gain=exp)", "NDCG(gain=exp)", "NDCG(ideal=judged)",
]  # fmt: skip


def named(name: str, k: int | None) -> str:
    """The name with its cutoff; `norm=k` always has one."""
    k = 5 if k is None and "norm=k" in name else k
    return name if k is None else f"{name}@{k}"


def reference(name: str, row: list[int], pool: list[int], k: int | None, least: int) -> float | Fraction:
    """The definitions again, one chunk after the other."""
    top = row if k is None else row[:k]
    flags = [grade >= least for grade in top]
    hits, total = sum(flags), max(sum(grade >= least for grade in pool), sum(flags))
    precisions = sum((Fraction(sum(flags[:i]), i) for i in range(1, len(top) + 1) if flags[i - 1]), Fraction(0))

    def dcg(grades: list[int], exp: bool) -> float:
        value = 0.0
        for rank, grade in enumerate(grades if k is None else grades[:k], 1):
            value += (2**grade - 1 if exp else grade) / math.log2(rank + 1)
        return value

    def over(a: Fraction | float, b: float) -> Fraction | float:
        return a / b if b else Fraction(0)

    match name:
        case "AP":
            return over(precisions, hits)
        case "AP(norm=min)":
            return over(precisions, min(len(row) if k is None else k, total))
        case "AP(norm=total)":
            return over(precisions, total)
        case "P":
            return over(Fraction(hits), len(top))
        case "P(norm=k)":
            return Fraction(sum(grade >= least for grade in row[: k or 5]), k or 5)
        case "Recall":
            return over(Fraction(hits), total)
        case "F1":
            return over(Fraction(2 * hits), len(top) + total)
        case "HitRate":
            return Fraction(int(hits > 0))
        case "RR":
            return next((Fraction(1, i) for i, flag in enumerate(flags, 1) if flag), Fraction(0))
        case "DCG" | "DCG(gain=exp)":
            return dcg(row, "exp" in name)
        case _:
            exp, source = "exp" in name, pool if "judged" in name else row
            return min(1.0, over(dcg(row, exp), dcg(sorted(source, reverse=True), exp)))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@given(rows=st.lists(st.tuples(ROW, ROW), min_size=1, max_size=5), k=CUT, least=st.integers(1, 3))
def test_equals_the_plain_reference(
    name: str, rows: list[tuple[list[int], list[int]]], k: int | None, least: int
) -> None:
    """Vectorised over a table, each value is the plain definition's, for the whole list and any cutoff."""
    lists, others = [row for row, _ in rows], [rest for _, rest in rows]
    values = parse_metric(named(name, k)).compute(GradeTable.from_rows(lists, rest=others, relevant=least))
    for row, rest, value in zip(lists, others, values.tolist(), strict=True):
        expected = reference(name, row, row + rest, k, least)
        assert value == pytest.approx(float(expected), abs=1e-12)
        if isinstance(expected, Fraction) and (k or len(row)) <= 36:
            assert value == float(expected)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_value_does_not_depend_on_the_other_rows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row alone, in a table, in tiny blocks and among one very long row gives the same bits."""
    rng = np.random.default_rng(3)
    rows = [rng.integers(0, 4, length).tolist() for length in rng.integers(0, 60, 300)]
    rows[17] = rng.integers(0, 4, 5000).tolist()
    for k in (None, 1, 10, 40):
        metric = parse_metric(named(name, k))
        alone = [float(metric.compute(GradeTable.from_rows([row], rest=[[]]))[0]) for row in rows]
        assert metric.compute(GradeTable.from_rows(rows, rest=[[] for _ in rows])).tolist() == alone
        with monkeypatch.context() as patch:
            patch.setattr(blocks, "BLOCK_CELLS", 7)
            patch.setattr(gain, "BLOCK_CELLS", 7)
            assert metric.compute(GradeTable.from_rows(rows, rest=[[] for _ in rows])).tolist() == alone


@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith("DCG")])
@given(row=ROW, k=CUT, total=st.integers(0, 50))
def test_lies_between_zero_and_one(name: str, row: list[int], k: int | None, total: int) -> None:
    """No grades, no cutoff and no claimed total push a value out of [0, 1]."""
    grades = [min(grade, 1) for grade in row] if "judged" in name else row
    value = parse_metric(named(name, k)).compute(
        GradeTable.from_rows([grades], [total], maximum=1 if "judged" in name else 3)
    )[0]
    assert 0 <= value <= 1


@pytest.mark.parametrize("name", ["AP", "RR", "DCG", "NDCG", "AP@10", "RR@10", "DCG@10", "NDCG@10", "NDCG(gain=exp)"])
@given(row=st.lists(st.integers(0, 3), min_size=2, max_size=30), data=st.data())
def test_swapping_a_better_chunk_up_never_lowers(name: str, row: list[int], data: st.DataObject) -> None:
    """Of two neighbours, the better one first is never worse."""
    at = data.draw(st.integers(0, len(row) - 2))
    better = [*row]
    better[at : at + 2] = sorted(row[at : at + 2], reverse=True)
    # Within the top K only: a chunk that enters it changes N, and with it what AP@K averages over.
    if name == "AP@10" and at == 9:
        return
    worse, best = parse_metric(name).compute(GradeTable.from_rows([row, better]))
    assert best >= worse - 1e-12


@pytest.mark.parametrize("name", ["AP", "RR", "DCG", "NDCG", "HitRate"])
@given(row=ROW, more=st.integers(1, 40))
def test_appending_irrelevant_chunks_changes_nothing(name: str, row: list[int], more: int) -> None:
    """What is defined over the retrieved relevant chunks ignores irrelevant ones behind them."""
    short, long = parse_metric(name).compute(GradeTable.from_rows([row, row + [0] * more]))
    assert short == long


@given(rows=st.lists(st.lists(st.integers(-3, 5), max_size=9), max_size=9), level=st.integers(1, 5))
def test_counts_hold_for_empty_rows(rows: list[list[int]], level: int) -> None:
    """Empty rows count 0 wherever they stand, and take nothing from their neighbours."""
    flat = np.array([grade for row in rows for grade in row], dtype=np.int8)
    counts = count_at_least(flat, offsets_of([len(row) for row in rows]), [level])[0]
    assert counts.tolist() == [sum(grade >= level for grade in row) for row in rows]
