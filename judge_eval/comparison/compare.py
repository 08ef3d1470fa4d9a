"""Comparing runs on the traces they have in common."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from judge_eval.comparison.changes import changes, counts_of
from judge_eval.comparison.findings import Difference, PairOfRuns, RunRef, TraceChange
from judge_eval.comparison.moving import Moved, moved_between
from judge_eval.comparison.opening import opening_of
from judge_eval.comparison.pairing import Pairing, cluster_codes
from judge_eval.comparison.record import Comparison
from judge_eval.digest import short
from judge_eval.errors import RunError
from judge_eval.metrics import Metric, parse_metric
from judge_eval.runs.columns.loading import columns_of
from judge_eval.runs.columns.packed import Places
from judge_eval.runs.folder.describing import without_claims
from judge_eval.runs.folder.differing import judge_differences
from judge_eval.runs.folder.run import Run
from judge_eval.runs.scoring.aggregate import less_is_better, limits_of, main_metric
from judge_eval.runs.scoring.rescore import rescore, scale_of
from judge_eval.stats import PairedComparison, compare_paired, holm, tukey_hsd
from judge_eval.stats.estimate import ends_of

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
) -> Comparison:
    """Compare runs with a baseline, trace by trace, without a call.

    Traces are paired by id and by what they ask. A trace in which a verdict failed in one of two runs is
    left out of the metrics that have no value for it, and counted. With three runs or more, all pairs are
    compared too. About 300 bytes a trace of ten chunks and run are held in memory, however long its texts.

    Args:
        baseline: The run the others are compared with.
        candidates: One run or more.
        metrics: Names or values of metrics; None takes those of the baseline. What a run was not scored by
            is computed from its verdicts.
        cluster: The key of `metadata` that groups traces; as in the baseline where None.
        seed: Of the randomisation tests.
        keep: How many changed traces of each candidate to name.

    Raises:
        RunError: There is no candidate, or one has no trace in common with the baseline.
        MetricError: A metric is undefined for these runs.
    """
    if not candidates:
        raise RunError("a comparison needs two runs; name another one")
    names = tuple(str(m if isinstance(m, Metric) else parse_metric(m)) for m in metrics or ())
    names = names or baseline.manifest.metrics
    key = cluster or baseline.manifest.intervals.cluster
    before, *others = [scored_by(run, names) for run in (baseline, *candidates)]
    first = columns_of(before, names, key)
    found = [
        moved_between((baseline, run), (before, scored), (first, columns_of(scored, names, key)), place)
        for place, (run, scored) in enumerate(zip(candidates, others, strict=True), 1)
    ]
    for run, moved in zip(candidates, found, strict=True):
        if not len(moved.pairing):
            raise RunError(
                f"runs {baseline.name} and {run.name} have no trace in common; "
                "traces are paired by id and question"
            )
    traces = [
        change
        for place, (moved, run) in enumerate(zip(found, others, strict=True), 1)
        for change in changes(moved.pairing, moved.kinds, before, run, place, keep)
    ]
    return weigh(baseline, candidates, found, traces, seed=seed)


def scored_by(run: Run, metrics: Sequence[str]) -> Run:
    """Return the run with scores of these metrics, computed from its verdicts where it lacks one.

    Raises:
        DataError: A metric needs what a trace does not have.
    """
    return run if set(metrics) <= set(run.manifest.metrics) else rescore(run, metrics)


def weigh(
    baseline: Run,
    candidates: Sequence[Run],
    moved: Sequence[Moved],
    traces: Sequence[TraceChange] = (),
    *,
    seed: int = 0,
) -> Comparison:
    """Return what traces that were brought together say about their runs.

    Args:
        baseline: The run the others are compared with.
        candidates: One run or more.
        moved: What moved between the baseline and each candidate, with the scores to compare.
        traces: The changed traces to name.
        seed: Of the randomisation tests.
    """
    pairings = [each.pairing for each in moved]
    names = pairings[0].first.metrics
    tested = [
        (place, name, _difference(pairing, column, seed))
        for place, pairing in enumerate(pairings, 1)
        for column, name in enumerate(names)
    ]
    corrected = iter(holm([test.p_randomisation for _, _, test in tested if test is not None]))
    warnings, notes = _doubts(baseline, candidates, moved)
    warnings += [f"{name}: no trace has a value in both runs" for _, name, test in tested if test is None]
    for run, each in zip(candidates, moved, strict=True):
        who = f"{run.name}: " if len(candidates) > 1 else ""
        told = without_claims(dict(zip(names, each.undefined, strict=True)), "the comparison")
        notes += [who + note for note in told]
    found = tuple(
        _record(name, place, test, moved[place - 1], next(corrected))
        for place, name, test in tested
        if test is not None
    )
    refs, lead = tuple(map(_ref, (baseline, *candidates))), main_metric(names)
    least = [scale_of(run).relevant for run in (baseline, *candidates)]
    openings = tuple(
        opening_of(d, pairings[d.candidate - 1], (least[0], least[d.candidate]), len(found))
        for d in found
        if d.metric == lead
    )
    return Comparison(
        runs=refs,
        warnings=tuple(warnings),
        notes=tuple(notes),
        paired=tuple(len(p) for p in pairings),
        only_baseline=tuple(len(p.only_first) for p in pairings),
        only_candidate=tuple(len(p.only_second) for p in pairings),
        sentences=tuple(o.told(refs[o.candidate].name, several=len(candidates) > 1) for o in openings),
        openings=openings,
        differences=found,
        pairs=tuple(_all_pairs(pairings, names, seed)) if len(candidates) > 1 else (),
        changed=tuple(counts_of(each.kinds) for each in moved),
        traces=tuple(traces),
        claims=tuple(each.claims for each in moved if each.claims is not None),
    )


def _difference(pairing: Pairing, column: int, seed: int) -> PairedComparison | None:
    before, after = pairing.values(column)
    both = ~(np.isnan(before) | np.isnan(after))
    n = int(both.sum())
    if not n:
        return None
    clusters = cluster_codes(pairing.first.clusters[pairing.a[both]])
    draws = _draws_for(n)
    limits = limits_of(pairing.first.metrics[column])
    return compare_paired(
        before[both], after[both], clusters=clusters, limits=limits, permutations=draws, seed=seed
    )


def _draws_for(values: int) -> int:
    """Return how many permutations to draw: fewer for huge runs, whose p values need no fine grain."""
    return max(999, min(9999, WORK // max(1, values)))


_SAME = (
    "n", "clusters", "baseline_mean", "candidate_mean", "difference", "lower", "upper", "standard_error",
    "p_t", "exact", "dz", "ties", "detectable",
)  # fmt: skip


def _record(metric: str, place: int, test: PairedComparison, moved: Moved, adjusted: float) -> Difference:
    same = {name: getattr(test, name) for name in _SAME}
    fewer = less_is_better(metric)
    undefined = moved.undefined[moved.pairing.first.metrics.index(metric)]
    return Difference(
        metric=metric,
        candidate=place,
        n_excluded=len(moved.pairing) - test.n - undefined,
        n_undefined=undefined,
        interval=ends_of(test.interval),
        method=test.interval.method if test.interval else None,
        p=test.p_randomisation,
        p_holm=adjusted,
        wins=test.losses if fewer else test.wins,
        losses=test.wins if fewer else test.losses,
        less_is_better=fewer,
        **same,
    )


def _all_pairs(pairings: Sequence[Pairing], names: Sequence[str], seed: int) -> list[PairOfRuns]:
    """Compare all pairs over the traces that every run has a value for."""
    partners = []
    for pairing in pairings:
        at = np.full(len(pairing.first), -1, dtype=np.int64)
        at[pairing.a] = pairing.b
        partners.append(at[pairings[0].a])
    common = np.all([at >= 0 for at in partners], axis=0)
    out = []
    for column, name in enumerate(names):
        values = [pairings[0].first.scores[pairings[0].a[common], column]]
        values += [p.second.scores[at[common], column] for p, at in zip(pairings, partners, strict=True)]
        table = np.column_stack(values)
        table = table[~np.isnan(table).any(axis=1)]
        if len(table):
            out += [
                PairOfRuns(metric=name, first=d.first, second=d.second, difference=d.difference, p=d.p)
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
                f"{who}the dataset differs: {_some(baseline, pairing.other_question)} ask something else "
                "under the same id, and are not compared"
            )
        sides = ((baseline, pairing.only_first, "baseline"), (run, pairing.only_second, "candidate"))
        alone = [f"{_some(where, rows)} only in the {what}" for where, rows, what in sides if rows.size]
        if alone:
            warnings.append(f"{who}the dataset differs: {', '.join(alone)}")
        old, new = baseline.manifest.dataset, run.manifest.dataset
        if old.digest != new.digest:
            digests = f"{short(old.digest)} there, {short(new.digest)} here"
            same = str(old.claims) == str(new.claims)
            what = "what was retrieved differs" if same else "what was retrieved, or its claims, differs"
            notes.append(f"{who}{what} (dataset {digests})")
    for run in (baseline, *candidates):
        if failed := run.manifest.tally.failed_verdicts:
            warnings.append(
                f"{run.name} has {failed} failed verdicts; metrics without a value there are not compared"
            )
        if run.status not in ("done", "incomplete"):
            warnings.append(f"{run.name} is not finished ({run.status})")
    return warnings, notes


def _some(run: Run, rows: Places) -> str:
    shown = ", ".join(run.results[int(row)].trace_id for row in rows[:3])
    return f"{len(rows)} trace{'s' if len(rows) != 1 else ''} ({shown}{', ...' if len(rows) > 3 else ''})"


def _ref(run: Run) -> RunRef:
    m, tally = run.manifest, run.manifest.tally
    counts = {"traces": tally.traces, "failed_verdicts": tally.failed_verdicts}
    return RunRef(id=m.id, label=m.label, href=m.href, **counts)
