"""Where each result stands in a journal, with the few numbers that means are made of."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import Any

from judge_eval.digest import canonical_json
from judge_eval.runs.folder.records import TraceResult
from judge_eval.schema import Trace


def cluster_of(trace: Trace, key: str) -> str | None:
    """Return the id of the cluster a trace belongs to; None where it carries none.

    Args:
        trace: The trace.
        key: The key of its `metadata`; a value that is no text goes by its JSON.
    """
    return cluster_in(trace.metadata, key)


def cluster_in(metadata: Mapping[str, Any], key: str) -> str | None:
    """Return the id of the cluster that a trace's metadata name; see `cluster_of`."""
    value = metadata.get(key)
    return value if value is None or isinstance(value, str) else canonical_json(value)


class Index:
    """Where each result stands in a journal, and its scores: a few numbers a line, whatever its length."""

    def __init__(self, metrics: Sequence[str], cluster: str = "cluster") -> None:
        self.cluster = cluster
        self.positions, self.offsets, self.lengths = array("q"), array("q"), array("q")
        self.scores = {name: array("d") for name in metrics}
        self.bounds: dict[str, dict[int, tuple[float, float]]] = {name: {} for name in metrics}
        self.tags: list[tuple[str, ...]] = []
        self.clusters: list[str | None] = []
        self._tags_seen: dict[tuple[str, ...], tuple[str, ...]] = {}

    def __len__(self) -> int:
        return len(self.positions)

    def add(self, result: TraceResult, offset: int, length: int) -> None:
        """Note a line; a later one of the same position replaces it when the run is sorted."""
        cluster = cluster_in(result.trace.metadata, self.cluster)
        self.note(result.position, result.scores, result.bounds, result.trace.tags, cluster, offset, length)

    def note(
        self,
        position: int,
        scores: Mapping[str, float | None],
        bounds: Mapping[str, tuple[float, float]],
        tags: tuple[str, ...],
        cluster: str | None,
        offset: int,
        length: int,
    ) -> None:
        """Note a line by what it says; see `add`."""
        row = len(self.positions)
        self.positions.append(position)
        self.offsets.append(offset)
        self.lengths.append(length)
        self.tags.append(self._tags_seen.setdefault(tags, tags))  # few differ: one tuple serves many rows
        self.clusters.append(cluster)
        for name, column in self.scores.items():
            value = scores.get(name)
            column.append(float("nan") if value is None else value)
            if name in bounds:
                self.bounds[name][row] = bounds[name]

    def order(self) -> list[int]:
        """Return the rows by position, of two with the same position the later one."""
        last = {position: row for row, position in enumerate(self.positions)}
        return [last[position] for position in sorted(last)]

    def in_order(self) -> bool:
        """Tell whether the lines stand in the order of their positions, each once."""
        return all(a < b for a, b in zip(self.positions, self.positions[1:], strict=False))

    def sorted(self) -> Index:
        """Return an index of the rows in order, as they will stand in the sorted file."""
        out, offset = Index(list(self.scores), self.cluster), 0
        for new, row in enumerate(self.order()):
            out.positions.append(self.positions[row])
            out.offsets.append(offset)
            out.lengths.append(self.lengths[row])
            out.tags.append(self.tags[row])
            out.clusters.append(self.clusters[row])
            offset += self.lengths[row]
            for name, column in self.scores.items():
                out.scores[name].append(column[row])
                if row in self.bounds[name]:
                    out.bounds[name][new] = self.bounds[name][row]
        return out
