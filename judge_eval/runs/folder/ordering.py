"""Which traces of a run to look at, and in which order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from judge_eval.errors import ConfigError, advise
from judge_eval.metrics import parse_metric
from judge_eval.runs.folder.records import TraceResult

TRACE = "trace"
"""What traces are sorted by where it is no metric: their ids."""


@dataclass(frozen=True, slots=True)
class Picked:
    """Traces of a run, by their places among its results."""

    places: list[int]
    left: int = 0
    """How many more fit, but were beyond the limit."""
    valueless: int = 0
    """How many of those that fit have no value of the metric they are sorted by; they come last."""


def sorting_key(given: str, metrics: Sequence[str]) -> tuple[str, bool]:
    """Read what traces are to be sorted by.

    Args:
        given: A metric of the run or `trace`; with `-` before it the highest, or last, comes first.
        metrics: The metrics of the run.

    Returns:
        The metric's name or `trace`, and whether the order is turned round.

    Raises:
        ConfigError: The run has no such metric.
    """
    down, name = given.startswith("-"), given.removeprefix("-")
    if name == TRACE:
        return name, down
    wanted = name if name in metrics else str(parse_metric(name))
    if wanted not in metrics:
        known = advise(name, [*metrics, TRACE])
        raise ConfigError(
            f"this run has no {wanted} to sort by; {known} (`judge-eval score` computes others)"
        )
    return wanted, down


def pick_traces(
    results: Sequence[TraceResult],
    by: tuple[str, bool] | None = None,
    most: int | None = None,
    *,
    failed: bool = False,
) -> Picked:
    """Choose and order traces; equal ones stay in the dataset's order.

    Args:
        results: Of the run; of each only what it is sorted by is kept in memory.
        by: What `sorting_key` returns; None leaves the dataset's order.
        most: How many at most; None takes all.
        failed: Whether only traces with failed verdicts are taken.
    """
    name, down = by or ("", False)
    keyed: list[tuple[str | float, int]] = []
    without: list[int] = []
    for place, result in enumerate(results):
        if failed and not result.failed:
            continue
        key = result.trace_id if name == TRACE else result.scores.get(name) if name else 0.0
        if key is None:
            without.append(place)
        else:
            keyed.append((key, place))
    if by is not None:
        keyed.sort(key=lambda pair: pair[0], reverse=down)
    places = [place for _, place in keyed] + without
    shown = places if most is None else places[:most]
    return Picked(shown, len(places) - len(shown), len(without))
