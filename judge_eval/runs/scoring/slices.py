"""Figures by slice: by tag, language, length or source of traces, each tested and corrected for their number."""

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from judge_eval.record import Record
from judge_eval.runs.columns.verdict_table import VerdictTable, cluster_codes, verdict_table
from judge_eval.runs.folder.records import SliceBy
from judge_eval.runs.folder.run import Run
from judge_eval.runs.scoring.aggregate import opened
from judge_eval.stats import holm
from judge_eval.stats._arrays import Floats, Ints, defined, group_codes
from judge_eval.stats.agreement import ratio
from judge_eval.stats.distributions import t_ppf, t_sf
from judge_eval.stats.sampling import minimal_detectable_difference

FEWEST = 20
"""A slice of fewer traces, or that leaves fewer, says nothing."""
LEAST_DIFFERENCE = 0.05
"""Where a difference of this size could hide, a slice cannot be said to be like the others."""
DRAWS = 4999
LARGE = 200
"""Where the slice and the others have this many traces each, Student's test needs no permutations beside it."""
OfSums: TypeAlias = Callable[[Floats], Floats]
"""A figure as a function of sums over traces, vectorised over the first axis; NaN where it is undefined."""
SliceTest: TypeAlias = "tuple[SliceFigure, float | None]"
"""A slice with its p before correction, None if it is not tested."""
SliceVerdict: TypeAlias = Literal["differs", "not confirmed", "no difference seen", "cannot say", "not tested"]
"""`not confirmed`: the interval leaves 0 out, and the p that is corrected for all figures is above .05."""


class SliceFigure(Record):
    """A figure of the traces of one slice."""

    by: str
    name: str
    figure: str
    """What is measured: a metric, or a share of agreement."""
    n: int
    mean: float | None
    """None if the figure is undefined, as kappa of equal labels is."""
    difference: float | None
    """From the mean of the other traces; of a comparison the mean change itself."""
    interval: tuple[float, float] | None = None
    """Of the difference, 95%."""
    p: float | None = None
    """Of no difference, corrected by Holm over all slices and figures that are shown."""
    verdict: SliceVerdict
    same: tuple[str, ...] = ()
    """Of a comparison, other names of slices of the same traces: `language en`."""
    wins: int | None = None
    """Of a comparison, in how many traces the candidate is better."""
    losses: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Slices:
    """The slices of each trace, by one kind."""

    by: SliceBy
    codes: Ints
    """The place of each trace's slices in `sets`."""
    sets: tuple[frozenset[str], ...]

    @property
    def names(self) -> list[str]:
        """All slices, in alphabetical order."""
        return sorted(frozenset[str]().union(*(self.sets[code] for code in np.unique(self.codes))))

    def inside(self, name: str) -> NDArray[np.bool_]:
        """Return which traces are in a slice."""
        return np.array([name in each for each in self.sets], dtype=np.bool_)[self.codes]


def slices_of(table: VerdictTable, by: SliceBy, *, guess: bool = True) -> Slices:
    """Return the slices of each trace of a table.

    `language` and `source` are those of the trace's metadata, else of its chunks'; `length` is the quarter of the
    traces by the characters of their chunks. A language may also be `lang` or a tag such as `lang:de`; with `guess` the
    script of the question, in brackets, stands for one that is not stated.
    """
    if by == "length":
        sizes = table.letters
        cuts = np.unique(np.quantile(sizes, [0.25, 0.5, 0.75], method="lower")) if sizes.size else sizes
        ends, quarters = np.unique(np.searchsorted(cuts, sizes, side="left"), return_inverse=True)
        parts = [sizes[quarters == place] for place in range(len(ends))]
        return Slices(by, quarters, tuple(frozenset([f"{p.min():,} to {p.max():,} characters"]) for p in parts))
    codes = {"tag": table.tags, "source": table.sources, "language": table.languages}[by].astype(np.int64)
    if by == "language" and guess and () in table.names:
        codes = np.where(codes == table.names.index(()), table.scripts, codes)
    return Slices(by, codes, tuple(map(frozenset, table.names)))


def run_slices(run: Run, by: Sequence[SliceBy] = ()) -> list[SliceFigure]:
    """Return every metric of a run by slice, of what it was asked for if `by` is empty."""
    table = verdict_table(run)
    kinds = [slices_of(table, each) for each in by or run.manifest.intervals.by]
    clusters, filled = cluster_codes(table.clusters), opened(run, table).value  # open traces count as in the means
    tests = (slice_tests(name, filled[:, k], kinds, clusters) for k, name in enumerate(table.metrics))
    return corrected_slices([test for each in tests if kinds for test in each])


def _mean(sums: Floats) -> Floats:
    return ratio(sums[..., 0], sums[..., 1])


