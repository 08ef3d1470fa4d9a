"""Judging a sample of a pool with known chances, and what it says of the whole."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from judge_eval.digest import digest_json, digest_parts
from judge_eval.errors import ConfigError
from judge_eval.judges.judge import Judge
from judge_eval.judges.kept import KeptVerdicts
from judge_eval.llm.expected_usage import Plan, expect_output
from judge_eval.llm.stack import Stack, Stacks
from judge_eval.metrics import parse_metric
from judge_eval.pools.joining import asked_of, partners
from judge_eval.pools.pool import Pool, places_in
from judge_eval.pools.scoring import settled
from judge_eval.record import Record
from judge_eval.runs.folder.journal import cluster_of
from judge_eval.runs.folder.run import Run
from judge_eval.runs.scoring.aggregate import fill_clusters
from judge_eval.runs.scoring.figure import Figure
from judge_eval.runs.scoring.rescore import scale_of
from judge_eval.runs.scoring.sampled import STRATUM, is_sampled, strata_of
from judge_eval.schema import NoVerdict, Outcome, Trace, TracePool
from judge_eval.stats import mean_interval
from judge_eval.stats.pool_sampling import SampledPool, draw_strata, drawn_surely

CUTOFF = 10
"""The cutoff of the estimates if no metric of the run has one."""
ENOUGH = 18
"""With fewer chunks drawn by chance, a question on average, there is no interval: the bias of Recall, AP and NDCG, of
the last relevant chunks that a small sample misses, would pass it, and P and DCG are too skewed for one, unless all of
the first K ranks were judged."""
SHARES = (0.1, 0.2, 0.3, 0.5)
_BUDGET = re.compile(r"(\$)?\s*([0-9]+(?:\.[0-9]+)?)\s*(calls|tokens)?")


def first_cutoff(metrics: Sequence[str]) -> int:
    """Return the cutoff of the first metric that has one, else `CUTOFF`."""
    return next((cut for name in metrics if (cut := parse_metric(name).cutoff)), CUTOFF)


def read_budget(text: str) -> tuple[str, float]:
    """Read `300`, `300calls`, `50000tokens` or `$2.50`: what is limited (`calls`, `tokens`, `dollars`), and to what.

    Raises:
        ConfigError: It is none of these, or 0.
    """
    match = _BUDGET.fullmatch(text.strip())
    if match is None or not float(match[2]) or (match[1] and match[3]):
        raise ConfigError(f"a pool's budget is {text!r}; write 300 or 300calls, 50000tokens, or $2.50")
    return "dollars" if match[1] else match[3] or "calls", float(match[2])


def affordable(budget: tuple[str, float], plan: Plan, stack: Stack | Stacks) -> float:
    """Return which share of a plan's calls a budget pays for, at most 1.

    Raises:
        ConfigError: The budget is in dollars and the price is not known.
    """
    unit, most = budget
    output = expect_output(stack, plan).output_tokens if plan.output_tokens else 0
    tokens = plan.input_tokens + output
    needs = {"calls": plan.calls, "tokens": tokens, "dollars": stack.cost_of(plan.input_tokens, output)}[unit]
    if needs is None:
        raise ConfigError("the price of the judge is not known; give the pool's budget in calls or tokens")
    return min(1.0, most / needs) if needs else 1.0


@dataclass(frozen=True)
class PoolSample:
    """Which chunks of traces are judged, and with which chances."""

    traces: tuple[Trace, ...]
    """The traces, each chunk with its stratum in its metadata, and what the pool knows of the question beside it."""
    known: dict[tuple[str, str], Outcome]
    """The pool's verdicts by trace and chunk: nobody is asked about these."""
    drawn: frozenset[tuple[str, str]]
    record: dict[str, Any]

    def judge(self, judge: Judge) -> KeptVerdicts:
        """Return the judge that is asked about the drawn chunks alone."""
        known, drawn = self.known, self.drawn
        source = {"pool_sample": self.record}
        return KeptVerdicts(judge, lambda t, c: known.get((t, c.id)), source, lambda t, c: (t, c.id) in drawn)


