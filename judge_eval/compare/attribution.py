"""A difference between runs of two judges, split into what retrieval and what the judge contributes.

M(r, j) is the mean of a metric over retrieval r under judge j. Two runs hold M(A, A) and M(B, B), and almost all of
M(A, B) and M(B, A): a chunk that both runs retrieved carries the verdicts of both judges. The rest follows from how
often one judge gives each grade where the other gave a known one, counted over all shared chunks, and over those of the
same trace as far as traces differ in this (judges disagree more on some questions than on others). With both orders
averaged (Shapley) retrieval is 1/2 [M(B, A) - M(A, A) + M(B, B) - M(A, B)], and the judge is what is left.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from judge_eval.compare.changes import Moved, Pairing
from judge_eval.compare.comparison import Attribution, Difference, DifferencePart
from judge_eval.errors import MetricError
from judge_eval.metrics import GradeTable, Metric, parse_metric
from judge_eval.metrics.ragged import offsets_of
from judge_eval.metrics.spec import DEDUP
from judge_eval.metrics.table import MISSING
from judge_eval.runs.columns.verdict_table import Hashes, VerdictTable, find_ids, occurrences
from judge_eval.schema import Scale, Trace
from judge_eval.settings import ends
from judge_eval.stats._arrays import group_codes, group_sums
from judge_eval.stats.intervals import standard_error, student_holds
from judge_eval.stats.paired import Differences

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_GIVEN = 64
"""Codes of a chunk from here on: its grade by the other judge is unknown, its own is the code less this."""
_NO_CHUNK = -1
_STEP = 1e-4
_ROUNDING = 1e-12
_FACTORS = (0.45, 2.25)
"""How many times as often unshared chunks may flip: half to twice, and what estimated prevalences leave out."""


def attributions(
    moved: Moved, judges: str, differences: Sequence[Difference], again: VerdictTable | None = None
) -> Iterator[Attribution]:
    """Split the differences between two runs, as far as their metrics can be computed from grades alone.

    `judges` says which judge took whose place; `again` are verdicts of the candidate's judge on more chunks of the
    baseline.
    """
    lists = _Lists.of(moved, again)
    for difference in differences:
        metric = parse_metric(difference.metric)
        if not metric.spec.grades_alone or metric.needs_pool:
            continue
        try:
            yield _Split(moved, lists, metric).attribution(difference, judges)
        except MetricError:  # a run's totals or its pool serve one of the scales alone
            continue


def chunks_to_ask(moved: Moved, metric: Metric, count: int) -> list[Trace]:
    """Choose chunks of the baseline that the candidate's judge never saw, for a narrower split of a metric over grades.

    Those come first whose verdict is least certain times how far it moves the metric of its list. Returns the traces of
    the baseline with at most `count` chunks in all, and no others.
    """
    crossed = _Split(moved, _Lists.of(moved), metric).crossed[0]
    known = crossed.chances(crossed.rates())
    least, row = crossed.table.relevant, np.repeat(np.arange(len(crossed.table)), np.diff(crossed.table.offsets))
    missing = np.flatnonzero(crossed.table.grades == MISSING)
    rows, ranks = row[missing], missing - crossed.table.offsets[row[missing]]
    turn = np.arange(len(rows)) - np.searchsorted(rows, rows)
    worth = np.zeros(len(rows))
    for place in range(int(turn.max(initial=-1)) + 1):
        here, ends_ = turn == place, []
        for side in (slice(None, least), slice(least, None)):
            chances = known.copy()
            part = np.zeros_like(chances[here])
            part[:, side] = np.maximum(chances[here][:, side], 1e-9)
            chances[here] = part / part.sum(axis=1, keepdims=True)
            ends_.append(metric.expected_given(crossed.table, chances)[rows[here]])
        q = known[here][:, least:].sum(axis=1)
        worth[here] = np.abs(ends_[1] - ends_[0]) * np.sqrt(q * (1 - q))
    options = []
    for pair, place in enumerate(crossed.places.tolist()):
        at = slice(*np.searchsorted(rows, [place, place + 1]))
        options += [(-w, pair, rank) for w, rank in zip(worth[at].tolist(), ranks[at].tolist(), strict=True)]
    chosen: dict[int, list[int]] = {}
    for _, pair, rank in sorted(options)[:count]:
        chosen.setdefault(pair, []).append(rank)
    traces = []
    for pair, of_trace in sorted(chosen.items()):
        trace = moved.runs[0].results[int(moved.pairing.a[pair])].trace
        traces.append(trace.replace(chunks=tuple(trace.chunks[rank] for rank in sorted(of_trace))))
    return traces


@dataclass(frozen=True, slots=True, eq=False)
class _Side:
    """The chunks of one run, of all pairs one after the other."""

    rows: Ints
    """The pair of each chunk."""
    ranks: Ints
    grades: Ints
    """Its grade by the run's own judge, counted from the scale's lowest; -1 where that failed."""
    other: Ints
    """Its grade by the other judge; -1 where that one failed or did not see the chunk."""
    shared: NDArray[np.bool_]
    """Whether the other run retrieved it too."""
    repeats: NDArray[np.bool_]
    """Whether it reads like an earlier one of its list."""


@dataclass(frozen=True, slots=True, eq=False)
class _Lists:
    """The lists of both runs, and how often the judges gave which grades to the chunks of both."""

    sides: tuple[_Side, _Side]
    alike: NDArray[np.bool_]
    """The pairs whose two lists hold the same chunks in the same order, shape (pairs,)."""

    @classmethod
    def of(cls, moved: Moved, again: VerdictTable | None = None) -> _Lists:
        pairing, scales = moved.pairing, moved.scales
        sources = (pairing.first, pairing.a, scales[0]), (pairing.second, pairing.b, scales[1])
        chunks = [columns.chunks_of(traces) for columns, traces, _ in sources]
        texts = [source[0].passages[places] for source, (_, places, _) in zip(sources, chunks, strict=True)]
        names, codes = np.unique(np.concatenate(texts), return_inverse=True)
        keys = np.concatenate([rows for rows, _, _ in chunks]) * len(names) + codes.reshape(-1)
        parts = keys[: len(texts[0])], keys[len(texts[0]) :]
        times = [occurrences(part) for part in parts]
        most = 1 + max(int(part.max(initial=0)) for part in times)
        parts = parts[0] * most + times[0], parts[1] * most + times[1]
        grades = [
            np.where((own := source[0].grades[places].astype(np.int64)) < 0, -1, own - source[2].minimum)
            for source, (_, places, _) in zip(sources, chunks, strict=True)
        ]
        sides = []
        for i, j in ((0, 1), (1, 0)):
            order = np.argsort(parts[j])
            at = np.searchsorted(parts[j], parts[i], sorter=order)
            match = np.append(order, -1)[at]
            shared = (match >= 0) & (np.append(parts[j], -1)[match] == parts[i])
            other = np.where(shared, np.append(grades[j], -1)[match], -1)
            if again is not None and i == 0:
                asked = _grades_again(pairing, again, keys[: len(texts[0])], names)
                other = np.where(shared | (asked < 0), other, asked - scales[1].minimum)
            sides.append(_Side(chunks[i][0], chunks[i][2], grades[i], other, shared, times[i] > 0))
        same = pairing.first.sizes[pairing.a] == pairing.second.sizes[pairing.b]
        in_both = [part[same[rows]] for part, (rows, _, _) in zip(parts, chunks, strict=True)]
        unlike = chunks[0][0][same[chunks[0][0]]][in_both[0] != in_both[1]]
        same[unlike] = False
        return cls((sides[0], sides[1]), same)


def _grades_again(pairing: Pairing, again: VerdictTable, keys: Ints, names: Hashes) -> Ints:
    """Return the grade of each chunk of the baseline in a run that asked about some of them; -1 for none."""
    pair = find_ids(again.ids, pairing.first.ids[pairing.a])
    rows, code = again.rows, np.searchsorted(names, again.passages).clip(max=len(names) - 1)
    known = (pair[rows] >= 0) & (names[code] == again.passages) & (again.grades >= 0)
    graded = dict(zip((pair[rows] * len(names) + code)[known].tolist(), again.grades[known].tolist(), strict=True))
    return np.array([graded.get(key, -1) for key in keys.tolist()], dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class _Crossed:
    """One retrieval under the other run's judge: what is known of each list, and the flips that stand for the rest."""

    metric: Metric
    table: GradeTable
    """The lists that differ, once each; a chunk with an unknown grade is `MISSING`."""
    given: Ints
    """The own judge's grade of each chunk with an unknown grade, a row of `counts`."""
    near: Floats
    """`counts` of that row, in the trace of each such chunk alone, shape (unknown grades, levels)."""
    places: Ints
    """Of each pair the place of its list in `table`, shape (pairs,)."""
    counts: Floats
    """How often the own judge's grade (row) went with the other's (column); the last row is of unknown own grades."""
    weights: Floats
    """By row, what a shared chunk of the same trace counts; all shared chunks together count 1."""
    shared: Ints
    """The chunks behind `counts`: three rows of pair, own and other grade."""
    flips: NDArray[np.bool_]
    """Cells of `counts` where the judges disagree and the other judge gives the higher grade, or the lower one."""
    unshared: Floats
    """How often the own judge gave each grade to chunks with an unknown grade that the metric reads."""
    seen: Floats
    """How often the other judge gave each grade to shared chunks of the trace of each unknown grade, as `near`."""
    seen_weight: float
    """What one of these counts; all shared chunks together count 1."""

    @classmethod
    def of(cls, side: _Side, pairs: int, own: Scale, other: Scale, metric: Metric, totals: Ints | None) -> _Crossed:
        levels, grades, least = len(other.grades), side.other, other.relevant - other.minimum
        if two := metric.spec.reads == "relevance" and "rel" not in dict(metric.params):
            levels, grades, least = 2, np.where(grades < 0, -1, grades >= least).astype(np.int64), 1
        known = (side.grades >= 0) & (grades >= 0) & side.shared
        shared = np.stack([side.rows[known], side.grades[known], grades[known]])
        counts = np.zeros((len(own.grades) + 1, levels))
        np.add.at(counts, (shared[1], shared[2]), 1.0)
        by_trace = np.zeros((pairs, *counts.shape))
        np.add.at(by_trace, tuple(shared), 1.0)
        weights = np.append(_likeness(by_trace[:, :-1]), 0.0)
        counts[-1] = counts.sum(axis=0)
        codes = np.where(grades >= 0, grades, _GIVEN + np.where(side.grades < 0, len(own.grades), side.grades))
        if dict(metric.params).get(DEDUP.name) == "text":
            codes = np.where(side.repeats, 0, codes)
        width = int(side.ranks.max(initial=0)) if metric.depth is None else metric.depth
        inside = side.ranks <= width
        depth = min(width, int(side.ranks.max(initial=0)))
        begins = depth + 1 + counts.size
        grid = np.full((pairs, begins + levels), _NO_CHUNK, dtype=np.int64)
        grid[side.rows[inside], side.ranks[inside] - 1] = codes[inside]
        grid[:, depth] = -1 if totals is None else totals
        # Lists are alike if their unknown grades follow from like counts, too.
        unknown = [(grid[:, :depth] == _GIVEN + was).any(axis=1) & (weights[was] > 0) for was in range(len(counts))]
        grid[:, depth + 1 : begins] = (by_trace * np.stack(unknown, axis=1)[:, :, None]).reshape(pairs, -1)
        by_other = by_trace.sum(axis=1)
        grid[:, begins:] = by_other * (grid[:, :depth] >= _GIVEN).any(axis=1, keepdims=True)
        lists, places = np.unique(grid, axis=0, return_inverse=True)
        there = lists[:, :depth] != _NO_CHUNK
        flat, row = lists[:, :depth][there], np.nonzero(there)[0]
        given = flat[flat >= _GIVEN] - _GIVEN
        near = lists[:, depth + 1 : begins].reshape(len(lists), *counts.shape)[row[flat >= _GIVEN], given]
        seen = lists[row[flat >= _GIVEN], begins:].astype(np.float64)
        table = GradeTable(
            np.where(flat >= _GIVEN, MISSING, flat).astype(np.int8),
            offsets_of(there.sum(axis=1)),
            totals=None if totals is None else lists[:, depth],
            relevant=least,
            maximum=levels - 1,
            minimum=0 if two else other.minimum,
            repeats=np.zeros(len(flat), dtype=np.bool_),
        )
        was, now = np.arange(len(own.grades) + 1), np.arange(levels)
        if two or own.grades != other.grades:
            was, now = (was >= own.relevant - own.minimum).astype(np.int64), (now >= least).astype(np.int64)
        change = np.sign(now[None, :] - was[:, None])
        flips = np.stack((np.greater(change, 0), np.less(change, 0)))
        flips[:, -1] = False
        unknown_grades = side.grades[inside & (grades < 0) & ~side.shared & (side.grades >= 0)]
        unshared = np.bincount(unknown_grades, minlength=len(own.grades)).astype(np.float64)
        near = near.astype(np.float64)
        return cls(
            metric, table, given, near, places.reshape(-1), counts, weights, shared, flips, unshared,
            seen, float(_likeness(by_other[:, None])[0]),
        )  # fmt: skip

    def rates(self) -> Floats:
        """Return P(grade by the other judge | grade by the own one) over all shared chunks."""
        counts = self.counts.copy()
        if not counts[-1].any():
            counts[-1] = 1.0
        counts = np.where(counts.sum(axis=1, keepdims=True) > 0, counts, counts[-1])
        return np.asarray(counts / counts.sum(axis=1, keepdims=True))

    def chances(self, rates: Floats, up: float = 1.0, down: float = 1.0) -> Floats:
        """Return the chances of each unknown grade, in its trace; flips up or down so many times as often."""
        weights = self.weights[self.given, None]
        chances = (rates[self.given] + weights * self.near) / (1 + weights * self.near.sum(axis=1, keepdims=True))
        return _flipped(chances, self.flips[:, self.given], up, down)

    def chances_by_prevalence(self, up: float, down: float) -> Floats:
        """Return the chances of each unknown grade by Bayes' theorem, flips up or down so many times as often.

        P(own grade | the other judge's) is that of all shared chunks. How often the other judge gives each grade
        follows from the shared chunks of the trace, and from what makes the own grades of all unshared chunks as
        frequent as they are.
        """
        counts = self.counts[:-1].T
        known, levels = counts.sum(axis=1) > 0, self.counts.shape[1]
        if not known.any() or not self.unshared.any():
            return self.chances(self.rates(), up, down)
        own = counts[known] / counts[known].sum(axis=1, keepdims=True)
        own = _flipped(own, self.flips[:, :-1].transpose(0, 2, 1)[:, known], up, down)
        share = np.linalg.lstsq(own.T, self.unshared / self.unshared.sum(), rcond=None)[0].clip(min=0.0)
        usual = counts.sum(axis=1) / counts.sum()
        weight = self.seen_weight
        prior = (usual + weight * self.seen) / (1 + weight * self.seen.sum(axis=1, keepdims=True))
        ratios, likelihood = np.zeros(levels), np.ones((levels, len(self.counts)))
        ratios[known], likelihood[known, :-1] = share / usual[known], own
        chances = prior * ratios * likelihood[:, self.given].T
        total = chances.sum(axis=1, keepdims=True)
        return np.where(total > 1e-12, chances / np.maximum(total, 1e-12), self.rates()[self.given])

    def values(self, up: float = 1.0, down: float = 1.0, *, by_prevalence: bool = False) -> Floats:
        """Return the expected value of each pair's list, flips of unknown grades so many times as often."""
        chances = self.chances_by_prevalence(up, down) if by_prevalence else self.chances(self.rates(), up, down)
        return self.metric.expected_given(self.table, chances)[self.places]

    def influence(self, unlike: NDArray[np.bool_]) -> Floats:
        """Return what each pair adds to a mean over n pairs through the rates, times n."""
        # The mean's derivative by the rate of each cell, times (flips of the pair - rate * chances) / all chances.
        rates, weight = self.rates(), np.bincount(self.places[unlike], minlength=len(self.table))
        base = self.metric.expected_given(self.table, self.chances(rates))
        slopes = np.zeros_like(rates)
        for was in set(self.given.tolist()) - {len(rates) - 1}:
            for now in np.flatnonzero((self.counts[was] > 0) & (rates[was] < 1)).tolist():
                moved = rates.copy()
                moved[was] *= 1 - _STEP
                moved[was, now] += _STEP
                values = self.metric.expected_given(self.table, self.chances(moved))
                slopes[was, now] = weight @ (values - base) / _STEP
        centred = slopes - (rates * slopes).sum(axis=1, keepdims=True)
        each = centred / np.maximum(self.counts.sum(axis=1, keepdims=True), 1.0)
        rows, was, now = self.shared
        return np.asarray(np.bincount(rows, each[was, now], minlength=len(self.places)), dtype=np.float64)


