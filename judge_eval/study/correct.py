"""Means of a run, corrected by human labels on a part of its traces."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise

import numpy as np

from judge_eval.data.labels import Labels
from judge_eval.errors import ConfigError, DataError
from judge_eval.metrics import GradeTable, Metric, parse_metric
from judge_eval.metrics.spec import ends
from judge_eval.record import Record
from judge_eval.runs.folder.journal import cluster_of
from judge_eval.runs.folder.run import Run
from judge_eval.runs.scoring.aggregate import fill_clusters, limits_of
from judge_eval.runs.scoring.rescore import scale_of
from judge_eval.runs.scoring.sampled import drawn_weights, is_sampled
from judge_eval.safe_text import interval, number
from judge_eval.schema import Scale
from judge_eval.spelling import option
from judge_eval.stats import CorrectedMean, Sample, ppi_mean, ppi_mean_sampled, rogan_gladen
from judge_eval.stats._arrays import Floats, Ints, group_sums
from judge_eval.stats.chunk_correction import (
    ChunkLabels,
    RelevanceModel,
    bare_rank,
    beside_labels_alone,
    chunk_mean,
    chunk_weights,
    expected_by_verdict,
)
from judge_eval.stats.correction import LEAST_LABELS
from judge_eval.stats.estimate import Interval, ends_of
from judge_eval.stats.intervals import Limits
from judge_eval.stats.sequential import look_levels, sequential_mean
from judge_eval.study.matching import label_scale, match_labels
from judge_eval.study.systems import metric_both_ways

FAILED = -1
"""Stands for a failed verdict among the grades of the judge."""


def uses_chunks(metric: str) -> bool:
    """Tell whether labels of single chunks help to estimate the mean of a metric."""
    parsed = parse_metric(metric)
    return parsed.spec.additive or expected_metric(parsed) is not None


@dataclass(frozen=True, slots=True, eq=False)
class ChunkSample:
    """The chunks of a run that a metric reads, in the order of its results, and which are labelled."""

    trace: Ints
    """The place of each one's trace, shape (M,)."""
    rank: Ints
    """From 0."""
    grade: Ints
    """What the judge said; `FAILED` without a verdict."""
    verdict: Ints
    """The same, numbered from 0; a failed verdict has a number too."""
    labelled: Ints
    """The places of the labelled ones, shape (n,)."""
    label: Ints
    """Their labels."""
    weight: Floats
    """One over their chances to be labelled."""
    share: Floats
    """One over the chance of each chunk to be judged, shape (M,): 1 unless the run judged a sample."""
    lengths: Ints
    """How many chunks each trace has, shape (N,)."""

    @classmethod
    def of(cls, run: Run, labels: Labels, depth: int | None) -> ChunkSample:
        """Collect the chunks down to a rank; every rank needs a label, and all chunks or none a chance.

        The labelled chunks of a sample that is labelled in part are a random part of it. Chunks that a run did not draw
        to be judged are not among them.
        """
        trace, rank, grades, label, share = [], [], [], [], []
        traces, chunks, drawn = [], [], []
        sampled = is_sampled(run)
        for place, result in enumerate(run.results):
            shares = drawn_weights(result) if sampled else [1.0] * len(result.outcomes)
            for k, outcome in enumerate(result.outcomes[:depth]):
                if not shares[k]:
                    continue
                share.append(shares[k])
                trace.append(place)
                rank.append(k)
                grades.append(outcome.grade if outcome.kind == "verdict" else FAILED)
                key = (result.trace_id, outcome.chunk_id)
                label.append(labels.grades.get(key, FAILED))
                if key in labels.chunk_chances:
                    drawn.append(k)
                if key in labels.grades:
                    traces.append(labels.chances.get(result.trace_id))
                    chunks.append(labels.chunk_chances.get(key))
        codes = np.unique(np.array(grades, dtype=np.int64), return_inverse=True)[1].reshape(-1)
        ranks, marks = np.array(rank, dtype=np.int64), np.array(label, dtype=np.int64)
        labelled = np.flatnonzero(marks >= 0)
        chances = _complete(chunks, "chunk_probability")
        if chances is None:
            # Of a rank of which a sample was judged few are left, so these count as one.
            parts = np.array(share) > 1
            if parts.any() and not parts[labelled].any():
                raise ValueError("no chunk of those that were drawn by chance is labelled; label some of them too")
            alike = np.where(parts, ranks.max(initial=0) + 1, ranks)
            weight = chunk_weights(alike, labelled, _complete(traces, "probability"))
        elif ranks.max(initial=0) > (deepest := max(drawn)):  # no chunk below had a chance
            raise bare_rank(deepest + 1)
        else:
            weight = len(drawn) / chances / len(chances)
        lengths = np.array([len(result.outcomes) for result in run.results], dtype=np.int64)
        return cls(
            np.array(trace, dtype=np.int64),
            ranks,
            np.array(grades, dtype=np.int64),
            codes.astype(np.int64),
            labelled,
            marks[labelled],
            weight,
            np.array(share, dtype=np.float64),
            lengths,
        )