def sample_pool(
    traces: Sequence[Trace],
    share: float,
    *,
    pool: Pool | None = None,
    prior: Run | None = None,
    k: int = CUTOFF,
    seed: int = 0,
) -> PoolSample:
    """Draw the chunks to be judged: the first ranks in full, of the rest a stratified sample of each question.

    The first three ranks are judged in full, and those down to `k` as far as they leave 14 chunks of a question, or
    half of its sample, to be drawn by chance. Strata go by how likely a chunk is relevant: by the verdicts of a cheap
    judge, then by its ranks in this list and in those of the pool. Chunks with a verdict in the pool count in full, and
    are not judged again. A chunk that several lists have is drawn by the same number, so their samples overlap.

    Args:
        traces: What to judge.
        share: Of the chunks without a verdict, from 0 to 1.
        pool: What is known of these questions.
        prior: A run of a cheap judge over the same traces.
        k: The cutoff of the metrics.
        seed: Of the draw; equal seeds draw equally.

    Raises:
        ConfigError: The share is out of its range.
    """
    if not 0 < share <= 1:
        raise ConfigError(f"the share of chunks to judge is {share:g}; it must be above 0 and at most 1")
    likely: dict[tuple[str, str], float] = {}
    for result in () if prior is None else prior.results:
        for outcome in result.outcomes:
            if outcome.kind == "verdict":
                sure = outcome.confidence if outcome.confidence is not None else float(outcome.relevant)
                likely[result.trace_id, outcome.chunk_id] = sure
    rows = [-1] * len(traces)
    ranks = [] if pool is None else [pool.ranks(system) for system in range(len(pool.systems))]
    if pool is not None:
        rows = partners([(trace.id, asked_of(trace)) for trace in traces], pool.questions)
    made, known, drawn = [], dict[tuple[str, str], Outcome](), set[tuple[str, str]]()
    for trace, row in zip(traces, rows, strict=True):
        places: list[int | None] = [None] * len(trace.chunks)
        if pool is not None and row >= 0:
            places = places_in(pool, pool.span(row), trace.chunks)
            ids = {at: chunk.id for at, chunk in zip(places, trace.chunks, strict=True) if at is not None}
            for at, name in ids.items():
                if (grade := int(pool.grades[at])) >= 0:
                    known[trace.id, name] = settled(NoVerdict(chunk_id=name, why="unjudged"), grade, pool.scale)
            judged = {ids.get(at, f"~{at}"): int(pool.grades[at]) for at in pool.span(row) if pool.grades[at] >= 0}
            trace = trace.but(pool=TracePool(grades=judged, maximum=pool.scale.maximum))
        scores = [
            likely.get((trace.id, chunk.id), 0.0)
            + 0.1 / (60 + rank)
            + sum(0.1 / (60 + r[at]) for r in ranks if at is not None and r[at])
            for rank, (chunk, at) in enumerate(zip(trace.chunks, places, strict=True), 1)
        ]
        open_ = [place for place, chunk in enumerate(trace.chunks) if (trace.id, chunk.id) not in known]
        size = round(share * len(open_))
        surely = drawn_surely([place + 1 for place in open_], size, k)
        numbers = [_number(seed, trace.id, trace.chunks[p].id) for p in open_]
        chosen, strata = draw_strata([scores[p] for p in open_], surely, size, numbers)
        strata_of = dict(zip(open_, strata.tolist(), strict=True))
        drawn |= {(trace.id, trace.chunks[p].id) for p, taken in zip(open_, chosen.tolist(), strict=True) if taken}
        chunks = tuple(
            chunk.but(metadata={**chunk.metadata, STRATUM: strata_of.get(place, 0)})
            for place, chunk in enumerate(trace.chunks)
        )
        made.append(trace.but(chunks=chunks))
    record: dict[str, Any] = {"share": share, "seed": seed, "digest": digest_json(sorted(map(list, drawn)))}
    record |= {} if pool is None else {"pool": [system.run for system in pool.systems]}
    return PoolSample(tuple(made), known, frozenset(drawn), record | ({} if prior is None else {"prior": prior.id}))


