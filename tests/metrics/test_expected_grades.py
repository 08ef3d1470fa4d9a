"""NDCG in expectation on graded scales: every way of grading, tried one by one, and draws are the oracles."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge_eval import Trace
from judge_eval.errors import DataError, MetricError
from judge_eval.metrics import GradeTable, parse_metric
from judge_eval.runs.scoring.scorer import Scorer
from judge_eval.schema import GRADED
from tests.support.examples import examples

TWINS = {"ENDCG": "NDCG", "ENDCG(ideal=top)": "NDCG(ideal=top)"}
CUT = st.one_of(st.none(), st.integers(1, 6))
Cell = list[float]


@st.composite
def lists(draw: st.DrawFn, most: int = 5) -> list[Cell]:
    """Draw the probabilities of grades 0 to 2 or 3 of a few chunks, some of them sure."""
    top = draw(st.integers(2, 3))
    weight = st.one_of(st.sampled_from([0.0, 1.0, 1e-9]), st.floats(0.001, 1))
    cell = st.lists(weight, min_size=top + 1, max_size=top + 1).filter(lambda each: sum(each) > 0.5)
    rows = draw(st.lists(cell, min_size=1, max_size=most))
    return [[weight / sum(each) for weight in each] for each in rows]


def named(name: str, k: int | None) -> str:
    """The name with its cutoff."""
    return name if k is None else f"{name}@{k}"


def table_of(*rows: list[Cell]) -> GradeTable:
    """A graded table of these probabilities, with the likeliest grades as verdicts."""
    top = len(rows[0][0]) - 1
    grades = [[max(range(top + 1), key=lambda g: cell[g]) for cell in row] for row in rows]
    return GradeTable.from_rows(grades, maximum=top, relevant=2, chances=rows)


def value(name: str, row: list[Cell]) -> float:
    """A metric of one list."""
    return float(parse_metric(name).compute(table_of(row))[0])


def brute(twin: str, row: list[Cell]) -> float:
    """The mean over all ways of grading, each weighed by how likely it is."""
    top = len(row[0]) - 1
    ways = list(product(range(top + 1), repeat=len(row)))
    weights = [math.prod(cell[g] for cell, g in zip(row, way, strict=True)) for way in ways]
    hard = GradeTable.from_rows([list(way) for way in ways], maximum=top, relevant=2)
    return math.fsum(weights * parse_metric(twin).compute(hard))


@pytest.mark.parametrize("name", TWINS)
@examples(80, deadline=None)
@given(row=lists(), k=CUT)
def test_equals_the_mean_over_all_ways(name: str, row: list[Cell], k: int | None) -> None:
    """It is the mean of NDCG over all ways in which the chunks can be graded, to 1e-12, and in [0, 1]."""
    result = value(named(name, k), row)
    assert result == pytest.approx(brute(named(TWINS[name], k), row), abs=1e-12)
    assert 0 <= result <= 1


@pytest.mark.parametrize("name", TWINS)
@pytest.mark.parametrize("k", [None, 5, 10])
def test_equals_the_mean_of_draws(name: str, k: int | None) -> None:
    """For a list too long to try every way, draws of grades agree within their error."""
    rng = np.random.default_rng(4)
    chances = rng.dirichlet([0.6, 0.4, 0.3, 0.3], 30)
    draws = (rng.random((20_000, 30, 1)) > np.cumsum(chances, axis=1)[None, :, :3]).sum(axis=2)
    grades = draws.astype(np.int8)
    hard = GradeTable(grades.ravel(), np.arange(0, grades.size + 1, 30, dtype=np.int64), maximum=3, relevant=2)
    drawn = parse_metric(named(TWINS[name], k)).compute(hard)
    error = drawn.std() / math.sqrt(len(drawn))
    assert error < 0.002
    assert value(named(name, k), chances.tolist()) == pytest.approx(drawn.mean(), abs=4.5 * error)


@examples(60, deadline=None)
@given(row=st.lists(st.integers(0, 3), max_size=12), k=CUT)
def test_sure_grades_give_the_hard_metric(row: list[int], k: int | None) -> None:
    """Where each grade is sure it is NDCG's; where nothing is told it is NDCG's bit by bit."""
    hard = parse_metric(named("NDCG", k)).compute(GradeTable.from_rows([row], maximum=3, relevant=2))[0]
    sure = [[float(g == grade) for g in range(4)] for grade in row]
    plain = GradeTable.from_rows([row], maximum=3, relevant=2)
    assert parse_metric(named("ENDCG", k)).compute(plain)[0] == hard
    result = GradeTable.from_rows([row], maximum=3, relevant=2, chances=[sure])
    assert parse_metric(named("ENDCG", k)).compute(result)[0] == pytest.approx(hard, abs=1e-12)


def test_a_verdict_without_probabilities_is_sure_of_its_grade() -> None:
    """Where the server told none a chunk has its grade; rows of a table do not touch each other."""
    first, second = [[0.2, 0.3, 0.5], [0.0, 1.0, 0.0], [0.6, 0.1, 0.3]], [[0.5, 0.25, 0.25]]
    table = GradeTable.from_rows(
        [[2, 1, 0], [0], [], [2, 0]],
        maximum=2,
        relevant=2,
        chances=[[first[0], None, first[2]], second, [], [None, None]],
    )
    result = parse_metric("ENDCG@2").compute(table).tolist()
    alone = [value("ENDCG@2", first), value("ENDCG@2", second), 0.0]
    assert result[:3] == alone
    assert result[3] == 1


def test_worked_example() -> None:
    """One sure 1 above a toss between 0 and 2, by hand."""
    second = 1 / math.log2(3)
    expected = (1 + (1 + 2 * second) / (2 + second)) / 2
    assert value("ENDCG", [[0, 1, 0], [0.5, 0, 0.5]]) == pytest.approx(expected)


@examples(40, deadline=None)
@given(row=lists(4), gaps=st.sets(st.integers(0, 3), min_size=1, max_size=2), k=CUT, data=st.data())
def test_bounds_are_reached_and_hold(row: list[Cell], gaps: set[int], k: int | None, data: st.DataObject) -> None:
    """A failed verdict has any probabilities: bounds are reached at sure grades, and nothing lies beyond."""
    gaps = {gap for gap in gaps if gap < len(row)}
    top = len(row[0]) - 1
    grades = [None if place in gaps else 0 for place in range(len(row))]
    cells = [None if place in gaps else cell for place, cell in enumerate(row)]
    metric = parse_metric(named("ENDCG", k))
    result = metric.bounds(GradeTable.from_rows([grades], maximum=top, relevant=2, chances=[cells]))

    def filled(these: list[Cell]) -> float:
        whole = dict(zip(sorted(gaps), these, strict=True))
        return value(str(metric), [whole.get(place, cell) for place, cell in enumerate(row)])

    sure = np.eye(top + 1).tolist()
    corners = [filled(list(way)) for way in product(sure, repeat=len(gaps))]
    assert (result.low[0], result.high[0]) == pytest.approx((min(corners), max(corners)), abs=1e-12)
    assert result.exact.all()
    other = data.draw(lists(4).filter(lambda first: len(first[0]) == top + 1))
    inside = filled([other[n % len(other)] for n in range(len(gaps))])
    assert result.low[0] - 1e-12 <= inside <= result.high[0] + 1e-12


def test_too_many_ways_are_refused_with_a_cutoff_named() -> None:
    """A long list without a cutoff, or a fine scale, is refused with the number of ways and what to do."""
    long = GradeTable.from_rows([[1] * 200], maximum=3, relevant=2)
    with pytest.raises(MetricError, match=r"200 ranks of grades 0 to 3 .* take a smaller cutoff"):
        parse_metric("ENDCG").compute(long)
    assert parse_metric("ENDCG@10").compute(long)[0] == 1
    trace = Trace.parse({"id": "t", "query": "q", "chunks": [{"id": f"c{n}", "text": "x"} for n in range(100)]})
    with pytest.raises(DataError, match="ENDCG: 100 ranks of grades 0 to 3"):
        Scorer(["ENDCG"], GRADED).check(trace)  # before the first call
    Scorer(["ENDCG@10"], GRADED).check(trace)
    fine = GradeTable.from_rows([[10] * 20], maximum=10)
    with pytest.raises(MetricError, match="184,756 ways"):
        parse_metric("ENDCG@10").compute(fine)
    assert parse_metric("ENDCG@5").compute(fine)[0] == 1


@pytest.mark.parametrize("chances", [[[0.5, 0.6, 0.0]], [[-0.1, 0.6, 0.5]], [[0.5, 0.5]], [[0.2, 0.2, 0.2]]])
def test_what_are_no_probabilities_is_refused(chances: list[list[float]]) -> None:
    """Each chunk has one for each grade, between 0 and 1, and 1 in all."""
    with pytest.raises(MetricError, match=r"probabilit(y for each|ies of)"):
        GradeTable.from_rows([[1]], maximum=2, chances=[chances])