def _complete(chances: Sequence[float | None], name: str) -> Floats | None:
    known = [chance for chance in chances if chance is not None]
    if not known:
        return None
    if len(known) < len(chances):
        raise DataError(f"{len(known)} of {len(chances)} labelled chunks have a `{name}`; add it to all or to none")
    return np.array(known)


def mean_of_chunks(
    run: Run,
    labels: Labels,
    metric: str,
    *,
    threshold: int | None = None,
    clusters: Sequence[Hashable] | None = None,
    limits: Limits | None = None,
    judge_only: float = 0.0,
    alone: bool = True,
) -> tuple[CorrectedMean, int]:
    """Estimate the mean of a metric (see `uses_chunks`) from labels of single chunks and all verdicts."""
    # A failed verdict counts as one more thing that the judge can say. Without a `chunk_probability` every chunk of a
    # rank is taken to have had the same chance to be labelled, given its trace's. `clusters` holds the cluster of each
    # trace, `limits` the least and the greatest value of one, `judge_only` the mean under the judge's verdicts. Returns
    # also how many labelled chunks the mean rests on; too few raise `ValueError`. Without `alone` what the labels say
    # without the judge is left open, which halves the time.
    parsed = parse_metric(metric)
    if is_sampled(run) and not parsed.spec.additive:
        raise ValueError("the run judged a sample of its chunks; labels of single chunks correct P and DCG alone")
    scale = label_scale(labels, scale_of(run), threshold)
    sample = ChunkSample.of(run, labels, parsed.cutoff)
    if is_sampled(run):
        judge_only = _judged_alone(sample, parsed, scale_of(run))
    estimate = _additive if parsed.spec.additive else _modelled
    means = []
    for verdict in (sample.verdict, np.zeros_like(sample.verdict))[: 1 + alone]:
        base, chunks = estimate(sample, verdict, parsed, scale)
        means.append(chunk_mean(base, chunks, clusters=clusters, limits=limits))
    count = int(sample.labelled.size)
    if not alone:
        return means[0], count
    made = beside_labels_alone(means[0], means[1], count, judge_only)
    if len(set(labels.chunk_chances.values())) > 1:  # chances went by the verdicts: there is no choice without a judge
        made = replace(made, effective_n=None)
    return made, count


def _additive(sample: ChunkSample, verdict: Ints, metric: Metric, scale: Scale) -> tuple[Floats, ChunkLabels]:
    """Split a metric that is a sum over chunks: what the verdicts expect of each trace, and the labels."""
    parts = _parts(sample, metric, scale) * sample.share[:, None]  # (M, grades)
    grades = np.eye(parts.shape[1])[sample.label - scale.minimum]
    shares = expected_by_verdict(verdict, sample.labelled, grades, sample.weight)
    expected = (shares * parts).sum(axis=1)
    base = group_sums(expected, sample.trace, sample.lengths.size)
    here = sample.labelled
    own = parts[here, sample.label - scale.minimum]
    return base, ChunkLabels(sample.trace[here], np.ones(here.size), own, expected[here], sample.weight)


