"""Expected values over failed verdicts: every completion with its probability is the oracle."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge_eval.metrics import GradeTable, parse_metric
from judge_eval.metrics.filling import fill_chances, rank_counts
from tests.support.examples import examples

METRICS = ["AP@3", "P@2", "HitRate@3", "RR", "NDCG@2", "DCG(gain=exp)@3", "AP(rel=2)@3", "NDCG", "ERR@3"]
ROWS = st.lists(st.lists(st.one_of(st.none(), st.integers(0, 3)), min_size=1, max_size=4), min_size=1, max_size=5)


@examples(60)
@given(rows=ROWS, name=st.sampled_from(METRICS))
def test_expected_values_are_the_means_over_all_completions(rows: list, name: str) -> None:  # type: ignore[type-arg]
    """Each completion counts with the product of its probabilities; every value is in its bounds."""
    metric = parse_metric(name)
    table = GradeTable.from_rows(rows, maximum=3, relevant=2)
    counts = rank_counts(table.grades, table.offsets, 4)
    chances = iter(fill_chances(table, counts).tolist())
    result, (low, high, _) = metric.expected(table, counts), metric.bounds(table)
    for place, row in enumerate(rows):
        gaps = {rank: next(chances) for rank, grade in enumerate(row) if grade is None}
        mean = 0.0
        for filled in product(range(4), repeat=len(gaps)):
            grades = list(row)
            weight = 1.0
            for (rank, chance), grade in zip(gaps.items(), filled, strict=True):
                grades[rank], weight = grade, weight * chance[grade]
            whole = GradeTable.from_rows([grades], maximum=3, relevant=2)
            mean += weight * float(metric.compute(whole)[0])
        assert result[place] == pytest.approx(mean, abs=1e-9)
        assert low[place] <= result[place] <= high[place]


def test_a_failed_verdict_is_as_likely_relevant_as_its_rank_and_its_trace() -> None:
    """The share of its rank, with one verdict of the overall share added, times (R + 2) / (E + 2)."""
    table = GradeTable.from_rows([[1, 1], [1, 0], [1, 0], [None, 1]], maximum=1)
    counts = rank_counts(table.grades, table.offsets, 2)
    overall = (5 + 0.5) / (7 + 1)
    first, second = (3 + overall) / (3 + 1), (2 + overall) / (4 + 1)
    assert fill_chances(table, counts)[:, 1] == pytest.approx([min(1.0, first * (1 + 2) / (second + 2))])


def test_many_failed_verdicts_are_drawn_by_a_fixed_seed() -> None:
    """A list with too many completions has the same value every time, near the exact one."""
    rows = [[1, 0] * 10, [None] * 20]
    table = GradeTable.from_rows(rows, maximum=1)
    counts = rank_counts(table.grades, table.offsets, 2)
    values = [parse_metric("P@20").expected(table, counts)[1] for _ in range(2)]
    assert values[0] == values[1] == pytest.approx(fill_chances(table, counts)[:, 1].mean(), abs=0.02)
    assert np.isfinite(parse_metric("AP@20").expected(table, counts)).all()
