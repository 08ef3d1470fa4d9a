"""A judge's mean corrected by labels of single chunks."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from judge_eval.settings import ValueLimits
from judge_eval.stats._arrays import Floats, Ints, check_level, group_codes, group_sums
from judge_eval.stats.correction import FEW_LABELS, CorrectedMean, Doubt, LabelError
from judge_eval.stats.distributions import t_ppf
from judge_eval.stats.figure import Interval

METHOD = "chunk labels t"
LEVELS = np.array([0.02, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.98])
"""The shares of relevant chunks that the traces of the model can have."""
_ROUNDS = 40


@dataclass(frozen=True, slots=True, eq=False)
class ChunkLabels:
    """The labelled chunks, shape (n,) each."""

    trace: Ints
    """The place of each one's trace, from 0."""
    effect: Floats
    """How far the metric of its trace is expected to move per unit of the label."""
    label: Floats
    """What people say: 0 or 1, or the chunk's own part of the metric where `effect` is 1."""
    expected: Floats
    """The label expected from the verdicts."""
    weight: Floats
    """One over the chance of the chunk to be labelled."""


def chunk_mean(
    base: Floats,
    labels: ChunkLabels,
    *,
    clusters: Sequence[Hashable] | None = None,
    limits: ValueLimits | None = None,
    level: float = 0.95,
) -> CorrectedMean:
    """Return the mean of a metric from labels of single chunks, together with the judge's verdicts."""
    # The estimate is the mean over traces of m_t + sum over labelled chunks of weight * effect * (label - expected),
    # m_t the metric that is expected from the verdicts (`base`, shape (N,); an augmented inverse-probability-weighted
    # estimator; Robins, Rotnitzky and Zhao 1994). For a metric that is a sum over chunks it is unbiased, whatever is
    # expected; for others the first-order bias goes. The variance is that of the traces' terms, by cluster where there
    # are any; the interval is that of t with n - 1 degrees of freedom, n the labelled traces (clusters), at least
    # three, times sqrt(n / (n - 2)). It ends at `limits`, the least and the greatest value of one trace. `judge_only`
    # is the mean of `base`; `labels_only` and `effective_n` are left open.
    check_level(level)
    terms = labels.weight * labels.effect * (labels.label - labels.expected)
    brackets = base + group_sums(terms, labels.trace, base.size)
    value = float(brackets.mean())
    influence = (brackets - value) / base.size
    traces = units = int(np.unique(labels.trace).size)
    if clusters is not None:
        codes, groups = group_codes(clusters, base.size)
        influence, units = group_sums(influence, codes, groups), int(np.unique(codes[labels.trace]).size)
    if units < 3:
        raise LabelError("too few chunk clusters", units)
    error = math.sqrt(float(influence @ influence) * influence.size / max(influence.size - 1, 1))
    half = t_ppf((1 + level) / 2, units - 1) * math.sqrt(units / (units - 2)) * error
    made = Interval(value - half, value + half, level, METHOD)
    few = Doubt("few labelled chunks", count=traces, other=units, least=FEW_LABELS)
    return CorrectedMean(
        value=value,
        interval=made if limits is None else made.within(*limits),
        standard_error=error,
        power=1.0,
        n_labelled=traces,
        n_unlabelled=base.size - traces,
        effective_n=None,
        judge_only=float(base.mean()),
        labels_only=value,
        warnings=() if units >= FEW_LABELS else (few,),
    )


def beside_labels_alone(mean: CorrectedMean, alone: CorrectedMean, chunks: int, judge_only: float) -> CorrectedMean:
    """Complete a mean with what the labels `alone` say, where all chunks are expected to be alike."""
    worth = chunks * (alone.standard_error / mean.standard_error) ** 2 if mean.standard_error > 0 else None
    return replace(mean, effective_n=worth, labels_only=alone.value, judge_only=judge_only)


def chunk_weights(rank: Ints, labelled: Ints, chances: Floats | None = None) -> Floats:
    """Return one over the chance of each labelled chunk, taken to be the same at all traces of a rank."""
    # `rank` is of every chunk that counts, from 0, shape (M,); `labelled` are the places of the labelled ones among
    # them, shape (n,), at least one a rank; `chances` are those of their traces to be chosen (None: equal).
    share = np.ones(labelled.size) if chances is None else 1 / chances
    there = np.bincount(rank)
    sums = np.bincount(rank[labelled], weights=share, minlength=there.size)
    if (bare := np.flatnonzero((there > 0) & (sums == 0))).size:
        raise LabelError("rank without label", int(bare[0]) + 1)
    return share * (there / np.maximum(sums, 1e-300))[rank[labelled]]


def expected_by_verdict(cells: Ints, labelled: Ints, values: Floats, weight: Floats) -> Floats:
    """Return the weighted mean of labelled values for the verdict of every chunk, shape (M, ...)."""
    # `cells` are the verdicts, numbered from 0, shape (M,); `labelled` are the places of the labelled ones, with values
    # of shape (n,) or (n, g) and weights of shape (n,). A verdict without a label takes the mean of all.
    count = int(cells.max(initial=0)) + 1
    flat = values.reshape(len(values), -1)
    weights = np.bincount(cells[labelled], weights=weight, minlength=count)
    sums = np.zeros((count, flat.shape[1]))
    np.add.at(sums, cells[labelled], weight[:, None] * flat)
    overall = (weight[:, None] * flat).sum(axis=0) / weight.sum()
    means = np.where(weights[:, None] > 0, sums / np.maximum(weights, 1e-300)[:, None], overall)
    return means[cells].reshape(len(cells), *values.shape[1:])


