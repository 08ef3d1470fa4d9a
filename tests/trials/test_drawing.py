"""What a paired pilot draws: clusters uniformly, and uniformly one trace of each."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from judge_eval.trials.paired_pilot import Reservoir

SIZES = {"a": 1, "b": 2, "c": 7, "d": 3}
STREAM = [(f"{name}{k}", name) for k in range(7) for name in SIZES if k < SIZES[name]]
"""Clusters of four sizes, their items mixed."""


def drawn(most: int, seed: int, stream: list[tuple[str, str | None]]) -> Reservoir[str]:
    """Offer a stream to a reservoir."""
    reservoir: Reservoir[str] = Reservoir(most, seed)
    for item, cluster in stream:
        reservoir.offer(item, cluster)
    return reservoir


def test_every_cluster_and_every_item_of_it_is_as_likely() -> None:
    """Of 20,000 draws of two from four clusters each has half, and each item its share of that."""
    stream: list[tuple[str, str | None]] = [*STREAM]
    counts = Counter(item for seed in range(20_000) for item in drawn(2, seed, stream).kept)
    for name, size in SIZES.items():
        for k in range(size):
            # Five standard errors of a share of that size.
            share = 0.5 / size
            assert counts[f"{name}{k}"] / 20_000 == pytest.approx(share, abs=5 * (share / 20_000) ** 0.5)
    assert len(counts) == len(STREAM)


@pytest.mark.parametrize("most", [0, 1, 3, 4, 9])
def test_never_two_of_a_cluster(most: int) -> None:
    """Whatever the seed, at most one item of each cluster is kept, and as many as were asked for or are."""
    stream: list[tuple[str, str | None]] = [*STREAM, ("alone", None), ("lonely", None)]
    for seed in range(200):
        reservoir = drawn(most, seed, stream)
        owners = [item[0] if item[0] in SIZES and item[1].isdigit() else item for item in reservoir.kept]
        assert len(owners) == len(set(owners)) == min(most, 6)
        assert (reservoir.offered, reservoir.units, reservoir.shared) == (15, 6, True)


@pytest.mark.parametrize("named", [False, True])
def test_without_shared_clusters_it_is_a_plain_reservoir(named: bool) -> None:
    """Items without a cluster, or each of its own, are drawn by the usual algorithm and the same numbers."""
    for seed in range(50):
        rng, kept = random.Random(seed), []
        for n in range(40):
            if n < 5:
                kept.append(str(n))
            elif (place := rng.randrange(n + 1)) < 5:
                kept[place] = str(n)
        reservoir = drawn(5, seed, [(str(n), f"q{n}" if named else None) for n in range(40)])
        assert reservoir.kept == kept
        assert not reservoir.shared