def _judged_alone(sample: ChunkSample, metric: Metric, scale: Scale) -> float:
    """Estimate a sum over all chunks from the verdicts on a sample; a failed one counts as the others on average."""
    parts, there = _parts(sample, metric, scale) * sample.share[:, None], sample.grade != FAILED
    own = parts[there, sample.grade[there] - scale.minimum]
    usual = own.sum() / max(sample.share[there].sum(), 1e-300)
    return float(own.sum() + usual * sample.share[~there].sum()) / sample.lengths.size


def _parts(sample: ChunkSample, metric: Metric, scale: Scale) -> Floats:
    """Return what each chunk adds to its trace's value with each grade, shape (M, grades)."""
    width = scale.maximum - scale.minimum + 1
    parts = np.zeros((sample.trace.size, width))
    lengths = sample.lengths[sample.trace]
    for length in np.unique(lengths).tolist():
        here = lengths == length
        depth = min(length, int(sample.rank[here].max()) + 1)
        grid = np.zeros((depth, width, length), dtype=np.int8)
        for rank in range(depth):
            grid[rank, :, rank] = np.arange(width)
        flat = grid.reshape(-1, length)
        offsets = np.arange(len(flat) + 1, dtype=np.int64) * length
        least, most = scale.relevant - scale.minimum, scale.maximum - scale.minimum
        table = GradeTable(flat.reshape(-1), offsets, relevant=least, maximum=most)
        parts[here] = metric.compute(table).reshape(depth, width)[sample.rank[here]]
    return parts


def expected_metric(metric: Metric) -> Metric | None:
    """Return the metric that is the mean of another one over chunks that are relevant by chance."""
    if metric.spec.expected_by is None or metric.params:
        return None
    return parse_metric(metric.spec.expected_by + ("" if metric.cutoff is None else f"@{metric.cutoff}"))


def relevance_model(sample: ChunkSample, verdict: Ints, scale: Scale) -> tuple[RelevanceModel, Floats]:
    """Fit how likely each chunk is relevant; return also the labels as 0 and 1."""
    cells = np.zeros((sample.lengths.size, int(sample.rank.max(initial=0)) + 1), dtype=np.int64)
    there = np.zeros(cells.shape)
    cells[sample.trace, sample.rank], there[sample.trace, sample.rank] = verdict, 1.0
    trace, rank = sample.trace[sample.labelled], sample.rank[sample.labelled]
    label = (sample.label >= scale.relevant).astype(np.float64)
    return RelevanceModel.fit(cells, there, trace, rank, label, sample.weight), label


def _modelled(sample: ChunkSample, verdict: Ints, metric: Metric, scale: Scale) -> tuple[Floats, ChunkLabels]:
    """Model which chunks are relevant, for a metric that is not a sum over chunks."""
    expecting = expected_metric(metric)
    assert expecting is not None
    width = int(sample.rank.max(initial=0)) + 1
    model, label = relevance_model(sample, verdict, scale)
    trace, rank = sample.trace[sample.labelled], sample.rank[sample.labelled]

    def expect(chances: Floats) -> Floats:
        # A chunk that is not there is never relevant.
        offsets = np.arange(len(chances) + 1, dtype=np.int64) * width
        grades = np.zeros(chances.size, dtype=np.int8)
        return expecting.compute(GradeTable(grades, offsets, maximum=1, probable=np.clip(chances.ravel(), 0, 1)))

    effect, expected = model.effect(expect, trace, rank), model.relevance[trace, rank]
    return model.expect(expect), ChunkLabels(trace, effect, label, expected, sample.weight)


class Corrected(Record):
    """One metric of a run, corrected."""

    metric: str
    value: float
    interval: tuple[float, float] | None
    """95%, within the metric's range; None where labels that are all equal allow none."""
    standard_error: float
    power: float
    """The weight given to the judge, in [0, 1]; 0 leaves the labels alone."""
    n_labelled: int
    n_unlabelled: int
    chunks: int = 0
    """How many labelled chunks it rests on, where it uses single chunks; else 0, and whole traces count."""
    effective_n: float | None
    """How many labels alone would give the same standard error: of chunks where these are used, else of traces.

    None of chunks that were chosen with unlike chances: these went by the judge's verdicts.
    """
    judge_only: float
    labels_only: float
    method: str
    warnings: tuple[str, ...] = ()


