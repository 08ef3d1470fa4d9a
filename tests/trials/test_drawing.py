"""What a paired pilot draws: clusters uniformly, and uniformly one trace of each."""

from __future__ import annotations

from collections import Counter

import pytest

from judge_eval.trials.paired_pilot import draw_clusters

SIZES = {"a": 1, "b": 2, "c": 7, "d": 3}
CLUSTERS = [name for k in range(7) for name in SIZES if k < SIZES[name]]
"""The clusters of items, of four sizes, mixed."""


def test_every_cluster_and_every_item_of_it_is_as_likely() -> None:
    """Of 20,000 draws of two from four clusters each has half, and each item its share of that."""
    counts = Counter(place for seed in range(20_000) for place in draw_clusters(CLUSTERS, 2, seed))
    assert len(counts) == len(CLUSTERS)
    for place, name in enumerate(CLUSTERS):
        # Five standard errors of a share of that size.
        share = 0.5 / SIZES[name]
        assert counts[place] / 20_000 == pytest.approx(share, abs=5 * (share / 20_000) ** 0.5)


@pytest.mark.parametrize("most", [0, 1, 3, 4, 9])
def test_never_two_of_a_cluster(most: int) -> None:
    """Whatever the seed, at most one item of each cluster is drawn, and as many as were asked for or are."""
    clusters: list[str | None] = [*CLUSTERS, None, None]
    for seed in range(200):
        places = draw_clusters(clusters, most, seed)
        assert places == sorted(places)
        owners = [clusters[place] or place for place in places]
        assert len(owners) == len(set(owners)) == min(most, 6)


def test_without_clusters_every_item_is_as_likely() -> None:
    """Items without a cluster are drawn uniformly, equally for equal seeds."""
    counts = Counter(place for seed in range(20_000) for place in draw_clusters([None] * 8, 2, seed))
    assert all(counts[place] / 20_000 == pytest.approx(0.25, abs=0.015) for place in range(8))
    assert draw_clusters([None] * 8, 2, 5) == draw_clusters([None] * 8, 2, 5)
