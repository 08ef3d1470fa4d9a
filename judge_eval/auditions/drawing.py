"""The sample of an audition: traces drawn uniformly, one of a cluster, with one chunk of each."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Generic, TypeVar

from judge_eval.schema import Trace

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """The sample: traces drawn uniformly, one of a cluster where some share one, with one chunk of each."""

    traces: list[Trace]
    """Whole, for the cheap judge."""
    spots: list[Trace]
    """Cut down to the chunk that was drawn, for the strong one."""
    dataset: str
    digest: str
    """Of all the data."""
    total: int
    """How many traces the data hold."""
    eligible: int
    """How many of them hold a chunk that could be drawn."""
    highest: int = 0
    """The highest label that was seen."""
    cluster: str | None = None
    """The key of the metadata that names clusters, where traces share one."""
    clusters: int | None = None
    """How many clusters the eligible traces are of, where some share one; a trace without counts as one."""


class Reservoir(Generic[T]):
    """A uniform draw of clusters from a stream, and uniformly one item of each.

    What belongs to no cluster is one by itself. The draw depends on the seed and the order of the stream.

    Args:
        most: How many are kept, at least 0.
        seed: Of the draw.
    """

    def __init__(self, most: int, seed: int) -> None:
        self.kept: list[T] = []
        """What was drawn, at most `most` items."""
        self.offered = 0
        """How many items there were."""
        self.units = 0
        """How many clusters they are of."""
        self._most = most
        self._among = random.Random(seed)  # noqa: S311  a sample, not a secret
        self._within = random.Random(f"{seed} within clusters")  # noqa: S311
        self._sizes: dict[str, int] = {}
        self._owners: list[str | None] = []
        self._places: dict[str, int] = {}

    @property
    def shared(self) -> bool:
        """Whether some cluster has several items."""
        return self.units < self.offered

    def offer(self, item: T, cluster: str | None = None) -> None:
        """Take the next item of the stream, with the cluster it belongs to."""
        self.offered += 1
        if cluster is not None:
            size = self._sizes[cluster] = self._sizes.get(cluster, 0) + 1
            if size > 1:
                place = self._places.get(cluster)
                if place is not None and self._within.randrange(size) == 0:
                    self.kept[place] = item
                return
        self.units += 1
        if len(self.kept) < self._most:
            place = len(self.kept)
            self.kept.append(item)
            self._owners.append(cluster)
        elif (place := self._among.randrange(self.units)) < self._most:
            left = self._owners[place]
            if left is not None:
                del self._places[left]
            self.kept[place], self._owners[place] = item, cluster
        else:
            return
        if cluster is not None:
            self._places[cluster] = place