class Rate(Record):
    """The share of chunks that are relevant, corrected for the judge's errors."""

    value: float | None
    """None where the judge is no better than chance."""
    interval: tuple[float, float] | None
    judge_only: float
    sensitivity: float
    specificity: float
    warnings: tuple[str, ...] = ()


class Correction(Record):
    """What a run's means are, by the judge and by people together."""

    run: str
    labels: str
    means: dict[str, Corrected]
    rate: Rate | None = None
    """Rogan and Gladen's estimate of the share of relevant chunks; None without labels of both kinds."""
    notes: tuple[str, ...] = ()


def correct(
    run: Run,
    labels: Labels,
    metrics: Sequence[str] | None = None,
    *,
    threshold: int | None = None,
    sequential: bool = False,
    looks: Sequence[int] = (),
) -> Correction:
    """Correct the means of a run by prediction-powered inference (PPI++) on traces that people labelled.

    Where only some chunks of a trace are labelled, P, DCG, AP and RR are estimated from single chunks
    (`judge_eval.stats.chunk_correction`), other metrics from traces that are labelled in full. A trace without chunks
    has a known value and counts so too. Traces that belong together (the run's `intervals.cluster`) are not taken for
    independent. Where the labels say which chance each trace had to be chosen, and the chances differ, traces are
    weighted by their inverse. In a run that judged a sample of its chunks each stands for one over its chance to be
    drawn. The judge's value of a trace with failed verdicts is the expected one, and a note counts
    these; among single chunks a failed verdict is one more thing that the judge can say.

    Args:
        run: The run.
        labels: Human labels of a random choice of its traces.
        metrics: Names of metrics; where None those of the run that labels can tell.
        threshold: The least label that counts as relevant.
        sequential: Give intervals that hold at every look while labelling goes on (`sequential_mean`). The labels are
            of whole traces, in the order in which they were drawn, all with the same chance; the mean is that of the
            run's traces.
        looks: The numbers of labelled traces at which people look, planned before: the intervals at these hold together
            (`look_levels`). The last one that is reached counts, with so many traces; otherwise as `sequential`.

    Raises:
        ConfigError: Looks do not rise from `LEAST_LABELS` on, or are given beside `sequential`.
        DataError: Too little is labelled for every metric (for one of those that were named), or nothing is
            left unlabelled.
    """
    means: dict[str, Corrected] = {}
    notes: list[str] = []
    refused: list[DataError] = []
    if empty := sum(not result.trace.chunks for result in run.results):
        notes.append(f"{empty} traces without chunks are counted; their value needs no label")
    if failed := sum(bool(result.failed) for result in run.results):
        notes.append(f"{failed} traces have failed verdicts; the judge's value of them is the expected one")
    if looks and sequential:
        raise ConfigError(f"{option('looks')} and {option('sequential')} are two ways to look more than once; take one")
    if sequential:
        notes.append("the intervals hold at every look: labelling may stop at any, for whatever reason")
    level = 0.95
    if looks:
        labels, level, note = _at_look(run, labels, looks)
        notes.append(note)
    if left := len(labels.chunk_chances.keys() - labels.grades.keys()):
        count = f"{left} of {len(labels.chunk_chances)} chunks of the sample"
        notes.append(f"{count} have no label: the labelled ones are taken for a random part of it")
    by_name = bool(metrics)
    partly = _partly_labelled(run, labels)
    if not metrics:
        every = run.manifest.metrics
        metrics = [name for name in every if not parse_metric(name).spec.claims]
        if len(metrics) < len(every):
            notes.append(f"{len(every) - len(metrics)} metrics of claims are left out: labels grade chunks")
    for metric in metrics:
        judge, human = metric_both_ways(run, labels, metric, threshold)
        chunks = left_out = 0
        try:
            if partly and uses_chunks(metric) and not sequential:
                corrected, chunks = mean_by_chunks(run, labels, metric, threshold, judge, human)
            else:
                corrected, left_out = mean_by_traces(run, judge, human, labels, metric, level)
                if sequential:
                    corrected = replace(corrected, interval=_at_every_look(judge, human, labels, metric))
        except DataError as error:
            if by_name or not partly:
                raise
            refused.append(error)
            notes.append(error.wording)
            continue
        span = corrected.interval
        method = "" if span is None else span.method
        means[metric] = Corrected.model_validate(
            {**asdict(corrected), **{"metric": metric, "interval": ends_of(span), "method": method, "chunks": chunks}}
        )
        if left_out:
            notes.append(f"{metric}: {left_out} traces without an expected value are left out")
    if refused and not means:
        raise refused[0]
    whole = [name for name, mean in means.items() if not mean.chunks]
    if partly and whole:
        notes.append(
            f"{', '.join(whole)}: {partly} traces are only partly labelled and count as unlabelled; labels "
            "of single chunks are used for P, DCG, AP and RR"
        )
    return Correction(
        run=run.name,
        labels=", ".join(labels.sources),
        means=means,
        rate=None if sequential or looks else _rate(run, labels, threshold),  # its interval holds at one look
        notes=tuple(notes),
    )