def _number(seed: int, trace: str, chunk: str) -> float:
    """Return a chunk's own number, uniform from 0 to 1, whichever list it is in."""
    return int.from_bytes(digest_parts([str(seed), trace, chunk])[:8], "big") / 2**64


class SampleReport(Record):
    """What a sample says of the whole pool."""

    chunks: int
    judged: int
    """With a verdict."""
    drawn: float
    """How many chunks of a question were drawn by chance, on average; of those that were judged in full none."""
    figures: dict[str, Figure]
    """By metric the mean over questions; the interval covers the choice of questions and of chunks. None if fewer than
    `ENOUGH` were drawn and chunks that the metric reads were not judged."""
    half_widths: dict[str, tuple[float | None, ...]]
    """By metric about half the width of the interval if other shares (`SHARES`) of the chunks were judged."""


def sample_report(run: Run, k: int | None = None) -> SampleReport | None:
    """Estimate P, Recall, AP, DCG and NDCG of the whole pool from a run of `sample_pool`; None for other runs.

    Args:
        run: The run.
        k: The cutoff; None takes that of the first metric with one, else 10.
    """
    if not is_sampled(run):
        return None
    k = k or first_cutoff(run.manifest.metrics)
    scale, cluster = scale_of(run), run.manifest.intervals.cluster
    values, variances, clusters, chances, chunks, judged, whole = [], [], [], [], 0, 0, True
    for result in run.results:
        trace, listed = result.trace, len(result.outcomes)
        known = {} if trace.pool is None else trace.pool.grades
        beside = [grade for name, grade in known.items() if name.startswith("~")]
        grades = [o.grade if o.kind == "verdict" else scale.minimum - 1 for o in result.outcomes] + beside
        strata = strata_of(result) + [0] * len(beside)
        pool = SampledPool(np.array(grades) - scale.minimum, strata, scale.relevant - scale.minimum)
        estimates = pool.estimates(np.arange(listed), k)
        values.append([each.value for each in estimates.values()])
        variances.append([each.variance for each in estimates.values()])
        clusters.append(cluster_of(trace, cluster))
        if not pool.judged.all():
            chances.append(int(pool.judged[np.array(strata) > 0].sum()))
        whole &= bool(pool.judged[: min(k, listed)].all())
        chunks, judged, names = chunks + listed, judged + int(pool.judged[:listed].sum()), list(estimates)
    if not values:
        return None
    table, share = np.array(values), judged / max(chunks, 1)
    sampling = np.array(variances).mean(axis=0) / len(table)
    figures, halves, drawn = {}, {}, float(np.mean(chances)) if chances else 0.0
    for column, name in enumerate(names):
        most = None if name.startswith("DCG") else max(1.0, float(table[:, column].max()))
        limits = (min(0.0, float(table[:, column].min())), most)  # an unbiased estimate may pass both ends
        figure = Figure.of(mean_interval(table[:, column], clusters=fill_clusters(clusters), limits=limits))
        if chances and drawn < ENOUGH and not (whole and name.startswith(("P@", "DCG"))):
            figure = figure.but(interval=None)
        figures[name] = figure
        halves[name] = _half_widths(figure, float(sampling[column]), share)
    return SampleReport(chunks=chunks, judged=judged, drawn=drawn, figures=figures, half_widths=halves)


def _half_widths(figure: Figure, sampling: float, share: float) -> tuple[float | None, ...]:
    """Scale the part of the variance that is the sampling's by (1 - share) / share."""
    if figure.interval is None or not 0 < share < 1:
        return (None,) * len(SHARES)
    half = (figure.interval[1] - figure.interval[0]) / 2
    error = (half / 1.96) ** 2
    odds = share / (1 - share)
    return tuple(1.96 * (max(error - sampling, 0.0) + sampling * odds * (1 - s) / s) ** 0.5 for s in SHARES)
