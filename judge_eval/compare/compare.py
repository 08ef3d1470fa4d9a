"""Comparing runs on the traces they have in common."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from judge_eval.compare.attribution import attributions, chunks_to_ask
from judge_eval.compare.changes import Moved, changes, counts_of, moved_between
from judge_eval.compare.comparison import Comparison, Difference, Opening, PairOfRuns, RunRef, TraceChange
from judge_eval.compare.pairing import Pairing
from judge_eval.digest import short
from judge_eval.errors import RunError
from judge_eval.metrics import Metric, parse_metric
from judge_eval.runs.columns.table_reader import verdict_table
from judge_eval.runs.columns.verdict_table import Places, VerdictTable, cluster_codes
from judge_eval.runs.folder.describing import escalation, judge_differences, judges_in_words, without_claims
from judge_eval.runs.folder.records import SliceBy
from judge_eval.runs.folder.run import Run
from judge_eval.runs.scoring.aggregate import less_is_better, limits_of, main_metric
from judge_eval.runs.scoring.rescore import rescore, scale_of
from judge_eval.runs.scoring.slices import SliceFigure, SliceTest, corrected_slices, slice_tests, slices_of, unsliced
from judge_eval.safe_text import counted, signed_pair
from judge_eval.schema import Trace
from judge_eval.stats import PairedComparison, compare_paired, holm, tukey_hsd
from judge_eval.stats.figure import named_fields

KEEP = 1000
"""How many changed traces of each candidate a comparison names."""
WORK = 1_000_000_000
"""How many values the permutations of one test may touch in all."""


def compare(
    baseline: Run,
    *candidates: Run,
    metrics: Sequence[str | Metric] | None = None,
    cluster: str | None = None,
    seed: int = 0,
    keep: int = KEEP,
    again: Run | None = None,
    by: Sequence[SliceBy] = (),
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
        seed: Of the randomisation tests.
        keep: How many changed traces of each candidate to name.
        again: Verdicts of the first candidate's judge on chunks of the baseline (`traces_to_ask`), for the split.
        by: Test the change of every metric in each slice of the baseline's traces too.

    Raises:
        RunError: There is no candidate, or one has no trace in common with the baseline.
        MetricError: A metric is undefined for these runs.
    """
    if not candidates:
        raise RunError("a comparison needs at least two runs")
    names = tuple(str(m if isinstance(m, Metric) else parse_metric(m)) for m in metrics or ())
    names = names or baseline.manifest.metrics
    key = cluster or baseline.manifest.intervals.cluster
    before, *others = [scored_by(run, names) for run in (baseline, *candidates)]
    first, *rest = [verdict_table(run, names, key) for run in (before, *others)]
    moves = [
        moved_between((baseline, run), (before, scored), (first, rest[place - 1]), place)
        for place, (run, scored) in enumerate(zip(candidates, others, strict=True), 1)
    ]
    for run, moved in zip(candidates, moves, strict=True):
        _check_common(baseline, run, moved)
    traces = [
        change
        for place, (moved, run) in enumerate(zip(moves, others, strict=True), 1)
        for change in changes(moved.pairing, moved.kinds, before, run, place, keep)
    ]
    asked = None if again is None else verdict_table(again, (), key)
    made = weigh(baseline, candidates, moves, traces, seed=seed, again=asked)
    slices = tuple(slices_between(candidates, moves, by)) if by else ()
    return made.replace(slices=slices, notes=(*made.notes, *unsliced(slices, by))) if by else made


def _check_common(baseline: Run, run: Run, moved: Moved) -> None:
    if not len(moved.pairing):
        raise RunError(
            f"runs {baseline.name} and {run.name} have no trace in common; traces are paired by id and question"
        )


def slices_between(candidates: Sequence[Run], moves: Sequence[Moved], by: Sequence[SliceBy]) -> list[SliceFigure]:
    """Test the change of every metric in each slice of the baseline's traces."""
    tests: list[SliceTest] = []
    for run, moved in zip(candidates, moves, strict=True):
        paired = moved.pairing.first.at(moved.pairing.a)
        kinds = [slices_of(paired, each) for each in dict.fromkeys(by)]
        clusters = cluster_codes(paired.clusters)
        for column, name in enumerate(moved.pairing.first.metrics):
            old, new = moved.columns(column)
            figure = f"{name}, {run.name}" if len(candidates) > 1 else name
            tests += slice_tests(figure, new.value - old.value, kinds, clusters, change=True)
    return corrected_slices(tests)


