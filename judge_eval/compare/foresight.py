"""What a gate will see, before anything is judged."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from judge_eval.compare.gate import LEAST_SLICE, Limit, gate_limits, seen_before
from judge_eval.compare.options import Gates
from judge_eval.metrics import parse_metric
from judge_eval.runs.columns.verdict_table import VerdictTable, verdict_table
from judge_eval.runs.folder.run import Run
from judge_eval.runs.scoring.rescore import rescore
from judge_eval.runs.scoring.slices import slices_of
from judge_eval.settings import ends


class Foresight(NamedTuple):
    """What a limit on a change will see."""

    limit: Limit
    part: str
    """The slice: `tag ids`; empty for all traces."""
    traces: int
    """How many traces the limit will be on."""
    few: tuple[float | None, int | None]
    """The least drop that is seen and how many traces show that nothing changed, if few traces change."""
    many: tuple[float | None, int | None]
    """And if many do."""


def foresights(baseline: Run, gates: Gates, traces: int) -> Iterator[Foresight]:
    """Yield each limit on a change with `seen_before`, if few and if many of so many traces change.

    Few: differences are half as spread as the baseline's values; many: as spread, like runs whose values correlate .5.
    Of a limit on each slice of a kind, the largest slice and the smallest one that is tested.

    Raises:
        DataError: A metric needs what a trace of the baseline does not have.
        MetricError: A metric cannot be computed from the verdicts of the baseline.
    """
    limits = [limit for limit in gate_limits(gates) if not limit.of_mean]
    if not limits or not traces:
        return
    wanted = list(dict.fromkeys(limit.metric for limit in limits))
    table = verdict_table(rescore(baseline, wanted), wanted)
    parts = [_limited_parts(table, limit) for limit in limits]
    slices = sum(len(part) for limit, part in zip(limits, parts, strict=True) if limit.by is not None)
    for limit, part in zip(limits, parts, strict=True):
        low, high = ends(parse_metric(limit.metric).limits)
        among = 1 if limit.by is None else max(1, slices)
        for name, values in dict([part[0], part[-1]] if part else []).items():
            spread, n = float(values.std(ddof=1)), min(traces, len(values))
            few, many = (seen_before(limit.value, share * spread, n, high - low, among) for share in (0.5, 1.0))
            yield Foresight(limit, name, n, few, many)


def _limited_parts(table: VerdictTable, limit: Limit) -> list[tuple[str, NDArray[np.float64]]]:
    """Return the values of a metric in each part that a limit is on, by the part's name, the largest part first."""
    values = table.scores[:, table.metrics.index(limit.metric)]
    if limit.by is None:
        parts = [("", values)]
    else:
        made = slices_of(table, limit.by)
        names = [name for name in made.names if limit.name in (None, name)]
        parts = [(f"{limit.by} {name}", values[made.inside(name)]) for name in names]
    known = [(name, part[~np.isnan(part)]) for name, part in parts]
    least = 2 if limit.by is None or limit.name is not None else LEAST_SLICE
    return sorted([(name, part) for name, part in known if len(part) >= least], key=lambda part: -len(part[1]))
