"""Bounds of metrics over claims: every way to fill the failed cells, tried one by one, is the oracle."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge_eval import limits
from judge_eval.metrics import ClaimTable, GradeTable, Metric, parse_metric
from judge_eval.metrics.metric import SPECS
from tests.support.examples import examples, mostly_slow
from tests.support.naive_claims import VARIANTS, WORDS, Case, cases, naive, table_of

CELLS = ("none", "partial", "full", "contradicts")


def filled(case: Case, ways: Iterator[tuple[str, ...]], answers: tuple[bool, ...]) -> Iterator[Case]:
    """The trace with its failed cells filled in each way, and what it says together answered in each."""
    open_ = [(i, j) for i, row in enumerate(case.rows) for j, word in enumerate(row) if word is None]
    asked = [j for j, result in enumerate(case.asked) if result is None]
    for way in ways:
        rows = [list(row) for row in case.rows]
        for (i, j), word in zip(open_, way, strict=True):
            rows[i][j] = word
        for line in product(answers, repeat=len(asked)):
            together = list(case.asked)
            for j, answer in zip(asked, line, strict=True):
                together[j] = answer
            yield replace(case, rows=tuple(map(tuple, rows)), together=tuple(together))


@st.composite
def gapped(draw: st.DrawFn) -> Case:
    """A trace of which up to four cells and one answer failed."""
    case = draw(cases(4).filter(lambda case: case.rows and any(case.vital)))
    places = [(i, j) for i in range(len(case.rows)) for j in range(len(case.vital))]
    gaps = draw(st.lists(st.sampled_from(places), max_size=4, unique=True))
    rows = [tuple(None if (i, j) in gaps else word for j, word in enumerate(row)) for i, row in enumerate(case.rows)]
    together = list(case.asked)
    if draw(st.booleans()):
        together[draw(st.integers(0, len(together) - 1))] = None
    return replace(case, rows=tuple(rows), together=tuple(together))


@pytest.mark.parametrize("name", mostly_slow(VARIANTS, every=4))
@examples(12)
@given(case=gapped(), k=st.sampled_from([None, 1, 2, 3, 5]))
def test_bounds_are_reached_and_never_passed(name: str, case: Case, k: int | None) -> None:
    """In every variant both bounds equal brute force, whatever else stands in the table."""
    whole = parse_metric(name)
    metric = Metric(whole.name, k, whole.params)
    count = sum(word is None for row in case.rows for word in row)
    ways = list(filled(case, product(CELLS, repeat=count), (True, False)))
    values = [naive(metric, way) for way in ways]
    assert None not in values
    other = Case((("full",),), (True,))
    low, high, exact = metric.bounds(table_of([other, case]))
    assert (low[1], high[1]) == pytest.approx((min(values), max(values)), abs=1e-12)  # type: ignore[type-var]
    assert exact.all()
    assert low[0] == high[0]
    value = metric.compute(table_of([other, case]))[1]
    assert math.isnan(value) == (high[1] - low[1] > 1e-12)


@pytest.mark.parametrize(
    "name", mostly_slow([name for name in VARIANTS if name.startswith(("alpha", "Redundancy"))], every=4)
)
def test_outer_bounds_hold_where_completions_are_too_many(name: str) -> None:
    """Many failed cells: nothing lies beyond the bounds, and they say that they may be too wide."""
    chance = random.Random(3)
    whole, loose = parse_metric(name), 0
    for _ in range(25):
        shape = chance.randint(4, 7), chance.randint(5, 7)
        rows = tuple(
            tuple(None if chance.random() < 0.5 else chance.choice(WORDS) for _ in range(shape[1]))
            for _ in range(shape[0])
        )
        case = Case(rows, (True,) * shape[1])
        metric = Metric(whole.name, chance.choice([None, 1, 3, 5]), whole.params)
        low, high, exact = metric.bounds(table_of([case]))
        loose += not exact[0]
        count = sum(word is None for row in rows for word in row)
        for _ in range(40):
            share = chance.random()
            way = tuple("full" if chance.random() < share else "none" for _ in range(count))
            (done,) = filled(case, iter([way]), ())
            value = naive(metric, done)
            assert value is not None
            assert low[0] - 1e-12 <= value <= high[0] + 1e-12
        assert 0 <= low[0] <= high[0] <= 1
    assert loose > 5


def test_a_failed_chunk_among_many_claims_has_exact_bounds() -> None:
    """Forty claims that nobody else touches are alike, so one failed row is filled in few ways."""
    rows = (("full",) * 2 + ("none",) * 38, (None,) * 40, ("none",) * 40)
    table = table_of([Case(rows, (True,) * 40)])
    for name in ("alpha-NDCG@3", "Redundancy@3", "ERR-IA@3", "ClaimRecall@3", "Novelty@3"):
        low, high, exact = parse_metric(name).bounds(table)
        assert exact.all(), name
        assert low[0] < high[0], name


def test_where_nobody_knows_the_claims_a_metric_can_be_anything_in_its_range() -> None:
    """The judge failed to split the reference: no value, the range as bounds, never a number."""
    claims = ClaimTable.from_rows([[(), ()], [["full"], ["none"]]], [None, [True]])
    table = GradeTable.from_rows([[None, None], [1, 0]], claims=claims)
    for spec in (spec for spec in SPECS.values() if spec.claims):
        metric = Metric(spec.name, 2)
        low, high, exact = metric.bounds(table)
        most = metric.limits[1]
        assert (low[0], high[0]) == (0, float(limits.CLAIMS) if most is None else most)
        assert exact.tolist() == [False, True]
        values = metric.compute(table)
        assert math.isnan(values[0])
        assert not math.isnan(values[1])


def test_what_cannot_matter_is_no_gap() -> None:
    """A claim that is covered above, and cells below the cutoff, leave the value as it is."""
    rows = (("full", "full"), ("none", None), (None, None))
    table = table_of([Case(rows, (True, True))])
    for name in ("ClaimRecall@3", "Sufficiency@3", "NuggetRecall@3", "ClaimPrecision@1", "Conflict@1"):
        assert not np.isnan(parse_metric(name).compute(table)[0]), name
    assert np.isnan(parse_metric("ClaimPrecision@2").compute(table)[0])
    assert np.isnan(parse_metric("Redundancy@2").compute(table)[0])
