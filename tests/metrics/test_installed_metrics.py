"""Metrics of installed packages: their limits, their direction, and what they return."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from judge_eval import Evaluator, FakeBackend, parse_metric
from judge_eval.compare.gate import Limit, check_under
from judge_eval.errors import ConfigError, MetricError
from judge_eval.metrics import GradeTable, Spec
from judge_eval.runs.folder.run import Run
from judge_eval.runs.scoring.aggregate import main_metric
from judge_eval.runs.scoring.rescore import rescore
from judge_eval.runs.scoring.scorer import Scorer
from judge_eval.schema import BINARY, GRADED
from judge_eval.stats import compare_paired
from tests.support.installing import install_metrics

TRACES = [
    {"id": f"q{n}", "query": "When?", "reference": "at nine", "chunks": ["We open at nine.", f"Row {n} is free."]}
    for n in range(3)
]


def spec(name: str, compute: Callable[..., Any], **more: Any) -> Spec:
    """Make a metric as an installed package states it."""
    return Spec(name, "rag", "optional", (), compute, "a metric of a test", **more)


def each(value: Callable[[list[int]], float]) -> Callable[..., Any]:
    """Make a metric's function from one over the grades of a single list."""

    def compute(table: GradeTable, k: int | None = None) -> Any:
        rows = [table.row(row)[:k].tolist() for row in range(len(table))]
        return np.array([value([grade for grade in row if grade >= 0]) for row in rows], dtype=np.float64)

    return compute


COUNT = spec("Count", each(sum), limits=(0.0, None), reads="gains")
LOSS = spec("Loss", each(lambda row: -5.0 * sum(row)), limits=(None, 0.0))
BALANCE = spec("Balance", each(lambda row: 10.0 if sum(row) else -10.0), limits=(-10.0, 10.0))


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three metrics whose values do not lie between 0 and 1."""
    install_metrics(monkeypatch, COUNT, LOSS, BALANCE)


@pytest.mark.usefixtures("installed")
def test_values_within_the_stated_limits_are_scored(tmp_path: Path) -> None:
    """A metric of any limits is computed, averaged and kept, with an interval that stays within them."""
    metrics = ["Count@5", "Loss", "Balance@1"]
    with Evaluator("fake/always", metrics=metrics, cache=False) as evaluator:
        run = evaluator.evaluate(TRACES, out=tmp_path)
    assert [run[name] for name in metrics] == [2.0, -10.0, 10.0]
    balance = run.aggregates["Balance@1"]
    assert balance.method == "blaker"
    assert balance.interval is not None
    assert -10 < balance.interval[0] < 10 == balance.interval[1]
    # The share of hits of three is at least .3684 (.05^(1/3), Blaker's), put on a range from -10 to 10.
    assert balance.interval[0] == pytest.approx(-10 + 20 * 0.36840, abs=1e-3)
    with Evaluator("fake/overlap", metrics=metrics, cache=False) as evaluator:
        mixed = evaluator.evaluate([*TRACES, {**TRACES[0], "id": "q9", "chunks": ["Nothing."]}])
    assert mixed.aggregates["Count@5"].method == mixed.aggregates["Loss"].method == "t"
    low, high = mixed.aggregates["Loss"].interval or (math.nan, math.nan)
    assert low < (mixed["Loss"] or 0) < high <= 0


@pytest.mark.parametrize(
    ("value", "limits", "found"),
    [
        (sum, (0.0, 1.0), "returns 2"),
        (lambda row: -1.0 * len(row), (0.0, None), "returns -1"),
        (lambda row: math.inf if row else 0.0, (0.0, None), "returns inf"),
    ],
)
def test_a_value_beyond_the_limits_ends_nothing_that_was_paid(
    monkeypatch: pytest.MonkeyPatch, value: Callable[[list[int]], float], limits: Any, found: str
) -> None:
    """A metric that breaks its stated limits is refused before the judge is asked anything."""
    install_metrics(monkeypatch, spec("Wrong", each(value), limits=limits))
    asked: list[object] = []
    backend = FakeBackend(lambda request: asked.append(request) or "{}")  # type: ignore[func-returns-value]
    with pytest.raises(MetricError, match=rf"Wrong@5: {found}, outside of its limits"):
        Evaluator(backend, metrics=["Wrong@5"], cache=False).evaluate(TRACES)
    assert not asked


@pytest.mark.parametrize(
    ("compute", "found"),
    [
        (lambda table, k: np.zeros(len(table) + 1), "one number for each row"),
        (lambda table, k: ["a"] * len(table), "one number for each row"),
        (lambda table, k: 1 // 0, "ZeroDivisionError"),
    ],
)
def test_a_metric_that_does_not_compute_is_refused_first(
    monkeypatch: pytest.MonkeyPatch, compute: Callable[..., Any], found: str
) -> None:
    """What is no column of numbers, and what raises, is named with the metric before the first call."""
    install_metrics(monkeypatch, spec("Broken", compute))
    with pytest.raises(MetricError, match=f"Broken@5: .*{found}"):
        Scorer(["Broken@5"], BINARY)


def test_what_only_real_traces_show_keeps_every_verdict(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A limit that only a real list breaks ends the run with an error; its verdicts stay, to be scored."""
    late = spec("Late", each(lambda row: 7.0 if len(row) == 13 and sum(row) else 0.5))
    install_metrics(monkeypatch, late)
    long = {**TRACES[0], "chunks": [f"We open at nine, says page {n}." for n in range(13)]}
    with (
        Evaluator("fake/overlap", metrics=["Late", "P@5"], cache=False) as evaluator,
        pytest.raises(MetricError, match=r"returns 7, outside .* every verdict is kept"),
    ):
        evaluator.evaluate([long], out=tmp_path)
    (folder,) = (path for path in tmp_path.iterdir() if path.is_dir())
    kept = Run.at(folder)
    assert [outcome.kind for outcome in kept.results[0].outcomes] == ["verdict"] * 13
    assert rescore(kept, ["P@5"]).manifest.aggregates["P@5"].mean == 1.0