def _flipped(chances: Floats, flips: NDArray[np.bool_], up: float, down: float) -> Floats:
    """Return chances of grades, shape (rows, grades), with those of flips up or down so many times as high."""
    if up == down == 1.0:
        return chances
    rise, fall = flips
    flipped = chances * np.where(rise, up, 0.0) + chances * np.where(fall, down, 0.0)
    flipped /= np.maximum(flipped.sum(axis=1, keepdims=True), 1.0)
    kept = np.where(rise | fall, 0.0, chances)
    left = 1.0 - flipped.sum(axis=1, keepdims=True)
    total = kept.sum(axis=1, keepdims=True)
    return np.asarray(flipped + np.where(total > 0, kept / np.where(total > 0, total, 1.0) * left, chances * left))


def _likeness(counts: Floats) -> Floats:
    """Return by own grade how much more one trace's shared chunks tell of its other chunks than those of all traces.

    With r the correlation of flips within a trace, by moments of the Dirichlet-multinomial distribution, a shared chunk
    of the trace counts r / (1 - r) where the rate over all counts 1 (empirical Bayes). `counts` are of grades that went
    together in each trace, shape (traces, own grades, grades).
    """
    sizes, totals = counts.sum(axis=2), counts.sum(axis=(0, 2))
    rates = counts.sum(axis=0) / np.maximum(totals, 1.0)[:, None]
    spread = (rates * (1 - rates)).sum(axis=1)
    over = ((counts - sizes[:, :, None] * rates) ** 2).sum(axis=(0, 2)) - totals * spread
    most = (sizes * (sizes - 1)).sum(axis=0) * spread
    share = np.clip(np.where(most > 1e-12, over / np.maximum(most, 1e-12), 0.0), 0.0, 0.99)
    return np.asarray(share / (1 - share))


