"""Means from labels of single chunks: against brute force, and how often their intervals hold."""

from __future__ import annotations

from itertools import combinations, product
from typing import Any

import numpy as np
import pytest

from benchmarks.chunk_labels import DESIGNS, RIGHT, draw, estimate, expected, gains, metric_of, truth_of
from judge_eval.stats.chunk_correction import (
    ChunkLabels,
    RelevanceModel,
    chunk_mean,
    chunk_weights,
    expected_by_verdict,
)
from judge_eval.stats.correction import ppi_mean, ppi_mean_sampled
from judge_eval.stats.sampling import Sample


def fitted(chunks: int, seed: int = 0, traces: int = 40) -> tuple[RelevanceModel, Any]:
    """Fit the model to drawn verdicts, a third of them labelled."""
    rng = np.random.default_rng(seed)
    relevant, verdicts = draw(rng, traces, chunks, 0.9, 0.8, clustered=False)
    trace, rank = np.nonzero(rng.random(relevant.shape) < 1 / 3)
    label = relevant[trace, rank]
    model = RelevanceModel.fit(verdicts, np.ones(relevant.shape), trace, rank, label, np.full(label.size, 3.0))
    return model, (trace, rank)


@pytest.mark.parametrize("name", ["AP", "RR"])
@pytest.mark.parametrize("chunks", [1, 3, 5, 10])
def test_expectations_are_those_of_all_patterns(name: str, chunks: int) -> None:
    """What is expected, and what a label changes, are sums over all 2^K patterns of relevance."""
    model, (trace, rank) = fitted(chunks)
    patterns = np.array(list(product((0.0, 1.0), repeat=chunks)))
    values = metric_of(name)(patterns)
    ways = np.where(patterns, model.chances[:, :, None], 1 - model.chances[:, :, None]).prod(axis=3)
    posterior = np.einsum("nl,lnp->np", model.shares, ways)
    assert posterior.sum(axis=1) == pytest.approx(1)
    assert posterior @ patterns == pytest.approx(model.relevance)
    assert model.expect(expected(name, chunks)) == pytest.approx(posterior @ values)
    effect = model.effect(expected(name, chunks), trace, rank)
    for place, (t, k) in enumerate(zip(trace, rank, strict=True)):
        on, off = (posterior[t] * (patterns[:, k] == side) for side in (1, 0))
        assert effect[place] == pytest.approx(on @ values / on.sum() - off @ values / off.sum())


def test_a_sum_over_chunks_is_unbiased() -> None:
    """Over all ways to label three of six chunks the mean estimate is the truth, whatever is expected."""
    label = np.array([1.0, 0, 1, 1, 0, 0])
    trace, guess = np.repeat(np.arange(3), 2), np.array([0.9, 0.1, 0.2, 0.7, 0.6, 0.3])
    base = np.bincount(trace, weights=guess / 2)
    made = []
    for chosen in combinations(range(6), 3):
        picked = np.array(chosen)
        terms = 2 * 0.5 * (label - guess)[picked]
        made.append((base + np.bincount(trace[picked], weights=terms, minlength=3)).mean())
        if np.unique(trace[picked]).size == 3:
            labels = ChunkLabels(trace[picked], np.full(3, 0.5), label[picked], guess[picked], np.full(3, 2.0))
            assert chunk_mean(base, labels).value == pytest.approx(made[-1])
    assert np.mean(made) == pytest.approx(label.mean())


def test_weights_add_up_to_the_chunks_of_a_rank() -> None:
    """Unequal chances of traces are kept within a rank; a rank without a label is refused."""
    rank = np.array([0, 1, 0, 1, 0, 1, 0])
    weight = chunk_weights(rank, np.array([0, 2, 3]), np.array([0.5, 0.25, 0.25]))
    assert weight == pytest.approx([4 / 3, 8 / 3, 3])
    with pytest.raises(ValueError, match="no chunk at rank 2 is labelled"):
        chunk_weights(rank, np.array([0, 2]))


def test_a_verdict_without_a_label_takes_the_mean_of_all() -> None:
    """Nothing is known of it, and nothing is guessed."""
    cells, labelled = np.array([0, 0, 1, 1, 2]), np.array([0, 1, 2])
    q = expected_by_verdict(cells, labelled, np.array([1.0, 0, 1]), np.array([1.0, 1, 2]))
    assert q == pytest.approx([0.5, 0.5, 1, 1, 0.75])


def test_few_traces_are_refused() -> None:
    """Two labelled traces have no interval."""
    labels = ChunkLabels(np.array([0, 1]), np.ones(2), np.ones(2), np.zeros(2), np.ones(2))
    with pytest.raises(ValueError, match="three traces"):
        chunk_mean(np.zeros(5), labels)


@pytest.mark.parametrize(
    ("name", "chunks", "least"), [("P", 5, 0.91), ("DCG", 10, 0.91), ("AP", 5, 0.9), ("RR", 5, 0.9)]
)
@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.slow
def test_coverage(name: str, chunks: int, least: float, design: str) -> None:
    """The interval holds the truth about as often as it says, and the bias is small."""
    rng = np.random.default_rng(11)
    times = 200 if name in ("P", "DCG") else 80
    truth = truth_of(name, chunks)
    made = [estimate(rng, name, chunks, 150, 100, design) for _ in range(times)]
    assert np.mean([truth in mean.interval for mean in made if mean.interval]) >= least
    assert abs(np.mean([mean.value for mean in made]) - truth) < 0.02 * max(1.0, truth)


@pytest.mark.parametrize("clustered", [False, True])
@pytest.mark.parametrize("labels", [20, pytest.param(60, marks=pytest.mark.slow)])
def test_coverage_of_hit_rates(labels: int, clustered: bool) -> None:
    """Whole traces with a good judge: Student's interval held .82 at 20 labels, the bounded one holds."""
    rng, truth = np.random.default_rng(3), 0.0
    for place in range(151):
        relevant, verdicts = draw(rng, 200_000 if place == 0 else 300, 5, 0.95, 0.95, clustered=clustered)
        y, p = (rows.max(axis=1).astype(float) for rows in (relevant, verdicts))
        if place == 0:
            truth, held = y.mean(), []
            continue
        made = ppi_mean(y[:labels], p[:labels], p[labels:], limits=(0, 1))
        everything = Sample(tuple(range(labels)), (labels / 300,) * 300)
        same = ppi_mean_sampled(y[:labels], p, everything, limits=(0, 1))
        held += [truth in mean.interval for mean in (made, same) if mean.interval is not None]
    assert np.mean(held) >= 0.92


@pytest.mark.slow
def test_single_chunks_take_fewer_labels_than_whole_traces() -> None:
    """For P@10 and, with a judge of .95 / .95, AP@10 at least a tenth fewer in few draws (a fifth in many)."""
    cases = (("P", 10, RIGHT), ("AP", 10, (0.95, 0.95)))
    assert all(line.rate > 0.1 for line in gains(6, cases=cases, labels=(200,), traces=300))
