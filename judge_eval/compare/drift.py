"""Two runs of one judge on the same chunks: which verdicts flipped, and whether chance explains it."""

from collections.abc import Iterator

import numpy as np

from judge_eval.compare.compare import compare
from judge_eval.compare.comparison import Comparison
from judge_eval.errors import RunError
from judge_eval.record import Record
from judge_eval.runs.folder.records import TraceResult
from judge_eval.runs.folder.run import Run
from judge_eval.stats.paired import exact_sign_flip


class Drift(Record):
    """What changed between two runs of one judge on the same chunks."""

    chunks: int
    """Chunks with a verdict in both runs."""
    failed: int
    """Chunks without a verdict in one of them; they are in no count."""
    became_relevant: int
    """Chunks whose verdict was irrelevant, and is relevant now."""
    became_irrelevant: int
    replies: int
    """Independent units: chunks that the judge answered for in one reply, in either run, are one."""
    leaning: int
    """Replies in which more verdicts flipped one way than the other."""
    p: float
    """Of flips as one-sided as these or more if the judge did not change, by `exact_sign_flip` over replies."""
    comparison: Comparison
    """What the flips do to the means, and the traces that changed."""


def measure_drift(before: Run, after: Run) -> Drift:
    """Compare two runs of one judge on the same chunks.

    If the judge did not change, it is chance which of the two runs a reply was given in, so that the net flips of a
    reply are as likely to go one way as the other: a sign-flip test, whose units are whole replies, since one reply may
    cover several chunks. It presumes that replies are independent of each other within a run.

    Raises:
        RunError: The runs have different traces or chunks.
    """
    net: dict[str, int] = {}
    groups = _Groups()
    counts = {"verdicts": 0, "failed": 0, "up": 0, "down": 0}
    for old, new in _pairs(before, after):
        units = groups.of_chunks(old, new)
        for place, (first, last) in enumerate(zip(old.outcomes, new.outcomes, strict=True)):
            if first.kind != "verdict" or last.kind != "verdict":
                counts["failed"] += 1
                continue
            flip = int(last.relevant) - int(first.relevant)
            counts["verdicts"] += 1
            counts["up"] += flip > 0
            counts["down"] += flip < 0
            net[units[place]] = net.get(units[place], 0) + flip
    flips: dict[str, int] = {}
    for unit, flip in net.items():
        root = groups.root(unit)
        flips[root] = flips.get(root, 0) + flip
    values = np.array(list(flips.values()), dtype=np.float64)
    return Drift(
        chunks=counts["verdicts"],
        failed=counts["failed"],
        became_relevant=counts["up"],
        became_irrelevant=counts["down"],
        replies=len(flips),
        leaning=int(np.count_nonzero(values)),
        p=exact_sign_flip(values),
        comparison=compare(before, after),
    )


def _pairs(before: Run, after: Run) -> Iterator[tuple[TraceResult, TraceResult]]:
    if len(before.results) != len(after.results):
        raise RunError(f"runs {before.name} and {after.name} have different numbers of traces")
    for old, new in zip(before.results, after.results, strict=True):
        if old.digest != new.digest:
            raise RunError(f"runs {before.name} and {after.name} differ in trace {old.trace_id!r}")
        yield old, new


class _Groups:
    """Chunks by the replies that they share (union-find)."""

    def __init__(self) -> None:
        self._parents: dict[str, str] = {}

    def root(self, name: str) -> str:
        """Return what stands for the group of a reply."""
        while (parent := self._parents.setdefault(name, name)) != name:
            self._parents[name] = self._parents[parent]
            name = parent
        return name

    def of_chunks(self, *results: TraceResult) -> list[str]:
        """Return of each chunk of a trace one of the replies that cover it, and join those that do."""
        chunks = [chunk.id for chunk in results[0].trace.chunks]
        units = {chunk: f"{results[0].position} {place}" for place, chunk in enumerate(chunks)}
        for call in (call for result in results for call in result.calls):
            for chunk in call.chunk_ids:
                self._parents[self.root(units[chunk])] = self.root(call.key)
        return [units[chunk] for chunk in chunks]
