"""Verifying a run: whether its files are as they were written, and what was changed if not."""

import hashlib
import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from judge_eval.errors import ConfigError, DataError, MetricError, RunError
from judge_eval.record import Record
from judge_eval.runs.columns.verdict_table import ScoreColumns
from judge_eval.runs.folder.journal import LABELS, MANIFEST, is_as_written, read_result, whole_lines
from judge_eval.runs.folder.labels import people_labels
from judge_eval.runs.folder.records import RESULTS, Aggregate, Manifest, TraceResult
from judge_eval.runs.folder.run import Run, read_manifest
from judge_eval.runs.judging.sources import Fingerprint
from judge_eval.runs.scoring.aggregate import aggregate_all
from judge_eval.runs.scoring.rescore import scale_of
from judge_eval.runs.scoring.scorer import Scorer

_BLOCK = 256


class Finding(Record):
    """Something in a run's folder that does not match."""

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
    """The results of a run, read once to find what is wrong with them, and with the manifest."""

    path: Path
    manifest: Manifest
    digests: bool = True
    """Whether what the manifest says of the file's bytes is compared."""
    lines: int = 0
    changed: bool = False
    """Whether they are not what was written."""
    _findings: list[Finding] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._columns = ScoreColumns(self.manifest.metrics, self.manifest.intervals.cluster)
        self._fingerprint = Fingerprint()
        self._failed = 0
        self._seen: dict[int, int] = {}
        self._block: list[tuple[int, TraceResult]] = []
        self._scorer: Scorer | None = None
        with suppress(ConfigError, MetricError, DataError):  # a metric of a package that is not here
            self._scorer = Scorer(self.manifest.metrics, scale_of(Run(self.manifest, ())))

    def findings(self) -> list[Finding]:
        """Read the file and return what is wrong with it."""
        ended = self.manifest.counted is not None
        expected = self.manifest.results_digest if self.digests else None
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
            return [Finding(file=RESULTS, what=error.message)]
        lines = self.manifest.tally.traces
        if expected is not None and whole.hexdigest() != expected.sha256:
            self._findings.insert(0, Finding(file=RESULTS, what="not what was written"))
        if expected is not None or ended:
            if self.lines != lines:
                what = f"holds {self.lines:,} results, and was written with {lines:,}"
                self._findings.insert(0, Finding(file=RESULTS, what=what))
            if left:
                self._note(f"ends in {left:,} bytes that are not a line")
        self.changed = bool(self._findings)
        return self._findings

    def _note(self, what: str, first: int | None = None, last: int | None = None) -> None:
        lines = None if first is None else (first, last or first)
        self._findings.append(Finding(file=RESULTS, lines=lines, what=what))

    def _look(self, line: bytes) -> None:
        number = self.lines
        try:
            result = read_result(line, self.path, number)
        except RunError as error:
            self._note(error.message, number)
            return
        if result.position in self._seen and self.manifest.counted is not None:
            self._note(f"a second result of the trace of line {self._seen[result.position]}", number)
        self._seen[result.position] = number
        self._columns.add(result)
        self._failed += result.failed
        if result.trace_id != result.trace.id or result.digest != result.trace.digest:
            self._note("the trace is not the one that its digest was made of", number)
        if [outcome.chunk_id for outcome in result.outcomes] != [chunk.id for chunk in result.trace.chunks]:
            self._note("the outcomes are not those of its chunks", number)
        elif self._scorer is not None:
            self._block.append((number, result))
            if len(self._block) == _BLOCK:
                self._score()
        with suppress(DataError):  # an id that stands twice is told as a second result, or with its trace
            self._fingerprint.add(result.trace)

    def _score(self) -> None:
        block, self._block = self._block, []
        if self._scorer is None or not block:
            return
        try:
            scored = self._scorer.score(
                [(result.trace, result.outcomes) for _, result in block], claims=[result.claims for _, result in block]
            )
        except (MetricError, DataError, ValueError):
            self._note("verdicts here cannot be scored", block[0][0], block[-1][0])
            return
        for (number, result), (scores, _) in zip(block, scored, strict=True):
            for name, value in scores.items():
                recorded = result.scores.get(name)
                if not _same(recorded, value):
                    self._note(f"{name} is {_plain(recorded)}, and its verdicts give {_plain(value)}", number)

    def contradictions(self) -> Iterator[Finding]:
        """Yield what the manifest says that does not follow from the results."""
        manifest = self.manifest
        if manifest.counted is None:
            return
        tally, dataset = manifest.tally, manifest.dataset
        for name, count in (("traces", len(self._seen)), ("failed_verdicts", self._failed)):
            if getattr(tally, name) != count:
                text = f"tally.{name} is {getattr(tally, name):,}, and the results give {count:,}"
                yield Finding(file=MANIFEST, what=text)
        whole = dataset.shard is None and dataset.traces == self.lines and dataset.digest
        if whole and self._fingerprint.hexdigest() != dataset.digest:
            yield Finding(file=MANIFEST, what="dataset.digest is not that of the results' traces")
        if self._scorer is None:
            return
        scored = self._columns.done().in_order()
        for name, aggregate in aggregate_all(scored, self._scorer, manifest.intervals).items():
            recorded = manifest.aggregates.get(name)
            if text := _difference(recorded, aggregate):
                yield Finding(file=MANIFEST, what=f"aggregates.{name}: {text}")


