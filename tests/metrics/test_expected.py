"""Metrics in expectation: every way in which the chunks can be relevant, tried one by one, is the oracle."""

from __future__ import annotations

import math
import shutil
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge_eval.errors import MetricError
from judge_eval.metrics import GradeTable, parse_metric
from judge_eval.metrics import ragged as blocks
from tests.support.examples import examples

TWINS = {"EAP": "AP", "SoftRR": "RR", "ENDCG": "NDCG", "ENDCG(ideal=top)": "NDCG(ideal=top)"}
"""Each metric with the one of verdicts that it is the mean of."""
CHANCE = st.one_of(st.sampled_from([0.0, 1.0, 0.5, 1e-300, 1 - 2**-53]), st.floats(0, 1))
CUT = st.one_of(st.none(), st.integers(1, 9))


def named(name: str, k: int | None) -> str:
    """The name with its cutoff."""
    return name if k is None else f"{name}@{k}"


def sure(rows: list[list[int]]) -> GradeTable:
    """A binary table of verdicts alone."""
    return GradeTable.from_rows(rows, maximum=1)


def likely(rows: list[list[float]]) -> GradeTable:
    """A binary table with these probabilities, and verdicts that follow from them."""
    verdicts = [[int(chance >= 0.5) for chance in row] for row in rows]
    return GradeTable.from_rows(verdicts, maximum=1, probable=rows)


def value(name: str, chances: list[float]) -> float:
    """A metric of one list of probabilities."""
    return float(parse_metric(name).compute(likely([chances]))[0])


def brute(twin: str, chances: list[float]) -> float:
    """The mean over all 2^n ways, each weighed by how likely it is."""
    ways = list(product((0, 1), repeat=len(chances)))
    weights = [math.prod(p if v else 1 - p for p, v in zip(chances, way, strict=True)) for way in ways]
    return math.fsum(weights * parse_metric(twin).compute(sure([list(way) for way in ways])))


@pytest.mark.parametrize("name", TWINS)
@examples(60)
@given(chances=st.lists(CHANCE, max_size=8), k=CUT)
def test_equals_the_mean_over_all_ways(name: str, chances: list[float], k: int | None) -> None:
    """It is the mean of the hard metric over all 2^n ways of being relevant, to 1e-12, and in [0, 1]."""
    result = value(named(name, k), chances)
    assert result == pytest.approx(brute(named(TWINS[name], k), chances), abs=1e-12)
    assert 0 <= result <= 1


@pytest.mark.parametrize("name", TWINS)
def test_equals_the_mean_of_draws(name: str) -> None:
    """For lists too long to try every way, draws of verdicts agree within their error."""
    rng = np.random.default_rng(11)
    chances = rng.beta(0.5, 0.8, 60)
    draws = (rng.random((20_000, 60)) < chances).astype(np.int8)
    offsets = np.arange(0, draws.size + 1, 60, dtype=np.int64)
    table = GradeTable(draws.ravel(), offsets, maximum=1)
    for k in (None, 10, 45):
        drawn = parse_metric(named(TWINS[name], k)).compute(table)
        error = drawn.std() / math.sqrt(len(drawn))
        assert value(named(name, k), chances.tolist()) == pytest.approx(drawn.mean(), abs=4.5 * error)


@pytest.mark.parametrize("name", TWINS)
@given(row=st.lists(st.integers(0, 1), max_size=36), k=CUT, told=st.booleans())
def test_sure_probabilities_give_the_hard_metric(name: str, row: list[int], k: int | None, told: bool) -> None:
    """Where every probability is 0 or 1, told or by the verdict, it is the hard metric's, bit by bit."""
    table = likely([[float(v) for v in row]]) if told else sure([row])
    soft = parse_metric(named(name, k)).compute(table)[0]
    assert soft == parse_metric(named(TWINS[name], k)).compute(sure([row]))[0]


@pytest.mark.parametrize("name", TWINS)
def test_long_lists_and_perfect_ones(name: str) -> None:
    """A list of hundreds is right too; one with nothing relevant is 0 and a perfect one exactly 1."""
    rng = np.random.default_rng(2)
    rows = [rng.integers(0, 2, 700).tolist(), [1] * 700 + [0] * 40, [0] * 50, []]
    values = parse_metric(name).compute(sure(rows))
    assert values[0] == pytest.approx(parse_metric(TWINS[name]).compute(sure(rows[:1]))[0], abs=1e-12)
    assert values[1:].tolist() == [1, 0, 0]


