from __future__ import annotations

import pytest

from judge_eval.errors import MetricError, MissingVerdictError
from judge_eval.metrics import GradeTable, metric_names, parse_metric


def value(name: str, row: list[int | None], total: int | None = None, relevant: int = 1) -> float:
    """One metric of one list."""
    table = GradeTable.from_rows([row], [total], relevant=relevant, maximum=1 if "judged" in name else None)
    return float(parse_metric(name).compute(table)[0])


@pytest.mark.parametrize(
    ("name", "row", "total", "expected"),
    [
        ("AP", [1, 0, 0, 1], None, 0.75),
        ("AP@4", [0, 1, 0, 0], None, 0.5),
        ("AP@5", [1, 0, 1, 1, 0], None, 0.8055555555555556),
        ("ContextPrecision@5", [1, 0, 1, 1, 0], None, 0.8055555555555556),
        ("map_cut_5", [1, 0, 1, 1, 0], 5, 0.48333333333333334),
        ("AP(norm=total)@5", [1, 0, 1, 1, 0], 5, 0.48333333333333334),
        ("AP(norm=min)@2", [1, 0, 1, 1, 0], 5, 0.5),
        ("AP(norm=min)@4", [1, 0, 1, 1, 0], 3, 0.8055555555555556),
        ("DCG@5", [3, 2, 3, 0, 1], None, 6.148712314377457),
        ("DCG@5", [3, 3, 2, 1, 0], None, 6.323465818787765),
        ("NDCG@5", [3, 2, 3, 0, 1], None, 0.9723642841729143),
        ("DCG(gain=exp)@2", [1, 3], None, 1 + 7 / 1.584962500721156),
        ("P@2", [1, 0, 1], None, 0.5),
        ("P@5", [1], None, 1.0),
        ("P(norm=k)@5", [1], None, 0.2),
        ("P_5", [1], 1, 0.2),
        ("P(rel=3)@4", [3, 2, 3, 1], None, 0.5),
        ("Recall@2", [1, 0, 1, 1], 4, 0.25),
        ("F1@2", [1, 0, 1, 1], 4, 1 / 3),
        ("HitRate@2", [0, 0, 1], None, 0.0),
        ("HitRate@3", [0, 0, 1], None, 1.0),
        ("RR@2", [0, 0, 1], None, 0.0),
        ("Rprec", [1, 0, 1, 0], 2, 0.5),
    ],
)
def test_worked_example(name: str, row: list[int | None], total: int | None, expected: float) -> None:
    """The textbook value comes out to the last bit."""
    assert value(name, row, total) == expected


def test_means_over_queries() -> None:
    """Reciprocal ranks 1, 1/3, 0 have the mean 4/9; two hits of three queries are 2/3."""
    table = GradeTable.from_rows([[1, 0], [0, 0, 1], [0, 0]])
    assert parse_metric("MRR").compute(table).mean() == 0.4444444444444444
    assert parse_metric("HitRate@3").compute(table).mean() == 0.6666666666666666


@pytest.mark.parametrize("name", ["AP", "RR", "P", "HitRate", "NDCG", "NDCG(gain=exp)", "AP@7", "NDCG@7"])
@pytest.mark.parametrize("length", [1, 2, 3, 7, 10, 36, 37, 50, 100])
def test_perfect_list_is_exactly_one(name: str, length: int) -> None:
    """A list of nothing but the highest grade scores 1.0, not 0.9999999999."""
    assert value(name, [3] * length) == 1.0


@pytest.mark.parametrize("name", ["NDCG", "NDCG@5", "NDCG(gain=exp)@5", "NDCG(gain=exp)"])
def test_sorted_grades_are_exactly_one(name: str) -> None:
    """Grades in the best order score NDCG 1.0 exactly, at any length."""
    for row in ([3, 2, 1, 0], [3, 3, 2, 1, 1, 0, 0], [2, 1] + [1] * 40, [0] * 3 + [0]):
        assert value(name, list(row)) == (1.0 if any(row) else 0.0)


@pytest.mark.parametrize(
    "name", ["AP@5", "P@5", "RR@5", "HitRate@5", "NDCG@5", "DCG@5", "Recall@5", "F1@5", "map", "bpref"]
)
def test_no_relevant_chunk_is_exactly_zero(name: str) -> None:
    """A list without a relevant chunk, and an empty one, score 0.0 and never NaN."""
    table = GradeTable.from_rows([[0, 0, 0], []], rest=[[], []])
    assert parse_metric(name).compute(table).tolist() == [0.0, 0.0]