def _check_simple(labels: Labels, flag: str) -> None:
    if len(set(labels.chances.values())) > 1 or labels.chunk_chances:
        raise DataError(f"{option(flag)} needs whole traces that were drawn with the same chance")


def _at_look(run: Run, labels: Labels, looks: Sequence[int]) -> tuple[Labels, float, str]:
    """Return the labels at the last planned look that is reached, the level of an interval there, and what to say."""
    if min(looks) < LEAST_LABELS or any(b <= a for a, b in pairwise(looks)):
        raise ConfigError(
            f"{option('looks')}: write rising numbers of traces from {LEAST_LABELS} on, such as 40,80,160"
        )
    _check_simple(labels, "looks")
    chunks = {result.trace_id: [o.chunk_id for o in result.outcomes] for result in run.results if result.outcomes}
    order = dict.fromkeys(trace for trace, _ in labels.grades)
    full = [t for t in order if t in chunks and all((t, chunk) in labels.grades for chunk in chunks[t])]
    if len(full) == len(chunks):
        raise DataError("every trace is labelled in full: use the labels alone")
    if len(full) < looks[0]:
        raise DataError(f"{len(full)} traces are labelled in full; the first look is planned at {looks[0]}")
    at = sum(look <= len(full) for look in looks) - 1
    kept = set(full[: looks[at]])
    part = replace(labels, grades={key: grade for key, grade in labels.grades.items() if key[0] in kept})
    note = (
        f"look {at + 1} of {len(looks)}, at the first {looks[at]} labelled traces: the intervals of all planned looks "
        f"hold together, this one at {100 * (level := look_levels(looks)[at]):.1f}% alone"
    )
    return part, level, note