@pytest.mark.parametrize("name", TWINS)
def test_value_does_not_depend_on_the_other_rows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row alone, in a table, in tiny blocks and beside one very long row gives the same bits."""
    rng = np.random.default_rng(3)
    rows = [rng.random(length).tolist() for length in rng.integers(0, 30, 120)]
    rows[17] = rng.random(400).tolist()
    for k in (None, 1, 10):
        metric = parse_metric(named(name, k))
        alone = [value(named(name, k), row) for row in rows]
        assert metric.compute(likely(rows)).tolist() == alone
        with monkeypatch.context() as patch:
            patch.setattr(blocks, "BLOCK_CELLS", 7)
            assert metric.compute(likely(rows)).tolist() == alone


def test_worked_examples() -> None:
    """One sure miss on top of two tosses, by hand."""
    assert value("EAP", [0, 0.5, 0.5]) == pytest.approx((1 / 2 + 1 / 3 + (1 / 2 + 2 / 3) / 2) / 4)
    assert value("SoftRR", [0, 0.5, 0.5]) == pytest.approx((1 / 2 + 1 / 2 + 1 / 3) / 4)
    assert value("SoftRR@2", [0, 0.5, 0.5]) == pytest.approx(1 / 4)
    second, third = 1 / math.log2(3), 1 / 2
    both = (second + third) / (1 + second)
    assert value("ENDCG", [0, 0.5, 0.5]) == pytest.approx((second + third + both) / 4)


def test_a_verdict_without_a_probability_is_sure_of_itself() -> None:
    """Where the server told none the verdict counts as 1 or 0, as in the other soft metrics."""
    table = GradeTable.from_rows([[1, 0, 1]], maximum=1, probable=[[None, 0.5, None]])
    for name in TWINS:
        assert parse_metric(name).compute(table)[0] == value(name, [1, 0.5, 1])


@pytest.mark.parametrize("name", [*TWINS, "SoftP"])
@examples(40)
@given(
    cells=st.lists(st.one_of(st.none(), CHANCE), max_size=7).filter(lambda cells: cells.count(None) <= 4),
    k=CUT,
    data=st.data(),
)
def test_bounds_are_reached_and_hold_for_every_probability(
    name: str, cells: list[float | None], k: int | None, data: st.DataObject
) -> None:
    """A failed verdict has any probability: bounds are reached at 0 and 1, and nothing lies beyond."""
    verdicts = [None if chance is None else int(chance >= 0.5) for chance in cells]
    metric = parse_metric(named(name, k))
    result = metric.bounds(GradeTable.from_rows([verdicts], maximum=1, probable=[cells]))
    gaps = [place for place, chance in enumerate(cells) if chance is None]

    def filled(with_these: tuple[float, ...]) -> float:
        whole = dict(zip(gaps, with_these, strict=True))
        return value(str(metric), [whole.get(p, c) for p, c in enumerate(cells)])  # type: ignore[misc]

    corners = [filled(way) for way in product((0.0, 1.0), repeat=len(gaps))]
    assert (result.low[0], result.high[0]) == pytest.approx((min(corners), max(corners)), abs=1e-12)
    assert result.exact.all()
    inside = filled(data.draw(st.tuples(*[CHANCE for _ in gaps])))
    assert result.low[0] - 1e-12 <= inside <= result.high[0] + 1e-12


def test_what_a_failed_verdict_cannot_change_is_a_value() -> None:
    """Below the cutoff it plays no part, but in an ideal list of all that was retrieved."""
    table = GradeTable.from_rows([[1, 0, None]], maximum=1, probable=[[0.7, 0.2, None]])
    for name in ("EAP@2", "SoftRR@2", "ENDCG(ideal=top)@2"):
        assert parse_metric(name).compute(table, missing="error")[0] == value(name, [0.7, 0.2])
    low, high = parse_metric("ENDCG@2").compute(table, missing="bounds")
    assert low[0] < high[0]
    assert np.isnan(parse_metric("EAP@3").compute(table)[0])


def test_a_graded_scale_needs_the_probability_of_each_grade() -> None:
    """P(relevant) or a mean grade does not tell it: refused, with what to write instead."""
    chances = [[0.9, 0.25, 0.5]]
    graded = GradeTable.from_rows([[3, 0, 2]], relevant=2, maximum=3, probable=chances)
    with pytest.raises(MetricError, match=r"ENDCG@5: .*not one of each grade.*gain=binary"):
        parse_metric("ENDCG@5").compute(graded)
    means = GradeTable.from_rows([[3, 0, 2]], relevant=2, maximum=3, expected=[[None, 0.3, None]])
    with pytest.raises(MetricError, match="not one of each grade"):
        parse_metric("ENDCG").compute(means)
    with pytest.raises(MetricError, match="the highest grade of the scale is unknown"):
        parse_metric("ENDCG").compute(GradeTable.from_rows([[1, 0]]))
    for name in ("EAP@2", "SoftRR", "ENDCG(gain=binary)@2"):
        plain = name.replace("(gain=binary)", "")
        assert parse_metric(name).compute(graded)[0] == value(plain, chances[0])


@pytest.mark.parametrize("chance", [1.5, -0.25])
@pytest.mark.parametrize("name", ["SoftP", *TWINS])
def test_what_is_no_probability_is_refused(name: str, chance: float) -> None:
    """A number that is no probability would lead out of the range."""
    with pytest.raises(MetricError, match="between 0 and 1"):
        parse_metric(name).compute(likely([[0.5, chance]]))


def cascade(row: list[int], top: int) -> float:
    """Chapelle's algorithm 2, one chunk after the other."""
    read, total = 1.0, 0.0
    for rank, grade in enumerate(row, 1):
        stops = (2**grade - 1) / 2**top
        total += read * stops / rank
        read *= 1 - stops
    return total