ExpectedMetric: TypeAlias = Callable[[Floats], Floats]
"""The metric expected of lists whose chunks are relevant with these probabilities: (rows, K) to (rows,)."""


@dataclass(frozen=True, slots=True, eq=False)
class RelevanceModel:
    """How likely each chunk is relevant given all verdicts on its trace.

    A trace has one of nine shares of relevant chunks, with effects of rank; given the share its chunks are independent,
    and so are verdicts given relevance. Shares and effects are fitted to the verdicts by EM, the errors of the judge to
    the labels; the odds of each verdict are then moved until the labelled chunks with it are as relevant as expected.
    """

    shares: Floats
    """How likely each trace has each share, given its verdicts, shape (N, 9)."""
    chances: Floats
    """The probability of relevance given the share and the verdict, shape (9, N, K); 0 beyond a list."""

    @property
    def relevance(self) -> Floats:
        """The probability that each chunk is relevant, shape (N, K)."""
        result: Floats = np.einsum("nl,lnk->nk", self.shares, self.chances)
        return result

    @classmethod
    def fit(cls, cells: Ints, there: Floats, trace: Ints, rank: Ints, label: Floats, weight: Floats) -> RelevanceModel:
        """Fit the model to verdicts `cells`, numbered from 0, shape (N, K), where `there` is 1 (else 0)."""
        # `trace` and `rank` (from 0) are of each labelled chunk, shape (n,); its `label` is 0 or 1, its
        # `weight` one over its chance to be labelled.
        count = int(cells.max(initial=0)) + 1
        own = cells[trace, rank]
        # Lists with the same verdicts are alike: each is fitted once, for so many traces.
        _, kept, place, often = np.unique(
            np.where(there > 0, cells, -1), axis=0, return_index=True, return_inverse=True, return_counts=True
        )
        cells, there, place, traces = cells[kept], there[kept], place.reshape(-1), len(cells)
        usual = np.bincount(own, weights=weight, minlength=count) / (2 * label.size) + 1e-9
        tallies = [np.bincount(own, weights=weight * side, minlength=count) + usual for side in (1 - label, label)]
        rates = [tally / tally.sum() for tally in tallies]
        ratio = np.log(rates[1] / rates[0])
        levels = np.log(LEVELS / (1 - LEVELS))
        mix, effects, moved = np.full(LEVELS.size, 1 / LEVELS.size), np.zeros(cells.shape[1]), np.zeros(count)
        # The log-likelihood of a verdict if the chunk is irrelevant.
        miss = np.log(rates[0])[cells]
        for step in range(_ROUNDS):
            prior = 1 / (1 + np.exp(-(levels[:, None] + effects)))  # (levels, K)
            odds = np.exp(np.clip(ratio + moved, -30, 30))[cells]  # (N, K)
            likelihood = np.log(1 - prior[:, None] + prior[:, None] * odds) + miss
            logs = (likelihood * there).sum(axis=2).T + np.log(np.maximum(mix, 1e-12))
            logs -= logs.max(axis=1, keepdims=True)
            shares = np.exp(logs)
            shares /= shares.sum(axis=1, keepdims=True)
            chances = prior[:, None] * odds / (1 - prior[:, None] + prior[:, None] * odds) * there
            relevance = cls(shares, chances).relevance
            many = shares * often[:, None]
            mix, at_ranks = many.sum(axis=0) / traces, many.T @ there  # (levels,), (levels, K)
            slope = (at_ranks * prior * (1 - prior)).sum(axis=0)
            rise = often @ relevance - (at_ranks * prior).sum(axis=0)
            effects += np.clip(rise / np.maximum(slope, 1e-9), -0.5, 0.5)
            effects -= effects.mean()
            if step >= _ROUNDS // 4:
                moved += _needed(own, label, relevance[place[trace], rank], weight, count)
        return cls(shares[place], chances[:, place])

    def expect(self, metric: ExpectedMetric) -> Floats:
        """Return the metric expected of each trace, shape (N,)."""
        levels, traces, ranks = self.chances.shape
        values = metric(self.chances.reshape(levels * traces, ranks)).reshape(levels, traces)
        result: Floats = np.einsum("nl,ln->n", self.shares, values)
        return result

    def effect(self, metric: ExpectedMetric, trace: Ints, rank: Ints) -> Floats:
        """Return how far the expected metric moves from a chunk's being irrelevant to its being relevant."""
        ends = []
        for side in (1.0, 0.0):
            lists = self.chances[:, trace].copy()  # (levels, n, K)
            own = lists[:, np.arange(trace.size), rank]
            likely = self.shares[trace].T * (own if side else 1 - own)
            likely /= np.maximum(likely.sum(axis=0), 1e-300)
            lists[:, np.arange(trace.size), rank] = side
            values = metric(lists.reshape(-1, lists.shape[2])).reshape(len(lists), -1)
            ends.append((likely * values).sum(axis=0))
        result: Floats = ends[0] - ends[1]
        return result


def _needed(own: Ints, label: Floats, expected: Floats, weight: Floats, count: int) -> Floats:
    """Return how far the log odds of each verdict have to move for its labels to be as expected."""
    total = np.bincount(own, weights=weight, minlength=count).astype(np.float64)
    half = total / np.maximum(np.bincount(own, minlength=count), 1) / 2  # half a label of each kind
    seen = np.bincount(own, weights=weight * label, minlength=count) + half
    likely = np.bincount(own, weights=weight * expected, minlength=count) + half
    total = total + 2 * half
    with np.errstate(divide="ignore", invalid="ignore"):
        step = np.log(seen / (total - seen)) - np.log(likely / (total - likely))
    return np.where(total > 0, np.clip(np.nan_to_num(step), -1, 1), 0.0)