def mean_by_traces(
    run: Run, judge: dict[str, float | None], human: dict[str, float], labels: Labels, metric: str, level: float = 0.95
) -> tuple[CorrectedMean, int]:
    """Correct a mean by traces that are labelled in full, and count those without a value by the judge."""
    key = run.manifest.intervals.cluster
    clusters = {result.trace_id: cluster_of(result.trace, key) for result in run.results}
    empty = {result.trace_id for result in run.results if not result.trace.chunks}
    there = {trace: value for trace, value in judge.items() if value is not None}
    # Labelled traces first: `ppi_mean` takes them so.
    order = sorted(there, key=lambda trace: trace not in human)
    labelled = [trace for trace in order if trace in human and trace not in empty]
    full = len(there) - len(empty)
    if len(labelled) < 3 or len(labelled) == full:
        single = "" if uses_chunks(metric) else f"; labels of single chunks do not help {metric}, label whole traces"
        raise DataError(
            f"{metric}: {len(labelled)} of {full} judged traces are labelled in full; a correction needs "
            "at least 3 labelled and at least 1 unlabelled trace (if all are labelled, use the labels alone)" + single
        )
    chances = [labels.chances[trace] for trace in labelled if trace in labels.chances]
    if chances and len(chances) < len(labelled):
        few = f"{len(chances)} of {len(labelled)} labelled traces have a `probability`"
        raise DataError(f"{metric}: {few}; add it to all or to none")
    groups = fill_clusters([clusters[trace] for trace in order])
    left_out, limits = len(judge) - len(there), limits_of(metric, list(there.values()), list(human.values()))
    try:
        if len(set(chances)) > 1 or empty:
            chance = dict(zip(labelled, chances or [len(labelled) / full] * len(labelled), strict=True))
            chosen = [place for place, trace in enumerate(order) if trace in human]
            sample = Sample(tuple(chosen), tuple(chance.get(trace, 1.0) for trace in order))
            y, p = [human[order[place]] for place in chosen], [there[trace] for trace in order]
            known = len(chosen) - len(labelled)
            return ppi_mean_sampled(y, p, sample, clusters=groups, known=known, limits=limits, level=level), left_out
        n = len(labelled)
        p = [there[trace] for trace in order]
        y = [human[trace] for trace in labelled]
        return ppi_mean(y, p[:n], p[n:], clusters=groups, limits=limits, level=level), left_out
    except ValueError as error:
        raise DataError(f"{metric}: cannot correct: {error}") from None


def _at_every_look(judge: dict[str, float | None], human: dict[str, float], labels: Labels, metric: str) -> Interval:
    """Return the last of the intervals that hold at every look, on the metric's own range."""
    _check_simple(labels, "sequential")
    least, greatest = ends(parse_metric(metric).limits)
    if not np.isfinite(span := greatest - least):
        raise DataError(f"{metric}: {option('sequential')} needs a metric between two limits")
    names = [trace for trace in dict.fromkeys(trace for trace, _ in labels.grades) if trace in human]
    every = {trace: (value - least) / span for trace, value in judge.items() if value is not None}
    names = [trace for trace in names if trace in every]
    y = [(human[trace] - least) / span for trace in names]
    last = sequential_mean(y, [every[trace] for trace in names], list(every.values()))[-1]
    return replace(last, low=least + span * last.low, high=least + span * last.high)


def _partly_labelled(run: Run, labels: Labels) -> int:
    rows = [[(r.trace_id, o.chunk_id) in labels.grades for o in r.outcomes] for r in run.results]
    return sum(any(row) and not all(row) for row in rows)


def mean_by_chunks(
    run: Run,
    labels: Labels,
    metric: str,
    threshold: int | None,
    judge: dict[str, float | None],
    human: dict[str, float],
    alone: bool = True,
) -> tuple[CorrectedMean, int]:
    """Correct a mean by single chunks (`mean_of_chunks`), with the run's clusters."""
    key = run.manifest.intervals.cluster
    there = [value for value in judge.values() if value is not None]
    try:
        return mean_of_chunks(
            run,
            labels,
            metric,
            threshold=threshold,
            clusters=fill_clusters([cluster_of(result.trace, key) for result in run.results]),
            limits=limits_of(metric, there, list(human.values())),
            judge_only=sum(there) / max(len(there), 1),
            alone=alone,
        )
    except ValueError as error:
        raise DataError(f"{metric}: cannot correct: {error}") from None


