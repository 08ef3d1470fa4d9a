"""Which traces of a run to look at, and in which order."""

from collections.abc import Sequence
from dataclasses import dataclass

from judge_eval.errors import ConfigError, advise
from judge_eval.metrics import parse_metric
from judge_eval.runs.folder.records import TraceResult

TRACE = "trace"
"""What traces are sorted by if it is not a metric: their ids."""


@dataclass(frozen=True, slots=True)
class Picked:
    """Traces of a run, by their places among its results."""

    places: list[int]
    left: int = 0
    """How many more fit, but were beyond the limit."""
    valueless: int = 0
    """How many of those that fit have no value of the metric they are sorted by; they come last."""


def sorting_key(order: str, metrics: Sequence[str]) -> tuple[str, bool]:
    """Read what traces are sorted by, a metric or `trace`, and whether a `-` turns the order round."""
    down, name = order.startswith("-"), order.removeprefix("-")
    if name == TRACE:
        return name, down
    wanted = name if name in metrics else str(parse_metric(name))
    if wanted not in metrics:
        known = advise(name, [*metrics, TRACE])
        raise ConfigError(f"this run has no {wanted} to sort by; {known} (`judge-eval score` computes others)")
    return wanted, down


def pick_traces(
    results: Sequence[TraceResult], by: tuple[str, bool] | None = None, most: int | None = None, *, failed: bool = False
) -> Picked:
    """Choose and order traces; equal ones stay in the dataset's order, which `by` None keeps."""
    # Of each trace only what it is sorted by is kept in memory.
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
