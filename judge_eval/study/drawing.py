"""Drawing a sample of a run for people to label: which way, and how many."""

from collections.abc import Sequence
from typing import NamedTuple

from judge_eval.data.labels import Labels
from judge_eval.data.spreadsheets import changed_by_spreadsheets
from judge_eval.errors import ConfigError
from judge_eval.runs.folder.run import Run
from judge_eval.runs.scoring.aggregate import main_metric
from judge_eval.spelling import option
from judge_eval.study.chunk_sample import choose_chunks
from judge_eval.study.label_plan import LabelPlan, LabelPlanner, PlannedSample, parse_target
from judge_eval.study.sample import Chosen, SampleBy, choose_traces

DEFAULT_SIZE = 50
"""How many traces, or chunks, are drawn if nobody says how many."""


class DrawnSample(NamedTuple):
    """What to label, and the plan that says so."""

    chosen: list[Chosen]
    plan: LabelPlan | None = None
    planned: PlannedSample | None = None
    """The way of the plan that was taken."""


def draw_sample(
    run: Run,
    n: int | None = None,
    *,
    target: str | None = None,
    by: SampleBy | None = None,
    chunks: bool = False,
    metric: str | None = None,
    pilot: Labels | None = None,
    seed: int = 0,
) -> DrawnSample:
    """Choose traces, or single chunks, for people to label.

    Args:
        run: The run.
        n: How many; None takes `DEFAULT_SIZE`.
        target: `METRIC=HALF-WIDTH`: as many as give the corrected mean this half width, drawn the cheapest way.
        by: How traces are drawn (see `choose_traces`); None gives all the same chance, or with a target takes the best.
        chunks: Whether to choose single chunks.
        metric: Of single chunks: prefer those whose label can move it.
        pilot: Labels so far: their traces are not chosen again, and a plan learns from them.
        seed: Of the draw.

    Raises:
        ConfigError: Options contradict each other, or the target cannot be reached.
    """
    done = sorted({trace for trace, _ in (*pilot.grades, *pilot.ties)} if pilot is not None else ())
    if chunks and (by not in (None, "none") or done):
        raise ConfigError(f"{option('chunks')} draws from all chunks; leave {option('by')} and {option('without')} out")
    if metric is not None and not chunks:
        raise ConfigError(f"{option('metric')} directs a choice of single chunks; add {option('chunks')}")
    if target is not None:
        if n is not None or metric is not None:
            raise ConfigError(
                f"{option('target')} says how many to label, and of which metric; leave {option('n')} and "
                f"{option('metric')} out"
            )
        return _planned_sample(run, target, by, chunks, pilot, seed, done)
    size = n or DEFAULT_SIZE
    if chunks:
        return DrawnSample(choose_chunks(run, size, metric=metric, seed=seed))
    if by in ("neyman", "uncertain"):
        name = main_metric(run.manifest.metrics) or run.manifest.metrics[0]
        return DrawnSample(LabelPlanner(run, name, pilot, seed=seed).choose("traces", by, size, seed, done))
    return DrawnSample(choose_traces(run, size, by=by or "none", seed=seed, without=done))


def _planned_sample(
    run: Run, target: str, by: SampleBy | None, chunks: bool, pilot: Labels | None, seed: int, done: Sequence[str]
) -> DrawnSample:
    name, half = parse_target(target)
    planner = LabelPlanner(run, name, pilot, seed=seed)
    plan = planner.plan(half)
    planned = plan.best("chunks" if chunks else "traces", by)
    if planned is None:
        if by:
            raise ConfigError(f"labels cannot be planned with {option('by', by)}")
        raise ConfigError(f"label {'whole traces' if chunks else 'all traces'} for {name}: no plan gives an interval")
    if not planned.reached:
        raise ConfigError(
            f"{name} +-{half:g} is not reached: labels of all {planned.n + 1:,} {planned.unit} would give "
            f"+-{planned.half_width:.3f}; judge more traces, or take a wider target"
        )
    return DrawnSample(planner.covering(planned, seed, done), plan, planned)


def ids_changed_by_spreadsheets(chosen: Sequence[Chosen]) -> list[str]:
    """Return the ids of traces and chunks that a spreadsheet would read as numbers or dates."""
    ids = {id_ for pick in chosen for id_ in (pick.result.trace_id, *(c.id for c in pick.result.trace.chunks))}
    return sorted(filter(changed_by_spreadsheets, ids))
