"""Bounds of metrics: every way to complete the failed verdicts, tried one by one, is the oracle."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge_eval.metrics import GradeTable, Metric, parse_metric
from tests.support.examples import examples

BINARY = [
    "AP", "AP@3", "AP(norm=min)@3", "AP(norm=total)@2", "MAP", "P@3", "P(norm=k)@9", "Recall@2", "F1@3",
    "HitRate@2", "RR", "MRR@3", "SoftP@3", "SoftRR", "EAP", "EAP@3", "map", "map_cut_3", "P_5",
    "recall_2", "success_1", "relative_P_3", "recip_rank", "Rprec", "set_P", "set_recall", "set_F", "set_map",
]  # fmt: skip
GRADED = [
    "DCG@3", "DCG(gain=exp)", "NDCG", "NDCG@2", "NDCG(gain=exp)@3", "EDCG@3", "AP(rel=2)@3", "P(rel=3)@4",
    "NDCG(ideal=top)@3", "NDCG(gain=exp,ideal=top)@2", "NDCG(ideal=top)",
    "ERR", "ERR@3", "SoftRR@2", "ENDCG(gain=binary)@3", "ENDCG(gain=binary,ideal=top)@2",
]  # fmt: skip
POOLED = ["bpref", "infAP", "ndcg", "ndcg_cut_2", "NDCG(ideal=judged)@3", "map"]


def brute(metric: Metric, row: list[int | None], top: int, **more: object) -> tuple[float, float]:
    """The least and the greatest value over all completions, each computed by itself."""
    gaps = [place for place, grade in enumerate(row) if grade is None]
    values = []
    for grades in product(range(top + 1), repeat=len(gaps)):
        whole = list(row)
        for place, grade in zip(gaps, grades, strict=True):
            whole[place] = grade
        table = GradeTable.from_rows([whole], maximum=top, **more)  # type: ignore[arg-type]
        values.append(metric.compute(table)[0])
    return min(values), max(values)


def rows(top: int, most: int) -> st.SearchStrategy[list[int | None]]:
    """Rows of at most seven grades, some of which failed."""
    return st.lists(st.one_of(st.none(), st.integers(0, top)), max_size=7).filter(lambda row: row.count(None) <= most)


@pytest.mark.parametrize("name", BINARY)
@examples(25)
@given(row=rows(1, 6), total=st.integers(0, 9))
def test_binary_bounds_are_reached_and_never_passed(name: str, row: list[int | None], total: int) -> None:
    """For every metric of what is relevant both bounds equal brute force, whatever the total."""
    metric = parse_metric(name)
    result = metric.bounds(GradeTable.from_rows([row], totals=[total], maximum=1))
    assert (result.low[0], result.high[0]) == pytest.approx(brute(metric, row, 1, totals=[total]), abs=1e-12)
    assert result.exact.all()


@pytest.mark.slow
@pytest.mark.parametrize("name", GRADED)
@examples(25)
@given(row=rows(3, 4))
def test_graded_bounds_are_reached_and_never_passed(name: str, row: list[int | None]) -> None:
    """For every metric of grades both bounds equal brute force over all grades."""
    metric = parse_metric(name)
    result = metric.bounds(GradeTable.from_rows([row], maximum=3, relevant=2))
    assert (result.low[0], result.high[0]) == pytest.approx(brute(metric, row, 3, relevant=2), abs=1e-12)


@pytest.mark.parametrize("name", POOLED)
@examples(25)
@given(row=rows(3, 4), pool=st.lists(st.integers(0, 3), max_size=9))
def test_bounds_with_a_pool(name: str, row: list[int | None], pool: list[int]) -> None:
    """Where the grades of the pool are known the bounds equal brute force as well."""
    metric = parse_metric(name)
    result = metric.bounds(GradeTable.from_rows([row], maximum=3, relevant=2, rest=[pool]))
    expected = brute(metric, row, 3, relevant=2, rest=[pool])
    assert (result.low[0], result.high[0]) == pytest.approx(expected, abs=1e-12)


@examples(60)
@given(rows=st.lists(rows(3, 3), min_size=1, max_size=12))
def test_rows_do_not_change_each_other(rows: list[list[int | None]]) -> None:
    """The bounds of many rows, equal ones among them, are those of each row alone."""
    metric = parse_metric("NDCG@3")
    together = metric.bounds(GradeTable.from_rows([*rows, *rows], maximum=3, relevant=2))
    alone = [metric.bounds(GradeTable.from_rows([row], maximum=3, relevant=2)) for row in rows]
    assert together.low.tolist() == [each.low[0] for each in alone] * 2
    assert together.high.tolist() == [each.high[0] for each in alone] * 2


@pytest.mark.slow
@pytest.mark.parametrize("name", [*BINARY, *GRADED, *POOLED])
@examples(25)
@given(row=rows(3, 3), total=st.integers(0, 5), pool=st.lists(st.integers(0, 3), max_size=5))
def test_no_value_and_no_bound_leaves_the_range(name: str, row: list[int | None], total: int, pool: list[int]) -> None:
    """Whatever the judge finds against the total or the pool, everything stays in the stated range."""
    metric = parse_metric(name)
    if metric.needs_pool:
        table = GradeTable.from_rows([row], maximum=3, relevant=2, rest=[pool])
    else:
        relevant = dict(metric.params).get("rel", 1)
        table = GradeTable.from_rows([row], maximum=3, relevant=int(relevant), totals=[total])
    least, most = metric.limits
    result = metric.bounds(table)
    value = metric.compute(table)[0]
    for each in (result.low[0], result.high[0], *([] if np.isnan(value) else [value])):
        assert least <= each <= (np.inf if most is None else most)
    assert result.low[0] <= result.high[0]


def test_a_value_that_no_verdict_can_change_is_a_value() -> None:
    """The first chunk is relevant, so that the reciprocal rank is 1 whatever failed below."""
    table = GradeTable.from_rows([[1, 1, 0, 0, None, 0, None, 0], [0, None, 1, 0]])
    assert parse_metric("MRR").compute(table)[0] == 1.0
    assert np.isnan(parse_metric("MRR").compute(table)[1])
    assert parse_metric("HitRate@5").compute(table, missing="error").tolist() == [1.0, 1.0]
    assert np.isnan(parse_metric("P@5").compute(table)).all()


def test_too_many_completions_give_bounds_that_hold() -> None:
    """A row with hundreds of failed verdicts on four grades gets the metric's range, and says so."""
    row: list[int | None] = [2, *[None] * 300]
    table = GradeTable.from_rows([row, [1, 0]], maximum=3, relevant=2)
    result = parse_metric("NDCG@10").bounds(table)
    assert (result.low[0], result.high[0], result.exact.tolist()) == (0.0, 1.0, [False, True])
    gains = parse_metric("DCG@10").bounds(table)
    assert gains.exact.all()
    assert gains.low[0] == 2.0
    assert parse_metric("AP@10").bounds(table).exact.all()


