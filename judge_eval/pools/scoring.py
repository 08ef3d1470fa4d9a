"""Runs scored against a pool: what each adds to the others, and how much the pool misses."""

from collections import Counter
from collections.abc import Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from judge_eval.errors import MetricError, RunError
from judge_eval.metrics import GradeTable, Metric, parse_metric
from judge_eval.metrics.filling import rank_counts
from judge_eval.metrics.ragged import offsets_of
from judge_eval.metrics.table import MISSING, OUTSIDE
from judge_eval.note import Note
from judge_eval.pools.joining import NO_GRADE, Conflict, System, asked_by, partners
from judge_eval.pools.pool import Pool, places_in
from judge_eval.record import Record
from judge_eval.runs.columns.verdict_table import cluster_hashes, verdict_table
from judge_eval.runs.folder.records import Aggregate, TraceResult
from judge_eval.runs.folder.run import AnyRun, ChangedResults
from judge_eval.runs.scoring.aggregate import MOST_FAILED, FilledColumn, aggregate, best_order, fill_clusters, limits_of
from judge_eval.runs.scoring.rescore import rescore, scale_of
from judge_eval.schema import Outcome, Scale, TracePool, Verdict
from judge_eval.stats import Figure, Resampler
from judge_eval.stats._arrays import group_codes
from judge_eval.stats.undiscovered import chao1

MOST_SYSTEMS = 10
MOST_TAGS = 20
"""How many tags, the most frequent ones, are told apart."""


class FoundBy(Record):
    """The relevant chunks that exactly these systems have within K."""

    systems: tuple[str, ...]
    """None of them: the pool knows these chunks from elsewhere, or from below K."""
    chunks: int


class Coverage(Record):
    """How much of the pool's relevant chunks some systems have together within K."""

    systems: tuple[str, ...]
    share: Figure
    """Chunks of all questions together; the interval resamples questions."""
    gain: Figure | None = None
    """For one system: by how much all systems cover more than all others do."""
    only_questions: int = 0
    """For one system: questions to which it alone has something relevant."""


class TagCoverage(Record):
    """The coverage of questions with a tag."""

    tag: str
    relevant: int
    shares: tuple[float, ...]
    """Of each system, then of all together."""


class Added(Record):
    """What each system adds, by the first K ranks."""

    k: int
    relevant: int
    """Of the pool."""
    found_by: tuple[FoundBy, ...]
    """The most frequent first."""
    each: tuple[Coverage, ...]
    best: tuple[Coverage, ...]
    """The best pair and the best three, if there are more systems; then all."""
    tags: tuple[TagCoverage, ...] = ()


def what_each_adds(pool: Pool, k: int, *, seed: int = 0) -> Added | None:
    """Say what the first `k` ranks of each system add to the others; None for one system, or more than 10."""
    relevant, names = pool.relevant, [system.name for system in pool.systems]
    if not 2 <= len(names) <= MOST_SYSTEMS or not relevant.any():
        return None
    hits, rows = pool.found(k)[relevant], pool.rows[relevant]
    systems = range(len(names))
    sizes = [size for size in (2, 3) if size < len(names)]
    best = [max(combinations(systems, size), key=lambda some: int(hits[:, some].any(axis=1).sum())) for size in sizes]
    sets: list[Sequence[int]] = [[s] for s in systems]
    sets += [[other for other in systems if other != s] for s in systems]
    sets += [*best, systems]
    unions = [hits[:, list(some)].any(axis=1) for some in sets]
    covered = np.column_stack([np.ones(len(rows)), *unions]).astype(np.float64)
    draws = Resampler(_by_cluster(pool, rows, covered), seed=seed)

    def share(plus: int, minus: int | None = None) -> Figure:
        def of(sums: NDArray[np.float64]) -> NDArray[np.float64]:
            less = 0.0 if minus is None else sums[:, minus]
            with np.errstate(invalid="ignore"):  # draws without a relevant chunk have no share, and are left out
                shares: NDArray[np.float64] = (sums[:, plus] - less) / sums[:, 0]
            return shares

        estimate = draws.estimate(of)
        ends = estimate.interval
        if ends is not None and ends.low == ends.high:  # what never varied has no interval of zero width
            estimate = Figure(estimate.value, None, estimate.n)
        return estimate

    together, m = len(sets), len(names)
    answers = np.zeros((len(pool.questions), m), dtype=np.bool_)
    np.logical_or.at(answers, rows, hits)
    alone = answers & (answers.sum(axis=1) == 1)[:, None]
    each = tuple(
        Coverage(
            systems=(names[s],),
            share=share(1 + s),
            gain=share(together, 1 + m + s),
            only_questions=int(alone[:, s].sum()),
        )
        for s in systems
    )
    tops = [
        Coverage(systems=tuple(names[s] for s in some), share=share(1 + 2 * m + place))
        for place, some in enumerate([*best, systems])
    ]
    patterns = Counter(map(tuple, hits.tolist()))
    return Added(
        k=k,
        relevant=len(rows),
        found_by=tuple(
            FoundBy(systems=tuple(n for n, has in zip(names, pattern, strict=True) if has), chunks=count)
            for pattern, count in patterns.most_common()
        ),
        each=each,
        best=tuple(tops),
        tags=tuple(_by_tag(pool, rows, hits)),
    )