def slice_tests(
    figure: str,
    values: ArrayLike,
    kinds: Sequence[Slices],
    clusters: Sequence[Hashable] | None = None,
    *,
    measure: tuple[Floats, OfSums] | None = None,
    drawn: dict[bytes, Floats] | None = None,
) -> list[SliceTest]:
    """Test each slice against the other traces.

    Args:
        figure: What the values are.
        values: One a trace, NaN for none, shape (n,).
        kinds: The slices of each trace.
        clusters: The cluster of each trace; intervals are robust to them (CR1, Student's t).
        measure: What to measure in place of the mean: what each trace adds to the sums, and the figure of these.
        drawn: Keeps the sums of random slices for other figures of the same sums.

    Student's test of few or lopsided values rejects too often. Where it rejects, the greater p of it and a second test
    counts: random slices of the same size, which are exact if traces are exchangeable (clusters: whole ones of equal
    size trade their places in and out of the slice).
    """
    x = np.asarray(values, dtype=np.float64)
    there = ~np.isnan(x)
    codes, _ = group_codes(clusters, len(x))
    parts, of = measure or (np.column_stack([np.where(there, x, 0.0), np.ones(len(x))]), _mean)
    made: list[tuple[SliceFigure, float | None]] = []
    for kind in kinds:
        for name in kind.names:
            inside = kind.inside(name) & there
            rest = there & ~inside
            n, others = int(inside.sum()), int(rest.sum())
            if not n or not others:
                continue
            influence = np.zeros(len(x))
            mean, influence[inside] = _jackknife(parts[inside], of)
            base, moved = _jackknife(parts[rest], of)
            influence[rest] = -moved
            common: dict[str, Any] = {"by": kind.by, "name": name, "figure": figure, "n": n}
            common |= {"mean": defined(mean), "difference": defined(mean - base)}
            if min(n, others) < FEWEST or np.isnan(influence).any() or np.isnan(mean - base):
                made.append((SliceFigure(**common, verdict="cannot say"), None))
                continue
            sums = np.bincount(codes[there], weights=influence[there])
            groups = min(len(np.unique(codes[part])) for part in (inside, rest))
            error = math.sqrt(float(sums @ sums) * groups / max(groups - 1, 1)) or 1e-12
            half, t = t_ppf(0.975, groups - 1) * error, abs(mean - base) / error
            blind = minimal_detectable_difference(error, groups - 1) > LEAST_DIFFERENCE
            verdict: SliceVerdict = "cannot say" if blind else "no difference seen"
            ends = mean - base - half, mean - base + half
            p = min(1.0, 2 * t_sf(t, groups - 1))
            if p <= 0.05 and min(n, others) < LARGE:
                drawn = {} if drawn is None else drawn
                if (sums_of := drawn.get(inside.tobytes())) is None:
                    sums_of = drawn[inside.tobytes()] = _permuted(parts[there], inside[there], codes[there])
                away = np.abs(of(sums_of) - of(parts[there].sum(axis=0) - sums_of))
                far = int((~(away < abs(mean - base) * (1 - 1e-9))).sum())  # an undefined one counts
                p = max(p, (far + 1) / (DRAWS + 1))
            made.append((SliceFigure(**common, interval=ends, verdict=verdict), p))
    return made


def _jackknife(parts: Floats, of: OfSums) -> tuple[float, Floats]:
    """Return a figure of some traces, and by how much each of them moves it."""
    whole = parts.sum(axis=0, keepdims=True)
    value = float(of(whole)[0])
    return value, value - of(whole - parts)


def _permuted(parts: Floats, inside: NDArray[np.bool_], codes: Ints) -> Floats:
    """Return the sums of random slices of the same size, shape (DRAWS, ...)."""
    rng = np.random.default_rng(0)
    _, codes, counts = np.unique(codes, return_inverse=True, return_counts=True)
    if counts.max() == 1:
        size = min(int(inside.sum()), int((~inside).sum()))
        drawn = [rng.choice(len(parts), size, replace=False, shuffle=False) for _ in range(DRAWS)]
    else:
        order = np.lexsort((codes, counts[codes]))
        parts, sizes = parts[order], counts[codes][order]
        places = [inside[order][sizes == size].reshape(-1, size) for size in np.unique(sizes)]
        drawn = [
            np.flatnonzero(np.concatenate([rng.permutation(block).ravel() for block in places])) for _ in range(DRAWS)
        ]
    return np.stack([parts[rows].sum(axis=0) for rows in drawn])


def corrected_slices(made: Sequence[SliceTest]) -> list[SliceFigure]:
    """Correct the tests of all slices and figures that are shown together by Holm's method."""
    corrected = iter(holm([p for _, p in made if p is not None]))
    out = []
    for each, p in made:
        adjusted = None if p is None else next(corrected)
        if adjusted is not None and each.interval is not None and not each.interval[0] <= 0 <= each.interval[1]:
            each = each.replace(verdict="differs" if adjusted <= 0.05 else "not confirmed")
        out.append(each.replace(p=adjusted))
    return out