class _Split:
    """One metric's difference, by retrieval and by judge."""

    def __init__(self, moved: Moved, lists: _Lists, metric: Metric) -> None:
        self._moved, self._lists, self._metric = moved, lists, metric
        pairing = moved.pairing
        self._own = moved.columns(pairing.first.metrics.index(str(metric)))
        both = ~(np.isnan(self._own[0].value) | np.isnan(self._own[1].value))
        self._both = both
        totals: list[Ints | None] = [None, None]
        if metric.needs_total:
            for side, (run, traces) in enumerate(zip(moved.runs, (pairing.a, pairing.b), strict=True)):
                known = (result.trace.relevant_total for result in run.results_at(traces))
                totals[side] = np.array([-1 if total is None else total for total in known], dtype=np.int64)
        self.crossed = [
            _Crossed.of(lists.sides[i], len(pairing), moved.scales[i], moved.scales[j], metric, totals[i])
            for i, j in ((0, 1), (1, 0))
        ]

    def attribution(self, d: Difference, judges: str) -> Attribution:
        crossed = [self._under(i) for i in (0, 1)]
        own = [side.value for side in self._own]
        both, alike = self._both, self._lists.alike
        by_retrieval = (crossed[1] - own[0] + own[1] - crossed[0]) / 2
        by_judge = own[1] - own[0] - by_retrieval
        influences = [c.influence(both & ~alike) for c in self.crossed]
        through = (influences[1] - influences[0]) / 2
        clusters = self._moved.pairing.clusters(np.flatnonzero(both))
        open_ = sum(float((side.high - side.low)[both].mean()) for side in self._own)
        down, up = self._reach(both)
        judge = self._part(by_judge[both], -through[both], clusters, open_, (-up, -down))
        if alike[both].all():
            retrieval = DifferencePart(value=0.0, interval=(0.0, 0.0), lower=0.0, upper=0.0, standard_error=0.0)
        elif not (np.abs(by_judge[both]) > _ROUNDING).any() and not through[both].any():
            retrieval = DifferencePart(
                value=d.difference, interval=d.interval, lower=d.lower, upper=d.upper, t_lower=d.t_lower,
                t_upper=d.t_upper, standard_error=d.standard_error, reach=(down, up),
            )  # fmt: skip
        else:
            retrieval = self._part(by_retrieval[both], through[both], clusters, open_, (down, up))
        return Attribution(
            metric=d.metric, candidate=d.candidate, n=int(both.sum()), difference=d.difference, interval=d.interval,
            shared=self._share(), judges=judges, retrieval=retrieval, judge=judge, less_is_better=d.less_is_better,
        )  # fmt: skip

    def _under(self, side: int, up: float = 1.0, down: float = 1.0, *, by_prevalence: bool = False) -> Floats:
        """Return the values of one retrieval under the other judge; of the same list they are that judge's own."""
        values = self.crossed[side].values(up, down, by_prevalence=by_prevalence)
        return np.where(self._lists.alike, self._own[1 - side].value, values)

    def _share(self) -> float:
        shared = total = 0
        for side in self._lists.sides:
            read = np.ones(len(side.ranks), dtype=np.bool_)
            if self._metric.cutoff is not None:
                read = side.ranks <= self._metric.cutoff
            read &= self._both[side.rows]
            shared += int((side.shared | (side.other >= 0))[read].sum())
            total += int(read.sum())
        return shared / total if total else 1.0

    def _part(
        self, values: Floats, through: Floats, clusters: list[int] | None, open_: float, reach: tuple[float, float]
    ) -> DifferencePart:
        least, greatest = ends(self._metric.limits)
        span = greatest - least
        if not np.isfinite(span):
            span = max(float(np.nanmax(np.abs(side.value))) for side in self._own)
        return part_of(values, through, clusters, span, reach=reach, open_=open_)

    def _reach(self, both: NDArray[np.bool_]) -> tuple[float, float]:
        """Return how far the retrieval part falls and rises if unshared chunks flip otherwise than shared ones.

        Half to twice as often, given either judge's grade: what is the same for shared and unshared chunks may be how
        often the other judge disagrees or, if these are relevant less often, how often the own one does.
        """
        means = []
        for side in (0, 1):
            corners = product(_FACTORS, _FACTORS, (False, True))
            means.append([float(self._under(side, *c, by_prevalence=by)[both].mean()) for *c, by in corners])
        base = [float(self._under(side)[both].mean()) for side in (0, 1)]
        low = (min(means[1]) - base[1] - max(means[0]) + base[0]) / 2
        high = (max(means[1]) - base[1] - min(means[0]) + base[0]) / 2
        return min(low, 0.0), max(high, 0.0)