def test_more_found_than_said_to_exist() -> None:
    """Three relevant chunks where one was said to exist: recall, F and MAP are 1, not 3."""
    table = GradeTable.from_rows([[1, 1, 1]], totals=[1])
    for name in ("Recall", "map", "set_F", "F1", "AP(norm=total)", "recall_3", "Rprec"):
        assert parse_metric(name).compute(table).tolist() == [1.0], name
    # The chunks that stand below the cutoff exist too.
    assert parse_metric("Recall@1").compute(table).tolist() == [1 / 3]


def alone(row: list[int | None], repeats: list[bool]) -> list[int | None]:
    """What a row says where a repeated text brings nothing new: 0 at each of its later ranks."""
    return [0 if again else grade for grade, again in zip(row, repeats, strict=True)]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["P@3", "P(norm=k)@9", "AP", "AP@3", "AP(norm=min)@3", "MAP", "AP(rel=2)@3"])
@examples(40)
@given(row=rows(3, 4), total=st.integers(0, 9), data=st.data())
def test_bounds_of_metrics_that_count_a_text_once(
    name: str, row: list[int | None], total: int, data: st.DataObject
) -> None:
    """With `dedup=text` value and bounds equal brute force on the row with 0 at repeats."""
    repeats = data.draw(st.lists(st.booleans(), min_size=len(row), max_size=len(row)))
    plain = parse_metric(name)
    metric = Metric(plain.name, plain.cutoff, (*plain.params, ("dedup", "text")))
    least = 2 if "rel=2" in name else 1
    more = {"totals": [total], "relevant": least}
    result = metric.bounds(GradeTable.from_rows([row], maximum=3, repeats=[repeats], **more))
    assert (result.low[0], result.high[0]) == pytest.approx(brute(plain, alone(row, repeats), 3, **more), abs=1e-12)
    assert result.exact.all()