def test_scores_that_another_version_wrote_are_still_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A run whose stored values lie beyond the limits of today is compared and shown; no bound is assumed."""
    from judge_eval.compare.compare import compare

    install_metrics(monkeypatch, COUNT)
    for label in ("a", "b"):
        with Evaluator("fake/always", metrics=["Count"], cache=False) as evaluator:
            evaluator.evaluate(TRACES, out=tmp_path, label=label)
    install_metrics(monkeypatch, spec("Count", each(lambda row: 0.5)))
    runs = [Run.at(path) for path in sorted(tmp_path.iterdir()) if path.is_dir()]
    (difference,) = compare(runs[0], runs[1]).differences
    assert difference.baseline_mean == 2.0


@pytest.mark.usefixtures("installed")
def test_a_limit_takes_what_the_metric_can_be() -> None:
    """Limits accept each value within a metric's limits, and none beyond them."""
    assert Limit.parse("fail-under", "Count@5=3").value == 3.0
    assert Limit.parse("fail-under", "Loss=-2.5").value == -2.5
    assert Limit.parse("max-drop", "Balance=15").value == 15.0
    for kind, text in (
        ("fail-under", "Loss=1"),
        ("fail-under", "Balance=-11"),
        ("fail-under", "AP@5=-0.1"),
        ("max-drop", "Balance=21"),
        ("max-drop", "Loss=-1"),
    ):
        with pytest.raises(ConfigError, match="the value must be at"):
            Limit.parse(kind, text)  # type: ignore[arg-type]


def test_a_direction_is_stated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A metric of which less is better is gated from above, as its `Spec` says."""
    install_metrics(monkeypatch, spec("Waste", each(len), limits=(0.0, None), less_is_better=True))
    assert Limit.parse("fail-over", "Waste=3").value == 3.0
    assert Limit.parse("fail-under", "Waste=3").kind == "fail-over"


@pytest.mark.parametrize("limits", [(1.0, 1.0), (2.0, 1.0), (math.nan, 1.0), (0.0, math.inf)])
def test_limits_that_are_none_are_refused(limits: Any) -> None:
    """Limits are a least and a greatest finite number, or None; the least is the lower one."""
    with pytest.raises(ValueError, match="limits"):
        spec("Odd", each(sum), limits=limits)


def test_failed_verdicts_leave_an_endless_metric_open(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where nothing bounds what a failed verdict could do, no bound is written, and no limit is kept."""
    endless = spec("Endless", each(lambda row: 3.0 * sum(row)), limits=(None, None), probabilities=True)
    install_metrics(monkeypatch, endless)
    backend = _failing_once()
    with Evaluator(backend, metrics=["Endless", "AP@5"], cache=False) as evaluator:
        run = evaluator.evaluate(TRACES, out=tmp_path)
    aggregate = run.aggregates["Endless"]
    assert (aggregate.n, aggregate.n_failed, aggregate.bounds) == (2, 1, None)
    (folder,) = (path for path in tmp_path.iterdir() if path.is_dir())
    text = (folder / "results.jsonl").read_text(encoding="utf-8")
    assert "Infinity" not in text
    assert all(json.loads(line) for line in text.splitlines())
    (check,) = check_under(Run.at(folder), [Limit.parse("fail-under", "Endless=-100")])
    assert check.outcome == "undecided"


