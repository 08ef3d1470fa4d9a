from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from judge_eval import Evaluator, FakeBackend, Trace
from judge_eval.eval_run import EvalRun
from judge_eval.runs.folder.records import Aggregate, Intervals
from judge_eval.runs.scoring.aggregate import FilledColumn, aggregate
from judge_eval.runs.scoring.rescore import rescore
from judge_eval.stats import mean_interval


def judge_of(grades: dict[str, list[int]]) -> FakeBackend:
    """Return a judge that gives these grades, rank by rank."""
    table = {(t, f"c{k}"): g for t, row in grades.items() for k, g in enumerate(row, 1)}
    return FakeBackend.table(table)


def run_of(grades: dict[str, list[int]], **more: dict[str, dict[str, object]]) -> EvalRun:
    """Judge traces t0, t1, ... with the grades given; `more` adds fields by trace."""
    traces = [
        Trace.parse(
            {
                "id": t,
                "query": f"question {t}",
                "reference": "r",
                "chunks": [{"text": f"text {t} {k}"} for k in range(len(row))],
                **more.get(t, {}),
            }
        )
        for t, row in grades.items()
    ]
    with Evaluator(judge_of(grades), metrics=["AP@3", "P@3"], cache=False) as evaluator:
        return evaluator.evaluate(traces)


GRADES = {f"t{k}": [int((k * 7 + j * 3) % 5 < 2) for j in range(3)] for k in range(12)}


def test_the_default_interval_suits_the_values_and_says_which_it_is() -> None:
    """Values between two limits get an interval made for these, with its name and percentiles beside it."""
    run = run_of(GRADES)
    values = [r.scores["P@3"] for r in run.results]
    expected = mean_interval([v for v in values if v is not None], limits=(0.0, 1.0))
    a = run.aggregate("P@3")
    assert expected.interval is not None
    assert a.interval == (expected.interval.low, expected.interval.high)
    assert (a.method, a.clusters) == ("gaffke", None)
    assert a.quantiles is not None
    p20, p50, p90 = np.quantile([v for v in values if v is not None], [0.2, 0.5, 0.9])
    assert (a.quantiles.p20, a.quantiles.p50, a.quantiles.p90) == (p20, p50, p90)


def test_clusters_in_the_metadata_make_the_interval_robust() -> None:
    """Traces that carry `metadata.cluster` are grouped; one without an id is a group of its own."""
    more = {f"t{k}": {"metadata": {"cluster": f"doc {k // 3}"}} for k in range(11)}
    run = run_of(GRADES, **more)
    values = [r.scores["P@3"] or 0.0 for r in run.results]
    clusters = [f"doc {k // 3}" if k < 11 else "alone" for k in range(12)]
    for method, name in (("auto", "clustered gaffke"), ("t", "CR1 t")):
        a = rescore(run, ["P@3"], intervals=Intervals(method=method)).aggregate("P@3")
        assert (a.method, a.clusters) == (name, 5)
        expected = mean_interval(values, clusters=clusters, limits=(0.0, 1.0), method=method)
        assert expected.interval is not None
        assert a.interval == pytest.approx((expected.interval.low, expected.interval.high))


def test_another_cluster_key_is_taken_when_named() -> None:
    """The key of the metadata can be chosen, when judging and when scoring anew; numbers are ids too."""
    more = {f"t{k}": {"metadata": {"document": k // 2}} for k in range(12)}
    run = run_of(GRADES, **more)
    assert run.aggregate("P@3").clusters is None
    again = rescore(run, ["P@3"], intervals=Intervals(cluster="document"))
    assert again.aggregate("P@3").clusters == 6


def test_bca_is_seeded_and_differs_from_t() -> None:
    """BCa on request: equal seeds give equal intervals, and the aggregate names the method."""
    run = run_of(GRADES)
    first, second = (
        rescore(run, ["AP@3"], intervals=Intervals(method="bca", seed=1)).aggregate("AP@3") for _ in range(2)
    )
    assert first.interval == second.interval
    assert first.method == "bca"
    assert first.interval != run.aggregate("AP@3").interval


def test_tags_break_a_metric_down_with_counts_of_failures() -> None:
    """Each tag has mean, n and failures; a tag whose traces all failed has no mean, and is not left out."""
    nan = math.nan
    tags = [("a",), ("a", "b"), ("b",), ("c",)]
    values = [1.0, 0.0, nan, nan]
    result = aggregate(values, FilledColumn.of(values, [1.0, 0.0, 0.0, 0.0], [1.0, 0.0, 1.0, 1.0]), tags=tags)
    assert list(result.tags) == ["a", "b", "c"]
    assert (result.tags["a"].mean, result.tags["a"].n, result.tags["a"].n_failed) == (0.5, 2, 0)
    assert (result.tags["b"].mean, result.tags["b"].n, result.tags["b"].n_failed) == (0.25, 1, 1)
    assert (result.tags["c"].mean, result.tags["c"].n, result.tags["c"].n_failed) == (None, 0, 1)


def test_an_empty_run_has_no_numbers_and_no_nan() -> None:
    """Over no trace there is no mean, no interval, no percentile; the record writes and reads back."""
    result = aggregate([], FilledColumn.of([], [], []))
    assert (result.mean, result.interval, result.quantiles, result.n) == (None, None, None, 0)
    assert Aggregate.model_validate_json(result.model_dump_json()) == result


def test_resume_keeps_clusters_and_tags(tmp_path: Path) -> None:
    """A run read back from its folder aggregates to what was written when it ended."""
    more = {f"t{k}": {"metadata": {"cluster": k // 4}, "tags": ["x"]} for k in range(12)}
    run = run_of(GRADES, **more)
    with Evaluator(judge_of(GRADES), metrics=["AP@3", "P@3"], cache=False) as evaluator:
        kept = evaluator.evaluate([r.trace for r in run.results], out=tmp_path)
    assert kept.folder is not None
    read = EvalRun.load(kept.folder)
    assert read.aggregates == run.aggregates == rescore(read, ["AP@3", "P@3"]).aggregates
    assert read.aggregate("AP@3").tags["x"].n == 12