def test_grades_above_the_threshold_never_lift_a_binary_metric_above_one() -> None:
    """A grade of 2 or 3 counts as one relevant chunk, not as two or three."""
    assert value("AP@3", [3, 2, 2]) == 1.0
    assert value("P@3", [3, 2, 0], relevant=2) == 2 / 3


@pytest.mark.parametrize("grade", [-1, 0.5, "1", 128, float("nan"), [1]])
def test_what_is_no_grade_is_refused_with_its_place(grade: object) -> None:
    """An off-scale verdict never becomes a number; the message names trace and rank."""
    with pytest.raises(MetricError, match="trace q2, rank 2"):
        GradeTable.from_rows([[1], [0, grade]], ids=["q1", "q2"])  # type: ignore[list-item]


def test_grade_above_the_scale_is_refused() -> None:
    """With the scale's maximum known, a 2 on a binary scale is an error."""
    with pytest.raises(MetricError, match=r"trace q1, rank 3: the grade 2 is off the scale 0\.\.1"):
        GradeTable.from_rows([[1, 0, 2]], ids=["q1"], maximum=1)


@pytest.mark.parametrize(
    "name", ["Recall@5", "F1@5", "AP(norm=min)@5", "AP(norm=total)", "map", "P_5", "recip_rank", "success_5", "set_F"]
)
def test_unknown_total_is_an_error_that_says_so(name: str) -> None:
    """The retrieved chunks are never taken for the pool; the message names metric and trace."""
    table = GradeTable.from_rows([[1, 0], [1]], totals=[1, None], ids=["q1", "q2"])
    assert parse_metric(name).needs_total
    with pytest.raises(MetricError, match=r"unknown for 1 of 2 traces \(q2\); give relevant_total") as caught:
        parse_metric(name).compute(table)
    assert str(caught.value).startswith(f"{name}: ")


def test_one_of_five_relevant_retrieved_is_not_a_perfect_judged_ndcg() -> None:
    """The ideal of `ideal=judged` comes from the pool, so four missed chunks cost."""
    table = GradeTable.from_rows([[1, 0, 0]], rest=[[1, 1, 1, 1]])
    ideal = sum(1 / d for d in (1, 1.584962500721156, 2, 2.321928094887362, 2.584962500721156))
    assert parse_metric("NDCG(ideal=judged)@5").compute(table)[0] == pytest.approx(1 / ideal, abs=1e-12)
    assert parse_metric("NDCG@5").compute(table)[0] == 1.0


def test_total_tells_a_binary_pool_but_not_a_graded_one() -> None:
    """With grades 0 and 1 a total is all that an ideal list needs; on a graded scale it is an error."""
    binary = GradeTable.from_rows([[1, 0, 0]], totals=[5], maximum=1)
    pooled = GradeTable.from_rows([[1, 0, 0]], rest=[[1] * 4])
    for name in ("NDCG(ideal=judged)@5", "ndcg_cut_5", "ndcg"):
        assert parse_metric(name).compute(binary) == parse_metric(name).compute(pooled)
    with pytest.raises(MetricError, match="a total is enough on a binary scale only"):
        parse_metric("ndcg_cut_5").compute(GradeTable.from_rows([[1, 0, 0]], totals=[5]))


def test_total_of_another_threshold_is_not_used() -> None:
    """A total counts chunks at the table's threshold, so `rel=` with another needs the pool's grades."""
    with pytest.raises(MetricError, match="the totals count grades >= 2, not >= 3"):
        parse_metric("Recall(rel=3)@5").compute(GradeTable.from_rows([[3, 2]], totals=[4], relevant=2))
    pooled = GradeTable.from_rows([[3, 2]], rest=[[3, 2]], relevant=2)
    assert parse_metric("Recall(rel=3)@5").compute(pooled)[0] == 0.5
    assert parse_metric("Recall@1").compute(pooled)[0] == 0.25


def test_more_relevant_seen_than_known_never_exceeds_one() -> None:
    """A judge that finds more than the labels say gives Recall 1.0, not 3.0."""
    for name in ("Recall@3", "F1@3", "AP(norm=total)@3", "NDCG(ideal=judged)@3"):
        assert value(name, [1, 1, 1], total=1) == 1.0