def _difference(recorded: Aggregate | None, computed: Aggregate) -> str:
    if recorded is None:
        return "is not there"
    for name in ("mean", "n", "n_failed"):
        is_, should = getattr(recorded, name), getattr(computed, name)
        if not _same(is_, should):
            return f"{name} is {_plain(is_)}, and the results give {_plain(should)}"
    return ""


def _same(a: float | None, b: float | None) -> bool:
    if a is None or b is None:
        return a is b
    return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)


def _plain(value: float | None) -> str:
    return "none" if value is None else f"{value:.6g}"


Condition = Literal["whole", "unfinished", "changed"]
"""`whole`: every byte is what was written; `unfinished`: it is still written, or was cut short; `changed`:
something does not fit."""


class Verification(Record):
    """What verifying a run found."""

    folder: str
    id: str | None
    condition: Condition
    results: int
    """How many results were read."""
    findings: tuple[Finding, ...] = ()


def verify(folder: Path, *, digests: bool = True) -> Verification:
    """Read all of a run, compute its scores, means and perhaps digests again, and name what does not match."""
    try:
        manifest = read_manifest(folder)
    except RunError as error:
        if not (folder / MANIFEST).exists():
            raise
        broken = (Finding(file=MANIFEST, what=error.message), *_beside(folder, None))
        return Verification(folder=str(folder), id=None, condition="changed", results=0, findings=broken)
    reading = Reread(folder / RESULTS, manifest, digests)
    findings = reading.findings()
    if digests and not is_as_written(manifest):
        findings.append(Finding(file=MANIFEST, what="not what was written"))
    if not reading.changed:  # of other results nothing follows for the manifest
        findings += reading.contradictions()
    findings += _beside(folder, manifest)
    condition: Condition = "whole"
    if findings:
        condition = "changed"
    elif manifest.counted is None and not manifest.files:
        condition = "unfinished"
    return Verification(
        folder=str(folder), id=manifest.id, condition=condition, results=reading.lines, findings=tuple(findings)
    )


def _beside(folder: Path, manifest: Manifest | None) -> Iterator[Finding]:
    for path in sorted(folder.iterdir()):
        if path.is_symlink() and path.name not in (MANIFEST, RESULTS):
            yield Finding(file=path.name, what="it is a link, which is never followed")
    if not (folder / LABELS).is_symlink():
        try:
            people_labels(folder, None if manifest is None else scale_of(Run(manifest, (), folder)))
        except RunError as error:
            lines = None if error.line is None else (error.line, error.line)
            yield Finding(file=LABELS, lines=lines, what=error.message)