def _failing_once() -> FakeBackend:
    from judge_eval.errors import RefusedError

    def answer(request: Any) -> Any:
        if "Row 0" in request.passages[0].text:
            return RefusedError("no")
        return json.dumps({"evidence": "", "reason": "-", "instruction_in_chunk": False, "verdict": True})

    return FakeBackend(answer)


@pytest.mark.parametrize("reads", ["relevance", "grades", "gains", "anything"])
def test_bounds_over_probabilities_are_never_called_exact(monkeypatch: pytest.MonkeyPatch, reads: Any) -> None:
    """A failed verdict could have any probability: sure grades show nothing of another package's metric.

    The metric is 0 for every sure grade and 1 for a probability of a half, so sure grades alone would say 0.
    """

    def unsure(table: GradeTable, k: int | None = None) -> Any:
        assert table.probable is not None
        return np.array([float(np.nansum(row * (1 - row))) for row in np.split(table.probable, len(table))])

    install_metrics(monkeypatch, spec("Unsure", unsure, probabilities=True, reads=reads))
    metric = parse_metric("Unsure")
    table = GradeTable.from_rows([[1, None]], maximum=1, probable=[[1.0, None]])
    result = metric.bounds(table)
    assert (result.low[0], result.high[0], result.exact.tolist()) == (0.0, 1.0, [False])
    assert np.isnan(metric.compute(table)[0])


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("scale", [BINARY, GRADED])
def test_trying_a_sound_metric_refuses_nothing(scale: Any) -> None:
    """All metrics of the package and sound ones of others pass the trial on every scale."""
    Scorer(["Count", "Count@1", "Loss@3", "Balance"], scale)


def test_differences_of_two_outcomes_are_put_on_their_range() -> None:
    """The score interval of values that are always one of two limits is that of hits, in other units."""
    before, after = [0.0] * 24 + [1.0] * 16, [0.0] * 12 + [1.0] * 28
    hits = compare_paired(before, after, limits=(0.0, 1.0))
    wide = compare_paired([20 * x - 10 for x in before], [20 * x - 10 for x in after], limits=(-10.0, 10.0))
    assert hits.interval is not None
    assert wide.interval is not None
    assert wide.interval.method == hits.interval.method == "score"
    assert (wide.interval.low, wide.interval.high) == pytest.approx((20 * hits.interval.low, 20 * hits.interval.high))
    assert (wide.lower, wide.upper) == pytest.approx((20 * hits.lower, 20 * hits.upper))  # type: ignore[operator]


def test_only_limits_on_both_sides_bound_differences() -> None:
    """Without a least or a greatest value the interval of a difference is Student's."""
    for limits in ((None, 1.0), (0.0, None), (None, None)):
        result = compare_paired([0.0, 1.0, 0.0], [1.0, 1.0, 0.0], limits=limits)
        assert result.interval is not None
        assert result.interval.method == "t"


def test_a_spec_says_that_its_metric_is_the_main_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed metric that states `main` is shown first; without one it is the first, known or not."""
    install_metrics(monkeypatch, spec("Count", each(sum), limits=(0.0, None), reads="gains", main=True), LOSS)
    assert main_metric(["Loss@5", "RR", "Count@5", "AP@5"]) == "Count@5"
    assert main_metric(["Loss@5", "RR"]) == "Loss@5"
    assert main_metric(["APgone@5", "RR"]) == "APgone@5"
    assert main_metric([]) is None
