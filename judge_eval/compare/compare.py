"""Comparing runs on the traces they have in common."""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from judge_eval.compare.attribution import attributions, chunks_to_ask
from judge_eval.compare.changes import Moved, changes, counts_of, moved_between, words_metric
from judge_eval.compare.comparison import Comparison, Difference, Opening, PairOfRuns, RunRef, TraceChange
from judge_eval.compare.cuts_found import cuts_found
from judge_eval.compare.differences import difference_record, limited_slices, paired_difference, slices_between
from judge_eval.compare.gate_limit import gate_limits
from judge_eval.compare.options import Gates
from judge_eval.compare.pairing import Pairing
from judge_eval.compare.wording import wording_splits
from judge_eval.digest import short
from judge_eval.errors import RunError
from judge_eval.metrics import Metric, parse_metric
from judge_eval.note import MOST_NAMED, Note, NoteKind, unsliced, without_claims
from judge_eval.registry import stages_of
from judge_eval.runs.columns.table_reader import verdict_table
from judge_eval.runs.columns.verdict_table import Places, VerdictTable, cluster_codes
from judge_eval.runs.folder.describing import judge_differences, judges_in_words
from judge_eval.runs.folder.records import SliceBy
from judge_eval.runs.folder.run import Run
from judge_eval.runs.scoring.aggregate import limits_of, main_metric
from judge_eval.runs.scoring.rescore import rescore, scale_of
from judge_eval.schema import Trace
from judge_eval.stats import PairedComparison, compare_paired, holm

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
    by_rank = [name for name in names if words_metric(name) is None]
    before, *others = [scored_by(run, by_rank) for run in (baseline, *candidates)]
    first, *rest = [verdict_table(run, by_rank, key) for run in (before, *others)]
    moves = [
        moved_between((baseline, run), (before, scored), (first, rest[place - 1]), place, names)
        for place, (run, scored) in enumerate(zip(candidates, others, strict=True), 1)
    ]
    for run, moved in zip(candidates, moves, strict=True):
        _check_common(baseline, run, moved)
    traces = [
        change
        for place, (moved, run) in enumerate(zip(moves, others, strict=True), 1)
        for change in changes(moved.pairing, moved.kinds, before, run, place, keep, moved.cuts.differ)
    ]
    asked = None if again is None else verdict_table(again, (), key)
    made = weigh(baseline, candidates, moves, traces, again=asked)
    if limits:
        made = made.replace(limited=tuple(limited_slices((before, *others), moves, limits)))
    slices = tuple(slices_between(candidates, moves, by)) if by else ()
    return made.replace(slices=slices, notes=(*made.notes, *unsliced(slices, by))) if by else made


def _check_common(baseline: Run, run: Run, moved: Moved) -> None:
    if not len(moved.pairing):
        what = "answerable question" if moved.pairing.unanswerable else "trace"
        raise RunError(
            f"runs {baseline.name} and {run.name} have no {what} in common; traces are paired by id and question"
        )


def traces_to_ask(baseline: Run, candidate: Run, metric: str, count: int) -> list[Trace]:
    """Choose chunks of the baseline about which to ask the candidate's judge; see `chunks_to_ask`.

    Raises:
        RunError: The metric needs more than grades, or the runs have no trace in common.
    """
    parsed = parse_metric(metric)
    if not parsed.spec.grades_alone or parsed.needs_pool:
        raise RunError(f"{parsed}: a difference is split for metrics over grades alone")
    name, key = str(parsed), baseline.manifest.intervals.cluster
    scored = scored_by(baseline, [name]), scored_by(candidate, [name])
    moved = moved_between((baseline, candidate), scored, [verdict_table(run, (name,), key) for run in scored], 1)
    _check_common(baseline, candidate, moved)
    return chunks_to_ask(moved, (baseline, candidate), parsed, count)


def scored_by(run: Run, metrics: Sequence[str]) -> Run:
    """Return the run with scores of these metrics, computed from its verdicts where it lacks one."""
    return run if set(metrics) <= set(run.manifest.metrics) else rescore(run, metrics)