def part_of(
    values: Floats,
    through: Floats,
    clusters: Sequence[int] | None,
    span: float,
    *,
    reach: tuple[float, float] = (0.0, 0.0),
    open_: float = 0.0,
) -> DifferencePart:
    """Return a part of a difference, with an interval and bounds of the same kind as those of a whole difference.

    `values` are the part of each trace, shape (n,), `through` what each adds to it through the rates of flips, with a
    sum of 0. `span` is how wide the metric's range is. The ends lie further down (<= 0) and up by `reach`, and by
    `open_`, how far the bounds of failed verdicts are apart.
    """
    value, (codes, groups) = float(values.mean()), group_codes(clusters, len(values))
    column = values + through
    error = standard_error(column, codes, groups)
    if error is None:
        return DifferencePart(value=value, reach=reach)
    totals, sizes = group_sums(column, codes, groups), np.bincount(codes).astype(np.float64)
    student = student_holds(group_sums(values, codes, groups), sizes) and student_holds(totals, sizes)
    span = max(span, float(np.abs(column).max()))
    made = Differences(
        each=column, totals=totals, sizes=sizes, mean=value, error=error, clustered=clusters is not None, span=span,
        student=student,
    )  # fmt: skip
    interval = made.interval(0.95)
    assert interval is not None
    lower, upper = (made.bound(0.95, upper=side) for side in (False, True))
    t_lower, t_upper = (None if open_ else made.student_bound(0.95, upper=side) for side in (False, True))
    down, up = reach[0] - open_, reach[1] + open_
    return DifferencePart(
        value=value, interval=(interval.low + down, interval.high + up), reach=reach, standard_error=error,
        lower=None if lower is None else lower + down, upper=None if upper is None else upper + up,
        t_lower=None if t_lower is None else t_lower + down, t_upper=None if t_upper is None else t_upper + up,
    )  # fmt: skip
