"""Differences of metrics between two runs, over all traces and by slice."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from judge_eval.compare.changes import Moved, changes
from judge_eval.compare.comparison import MOST_MOVERS, Difference, SliceDifference, TraceChange
from judge_eval.compare.gate_limit import LEAST_SLICE, Limit
from judge_eval.errors import ConfigError, advise
from judge_eval.runs.columns.verdict_table import cluster_codes
from judge_eval.runs.folder.records import SliceBy
from judge_eval.runs.folder.run import Run
from judge_eval.runs.scoring.aggregate import less_is_better, limits_of, main_metric
from judge_eval.runs.scoring.slices import FEWEST, LEAST_DIFFERENCE, SliceFigure, SliceTest, corrected_slices, slices_of
from judge_eval.stats import PairedComparison, compare_paired
from judge_eval.stats.distributions import normal_cdf
from judge_eval.stats.figure import named_fields
from judge_eval.stats.sampling import minimal_detectable_difference

MOST_VALUES: Final = 20
"""Of a kind of slices with more values, such as addresses, only the `WORST` are shown if nobody asked for it."""
WORST: Final = 5


def paired_difference(
    moved: Moved, column: int, *, comparisons: int = 1, level: float = 0.95, planning: bool = True
) -> PairedComparison | None:
    """Compare two runs by a metric; None if no trace has a value in both. The options are those of `compare_paired`."""
    pairing, sides = moved.pairing, moved.columns(column)
    both = np.flatnonzero(~(np.isnan(sides[0].value) | np.isnan(sides[1].value)))
    if not both.size:
        return None
    before, after = (side.at(both) for side in sides)
    return compare_paired(
        before.value,
        after.value,
        ends=((before.low, before.high), (after.low, after.high)),
        clusters=cluster_codes(pairing.first.clusters[pairing.a[both]]),
        limits=limits_of(pairing.first.metrics[column], before.low, before.high, after.low, after.high),
        comparisons=comparisons,
        level=level,
        planning=planning,
    )


def difference_record(metric: str, place: int, test: PairedComparison, moved: Moved, adjusted: float) -> Difference:
    """Return the record of a candidate's difference, with its adjusted p."""
    values = named_fields(test)
    if fewer := less_is_better(metric):
        values |= {"wins": test.losses, "losses": test.wins}
    undefined = int(moved.undefined[moved.pairing.first.metrics.index(metric)].sum())
    return Difference(
        metric=metric,
        candidate=place,
        n_excluded=len(moved.pairing) - test.n - undefined,
        n_undefined=undefined,
        method=test.interval.method if test.interval else None,
        p_holm=adjusted,
        less_is_better=fewer,
        **values,
    )


@dataclass(frozen=True, slots=True, eq=False)
class Slice:
    """A slice of the traces that two runs have in common."""

    by: SliceBy
    name: str
    inside: NDArray[np.bool_]
    """Which of the pairs are in it."""
    same: list[str] = field(default_factory=list)
    """Slices of the same traces under other names: `language en`."""
    listed: bool = True
    """Whether it is tested; else its kind has many values, and it is shown if it is among the worst."""


def slices_of_pairs(moved: Moved, by: Sequence[SliceBy], *, every: bool = True) -> list[Slice]:
    """Return the slices of the baseline's traces, the same traces once; a slice of all traces is none.

    Args:
        moved: The two runs.
        by: The kinds.
        every: Whether kinds with more than `MOST_VALUES` slices are listed too.
    """
    paired = moved.pairing.first.at(moved.pairing.a)
    known: dict[bytes, Slice] = {}
    for kind in dict.fromkeys(by):
        made = slices_of(paired, kind)
        names = made.names
        for name in names:
            inside = made.inside(name)
            if (earlier := known.get(inside.tobytes())) is not None:
                earlier.same.append(f"{kind} {name}")
            elif not inside.all():
                listed = every or len(names) <= MOST_VALUES
                known[inside.tobytes()] = Slice(kind, name, inside, listed=listed)
    return list(known.values())


def slices_between(
    candidates: Sequence[Run], moves: Sequence[Moved], by: Sequence[SliceBy], *, every: bool = True
) -> list[SliceFigure]:
    """Test the change of every metric in each slice of the baseline's traces, as that of all traces is tested.

    The metric that is looked at first comes first; of each the slices with the greatest loss. See `slices_of_pairs`.
    """
    tests: list[SliceTest] = []
    names = list(dict.fromkeys(name for moved in moves for name in moved.compared))
    lead = main_metric(names)
    for name in sorted(names, key=lambda name: name != lead):
        for run, moved in zip(candidates, moves, strict=True):
            if name not in moved.compared:
                continue
            figure = f"{name}, {run.name}" if len(candidates) > 1 else name
            made = list(_tests(figure, name, moved, slices_of_pairs(moved, by, every=every)))
            sign = -1.0 if less_is_better(name) else 1.0
            tests += sorted(made, key=lambda test: sign * (test[0].difference or 0.0))
    return corrected_slices(tests)