def traces_to_ask(baseline: Run, candidate: Run, metric: str, count: int) -> list[Trace]:
    """Choose chunks of the baseline about which to ask the candidate's judge; see `chunks_to_ask`.

    Raises:
        RunError: The metric needs more than grades, or the runs have no trace in common.
    """
    parsed = parse_metric(metric)
    if parsed.spec.claims or parsed.spec.probabilities or parsed.needs_pool:
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
    seed: int = 0,
    again: VerdictTable | None = None,
) -> Comparison:
    """Return what traces that were brought together say about their runs."""
    pairings = [each.pairing for each in moved]
    names = pairings[0].first.metrics
    tested = [
        (place, name, _difference(each, column, len(moved) * len(names), seed))
        for place, each in enumerate(moved, 1)
        for column, name in enumerate(names)
    ]
    corrected = iter(holm([test.p for _, _, test in tested if test is not None]))
    warnings, notes = _doubts(baseline, candidates, moved)
    warnings += [f"{name}: no trace has a value in both runs" for _, name, test in tested if test is None]
    for run, each in zip(candidates, moved, strict=True):
        who = f"{run.name}: " if len(candidates) > 1 else ""
        undefined_notes = without_claims(dict(zip(names, each.undefined, strict=True)), "the comparison")
        notes += [who + note for note in undefined_notes]
    differences = tuple(
        _record(name, place, test, moved[place - 1], next(corrected))
        for place, name, test in tested
        if test is not None
    )
    refs = tuple(
        RunRef(id=m.id, label=m.label, href=m.href, traces=m.tally.traces, failed_verdicts=m.tally.failed_verdicts)
        for m in (run.manifest for run in (baseline, *candidates))
    )
    lead = main_metric(names)
    least = [scale_of(run).relevant for run in (baseline, *candidates)]
    unlike = [bool(judge_differences(baseline.manifest, run.manifest)) for run in candidates]
    openings = tuple(
        _opening_of(
            d, pairings[d.candidate - 1], (least[0], least[d.candidate]), len(differences), unlike[d.candidate - 1]
        )
        for d in differences
        if d.metric == lead
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
    sentences = []
    for opening in openings:
        name, several = refs[opening.candidate].name, len(candidates) > 1
        sentences += [
            f"{name}: {a.sentence}" if several else a.sentence
            for a in split
            if (a.metric, a.candidate) == (lead, opening.candidate)
        ]
        sentences.append(opening.sentence(name, several=several))
    return Comparison(
        runs=refs,
        warnings=tuple(warnings),
        notes=tuple(notes),
        paired=tuple(len(p) for p in pairings),
        only_baseline=tuple(len(p.only_first) for p in pairings),
        only_candidate=tuple(len(p.only_second) for p in pairings),
        sentences=tuple(sentences),
        openings=openings,
        differences=differences,
        attributions=split,
        pairs=tuple(_all_pairs(moved, names, seed)) if len(candidates) > 1 else (),
        changed=tuple(counts_of(each.kinds) for each in moved),
        traces=tuple(traces),
        claims=tuple(each.claims for each in moved if each.claims is not None),
    )


def _difference(moved: Moved, column: int, comparisons: int, seed: int) -> PairedComparison | None:
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
        permutations=_draws_for(both.size),
        seed=seed,
    )