def test_what_stands_below_the_top_cannot_make_its_bounds_inexact() -> None:
    """300 failed verdicts below K change nothing of `NDCG(ideal=top)@K`, and little above costs nothing."""
    row: list[int | None] = [2, None, 1, *[None] * 300]
    result = parse_metric("NDCG(ideal=top)@3").bounds(GradeTable.from_rows([row], maximum=3, relevant=2))
    assert result.exact.all()
    expected = brute(parse_metric("NDCG@3"), [2, None, 1], 3, relevant=2)
    assert (result.low[0], result.high[0]) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("name", ["NDCG(ideal=judged)@3", "ndcg_cut_3"])
def test_a_failed_verdict_below_the_cutoff_can_raise_the_total(name: str) -> None:
    """On a binary scale the ideal list follows from the total, at least what the whole list holds."""
    metric = parse_metric(name)
    table = GradeTable.from_rows([[0, 1, 0, None]], totals=[1], maximum=1)
    low, high, exact = metric.bounds(table)
    assert (low[0], high[0]) == pytest.approx(brute(metric, [0, 1, 0, None], 1, totals=[1]))
    assert (low[0], high[0]) == pytest.approx((0.3868528, 0.6309298))
    assert exact[0]
    assert np.isnan(metric.compute(table)[0])


LISTS = [row for length in range(5) for row in product((None, 0, 1), repeat=length)]
"""Every list of at most four verdicts on two grades, failed ones among them."""


@pytest.mark.parametrize("cutoff", [None, 1, 3, 5])
@pytest.mark.parametrize(
    "name", ["AP(norm=min)", "AP(norm=total)", "NDCG(ideal=judged)", "Recall", "F1", "ndcg", "map", "Rprec", "set_F"]
)
def test_every_short_list_with_every_total(name: str, cutoff: int | None) -> None:
    """Bounds called exact are those of all completions, others hold; `norm=min` divides as it says."""
    if cutoff is not None:
        cuts = {"ndcg": "ndcg_cut_", "map": "map_cut_", "Rprec": "P_", "set_F": "recall_"}
        name = f"{cuts[name]}{cutoff}" if name in cuts else f"{name}@{cutoff}"
    metric = parse_metric(name)
    completions, origin = [], []
    for place, row in enumerate(LISTS):
        for grades in product((0, 1), repeat=row.count(None)):
            rest = iter(grades)
            completions.append([next(rest) if grade is None else grade for grade in row])
            origin.append(place)
    for total in (0, 1, 2, 4, 6):
        table = GradeTable.from_rows(completions, totals=[total] * len(completions), maximum=1)
        values = metric.compute(table)
        low, high = np.full(len(LISTS), np.inf), np.full(len(LISTS), -np.inf)
        np.minimum.at(low, origin, values)
        np.maximum.at(high, origin, values)
        result = metric.bounds(GradeTable.from_rows(LISTS, totals=[total] * len(LISTS), maximum=1))
        exact = np.broadcast_to(result.exact, low.shape)
        assert result.low[exact] == pytest.approx(low[exact], abs=1e-12)
        assert result.high[exact] == pytest.approx(high[exact], abs=1e-12)
        assert np.all(result.low <= low + 1e-12)
        assert np.all(result.high >= high - 1e-12)
        if name.startswith("AP(norm=min)"):
            for row, value in zip(completions, values, strict=True):
                top = row[:cutoff]
                hits = sum(sum(top[: k + 1]) / (k + 1) for k in range(len(top)) if top[k])
                most = min(cutoff or len(row), max(total, sum(row)))
                assert value == pytest.approx(hits / most if most else 0.0, abs=1e-12)
