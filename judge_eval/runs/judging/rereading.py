"""The results of a run read again, and what in them does not fit."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from judge_eval.errors import ConfigError, DataError, MetricError, RunError
from judge_eval.record import Record
from judge_eval.runs.folder.files import MANIFEST, RESULTS, whole_lines
from judge_eval.runs.folder.index import Index
from judge_eval.runs.folder.integrity import changed_lines
from judge_eval.runs.folder.records import Aggregate, Manifest, TraceResult
from judge_eval.runs.folder.results import read_result
from judge_eval.runs.folder.run import Run
from judge_eval.runs.judging.fingerprint import Fingerprint
from judge_eval.runs.scoring.aggregate import aggregate_all
from judge_eval.runs.scoring.rescore import scale_of
from judge_eval.runs.scoring.scorer import Scorer

_BLOCK = 256


class Finding(Record):
    """Something in a run's folder that does not fit."""

    file: str
    """Its name in the folder."""
    lines: tuple[int, int] | None = None
    """The first and the last line it is about, counted from 1; None for the file."""
    what: str

    def __str__(self) -> str:
        where = self.file
        if self.lines is not None:
            first, last = self.lines
            where += f":{first}" if first == last else f":{first}-{last}"
        return f"{where}: {self.what}"


@dataclass
class Reread:
    """The results of a run, read once; what is wrong with them, and what they say of the manifest."""

    path: Path
    manifest: Manifest
    lines: int = 0
    changed: bool = False
    """Whether they are not what was written."""
    _found: list[Finding] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._index = Index(self.manifest.metrics, self.manifest.intervals.cluster)
        self._fingerprint = Fingerprint()
        self._failed = 0
        self._seen: dict[int, int] = {}
        self._block: list[tuple[int, TraceResult]] = []
        self._scorer: Scorer | None = None
        with suppress(ConfigError, MetricError, DataError):  # a metric of a package that is not here
            self._scorer = Scorer(self.manifest.metrics, scale_of(Run(self.manifest, ())))

    def findings(self) -> list[Finding]:
        """Read the file and name what is wrong with it."""
        expected, ended = self.manifest.seal, self.manifest.counted is not None
        if expected is None and not ended and not self.path.exists():
            return []  # nothing was judged yet
        whole = hashlib.sha256()
        read = 0
        try:
            for _, line in whole_lines(self.path):
                self.lines += 1
                read += len(line)
                whole.update(line)
                self._look(line)
            self._score()
            left = self.path.lstat().st_size - read
        except RunError as error:
            self.changed = True
            return [self._finding(error.message)]
        told = expected.lines if expected else self.manifest.tally.traces
        if self.lines != told and (expected is not None or ended):
            self._found.insert(
                0, self._finding(f"holds {self.lines:,} results, and was written with {told:,}")
            )
        if left and (expected is not None or ended):
            self._found.append(self._finding(f"ends in {left:,} bytes that are no line"))
        if expected is not None and (whole.hexdigest() != expected.sha256 or left):
            self.changed = True
            places = changed_lines(self.path, expected)
            self._found += [self._finding("not what was written", *place) for place in places]
        elif self._found:
            self.changed = True
        return self._found

    def _finding(self, what: str, first: int | None = None, last: int | None = None) -> Finding:
        lines = None if first is None else (first, last or first)
        return Finding(file=RESULTS, lines=lines, what=what)

    def _look(self, line: bytes) -> None:
        """Take in a line, and see that what it says holds together."""
        number = self.lines
        try:
            result = read_result(line, self.path, number)
        except RunError:
            self._found.append(self._finding("not a result of a run", number))
            return
        if result.position in self._seen and self.manifest.counted is not None:
            before = self._seen[result.position]
            self._found.append(self._finding(f"a second result of the trace of line {before}", number))
        self._seen[result.position] = number
        self._index.add(result, 0, 0)
        self._failed += result.failed
        if result.trace_id != result.trace.id or result.digest != result.trace.digest:
            self._found.append(self._finding("the trace is not the one that its digest was made of", number))
        if [outcome.chunk_id for outcome in result.outcomes] != [chunk.id for chunk in result.trace.chunks]:
            self._found.append(self._finding("the outcomes are not those of its chunks", number))
        elif self._scorer is not None:
            self._block.append((number, result))
            if len(self._block) == _BLOCK:
                self._score()
        with suppress(DataError):  # an id that stands twice is told as a second result, or with its trace
            self._fingerprint.add(result.trace)

    def _score(self) -> None:
        """Compute the scores of a block of results again, and name those that do not follow."""
        block, self._block = self._block, []
        if self._scorer is None or not block:
            return
        try:
            scored = self._scorer.score(
                [(result.trace, result.outcomes) for _, result in block],
                claims=[result.claims for _, result in block],
            )
        except (MetricError, DataError, ValueError):
            self._found.append(self._finding("verdicts here cannot be scored", block[0][0], block[-1][0]))
            return
        for (number, result), (scores, _) in zip(block, scored, strict=True):
            for name, value in scores.items():
                told = result.scores.get(name)
                if not _same(told, value):
                    text = f"{name} is {_plain(told)}, and its verdicts give {_plain(value)}"
                    self._found.append(self._finding(text, number))

    def contradictions(self) -> Iterator[Finding]:
        """Name where the manifest says what does not follow from the results."""
        manifest = self.manifest
        if manifest.counted is None:
            return
        tally, dataset = manifest.tally, manifest.dataset
        counts = (("traces", len(self._seen)), ("failed_verdicts", self._failed))
        for name, count in counts:
            if getattr(tally, name) != count:
                told = f"tally.{name} is {getattr(tally, name):,}, and the results give {count:,}"
                yield Finding(file=MANIFEST, what=told)
        whole = dataset.shard is None and dataset.traces == self.lines and dataset.digest
        if whole and self._fingerprint.hexdigest() != dataset.digest:
            yield Finding(file=MANIFEST, what="dataset.digest is not that of the results' traces")
        if self._scorer is None:
            return
        found = aggregate_all(self._index.sorted(), self._scorer.metrics, manifest.intervals)
        for name, aggregate in found.items():
            if told := _difference(manifest.aggregates.get(name), aggregate):
                yield Finding(file=MANIFEST, what=f"aggregates.{name}: {told}")


def _difference(told: Aggregate | None, found: Aggregate) -> str:
    """Say how a recorded mean differs from the one that the results give; empty where it does not."""
    if told is None:
        return "is not there"
    pairs: list[tuple[str, float | None, float | None]] = [
        ("mean", told.mean, found.mean),
        ("n", told.n, found.n),
        ("n_failed", told.n_failed, found.n_failed),
    ]
    for name, is_, should in pairs:
        if not _same(is_, should):
            return f"{name} is {_plain(is_)}, and the results give {_plain(should)}"
    return ""


def _same(a: float | None, b: float | None) -> bool:
    if a is None or b is None:
        return a is b
    return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)


def _plain(value: float | None) -> str:
    return "none" if value is None else f"{value:.6g}"
