"""Figures by slice: by tag, language, length or source of traces, each tested and corrected for their number."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from judge_eval.record import Record
from judge_eval.runs.folder.records import TraceResult
from judge_eval.stats import holm
from judge_eval.stats._arrays import group_codes
from judge_eval.stats.distributions import t_ppf, t_sf
from judge_eval.stats.sampling import minimal_detectable_difference

SliceBy: TypeAlias = Literal["tag", "language", "length", "source"]
FEWEST = 20
"""A slice of fewer traces, or that leaves fewer, says nothing."""
LEAST_DIFFERENCE = 0.05
"""Where a difference of this size could hide, a slice cannot be said to be like the others."""
SliceVerdict: TypeAlias = Literal["differs", "no difference seen", "cannot say"]


class SliceFigure(Record):
    """A figure of the traces of one slice."""

    by: str
    name: str
    figure: str
    """What is measured: a metric, or a share of agreement."""
    n: int
    mean: float
    difference: float
    """From the mean of the other traces; of a comparison the mean change itself."""
    interval: tuple[float, float] | None = None
    """Of the difference, 95%."""
    p: float | None = None
    """Of no difference, corrected by Holm over all slices of the figure."""
    verdict: SliceVerdict


def slices_of(results: Iterable[TraceResult], by: SliceBy) -> list[frozenset[str]]:
    """Return the slices of each trace.

    `language` and `source` are those of the trace's metadata, else of its chunks'; `length` is the quarter of the
    traces by the characters of their chunks.
    """
    if by == "tag":
        return [frozenset(result.trace.tags) for result in results]
    if by == "length":
        sizes = np.array([sum(len(c.text) for c in result.trace.chunks) for result in results])
        cuts = np.unique(np.quantile(sizes, [0.25, 0.5, 0.75], method="lower")) if sizes.size else sizes
        quarters = np.searchsorted(cuts, sizes, side="left")
        ends = {int(q): sizes[quarters == q] for q in np.unique(quarters)}
        names = {q: f"{part.min():,} to {part.max():,} characters" for q, part in ends.items()}
        return [frozenset([names[int(q)]]) for q in quarters]
    out = []
    for result in results:
        own = result.trace.metadata.get(by)
        every = [own] if own else [chunk.metadata.get(by) for chunk in result.trace.chunks]
        out.append(frozenset(str(value) for value in every if value))
    return out


def slice_figures(
    figure: str,
    values: ArrayLike,
    kinds: Sequence[tuple[SliceBy, Sequence[frozenset[str]]]],
    clusters: Sequence[Hashable] | None = None,
    *,
    change: bool = False,
) -> list[SliceFigure]:
    """Test each slice against the other traces, or a change of each against 0.

    Args:
        figure: What the values are.
        values: One a trace, NaN for none, shape (n,).
        kinds: By what, and the slices of each trace.
        clusters: The cluster of each trace; intervals are robust to them (CR1, Student's t).
        change: Whether the values are differences between two runs, to be tested against 0.
    """
    x = np.asarray(values, dtype=np.float64)
    there = ~np.isnan(x)
    codes, _ = group_codes(clusters, len(x))
    made: list[tuple[SliceFigure, float | None]] = []
    for by, sets in kinds:
        for name in sorted(frozenset[str]().union(*sets)):
            inside = np.array([name in each for each in sets], dtype=np.bool_) & there
            rest = there & ~inside
            n, others = int(inside.sum()), int(rest.sum())
            if not n or (not others and not change):
                continue
            mean = float(x[inside].mean())
            base = 0.0 if change else float(x[rest].mean())
            common = {"by": by, "name": name, "figure": figure, "n": n, "mean": mean, "difference": mean - base}
            if min(n, n if change else others) < FEWEST:
                made.append((SliceFigure(**common, verdict="cannot say"), None))
                continue
            influence = np.where(inside, (x - mean) / n, 0.0)
            influence -= 0.0 if change else np.where(rest, (x - base) / others, 0.0)
            sums = np.bincount(codes[there], weights=influence[there])
            groups = min(len(np.unique(codes[part])) for part in ((inside,) if change else (inside, rest)))
            error = math.sqrt(float(sums @ sums) * groups / max(groups - 1, 1)) or 1e-12
            half, t = t_ppf(0.975, groups - 1) * error, abs(mean - base) / error
            blind = minimal_detectable_difference(error, groups - 1) > LEAST_DIFFERENCE
            verdict: SliceVerdict = "cannot say" if blind else "no difference seen"
            ends = mean - base - half, mean - base + half
            made.append((SliceFigure(**common, interval=ends, verdict=verdict), min(1.0, 2 * t_sf(t, groups - 1))))
    corrected = iter(holm([p for _, p in made if p is not None]))
    out = []
    for each, p in made:
        adjusted = None if p is None else next(corrected)
        out.append(
            each.but(p=adjusted, **({"verdict": "differs"} if adjusted is not None and adjusted <= 0.05 else {}))
        )
    return out
