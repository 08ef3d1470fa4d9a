"""Labels that are planned: how many, drawn how, and when to stop."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.stats_planning import planned_width, sequential_coverage, simulated_run, stopped_coverage
from judge_eval.data.labels import Labels
from judge_eval.errors import ConfigError, DataError
from judge_eval.stats.sampling import stratified_sample
from judge_eval.stats.sequential import sequential_mean
from judge_eval.study.correct import correct
from judge_eval.study.label_plan import LEAST, LabelPlanner, PlannedSample, parse_target
from judge_eval.study.sample import choose_traces
from tests.support.verdicts import judged, traces_of


@pytest.mark.slow
def test_labels_drawn_as_planned_reach_the_half_width() -> None:
    """A plan for +-.05 gives a half width within 15% of it; more uncertain traces have greater chances."""
    run, truth = simulated_run(np.random.default_rng(4), 250, (0.5, 2.0), (0.9, 0.9), "P@5")
    planner = LabelPlanner(run, "P@5", truth, seed=1)
    plan = planner.plan(0.05)
    assert [o.chunks for o in plan.options] == sorted(o.chunks for o in plan.options)
    for by in ("none", "neyman", "uncertain"):
        planned = plan.best("traces", by)
        assert planned is not None
        assert planned.reached
        part = Labels(sources=("labels",))
        for pick in planner.choose("traces", by, planned.n, 7):
            part.chances[pick.result.trace_id] = pick.probability
            for chunk in pick.result.trace.chunks:
                key = pick.result.trace_id, chunk.id
                part.grades[key] = truth.grades[key]
        low, high = correct(run, part, ["P@5"]).means["P@5"].interval or (0.0, 0.0)
        assert (high - low) / 2 == pytest.approx(0.05, rel=0.15)
    spread = planner.spread
    chances = {c.result.trace_id: c.probability for c in planner.choose("traces", "uncertain", 60, 3)}
    near, far = min(chances, key=lambda t: spread[t]), max(chances, key=lambda t: spread[t])
    assert chances[near] < chances[far] or spread[near] == spread[far]


@pytest.mark.slow
def test_directed_samples_take_fewer_labels_on_skewed_data() -> None:
    """In 6 draws of rare relevance in few traces, strata and uncertain traces take at least 15% fewer labels."""
    lines = planned_width(6, ways=("none", "neyman", "uncertain"))
    saved = [line for line in lines if line.name.startswith("labels saved") and line.low is not None]
    assert len(saved) == 2
    assert all(line.rate > 0.15 for line in saved)


@pytest.mark.parametrize("luck", [0.94, 1.0, 1.06])
def test_all_widths_near_the_target_say_how_many_labels_it_takes(luck: float) -> None:
    """A simulated width that is narrow by luck, with few labels, does not decide the plan alone."""
    planner = object.__new__(LabelPlanner)
    planner.run = SimpleNamespace(results=[SimpleNamespace(outcomes="abcde")] * 900)  # type: ignore[assignment]
    widths = iter([1.0, luck, 1.0, 1.0, 1.0, 1.0])
    planner._half_width = lambda unit, by, n: n**-0.5 * next(widths)  # type: ignore[method-assign]
    planned = planner._planned("traces", "none", 0.05)
    assert planned is not None
    assert planned.reached
    assert planned.n == pytest.approx(400, rel=0.07)
    assert planned.half_width == pytest.approx(0.05, rel=0.01)


@pytest.mark.slow
def test_a_simulated_draw_that_misses_a_rank_ends_no_plan() -> None:
    """Two of 80 lists reach rank 5: a plan with whole traces is found, and the chunks that are drawn reach rank 5."""
    rng = np.random.default_rng(5)
    lists = {f"t{k:02d}": "abcde" if k < 2 else "abc" for k in range(80)}
    table = {(name, chunk): int(rng.random() < 0.4) for name, row in lists.items() for chunk in row}
    run = judged(traces_of(lists), table, metrics=["P@5"])
    planner = LabelPlanner(run, "P@5")
    plan = planner.plan(0.08)
    assert plan.best("traces") is not None
    assert all(np.isfinite(option.half_width) for option in plan.options)
    chunks = PlannedSample(unit="chunks", by="none", n=LEAST, chunks=LEAST, half_width=0.1, reached=True)
    for seed in range(5):
        chosen = planner.covering(chunks, seed)
        assert any(pick.reaches(5) for pick in chosen)
        chances = {(pick.result.trace_id, c): p for pick in chosen for c, p in (pick.chunks or {}).items()}
        labels = Labels({key: table[key] for key in chances}, chunk_chances=chances)
        assert correct(run, labels, ["P@5"]).means["P@5"].chunks == len(labels)


def test_a_way_without_any_interval_is_left_out_of_a_plan() -> None:
    """Where no simulated draw gives an interval there is no plan, and the number of labels stays finite."""
    planner = object.__new__(LabelPlanner)
    planner.run = SimpleNamespace(results=[SimpleNamespace(outcomes="abcde")] * 900)  # type: ignore[assignment]
    planner._half_width = lambda unit, by, n: float("inf")  # type: ignore[method-assign]
    assert planner._planned("traces", "none", 0.05) is None


def test_neyman_allocation_follows_sizes_times_deviations() -> None:
    """Two strata of 100 with deviations of 1 and 3 share 80 labels as 20 and 60."""
    sample = stratified_sample(["a"] * 100 + ["b"] * 100, 80, allocation=[1.0] * 100 + [3.0] * 100)
    assert sum(place < 100 for place in sample.chosen) == 20


@pytest.mark.slow
def test_all_looks_hold_together() -> None:
    """Intervals at every look from the 10th label to the 300th hold the mean in at least 90% of 20 draws."""
    (line,) = sequential_coverage(20, judges=(4,))
    assert line.rate >= 0.9


@pytest.mark.slow
def test_a_stop_by_the_width_alone_needs_no_sequence() -> None:
    """The ordinary interval holds in at least 22 of 24 draws where its width says stop, with fewer labels."""
    lines = stopped_coverage(12, judges=(3, 5), targets=(0.06,), hits=(False,))
    assert sum(line.rate * 12 for line in lines if line.low is not None) >= 22
    assert all(line.rate < 0.75 for line in lines if line.name.startswith("labels over"))


def test_all_labels_leave_no_doubt() -> None:
    """When every trace is labelled the interval is as narrow as one label; a wrong mean is ruled out."""
    y = np.tile([0.0, 1.0, 0.25, 0.75], 20)
    last = sequential_mean(y, y, y)[-1]
    assert last.low <= y.mean() <= last.high
    assert last.high - last.low <= 1 / 80 + 0.001
    with pytest.raises(ValueError, match="between 0 and 1"):
        sequential_mean([2.0], [0.5], [0.5, 0.5])


def test_sequential_labels_must_be_simple_random() -> None:
    """Traces of unequal chances have no interval that holds at every look."""
    run, truth = simulated_run(np.random.default_rng(5), 60, (1.0, 1.0), (0.9, 0.9), "P@5")
    picks = choose_traces(run, 20)
    part = Labels(sources=("labels",))
    for place, pick in enumerate(picks):
        part.chances[pick.result.trace_id] = 0.1 + 0.01 * place
        part.grades |= {
            (pick.result.trace_id, c.id): truth.grades[pick.result.trace_id, c.id] for c in pick.to_label(0)
        }
    with pytest.raises(DataError, match="same chance"):
        correct(run, part, ["P@5"], sequential=True)
    part.chances.clear()
    fixed, looks = (correct(run, part, ["P@5"], sequential=s).means["P@5"].interval for s in (False, True))
    assert fixed is not None
    assert looks is not None
    assert looks[1] - looks[0] > fixed[1] - fixed[0]


@pytest.mark.parametrize("text", ["AP@5", "AP@5=0", "AP@5=2", "=0.1", "AP@5=x"])
def test_a_target_is_a_metric_and_a_half_width(text: str) -> None:
    """Anything else is refused with an example."""
    with pytest.raises(ConfigError, match=r"AP@5=0\.03"):
        parse_target(text)