def _by_cluster(pool: Pool, rows: NDArray[np.int64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sum rows of values by question, or by cluster where questions share one."""
    codes, groups = group_codes(fill_clusters(pool.clusters), len(pool.questions))
    sums = np.zeros((groups, values.shape[1]))
    np.add.at(sums, codes[rows], values)
    return sums


def _by_tag(pool: Pool, rows: NDArray[np.int64], has: NDArray[np.bool_]) -> list[TagCoverage]:
    often = Counter(tag for tags in pool.tags for tag in set(tags))
    out = []
    for tag, _ in often.most_common(MOST_TAGS):
        here = has[np.array([tag in tags for tags in pool.tags])[rows]]
        if len(here):
            shares = [*here.mean(axis=0).tolist(), float(here.any(axis=1).mean())]
            out.append(TagCoverage(tag=tag, relevant=len(here), shares=tuple(shares)))
    return sorted(out, key=lambda each: each.tag)


FEWEST = 3
"""Below so many systems nothing is said of what none has found."""


class Undiscovered(Record):
    """How many relevant chunks exist, at least."""

    found: int
    """Relevant chunks that the systems have within the pool's depth."""
    once: int
    """By exactly one of them."""
    twice: int
    at_least: float | None = None
    """Chao's lower bound; None if `refused`."""
    interval: tuple[float, float] | None = None
    refused: str = ""
    """Why there is no bound."""


class SystemInPool(Record):
    """A system scored against the pool."""

    system: System
    chunks: int
    """Retrieved, of all questions."""
    unjudged: int
    """Of these without a verdict."""
    unique: int
    """Chunks with a verdict that only its team brought into the pool."""
    unique_relevant: int
    unjudged_at: float
    """The share of its first K ranks that were unjudged if its team had not been pooled."""
    scores: dict[str, Aggregate]
    """By metric, against the pool."""
    perfect: dict[str, float]
    """By metric, the mean of a perfect order of the same chunks; unjudged ones count as not relevant."""
    losses: dict[str, float]
    """By metric, how much the mean falls if its team's unique chunks leave the pool: the bias against a new
    system. Unjudged chunks count as not relevant here, as in TREC."""


class PoolReport(Record):
    """What a pool says of its runs."""

    systems: tuple[SystemInPool, ...]
    depth: int | None
    k: int
    """The K of `unjudged_at`."""
    questions: int
    chunks: int
    judged: int
    relevant: int
    settling: str
    n_conflicts: int = Field(ge=0)
    conflicts: tuple[Conflict, ...] = ()
    doubts: tuple[Note, ...] = ()
    undiscovered: Undiscovered
    added: Added | None = None
    """What each run adds to the others; None for one run, or more than 10."""


def default_cutoff(pool: Pool) -> int:
    """Return the K of the default metrics: 10, or less if every list is shorter."""
    return max(1, min(10, max((system.depth for system in pool.systems), default=10)))


def pool_metrics(k: int) -> tuple[str, ...]:
    """Return the metrics that a pool makes possible, at a cutoff."""
    return f"Recall@{k}", f"AP(norm=total)@{k}", f"NDCG(ideal=judged)@{k}", "Rprec", "bpref"


def grades_of(
    pool: Pool,
    system: int,
    without: NDArray[np.bool_] | None = None,
    *,
    as_trec: bool = False,
    ranks: int | None = None,
) -> GradeTable:
    """Return the grades of the first `ranks` of a system's lists beside the rest of the pool, a row a question.

    Chunks `without` leave the pool, and are unjudged then: outside the pool if `as_trec`, else failed verdicts.
    """
    places, starts = pool.lists[system]
    if ranks is not None:
        places = places[pool.ranks(system)[places] <= ranks]
        starts = offsets_of(np.minimum(np.diff(starts), ranks))
    lowest = pool.scale.minimum
    grades = np.where(pool.grades >= 0, pool.grades - lowest, OUTSIDE if as_trec else MISSING).astype(np.int8)
    if without is not None:
        grades[without] = OUTSIDE
    rest = grades >= 0
    rest[places] = False
    return GradeTable(
        grades[places],
        starts,
        ids=[question for question, _ in pool.questions],
        relevant=pool.scale.relevant - lowest,
        maximum=pool.scale.maximum - lowest,
        rest=grades[rest],
        rest_offsets=offsets_of(np.bincount(pool.rows[rest], minlength=len(pool.questions))),
        minimum=lowest,
    )


def score_pool(pool: Pool, metrics: Sequence[str | Metric] | None = None, *, k: int | None = None) -> PoolReport:
    """Score every system of a pool against it, and say how much the pool misses.

    Args:
        pool: The pool.
        metrics: Names or values of metrics; None takes `pool_metrics`.
        k: The cutoff of the default metrics, of what each run adds and of the share of unjudged chunks; None: that
            of the first metric with one, else `default_cutoff`.

    Raises:
        RunError: The pool has no system.
        MetricError: A metric needs more than grades, or is undefined.
    """
    if not pool.systems:
        raise RunError("the pool holds judgments alone; name a run to score")
    cutoffs = (cutoff for metric in metrics or () if (cutoff := parse_metric(metric).cutoff))
    k = k or next(cutoffs, default_cutoff(pool))
    named = [parse_metric(metric) for metric in metrics or pool_metrics(k)]
    pooled = pool.pooled
    return PoolReport(
        systems=tuple(_system(pool, place, named, k) for place in range(len(pool.systems))),
        depth=pool.depth,
        k=k,
        questions=len(pool.questions),
        chunks=int(pooled.sum()),
        judged=int((pool.grades >= 0).sum()),
        relevant=int(pool.relevant.sum()),
        settling=pool.settling,
        n_conflicts=pool.n_conflicts,
        conflicts=pool.conflicts,
        doubts=pool.doubts,
        undiscovered=undiscovered(pool),
        added=what_each_adds(pool, k),
    )


def _system(pool: Pool, place: int, metrics: Sequence[Metric], k: int) -> SystemInPool:
    places, _ = pool.lists[place]
    table, system = grades_of(pool, place), pool.systems[place]
    # What stands below the pool's depth is no part of it: it leaves open only what reads so deep, as an ideal list may.
    shallow = grades_of(pool, place, ranks=pool.depth)
    unique, ranks = pool.only_of(system.team), pool.ranks(place)
    at_top = (ranks > 0) & (ranks <= k)
    scores, losses, perfect = {}, {}, {}
    whole, left = (grades_of(pool, place, without, as_trec=True) for without in (None, unique))
    for metric in metrics:
        if not metric.spec.grades_alone:
            raise MetricError(f"{metric}: a pool holds grades, no claims, quotes or probabilities; leave it out")
        within = metric.cutoff is not None and metric.cutoff <= (pool.depth or 0)
        within &= metric.needs_total or metric.depth is not None
        scores[str(metric)] = _aggregate(pool, metric, shallow if within else table)
        perfect[str(metric)] = float(metric.compute(best_order(whole)).mean())
        losses[str(metric)] = float((metric.compute(whole) - metric.compute(left)).mean())
    return SystemInPool(
        system=system,
        chunks=len(places),
        unjudged=int((pool.grades[places] < 0).sum()),
        unique=int((unique & (pool.grades >= 0)).sum()),
        unique_relevant=int((unique & pool.relevant).sum()),
        unjudged_at=float((at_top & (unique | (pool.grades < 0))).sum() / max(1, at_top.sum())),
        scores=scores,
        perfect=perfect,
        losses=losses,
    )


def _aggregate(pool: Pool, metric: Metric, table: GradeTable) -> Aggregate:
    expected = np.full(len(table), np.nan)
    if metric.misses(table):
        low, high, _ = metric.bounds(table)
        values = np.where(low == high, low, np.nan)
        counts = rank_counts(np.maximum(table.grades, -1), table.offsets, table.top_grade + 1)
        expected = metric.expected(table, counts)
    else:
        values = low = high = metric.compute(table)
    failed = float((table.grades == MISSING).mean()) if table.grades.size else 0.0
    return aggregate(
        values,
        FilledColumn.of(values, low, high, expected, table.missing > 0),
        clusters=cluster_hashes(pool.clusters),
        tags=pool.tags,
        limits=limits_of(str(metric), values, low, high),
    ).replace(
        definition=metric.definition, headline="bounds" if failed > MOST_FAILED and np.isnan(values).any() else "mean"
    )


def undiscovered(pool: Pool) -> Undiscovered:
    """Return how many relevant chunks there are at least, found or not; see `stats.undiscovered.chao1`.

    A what-if that was made of other runs of the pool finds nothing by itself, and is not counted.
    """
    runs = {system.run for system in pool.systems}
    own = np.array([runs.isdisjoint(system.made_of) for system in pool.systems])
    times = pool.found(pool.depth)[:, own].sum(axis=1)[pool.relevant]
    distinct, once, twice = (int(n) for n in ((times > 0).sum(), (times == 1).sum(), (times == 2).sum()))
    refused = ""
    if own.sum() < FEWEST:
        made = "" if own.all() else " that are not made of others"
        refused = f"it takes {FEWEST} systems or more{made}"
    elif not twice:
        refused = "no relevant chunk was found by exactly two systems"
    if refused:
        return Undiscovered(found=distinct, once=once, twice=twice, refused=refused)
    estimate = chao1(distinct, once, twice)
    interval = estimate.interval
    return Undiscovered(found=distinct, once=once, twice=twice, at_least=estimate.value, interval=interval)


def scored_against(run: AnyRun, pool: Pool, metrics: Sequence[str | Metric] | None = None) -> AnyRun:
    """Score a run against a pool, without a call; see `EvalRun.scored_against`."""
    scale = scale_of(run)
    if (scale.minimum, scale.maximum, scale.relevant) != (pool.scale.minimum, pool.scale.maximum, pool.scale.relevant):
        raise RunError(f"run {run.name} was judged on another scale than the pool; score it with the pool's threshold")
    table = verdict_table(run, ())
    partner = partners((table.ids, table.questions), asked_by(pool.questions))
    places = np.flatnonzero(partner >= 0)
    if not places.size:
        raise RunError(f"run {run.name} has no question of the pool; questions are joined by id and by what they ask")
    rows = dict(zip(table.positions.tolist(), partner.tolist(), strict=True))
    results = ChangedResults(
        run.results, lambda plain: [_in_pool(each, pool, rows[each.position]) for each in plain], places
    )
    left_out = len(table) - len(places)
    names = [system.name for system in pool.systems]
    note = {"systems": names, "depth": pool.depth, "questions": len(pool.questions), "left_out": left_out}
    judge = {**run.manifest.judge, "pool": note}
    scored = run.replace(run.manifest.model_copy(update={"judge": judge}), results)
    return rescore(scored, metrics or pool_metrics(default_cutoff(pool)))


def _in_pool(result: TraceResult, pool: Pool, row: int) -> TraceResult:
    """Return a result with the pool beside its trace, and the pool's verdicts."""
    span = pool.span(row)
    places = places_in(pool, span, result.trace.chunks)
    own = {chunk.id for chunk in result.trace.chunks}
    ids = {at: pool.chunk_ids[at] if pool.chunk_ids[at] not in own else f"{pool.chunk_ids[at]}~{at}" for at in span}
    outcomes: list[Outcome] = []
    for at, outcome in zip(places, result.outcomes, strict=True):
        grade = NO_GRADE if at is None else int(pool.grades[at])
        outcomes.append(outcome if grade < 0 else settled(outcome, grade, pool.scale))
        if at is not None:
            ids[at] = outcome.chunk_id
    grades = {name: int(pool.grades[at]) for at, name in ids.items() if pool.grades[at] >= 0}
    beside = TracePool(grades=grades, maximum=pool.scale.maximum)
    trace = result.trace.model_copy(update={"pool": beside, "relevant_total": None})
    return result.model_copy(update={"trace": trace, "outcomes": tuple(outcomes), "parts": {}})


def settled(outcome: Outcome, grade: int, scale: Scale) -> Outcome:
    """Return the verdict that counts in a pool: the run's own if it agrees."""
    if outcome.kind == "verdict" and outcome.grade == grade:
        return outcome
    before = f"this run's own is {outcome.grade}" if outcome.kind == "verdict" else "this run has none"
    reason = f"the pool's verdict ({before})"
    return Verdict(chunk_id=outcome.chunk_id, grade=grade, relevant=grade >= scale.relevant, reason=reason)