def test_err_worked_examples() -> None:
    """Grades 3, 2, 4 of 0 to 4 make 7/16, then 9/16 * 3/16 / 2, then 9/16 * 13/16 * 15/16 / 3."""
    table = GradeTable.from_rows([[3, 2, 4], [4], [0, 0], []], maximum=4)
    by_hand = 7 / 16 + 9 / 16 * 3 / 16 / 2 + 9 / 16 * 13 / 16 * 15 / 16 / 3
    assert parse_metric("ERR").compute(table).tolist() == pytest.approx([by_hand, 15 / 16, 0, 0])
    assert parse_metric("ERR@2").compute(table)[0] == pytest.approx(7 / 16 + 9 / 16 * 3 / 16 / 2)


@given(rows=st.lists(st.lists(st.integers(0, 3), max_size=12), min_size=1, max_size=4), k=CUT)
def test_err_is_the_cascade(rows: list[list[int]], k: int | None) -> None:
    """Over a table each value is the plain algorithm's, in [0, 1), and the same in any order of rows."""
    values = parse_metric(named("ERR", k)).compute(GradeTable.from_rows(rows, maximum=3, relevant=2))
    assert values.tolist() == pytest.approx([cascade(row[:k], 3) for row in rows], abs=1e-12)
    assert ((values >= 0) & (values < 1)).all()


def test_err_needs_the_scale() -> None:
    """The highest grade seen is not the scale's: it is not guessed."""
    with pytest.raises(MetricError, match="ERR@5: the highest grade of the scale is unknown"):
        parse_metric("ERR@5").compute(GradeTable.from_rows([[3, 2]]))


def test_err_does_not_hear_the_probabilities() -> None:
    """ERR is of grades alone; the mean reciprocal rank under the judge's probabilities is SoftRR."""
    table = GradeTable.from_rows([[1, 1]], maximum=1, probable=[[0.6, 0.6]])
    assert parse_metric("ERR").compute(table)[0] == 1 / 2 + 1 / 2 * 1 / 2 / 2
    assert parse_metric("SoftRR").compute(table)[0] == pytest.approx(0.6 + 0.4 * 0.6 / 2)


@pytest.mark.foreign
@pytest.mark.skipif(shutil.which("perl") is None, reason="gdeval is a Perl script")
def test_err_equals_gdeval() -> None:
    """TREC's gdeval, whose highest grade is 4, prints our numbers, to the five decimals it prints."""
    import ir_measures

    rng = np.random.default_rng(9)
    lists = {str(query): rng.integers(0, 5, 30).tolist() for query in range(1, 60)}
    qrels = [
        ir_measures.Qrel(query, f"d{place}", grade)
        for query, grades in lists.items()
        for place, grade in enumerate(grades)
    ]
    run = [ir_measures.ScoredDoc(query, f"d{place}", 100 - place) for query in lists for place in range(30)]
    table = GradeTable.from_rows(list(lists.values()), maximum=4)
    for k in (1, 5, 20):
        theirs = {m.query_id: m.value for m in ir_measures.gdeval.iter_calc([ir_measures.ERR @ k], qrels, run)}
        assert len(theirs) == len(lists)
        ours = parse_metric(f"ERR@{k}").compute(table).tolist()
        assert [theirs[query] for query in lists] == pytest.approx(ours, abs=5.1e-6)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("EAP@5", "the mean of AP@K over all ways in which the chunks can be relevant"),
        ("SoftRR", "(1 or 0 by its verdict if the server gave none)"),
        ("ENDCG@5", "on a graded scale over all grades, each with the judge's probability of it"),
        ("ENDCG(gain=binary,ideal=top)@5", "gain_i = 1 if the chunk at rank i is relevant, else 0, whatever"),
        ("ERR@5", "(2^grade_i - 1) / 2^g"),
    ],
)
def test_each_says_what_it_is(name: str, said: str) -> None:
    """The definition names formula, source of the probabilities and every parameter; the range is 0 to 1."""
    metric = parse_metric(name)
    assert said in metric.definition
    assert parse_metric(str(metric)) == metric
    assert metric.limits == (0.0, 1.0)