def _draws_for(values: int) -> int:
    """Return how many permutations to draw: fewer for huge runs, whose p values need no fine grain."""
    return max(999, min(9999, WORK // max(1, values)))


def _record(metric: str, place: int, test: PairedComparison, moved: Moved, adjusted: float) -> Difference:
    values = named_fields(test)
    if fewer := less_is_better(metric):
        values |= {"wins": test.losses, "losses": test.wins}
    undefined = moved.undefined[moved.pairing.first.metrics.index(metric)]
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


def _all_pairs(moved: Sequence[Moved], names: Sequence[str], seed: int) -> list[PairOfRuns]:
    pairings, partners = [each.pairing for each in moved], []
    for pairing in pairings:
        at = np.full(len(pairing.first), -1, dtype=np.int64)
        at[pairing.a] = pairing.b
        partners.append(at[pairings[0].a])
    common = np.all([at >= 0 for at in partners], axis=0)
    out = []
    for column, name in enumerate(names):
        values = [moved[0].before.value[pairings[0].a[common], column]]
        values += [each.after.value[at[common], column] for each, at in zip(moved, partners, strict=True)]
        table = np.column_stack(values)
        table = table[~np.isnan(table).any(axis=1)]
        if len(table):
            out += [
                PairOfRuns(metric=name, **named_fields(d))
                for d in tukey_hsd(table, permutations=_draws_for(table.size), seed=seed)
            ]
    return out


def _doubts(baseline: Run, candidates: Sequence[Run], moved: Sequence[Moved]) -> tuple[list[str], list[str]]:
    warnings, notes = [], []
    for run, each in zip(candidates, moved, strict=True):
        pairing = each.pairing
        who = f"{run.name}: " if len(candidates) > 1 else ""
        warnings += [f"{who}{text}" for text in judge_differences(baseline.manifest, run.manifest)]
        if each.claims is not None and each.claims.doubt is not None:
            warnings.append(f"{who}{each.claims.doubt}")
        if pairing.other_question.size:
            warnings.append(
                f"{who}the dataset differs: {_some(baseline, pairing.other_question)} have a different "
                "question under the same id and are not compared"
            )
        sides = ((baseline, pairing.only_first, "baseline"), (run, pairing.only_second, "candidate"))
        alone = [f"{_some(where, rows)} only in the {what}" for where, rows, what in sides if rows.size]
        if alone:
            warnings.append(f"{who}the dataset differs: {', '.join(alone)}")
        old, new = baseline.manifest.dataset, run.manifest.dataset
        if old.digest != new.digest:
            digests = f"{short(old.digest)} there, {short(new.digest)} here"
            same = str(old.claims) == str(new.claims)
            what = "the retrieved chunks differ" if same else "the retrieved chunks, or the claims, differ"
            notes.append(f"{who}{what} (dataset {digests})")
    for run in (baseline, *candidates):
        if failed := run.manifest.tally.failed_verdicts:
            verdicts = counted(failed, "failed verdict")
            warnings.append(f"{run.name} has {verdicts}; intervals cover all values that they could make")
        if escalated := escalation(run.manifest):
            notes.append(f"{run.name}: {escalated}")
        if run.status not in ("done", "incomplete"):
            warnings.append(f"{run.name} is not finished ({run.status})")
    return warnings, notes


def _some(run: Run, rows: Places) -> str:
    shown = ", ".join(run.results[int(row)].trace_id for row in rows[:3])
    return f"{counted(len(rows), 'trace')} ({shown}{', ...' if len(rows) > 3 else ''})"


_NONE = np.iinfo(np.int64).max


def _opening_of(
    d: Difference, pairing: Pairing, relevant: tuple[int, int], compared: int, another_judge: bool
) -> Opening:
    """Say what a difference shows."""
    common: dict[str, Any] = {"candidate": d.candidate, "metric": d.metric, "another_judge": another_judge}
    if d.finding == "same":
        rest = f"no difference: {d.metric} is the same on {'all ' if d.n > 1 else ''}{counted(d.n, 'question')}"
        return Opening(**common, finding="same", rest=rest)
    size = f"{d.metric} {signed_pair(d.difference, d.interval)}"
    undecided = d.n - d.wins - d.ties - d.losses
    unknown = f"; failed verdicts leave {undecided} open" if undecided else ""
    unknown += f"; {d.n_excluded} others have no value" if d.n_excluded else ""
    losses, wins, finding = d.losses, d.wins, d.way
    if finding == "unsure":
        seen = counted(d.n, "question")
        least = "" if d.detectable is None else f"; differences under {d.detectable:.3f} cannot be seen with {seen}"
        if d.too_few:
            least = "; they are too few to show any"
        counts = f"{losses} of {seen} lost ({wins} won{unknown})"
        if d.clear_in_number:
            counts += ", but in size losses and gains differ by no more than chance explains"
        counts += least
        return Opening(**common, finding="unclear", rest=f"no difference is shown: {size}; {counts}")
    lower, worse = d.difference < 0, finding == "worse"
    which, n, others = ("lost", losses, f"{wins} won") if worse else ("won", wins, f"{losses} lost")
    first, told_first = _first_relevant(pairing, d.metric, lower, worse, relevant)
    doubt = ""
    if d.p_holm > 0.05:
        among = f", adjusted for {compared} comparisons" if compared > 1 else ""
        doubt = f"; the randomisation test does not confirm it (p={d.p_holm:.3g}{among})"
    rest = f"{finding}: {size}; {n} of {counted(d.n, 'question')} {which} ({others}{unknown}){told_first}{doubt}"
    return Opening(**common, finding=finding, first_before=first[0], first_after=first[1], rest=rest)


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
    pairing: Pairing, metric: str, lower: bool, worse: bool, relevant: tuple[int, int]
) -> tuple[tuple[int | None, int | None], str]:
    """Return the median ranks of the first relevant chunk where a metric lost or won, and say them."""
    before, after = pairing.values(pairing.first.metrics.index(metric))
    with np.errstate(invalid="ignore"):
        moved = np.flatnonzero(after < before if lower else after > before)
    was = first_relevant(pairing.first, pairing.a[moved], relevant[0])
    now = first_relevant(pairing.second, pairing.b[moved], relevant[1])
    known = (was >= 0) & (now >= 0)
    if not known.any():
        return (None, None), ""
    a, b = _median(was[known]), _median(now[known])
    if a is None:
        where = "is missing in both" if b is None else f"was missing and is at rank {b}"
    elif b is None:
        where = f"was at rank {a} and is missing"
    else:
        where = f"stayed at rank {a}" if a == b else f"moved from rank {a} to {b}"
    whose = "the lost ones" if worse else "the won ones"
    return (a, b), f"; in {whose} the first relevant chunk {where} (median)"


def _median(ranks: NDArray[np.int64]) -> int | None:
    """Return the lower median, 0 standing for a rank behind all; None where that is the median."""
    ordered = np.sort(np.where(ranks == 0, _NONE, ranks))
    middle = int(ordered[(len(ordered) - 1) // 2])
    return None if middle == _NONE else middle