def _rate(run: Run, labels: Labels, threshold: int | None) -> Rate | None:
    """Estimate the share of relevant chunks; unequal chances to be labelled would bias it."""
    if len({*labels.chances.values(), *labels.chunk_chances.values()}) > 1:
        return None
    pairs, cut = match_labels(run, labels, threshold), scale_of(run).relevant
    judged, traces = [], []
    for row, result in enumerate(run.results):
        for outcome in result.outcomes:
            if outcome.kind == "verdict":
                judged.append(int(outcome.grade >= cut))
                traces.append(row)
    human = (pairs.human >= pairs.scale.relevant).astype(int).tolist()
    if len(set(human)) < 2:
        return None
    # The judge's own threshold holds for its grades, whatever the labels' is.
    own = cut if pairs.scale.same_grades(scale_of(run)) else pairs.scale.relevant
    mine = (pairs.judge >= own).astype(int).tolist()
    rate = rogan_gladen(judged, mine, human, traces=(traces, pairs.rows.tolist()))
    return Rate.model_validate({**asdict(rate), "interval": ends_of(rate.interval)})


_SLIGHT = 0.0005
"""A difference that four decimals hardly show."""


def worth(effective_n: float | None, chunks: int = 0) -> str:
    """Say what the labels are worth together with the judge; empty where no error could be estimated."""
    return "" if effective_n is None else f"{effective_n:.0f} {'chunk ' if chunks else ''}labels"


def explain_mean(m: Corrected) -> list[str]:
    """Explain a corrected mean: a sentence a number."""
    span = f" (95% interval {interval(m.interval)})" if m.interval else ""
    if m.chunks:
        return _explain_chunks(m, span)
    sentences = [
        f"corrected {number(m.value)}{span}: what people would find as the mean of all traces, estimated "
        "from their labels and the judge together",
        f"judge alone {number(m.judge_only)}: the mean of its verdicts, {_off(m.judge_only, m.value)}",
        f"labels alone {number(m.labels_only)}: the mean of the {m.n_labelled:,} labelled traces, without the judge",
        f"weight of the judge {m.power:.2f}: how far its verdicts move the estimate, from 0 (the labels "
        "alone count) to 1 (its verdicts count in full)",
    ]
    if m.effective_n is not None:
        sentences.append(
            f"worth {worth(m.effective_n)}: as sure as {m.effective_n:.0f} traces labelled by people without "
            f"a judge; {m.n_labelled:,} were labelled, so the judge {_gained(m.effective_n, m.n_labelled)}"
        )
    return sentences


def _explain_chunks(m: Corrected, span: str) -> list[str]:
    sentences = [
        f"corrected {number(m.value)}{span}: what people would find as the mean of all traces, estimated "
        f"from their labels of {m.chunks:,} chunks in {m.n_labelled:,} traces and the judge together",
        f"judge alone {number(m.judge_only)}: the mean of its verdicts, {_off(m.judge_only, m.value)}",
        f"labels alone {number(m.labels_only)}: the same from the labelled chunks, without the judge",
    ]
    if m.effective_n is not None:
        sentences.append(
            f"worth {worth(m.effective_n, m.chunks)}: as sure as that many labelled chunks without a judge; "
            f"{m.chunks:,} were labelled, so the judge {_gained(m.effective_n, m.chunks)}"
        )
    return sentences


def explain_rate(rate: Rate) -> list[str]:
    """Explain the share of relevant chunks: a sentence a number."""
    accepted, rejected = (f"{100 * share:.0f}" for share in (rate.sensitivity, rate.specificity))
    span = f" (95% interval {interval(rate.interval)})" if rate.interval else ""
    return [
        "corrected: not possible, because the judge is not better than chance"
        if rate.value is None
        else f"corrected {number(rate.value)}{span}: corrected for the judge's errors",
        f"judge alone {number(rate.judge_only)}: the share of chunks that it calls relevant",
        f"sensitivity {number(rate.sensitivity)}: of 100 relevant chunks it finds {accepted}",
        f"specificity {number(rate.specificity)}: of 100 irrelevant chunks it rejects {rejected}",
    ]


def _off(judge: float, corrected: float) -> str:
    gap = judge - corrected
    if abs(gap) < _SLIGHT:
        return "as good as the corrected one"
    return f"{abs(gap):.4f} {'above' if gap > 0 else 'below'} the corrected one"


def _gained(effective: float, labelled: int) -> str:
    gain = round(effective - labelled)
    return f"saved the labelling of {gain} more" if gain > 0 else "saved no labels"