def weigh(
    baseline: Run,
    candidates: Sequence[Run],
    moved: Sequence[Moved],
    traces: Sequence[TraceChange] = (),
    *,
    again: VerdictTable | None = None,
) -> Comparison:
    """Return what traces that were brought together say about their runs."""
    pairings = [each.pairing for each in moved]
    comparisons = sum(len(each.compared) for each in moved)
    tested = [
        (place, name, paired_difference(each, column, comparisons=comparisons))
        for place, each in enumerate(moved, 1)
        for column, name in enumerate(each.pairing.first.metrics)
        if name in each.compared
    ]
    corrected = iter(holm([test.p for _, _, test in tested if test is not None]))
    warnings, notes = _notes(baseline, candidates, moved)
    for place, each in enumerate(moved, 1):
        if names := tuple(name for candidate, name, test in tested if candidate == place and test is None):
            warnings.append(Note(kind="no value", candidate=place, names=names))
        counts = (int(rows.sum()) for rows in each.undefined)
        undefined = dict(zip(each.pairing.first.metrics, counts, strict=True))
        notes += without_claims("not compared", undefined, place)
    least = [scale_of(run).relevant for run in (baseline, *candidates)]
    cuts = (cuts_found(place, each, (baseline, candidates[place - 1])) for place, each in enumerate(moved, 1))
    differences = tuple(
        difference_record(name, place, test, moved[place - 1], next(corrected))
        for place, name, test in tested
        if test is not None
    )
    refs = tuple(
        RunRef(id=m.id, label=m.label, href=m.href, traces=m.tally.traces, failed_verdicts=m.tally.failed_verdicts)
        for m in (run.manifest for run in (baseline, *candidates))
    )
    leads = [main_metric(each.compared) for each in moved]
    unlike = [bool(judge_differences(baseline.manifest, run.manifest)) for run in candidates]
    openings = tuple(
        _opening_of(d, pairings[d.candidate - 1], (least[0], least[d.candidate]), unlike[d.candidate - 1])
        for d in differences
        if d.metric == leads[d.candidate - 1]
    )
    split = tuple(
        part
        for place, (run, each) in enumerate(zip(candidates, moved, strict=True), 1)
        if unlike[place - 1]
        for part in attributions(
            each,
            (baseline, run),
            (scale_of(baseline), scale_of(run)),
            judges_in_words(baseline.manifest, run.manifest),
            [d for d in differences if d.candidate == place],
            again if place == 1 else None,
        )
    )
    wordings, changed_retriever = wording_splits(baseline, candidates, moved, differences)
    notes += changed_retriever
    return Comparison(
        runs=refs,
        warnings=tuple(warnings),
        notes=tuple(notes),
        paired=tuple(len(p) for p in pairings),
        only_baseline=tuple(len(p.only_first) for p in pairings),
        only_candidate=tuple(len(p.only_second) for p in pairings),
        openings=openings,
        differences=differences,
        attributions=split,
        pairs=tuple(_all_pairs(moved)) if len(candidates) > 1 else (),
        cuts=tuple(each for each in cuts if each is not None),
        wordings=wordings,
        changed=tuple(counts_of(each.kinds) for each in moved),
        traces=tuple(traces),
        claims=tuple(each.claims for each in moved if each.claims is not None),
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
        sides = [(moved[0].before, pairings[0].a[common])]
        sides += [(each.after, at[common]) for each, at in zip(moved, partners, strict=True)]
        value, low, high = (
            np.array([getattr(filled, end)[rows, column] for filled, rows in sides]) for end in ("value", "low", "high")
        )
        known = ~np.isnan(value).any(axis=0)
        if not known.any():
            continue
        value, low, high = value[:, known], low[:, known], high[:, known]
        clusters = cluster_codes(pairings[0].first.clusters[pairings[0].a[common][known]])
        tests: dict[tuple[int, int], PairedComparison] = {}
        for i, j in combinations(range(len(sides)), 2):
            tests[i, j] = compare_paired(
                value[i],
                value[j],
                ends=((low[i], high[i]), (low[j], high[j])),
                clusters=clusters,
                limits=limits_of(name, low[i], high[i], low[j], high[j]),
                planning=False,
            )
        adjusted = holm([test.p for test in tests.values()])
        out += [
            PairOfRuns(metric=name, first=i, second=j, difference=test.difference, p=p)
            for ((i, j), test), p in zip(tests.items(), adjusted, strict=True)
        ]
    return out


def _notes(baseline: Run, candidates: Sequence[Run], moved: Sequence[Moved]) -> tuple[list[Note], list[Note]]:
    """Find what makes a comparison doubtful, and what differs as it should."""
    warnings, notes = list[Note](), list[Note]()
    for place, (run, each) in enumerate(zip(candidates, moved, strict=True), 1):
        pairing = each.pairing
        if count := pairing.unanswerable:
            notes.append(Note(kind="unanswerable", candidate=place, count=count, other=pairing.flags_differ))
        differences = judge_differences(baseline.manifest, run.manifest)
        warnings += [Note(kind="another judge", candidate=place, differs=each) for each in differences]
        if (claims := each.claims) is not None and (count := claims.differing):
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
    for run in (baseline, *candidates):
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


def _opening_of(d: Difference, pairing: Pairing, relevant: tuple[int, int], another_judge: bool) -> Opening:
    """Find what a difference shows; ranks are looked at of metrics that count chunks alone."""
    common: dict[str, Any] = {"candidate": d.candidate, "metric": d.metric, "another_judge": another_judge}
    if d.finding == "same" or d.way == "unsure":
        return Opening(**common, finding="same" if d.finding == "same" else "unclear")
    by_words = words_metric(d.metric) is not None
    ranks = None if by_words else _first_relevant(pairing, d.metric, d.difference < 0, relevant)
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


def _first_relevant(
    pairing: Pairing, metric: str, lower: bool, relevant: tuple[int, int]
) -> tuple[int | None, int | None] | None:
    """Return the median ranks of the first relevant chunk where a metric moved; None if all are unknown."""
    before, after = pairing.values(pairing.first.metrics.index(metric))
    with np.errstate(invalid="ignore"):
        moved = np.flatnonzero(after < before if lower else after > before)
    was = first_relevant(pairing.first, pairing.a[moved], relevant[0])
    now = first_relevant(pairing.second, pairing.b[moved], relevant[1])
    known = (was >= 0) & (now >= 0)
    return (_median(was[known]), _median(now[known])) if known.any() else None


def _median(ranks: NDArray[np.int64]) -> int | None:
    """Return the lower median, 0 standing for a rank behind all; None where that is the median."""
    ordered = np.sort(np.where(ranks == 0, _NONE, ranks))
    middle = int(ordered[(len(ordered) - 1) // 2])
    return None if middle == _NONE else middle
