"""Comparing runs on the traces they have in common: differences of metrics, over all traces and by slice."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from judge_eval.compare.attribution import attributions, chunks_to_ask
from judge_eval.compare.changes import Moved, changes, counts_of, moved_between, words_metric
from judge_eval.compare.comparison import (
    MOST_MOVERS,
    Attribution,
    Comparison,
    Difference,
    Opening,
    PairOfRuns,
    RunRef,
    SliceDifference,
    TraceChange,
    WordingSplit,
)
from judge_eval.compare.cuts_found import cuts_found
from judge_eval.compare.gate import LEAST_SLICE, Limit, gate_limits
from judge_eval.compare.options import Gates
from judge_eval.compare.wording import wording_splits
from judge_eval.digest import short
from judge_eval.errors import ConfigError, RunError, advise
from judge_eval.metrics import Metric, parse_metric
from judge_eval.note import MOST_NAMED, Note, NoteKind, unsliced, without_claims
from judge_eval.registry import stages_of
from judge_eval.runs.columns.verdict_table import Places, VerdictTable, verdict_table
from judge_eval.runs.folder.describing import judge_differences, judges_in_words
from judge_eval.runs.folder.records import SliceBy
from judge_eval.runs.folder.run import Run
from judge_eval.runs.scoring.aggregate import compare_columns, less_is_better, main_metric
from judge_eval.runs.scoring.rescore import rescore
from judge_eval.runs.scoring.slices import FEWEST, LEAST_DIFFERENCE, SliceFigure, SliceTest, corrected_slices, slices_of
from judge_eval.schema import Trace
from judge_eval.stats import PairedComparison, holm
from judge_eval.stats.distributions import normal_cdf
from judge_eval.stats.figure import named_fields
from judge_eval.stats.sampling import minimal_detectable_difference

MANY_FAILED = 0.01
"""From this share of failed verdicts on, they are a warning; below it a note, since intervals cover what they cost."""
KEEP = 1000
"""How many changed traces of each candidate a comparison names."""


def compare(
    baseline: Run,
    *candidates: Run,
    metrics: Sequence[str | Metric] | None = None,
    cluster: str | None = None,
    keep: int = KEEP,
    again: Run | None = None,
    by: Sequence[SliceBy] = (),
    gates: Gates | None = None,
) -> Comparison:
    """Compare runs with a baseline, trace by trace, without a call.

    Traces are paired by id and by what they ask. A trace that failed verdicts leave open in one of two runs counts with
    its expected value, and intervals cover all values that it could have. With three runs or more, all pairs are
    compared too. About 300 bytes a trace of ten chunks and run are held in memory, however long its texts.

    Args:
        baseline: The run the others are compared with.
        candidates: One run or more.
        metrics: Names or values of metrics; None takes those of the baseline. What a run was not scored by
            is computed from its verdicts.
        cluster: The key of `metadata` that groups traces; as in the baseline where None.
        keep: How many changed traces of each candidate to name.
        again: Verdicts of the first candidate's judge on chunks of the baseline (`traces_to_ask`), for the split.
        by: Test the change of every metric in each slice of the baseline's traces too.
        gates: Limits that will be checked (`check_gates`); the slices that they name are compared too.

    Raises:
        RunError: There is no candidate, or one has no trace in common with the baseline.
        MetricError: A metric is undefined for these runs.
    """
    if not candidates:
        raise RunError("a comparison needs at least two runs")
    names = tuple(str(m if isinstance(m, Metric) else parse_metric(m)) for m in metrics or ())
    names = names or baseline.manifest.metrics
    limits = [] if gates is None else [limit for limit in gate_limits(gates) if limit.by is not None]
    names = tuple(dict.fromkeys([*names, *(limit.metric for limit in limits)]))
    key = cluster or baseline.manifest.intervals.cluster
    moves = _moves([baseline, *candidates], names, key)
    traces = [change for moved in moves for change in changes(moved, keep)]
    made = weigh(moves, traces, again=None if again is None else verdict_table(again, (), key))
    if limits:
        made = made.replace(limited=tuple(limited_slices(moves, limits)))
    slices = tuple(slices_between(moves, by)) if by else ()
    return made.replace(slices=slices, notes=(*made.notes, *unsliced(slices, by))) if by else made


def _moves(runs: Sequence[Run], names: tuple[str, ...], key: str) -> list[Moved]:
    """Bring the first run together with each other one, by metrics of these names."""
    by_rank = [name for name in names if words_metric(name) is None]
    scored = [scored_by(run, by_rank) for run in runs]
    tables = [verdict_table(run, by_rank, key) for run in scored]
    moves = [
        moved_between((runs[0], run), (scored[0], scored[place]), (tables[0], tables[place]), place, names)
        for place, run in enumerate(runs[1:], 1)
    ]
    for moved in moves:
        if not len(moved.pairing):
            what = "answerable question" if moved.pairing.unanswerable else "trace"
            both = " and ".join(run.name for run in moved.runs)
            raise RunError(f"runs {both} have no {what} in common; traces are paired by id and question")
    return moves


def traces_to_ask(baseline: Run, candidate: Run, metric: str, count: int) -> list[Trace]:
    """Choose chunks of the baseline about which to ask the candidate's judge; see `chunks_to_ask`.

    Raises:
        RunError: The metric needs more than grades, or the runs have no trace in common.
    """
    parsed = parse_metric(metric)
    if not parsed.spec.grades_alone or parsed.needs_pool:
        raise RunError(f"{parsed}: a difference is split for metrics over grades alone")
    (moved,) = _moves([baseline, candidate], (str(parsed),), baseline.manifest.intervals.cluster)
    return chunks_to_ask(moved, parsed, count)


def scored_by(run: Run, metrics: Sequence[str]) -> Run:
    """Return the run with scores of these metrics, computed from its verdicts where it lacks one."""
    return run if set(metrics) <= set(run.manifest.metrics) else rescore(run, metrics)


def weigh(
    moves: Sequence[Moved], traces: Sequence[TraceChange] = (), *, again: VerdictTable | None = None
) -> Comparison:
    """Return what traces that were brought together, of a baseline and each candidate, say about their runs."""
    runs = [moves[0].runs[0], *(moved.runs[1] for moved in moves)]
    comparisons = sum(len(moved.compared) for moved in moves)
    tested = [
        (moved, name, moved.difference(column, comparisons=comparisons))
        for moved in moves
        for column, name in enumerate(moved.pairing.first.metrics)
        if name in moved.compared
    ]
    corrected = iter(holm([test.p for _, _, test in tested if test is not None]))
    warnings, notes = _notes(moves)
    for moved in moves:
        if names := tuple(name for each, name, test in tested if each is moved and test is None):
            warnings.append(Note(kind="no value", candidate=moved.candidate, names=names))
        counts = (int(rows.sum()) for rows in moved.undefined)
        undefined = dict(zip(moved.pairing.first.metrics, counts, strict=True))
        notes += without_claims("not compared", undefined, moved.candidate)
    differences = tuple(
        difference_record(name, test, moved, next(corrected)) for moved, name, test in tested if test is not None
    )
    refs = tuple(
        RunRef(id=m.id, label=m.label, href=m.href, traces=m.tally.traces, failed_verdicts=m.tally.failed_verdicts)
        for m in (run.manifest for run in runs)
    )
    openings, split = list[Opening](), list[Attribution]()
    for moved in moves:
        lead, manifests = main_metric(moved.compared), [run.manifest for run in moved.runs]
        own = [d for d in differences if d.candidate == moved.candidate]
        another = bool(judge_differences(*manifests))
        openings += [_opening_of(d, moved, another) for d in own if d.metric == lead]
        if another:
            split += attributions(moved, judges_in_words(*manifests), own, again if moved is moves[0] else None)
    wordings: tuple[WordingSplit, ...] = ()
    if not all(moved.pairing.same_searches.all() for moved in moves):
        wordings, changed_retriever = wording_splits(moves, differences)
        notes += changed_retriever
    return Comparison(
        runs=refs,
        warnings=tuple(warnings),
        notes=tuple(notes),
        paired=tuple(len(moved.pairing) for moved in moves),
        only_baseline=tuple(len(moved.pairing.only_first) for moved in moves),
        only_candidate=tuple(len(moved.pairing.only_second) for moved in moves),
        openings=tuple(openings),
        differences=differences,
        attributions=tuple(split),
        pairs=tuple(_all_pairs(moves)) if len(moves) > 1 else (),
        cuts=tuple(cuts_found(moved) for moved in moves if moved.read is not None or moved.cuts.perhaps),
        wordings=wordings,
        changed=tuple(counts_of(moved.kinds) for moved in moves),
        traces=tuple(traces),
        claims=tuple(moved.claims for moved in moves if moved.claims is not None),
    )


def _all_pairs(moved: Sequence[Moved]) -> list[PairOfRuns]:
    """Compare all pairs of runs by the metrics that count chunks, unless the documents of one are cut differently.

    Each pair is tested as two runs are, and the p of all pairs of a metric are corrected by Holm's method. A pooled
    variance (Tukey's) would let one run whose values vary hide the lead of another.
    """
    if any(each.cuts.differ for each in moved):
        return []
    pairings, partners = [each.pairing for each in moved], []
    for pairing in pairings:
        at = np.full(len(pairing.first), -1, dtype=np.int64)
        at[pairing.a] = pairing.b
        partners.append(at[pairings[0].a])
    common = np.all([at >= 0 for at in partners], axis=0)
    out = []
    for column, name in enumerate(moved[0].pairing.first.metrics):
        if words_metric(name) is not None:  # with the evidence of each pair a run has another value in each
            continue
        sides = [moved[0].before.at(pairings[0].a[common], column)]
        sides += [each.after.at(at[common], column) for each, at in zip(moved, partners, strict=True)]
        known = np.flatnonzero(~np.any([np.isnan(side.value) for side in sides], axis=0))
        if not known.size:
            continue
        sides = [side.at(known) for side in sides]
        clusters = pairings[0].clusters(np.flatnonzero(common)[known])
        tests = {
            (i, j): compare_columns(name, sides[i], sides[j], clusters, planning=False)
            for i, j in combinations(range(len(sides)), 2)
        }
        adjusted = holm([test.p for test in tests.values()])
        out += [
            PairOfRuns(metric=name, first=i, second=j, difference=test.difference, p=p)
            for ((i, j), test), p in zip(tests.items(), adjusted, strict=True)
        ]
    return out


def _notes(moves: Sequence[Moved]) -> tuple[list[Note], list[Note]]:
    """Find what makes a comparison doubtful, and what differs as it should."""
    warnings, notes = list[Note](), list[Note]()
    for moved in moves:
        pairing, (baseline, run), place = moved.pairing, moved.runs, moved.candidate
        if count := pairing.unanswerable:
            notes.append(Note(kind="unanswerable", candidate=place, count=count, other=pairing.flags_differ))
        differences = judge_differences(baseline.manifest, run.manifest)
        warnings += [Note(kind="another judge", candidate=place, differs=each) for each in differences]
        if (claims := moved.claims) is not None and (count := claims.differing):
            warnings.append(Note(kind="other claims", candidate=place, count=count, names=claims.differing_traces))
        if (rows := pairing.other_question).size:
            names = _first_ids(baseline, rows)
            warnings.append(Note(kind="other questions", candidate=place, count=rows.size, names=names))
        first, second = pairing.only_first, pairing.only_second
        if first.size or second.size:
            names = _first_ids(baseline, first) + _first_ids(run, second)
            warnings.append(Note(kind="unpaired", candidate=place, count=first.size, other=second.size, names=names))
        old, new = baseline.manifest.dataset, run.manifest.dataset
        if old.digest != new.digest:
            kind: NoteKind = "other chunks" if str(old.claims) == str(new.claims) else "other chunks or claims"
            notes.append(Note(kind=kind, candidate=place, names=(short(old.digest), short(new.digest))))
    for run in (moves[0].runs[0], *(moved.runs[1] for moved in moves)):
        if failed := run.manifest.tally.failed_verdicts:
            many = failed >= MANY_FAILED * (failed + run.manifest.tally.verdicts)
            (warnings if many else notes).append(Note(kind="failed verdicts", count=failed, names=(run.name,)))
        if stages_of(run.manifest.judge):
            notes.append(Note(kind="cascade", names=(run.name,), judge=run.manifest.judge, tally=run.manifest.tally))
        if run.status not in ("done", "incomplete"):
            warnings.append(Note(kind="unfinished", names=(run.name, run.status)))
    return warnings, notes


def _first_ids(run: Run, rows: Places) -> tuple[str, ...]:
    return tuple(run.results[int(row)].trace_id for row in rows[:MOST_NAMED])


_NONE = np.iinfo(np.int64).max


def _opening_of(d: Difference, moved: Moved, another_judge: bool) -> Opening:
    """Find what a difference shows; ranks are looked at of metrics that count chunks alone."""
    common: dict[str, Any] = {"candidate": d.candidate, "metric": d.metric, "another_judge": another_judge}
    if d.finding == "same" or d.way == "unsure":
        return Opening(**common, finding="same" if d.finding == "same" else "unclear")
    ranks = None if words_metric(d.metric) is not None else _first_relevant(moved, d.metric, d.difference < 0)
    before, after = ranks or (None, None)
    return Opening(**common, finding=d.way, first_before=before, first_after=after, first_known=ranks is not None)


def first_relevant(columns: VerdictTable, traces: Places, relevant: int) -> NDArray[np.int64]:
    """Return the ranks of the first relevant chunks of traces: 0 for none, -1 if a failure hides it."""
    rows, chunks, ranks = columns.chunks_of(traces)
    grades = columns.grades[chunks]
    tells = np.flatnonzero((grades >= relevant) | (grades < 0))
    places, at = np.unique(rows[tells], return_index=True)
    first = np.zeros(len(traces), dtype=np.int64)
    first[places] = np.where(grades[tells[at]] < 0, -1, ranks[tells[at]])
    return first


def _first_relevant(moved: Moved, metric: str, lower: bool) -> tuple[int | None, int | None] | None:
    """Return the median ranks of the first relevant chunk where a metric moved; None if all are unknown."""
    pairing, (first, second) = moved.pairing, moved.scales
    before, after = pairing.values(pairing.first.metrics.index(metric))
    with np.errstate(invalid="ignore"):
        places = np.flatnonzero(after < before if lower else after > before)
    was = first_relevant(pairing.first, pairing.a[places], first.relevant)
    now = first_relevant(pairing.second, pairing.b[places], second.relevant)
    known = (was >= 0) & (now >= 0)
    return (_median(was[known]), _median(now[known])) if known.any() else None


def _median(ranks: NDArray[np.int64]) -> int | None:
    """Return the lower median, 0 standing for a rank behind all; None where that is the median."""
    ordered = np.sort(np.where(ranks == 0, _NONE, ranks))
    middle = int(ordered[(len(ordered) - 1) // 2])
    return None if middle == _NONE else middle


MOST_VALUES: Final = 20
"""Of a kind of slices with more values, such as addresses, only the `WORST` are shown if nobody asked for it."""
WORST: Final = 5


def difference_record(metric: str, test: PairedComparison, moved: Moved, adjusted: float) -> Difference:
    """Return the record of a candidate's difference, with its adjusted p."""
    values = named_fields(test)
    if fewer := less_is_better(metric):
        values |= {"wins": test.losses, "losses": test.wins}
    undefined = int(moved.undefined[moved.pairing.first.metrics.index(metric)].sum())
    return Difference(
        metric=metric,
        candidate=moved.candidate,
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

    If `every`, kinds with more than `MOST_VALUES` slices are listed too.
    """
    paired = moved.pairing.first.at(moved.pairing.a)
    known: dict[bytes, Slice] = {}
    for kind in dict.fromkeys(by):
        made = slices_of(paired, kind)
        names = made.names
        listed = every or len(names) <= MOST_VALUES
        for name in names:
            inside = made.inside(name)
            if (earlier := known.get(inside.tobytes())) is not None:
                earlier.same.append(f"{kind} {name}")
            elif not inside.all():
                known[inside.tobytes()] = Slice(kind, name, inside, listed=listed)
    return list(known.values())


def slices_between(moves: Sequence[Moved], by: Sequence[SliceBy], *, every: bool = True) -> list[SliceFigure]:
    """Test the change of every metric in each slice of the baseline's traces, as that of all traces is tested.

    The metric that is looked at first comes first; of each the slices with the greatest loss. See `slices_of_pairs`.
    """
    tests: list[SliceTest] = []
    names = list(dict.fromkeys(name for moved in moves for name in moved.compared))
    lead = main_metric(names)
    for name in sorted(names, key=lambda name: name != lead):
        for moved in moves:
            if name not in moved.compared:
                continue
            figure = f"{name}, {moved.runs[1].name}" if len(moves) > 1 else name
            made = list(_tests(figure, name, moved, slices_of_pairs(moved, by, every=every)))
            sign = -1.0 if less_is_better(name) else 1.0
            tests += sorted(made, key=lambda test: sign * (test[0].difference or 0.0))
    return corrected_slices(tests)


def _tests(figure: str, metric: str, moved: Moved, slices: Sequence[Slice]) -> Iterator[SliceTest]:
    column = moved.pairing.first.metrics.index(metric)
    yield from ((untested, None) for untested in _worst(figure, metric, moved, slices))
    for each in slices:
        if not each.listed:
            continue
        part = moved.at(np.flatnonzero(each.inside))
        test = part.difference(column, planning=False)
        if test is None:
            continue
        d = difference_record(metric, test, part, test.p)
        error = d.standard_error
        blind = error is None or minimal_detectable_difference(error, (d.clusters or d.n) - 1) > LEAST_DIFFERENCE
        verdict = "cannot say" if blind or d.n < FEWEST else "no difference seen"
        made = SliceFigure(
            by=each.by, name=each.name, same=tuple(each.same), figure=figure, n=d.n, mean=d.difference,
            difference=d.difference, interval=d.interval, wins=d.wins, losses=d.losses, verdict=verdict,
        )  # fmt: skip
        yield made, None if d.interval is None else d.p


def _worst(figure: str, metric: str, moved: Moved, slices: Sequence[Slice]) -> Iterator[SliceFigure]:
    """Yield those `WORST` slices that are not listed whose traces lost most in sum, without a test."""
    old, new = moved.columns(moved.pairing.first.metrics.index(metric))
    gains = (new.value - old.value) * (-1.0 if less_is_better(metric) else 1.0)
    sums = [(float(np.nansum(gains[each.inside])), each) for each in slices if not each.listed]
    for total, each in sorted(sums, key=lambda pair: pair[0])[:WORST]:
        if total >= 0:
            continue
        inside = gains[each.inside & ~np.isnan(gains)]
        mean = float((new.value - old.value)[each.inside & ~np.isnan(gains)].mean())
        yield SliceFigure(
            by=each.by, name=each.name, same=tuple(each.same), figure=figure, n=inside.size, mean=mean,
            difference=mean, wins=int((inside > 0).sum()), losses=int((inside < 0).sum()), verdict="not tested",
        )  # fmt: skip


def limited_slices(moves: Sequence[Moved], limits: Sequence[Limit]) -> Iterator[SliceDifference]:
    """Yield the differences in the slices that limits are on, of each candidate.

    Raises:
        ConfigError: There is no such slice.
    """
    wanted = dict.fromkeys((limit.metric, limit.by, limit.name, limit.value) for limit in limits if limit.by)
    seen = set[tuple[object, ...]]()  # a slice may be limited alone and with each of its kind
    for moved in moves:
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
                if (key := (moved.candidate, metric, by, each, limit)) in seen:
                    continue
                seen.add(key)
                part = moved.at(np.flatnonzero(made.inside(each)))
                test = part.difference(column, planning=False)
                if test is None:
                    continue
                d = difference_record(metric, test, part, test.p)
                movers: list[TraceChange] = []
                if d.lost[0] > limit:
                    sign = 1.0 if d.less_is_better else -1.0
                    lost = [m for m in changes(part, len(part.pairing)) if sign * m.differences.get(metric, 0.0) > 0]
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
        test = moved.difference(column, level=normal_cdf(z), planning=False)
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