def _tests(figure: str, metric: str, moved: Moved, slices: Sequence[Slice]) -> Iterator[SliceTest]:
    column, sign = moved.pairing.first.metrics.index(metric), 1.0 if less_is_better(metric) else -1.0
    old, new = moved.columns(column)
    change = new.value - old.value
    lost = [(sign * float(np.nansum(change[each.inside])), each) for each in slices if not each.listed]
    worst = sorted(lost, key=lambda pair: -pair[0])[:WORST]
    for each in (*(s for s in slices if s.listed), *(s for loss, s in worst if loss > 0)):
        part = moved.at(np.flatnonzero(each.inside))
        test = paired_difference(part, column, planning=False) if each.listed else None
        values = change[each.inside & ~np.isnan(change)]
        if not values.size:
            continue
        mean = float(values.mean())
        common: dict[str, Any] = {"by": each.by, "name": each.name, "same": tuple(each.same), "figure": figure}
        common |= {"n": values.size, "mean": mean, "difference": mean}
        if test is None:
            signs = sign * values
            wins, losses = int((signs < 0).sum()), int((signs > 0).sum())
            yield SliceFigure(**common, wins=wins, losses=losses, verdict="not tested"), None
            continue
        d = difference_record(metric, 1, test, part, test.p)
        interval = None if d.interval is None else (d.interval.low, d.interval.high)
        error = d.standard_error
        blind = error is None or minimal_detectable_difference(error, (d.clusters or d.n) - 1) > LEAST_DIFFERENCE
        verdict = "cannot say" if blind or d.n < FEWEST else "no difference seen"
        made = SliceFigure(**common, interval=interval, wins=d.wins, losses=d.losses, verdict=verdict)
        yield made, None if interval is None else d.p


def limited_slices(runs: Sequence[Run], moves: Sequence[Moved], limits: Sequence[Limit]) -> Iterator[SliceDifference]:
    """Yield the differences in the slices that limits are on, of each candidate.

    Args:
        runs: The baseline and the candidates, scored by the metrics.
        moves: The baseline and each candidate brought together.
        limits: The limits; those on all traces are left out.

    Raises:
        ConfigError: There is no such slice.
    """
    wanted = dict.fromkeys((limit.metric, limit.by, limit.name, limit.value) for limit in limits if limit.by)
    seen = set[tuple[object, ...]]()  # a slice may be limited alone and with each of its kind
    for place, moved in enumerate(moves, 1):
        for metric, by, name, limit in wanted:
            assert by is not None
            if metric not in moved.compared:
                continue
            column = moved.pairing.first.metrics.index(metric)
            made = slices_of(moved.pairing.first.at(moved.pairing.a), by)
            if name is not None and name not in made.names:
                advice = advise(name, made.names)
                raise ConfigError(f"{metric}[{by}={name}]: no trace of the comparison has it; {advice}")
            for each in made.names if name is None else [name]:
                if (key := (place, metric, by, each, limit)) in seen:
                    continue
                seen.add(key)
                part = moved.at(np.flatnonzero(made.inside(each)))
                test = paired_difference(part, column, planning=False)
                if test is None:
                    continue
                d = difference_record(metric, place, test, part, test.p)
                movers: list[TraceChange] = []
                if d.lost[0] > limit:
                    before, after, sign = runs[0], runs[place], 1.0 if d.less_is_better else -1.0
                    moving = changes(part.pairing, part.kinds, before, after, place, len(part.pairing))
                    lost = [m for m in moving if sign * m.differences.get(metric, 0.0) > 0]
                    movers = sorted(lost, key=lambda m: -sign * m.differences[metric])[:MOST_MOVERS]
                p_lost = None
                if (d.clusters or d.n) >= LEAST_SLICE and d.lost[1] is not None:
                    p_lost = _p_lost(part, column, limit)
                yield SliceDifference(
                    **named_fields(d), by=by, name=each, limit=limit, p_lost=p_lost, movers=tuple(movers)
                )


def _p_lost(moved: Moved, column: int, limit: float) -> float:
    """Return the one-sided p of no greater loss than the limit: 1 less the level whose bound is the limit."""
    metric = moved.pairing.first.metrics[column]

    def beyond(z: float) -> float:
        test = paired_difference(moved, column, level=normal_cdf(z), planning=False)
        assert test is not None
        least = test.lower if less_is_better(metric) else None if test.upper is None else -test.upper
        return -math.inf if least is None else least - limit

    low, high = 0.0, 6.0
    if beyond(low) <= 0:
        return 0.5
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (middle, high) if beyond(middle) > 0 else (low, middle)
    return 1 - normal_cdf(low)
