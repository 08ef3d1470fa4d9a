"""Metrics over claims against a reference that is written from their formulas."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge_eval.errors import MetricError, MissingVerdictError
from judge_eval.metrics import ClaimTable, GradeTable, Metric, parse_metric
from judge_eval.metrics.metric import SPECS
from tests.support.command import ROOT
from tests.support.examples import examples, mostly_slow
from tests.support.naive_claims import VARIANTS, Case, cases, naive, table_of


@pytest.mark.parametrize("name", mostly_slow(VARIANTS, every=4))
@examples(8)
@given(many=st.lists(cases(), min_size=1, max_size=4), k=st.sampled_from([None, 1, 2, 3, 5, 9]))
def test_every_metric_is_what_its_formula_says(name: str, many: list[Case], k: int | None) -> None:
    """In every variant, whatever stands in the other rows; NaN exactly where there is no value."""
    whole = parse_metric(name)
    metric = Metric(whole.name, k, whole.params)
    expected = [naive(metric, case) for case in many]
    values = metric.compute(table_of(many))
    assert [None if math.isnan(value) else value for value in values.tolist()] == [
        None if value is None else pytest.approx(value, abs=1e-12) for value in expected
    ]
    low, high = metric.compute(table_of(many), "bounds")
    np.testing.assert_array_equal(low, values)
    np.testing.assert_array_equal(high, values)
    most = metric.limits[1]
    assert all(value is None or 0 <= value <= (most or math.inf) for value in expected)


def pyndeval_matrices() -> list[dict[str, object]]:
    """What pyndeval 0.0.8 made of 60 random matrices (`make_pyndeval.py` beside the file)."""
    return json.loads((ROOT / "tests" / "metrics" / "claims" / "pyndeval.json").read_text())  # type: ignore[no-any-return]


@pytest.mark.slow
def test_alpha_ndcg_and_err_ia_are_those_of_pyndeval() -> None:
    """To 1e-9 on the same matrix, for several cutoffs and alphas; above 1, where a greedy ideal is beaten, 1.

    Of equals the chunk that stands higher comes first in the ideal list: there documents have ids that fall
    with the rank. ERR-IA@1 is left out: ndeval forgets to scale it there.
    """
    compared = 0
    for each in pyndeval_matrices():
        rows, figures = each["rows"], each["figures"]
        assert isinstance(rows, list)
        assert isinstance(figures, dict)
        words = [["full" if cell else "none" for cell in row] for row in rows]
        claims = ClaimTable.from_rows([words], [[True] * len(words[0])])
        table = GradeTable.from_rows([[0] * len(rows)], claims=claims)
        for name, figure in figures.items():
            metric = parse_metric(name)
            assert metric.compute(table)[0] == pytest.approx(min(figure, 1.0), abs=1e-9), (name, rows)
            compared += 1
    assert compared > 800


@pytest.mark.foreign
@examples(60)
@given(case=cases(8, ("none", "full")), k=st.integers(2, 20))
def test_they_are_pyndevals_on_any_matrix(case: Case, k: int) -> None:
    """Asked here and now, and through ir_measures."""
    pyndeval = pytest.importorskip("pyndeval")
    ir_measures = pytest.importorskip("ir_measures")
    qrels = [
        (f"c{j}", f"d{900 - rank}", int(word == "full"))
        for rank, row in enumerate(case.rows)
        for j, word in enumerate(row)
    ]
    if not any(grade for _, _, grade in qrels):
        return
    run = [("q", f"d{900 - rank}", -float(rank)) for rank in range(len(case.rows))]
    result = pyndeval.ndeval([("q", *each) for each in qrels], run, measures=[f"alpha-nDCG@{k}", f"ERR-IA@{k}"])["q"]
    table = table_of([Case(case.rows, case.vital)])
    ours = parse_metric(f"alpha-NDCG@{k}").compute(table)[0]
    assert ours == pytest.approx(min(result[f"alpha-nDCG@{k}"], 1), abs=1e-9)
    assert parse_metric(f"ERR-IA@{k}").compute(table)[0] == pytest.approx(result[f"ERR-IA@{k}"], abs=1e-9)
    theirs = ir_measures.calc_aggregate(
        [ir_measures.alpha_nDCG @ k],
        [ir_measures.Qrel("q", chunk, grade, claim) for claim, chunk, grade in qrels],
        [ir_measures.ScoredDoc(*each) for each in run],
    )
    assert ours == pytest.approx(min(next(iter(theirs.values())), 1), abs=1e-9)


@pytest.mark.foreign
@examples(100)
@given(case=cases(8, ("none", "full")), k=st.integers(2, 20), order=st.permutations(range(8)))
def test_ties_by_id_are_pyndevals_whatever_the_ids(case: Case, k: int, order: list[int]) -> None:
    """The greater id first among equals of the ideal order; ids in any order."""
    pyndeval = pytest.importorskip("pyndeval")
    ids = [f"d{order[rank]}" for rank in range(len(case.rows))]
    qrels = [
        ("q", f"c{j}", ids[rank], int(word == "full"))
        for rank, row in enumerate(case.rows)
        for j, word in enumerate(row)
    ]
    if not any(grade for *_, grade in qrels):
        return
    run = [("q", each, -float(rank)) for rank, each in enumerate(ids)]
    result = pyndeval.ndeval(qrels, run, measures=[f"alpha-nDCG@{k}"])["q"][f"alpha-nDCG@{k}"]
    claims = ClaimTable.from_rows([case.rows], [case.vital], ids=[ids])
    table = GradeTable.from_rows([[0] * len(ids)], claims=claims)
    ours = parse_metric(f"alpha-NDCG(ties=id)@{k}").compute(table)[0]
    assert ours == pytest.approx(min(result, 1), abs=1e-9)


def test_ties_by_id_need_ids_and_hold_for_bounds() -> None:
    """Without ids the metric is refused; with a failed cell the bounds are those of both completions."""
    rows = [["full", "none"], ["full", "full"], ["none", None], ["none", "full"]]
    metric = parse_metric("alpha-NDCG(ties=id)@3")
    bare = GradeTable.from_rows([[0] * 4], claims=ClaimTable.from_rows([rows], [[True, True]]))
    with pytest.raises(MetricError, match="needs the ids of the chunks"):
        metric.compute(bare)
    ids = ["a", "c", "b", "d"]

    def table(word: str | None) -> GradeTable:
        filled = [[word if cell is None else cell for cell in row] for row in rows]
        return GradeTable.from_rows([[0] * 4], claims=ClaimTable.from_rows([filled], [[True, True]], ids=[ids]))

    values = [metric.compute(table(word))[0] for word in ("none", "full")]
    low, high, exact = metric.bounds(table(None))
    assert (low[0], high[0], exact[0]) == (pytest.approx(min(values)), pytest.approx(max(values)), True)


def test_nugget_scores_are_those_of_the_published_definitions() -> None:
    """Two vital nuggets, one supported and one in part, and an okay one that is not: worked by hand."""
    table = table_of([Case((("full", "partial", "none"),), (True, True, False))])
    scores = {
        "all": 0.5, "all_strict": 1 / 3, "vital": 0.75, "vital_strict": 0.5, "weighted": 1.5 / 2.5,
        "weighted_strict": 1 / 2.5,
    }  # fmt: skip
    for score, value in scores.items():
        assert parse_metric(f"NuggetRecall(score={score})@1").compute(table)[0] == pytest.approx(value)


def test_a_trace_without_claims_has_no_value_and_an_empty_retrieval_is_worth_nothing() -> None:
    """No claims: NaN in memory, never 1. Nothing retrieved: 0, never NaN and never 1."""
    none, empty = Case((("none",) * 0,), ()), Case((), (True, False))
    for name in VARIANTS:
        for k in (None, 3):
            metric = parse_metric(name)
            values = Metric(metric.name, k, metric.params).compute(table_of([none, empty]))
            assert math.isnan(values[0])
            assert values[1] == 0


def test_without_a_vital_claim_there_is_nothing_that_must_be_said() -> None:
    """Metrics of vital claims have no value there; those of all claims have theirs."""
    table = table_of([Case((("full", "none"),), (False, False))])
    for name in ("Sufficiency@1", "ClaimRecall(of=vital)@1", "NuggetRecall@1", "NuggetRecall(score=vital)@1"):
        assert math.isnan(parse_metric(name).compute(table)[0]), name
    assert parse_metric("ClaimRecall@1").compute(table)[0] == 0.5
    assert parse_metric("NuggetRecall(score=weighted)@1").compute(table)[0] == 0.5


def test_what_chunks_say_together_counts_of_the_whole_list_alone() -> None:
    """Above its length too; of fewer chunks nobody asked, so single chunks count."""
    rows = (("partial", "full"), ("partial", "none"), ("none", "none"))
    table = table_of([Case(rows, (True, True), (True, "unasked"))])
    values = [parse_metric(f"Sufficiency@{k}").compute(table)[0] for k in (1, 2, 3, 9)]
    assert values == [0, 0, 1, 1]
    assert parse_metric("Sufficiency").compute(table)[0] == 1
    assert parse_metric("ClaimRecall@3").compute(table)[0] == 0.5


def test_a_table_without_claims_is_refused() -> None:
    """By every metric over claims, with its name and what would help."""
    for spec in (spec for spec in SPECS.values() if spec.claims):
        with pytest.raises(MetricError, match=rf"{spec.name}@3: it is not known which claims"):
            Metric(spec.name, 3).compute(GradeTable.from_rows([[1, 0]]))


def test_failed_cells_are_counted_in_the_message() -> None:
    """Asked to raise, a metric says how many chunks failed and where."""
    table = table_of([Case((("full",), ("none",)), (True,)), Case((("none",), (None,)), (True,))])
    with pytest.raises(MissingVerdictError, match=r"ClaimRecall@2: 1 failed verdicts in 1 of 2 traces \(1\)"):
        parse_metric("ClaimRecall@2").compute(table, "error")
    assert math.isnan(parse_metric("ClaimRecall@2").compute(table)[1])
    assert parse_metric("ClaimRecall@1").compute(table, "error").tolist() == [1, 0]


@pytest.mark.parametrize(
    ("rows", "vital", "told"),
    [
        ([[["yes"]]], [[True]], "'yes' is not one of"),
        ([[["full", "none"]]], [[True]], "one cell for each of 1 claims"),
        ([[["full"]]], [], "1 traces with chunks, 0 with claims"),
    ],
)
def test_a_table_of_claims_that_does_not_fit_is_refused(rows: list, vital: list, told: str) -> None:  # type: ignore[type-arg]
    """Words that mean nothing, and lists of other lengths."""
    with pytest.raises(MetricError, match=told):
        ClaimTable.from_rows(rows, vital)


def test_claims_of_other_lists_are_refused() -> None:
    """A table of claims goes with the lists it was made for."""
    claims = ClaimTable.from_rows([[["full"]]], [[True]])
    with pytest.raises(MetricError, match="claims are of other lists"):
        GradeTable.from_rows([[1, 0]], claims=claims)


def test_a_far_cutoff_costs_nothing_and_changes_nothing() -> None:
    """A cutoff of a billion is that of a list with nothing below; ERR-IA is divided by the whole sum."""
    table = table_of([Case((("full",), ("full",)), (True,))])
    far = parse_metric("ERR-IA@1000000000").compute(table)[0]
    assert far == pytest.approx(1.25 / (2 * math.log(2)), abs=1e-9)
    harmonic = math.log(10**9) + 0.5772156649015329
    assert parse_metric("ERR-IA(alpha=0)@1000000000").compute(table)[0] == pytest.approx(1.5 / harmonic, abs=1e-9)
    assert parse_metric("alpha-NDCG@1000000000").compute(table)[0] == 1