def test_failed_verdict_excludes_the_row_and_only_where_it_counts() -> None:
    """A row whose value a failed verdict would change is NaN; the others keep their number."""
    table = GradeTable.from_rows([[0, None, 0], [1, 0, None], [0, 1, 0]])
    assert parse_metric("AP@2").compute(table).tolist()[1:] == [1.0, 0.5]
    assert str(parse_metric("AP@2").compute(table).tolist()[0]) == "nan"
    assert [str(x) for x in parse_metric("NDCG@2").compute(table).tolist()][:2] == ["nan", "nan"]
    assert table.missing.tolist() == [1, 1, 0]


def test_failed_verdict_is_an_error_where_it_is_asked_to_be() -> None:
    """Under `missing="error"` the failed traces are named and counted."""
    table = GradeTable.from_rows([[1], [None, None]], ids=["good", "bad"])
    with pytest.raises(MissingVerdictError, match=r"AP@5: 2 failed verdicts in 1 of 2 traces \(bad\)"):
        parse_metric("AP@5").compute(table, missing="error")
    assert parse_metric("AP@5").compute(GradeTable.from_rows([[1]]), missing="error").tolist() == [1.0]


def test_bounds_of_worked_examples() -> None:
    """The least and the greatest value over all grades of the failed verdicts; equal where none failed."""
    table = GradeTable.from_rows([[0, None, 1], [1, 0]], maximum=3)
    low, high = parse_metric("AP@3").compute(table, missing="bounds")
    assert low.tolist() == [1 / 3, 1.0]
    assert high.tolist() == [7 / 12, 1.0]
    table = GradeTable.from_rows([[3, None, None, None, None]], maximum=3)
    low, high = parse_metric("NDCG@3").compute(table, missing="bounds")
    # [3, 0, 0, 3, 3]: 3 / (3 + 3 / log2(3) + 3 / 2), and not 1, which both [3, 0, ...] and [3, 3, ...] give.
    assert (low.tolist(), high.tolist()) == ([pytest.approx(0.46927872602275644)], [1.0])
    with pytest.raises(ValueError, match="'error', 'exclude' or 'bounds'"):
        parse_metric("AP@3").compute(table, missing="zero")  # type: ignore[call-overload]


def test_definitions_name_formula_and_parameters() -> None:
    """Each metric's definition holds its own name, its formula and the value of each parameter."""
    definition = parse_metric("AP(rel=2,norm=min)@5").definition
    for part in ("AP(rel=2,norm=min)@5", "(1/N) * sum", "N = min(K, R)", "grade >= 2", "K = 5"):
        assert part in definition
    for name, formula in metric_names().items():
        name = name.removesuffix("@Bw") + "@500w" if name.endswith("@Bw") else name
        metric = parse_metric(name.replace("K", "5") if name[-2:] in ("@K", "_K") else name)
        assert formula in metric.definition
        assert str(metric) in metric.definition


def test_table_is_immutable_and_checks_its_arrays() -> None:
    """The arrays cannot be written to, and ones that do not fit are refused."""
    import numpy as np

    table = GradeTable(np.array([1, 0, 1], np.int8), np.array([0, 2, 3]))
    with pytest.raises(ValueError, match="read-only"):
        table.grades[0] = 0
    with pytest.raises(AttributeError):
        table.relevant = 2  # type: ignore[misc]
    for grades, offsets in [
        (np.array([1, 0, 1]), np.array([0, 3])),
        (np.array([1, 0, 1], np.int8), np.array([0, 2])),
        (np.array([1, 0, 1], np.int8), np.array([0, 3, 2, 3])),
        (np.array([1, -9, 1], np.int8), np.array([0, 3])),
    ]:
        with pytest.raises(MetricError):
            GradeTable(grades, offsets)
    with pytest.raises(MetricError, match="totals has 1 entries, the table 2 rows"):
        GradeTable.from_rows([[1], [0]], totals=[1])


def test_ap_of_the_whole_list_by_its_smaller_norm() -> None:
    """Without a cutoff K is the length of the list: three relevant chunks of six are all that it can hold."""
    metric = parse_metric("AP(norm=min)")
    table = GradeTable.from_rows([[1, 1, 1], [0, 1, 1], [1, 0, 0]], totals=[6, 2, 1])
    assert metric.compute(table).tolist() == pytest.approx([1.0, (1 / 2 + 2 / 3) / 2, 1.0])
    assert "K = the length of the list" in metric.definition
