"""One sitting of a run: judging a dataset, scoring what finishes, keeping it as it comes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic

from judge_eval.data.remarks import Remarks
from judge_eval.engine import Item, Judged
from judge_eval.errors import JudgeEvalError, MetricError, RunError
from judge_eval.runs.folder.files import RESULTS
from judge_eval.runs.folder.index import Index
from judge_eval.runs.folder.journal import Journal
from judge_eval.runs.folder.records import Manifest, Status, TraceResult
from judge_eval.runs.folder.results import ResultsFile
from judge_eval.runs.folder.run import Run
from judge_eval.runs.judging.calling import Calling
from judge_eval.runs.judging.counting import Counting, Progress
from judge_eval.runs.judging.fingerprint import Fingerprint
from judge_eval.runs.judging.outcomes import results_of
from judge_eval.runs.judging.resuming import Earlier
from judge_eval.runs.judging.telling import telling
from judge_eval.runs.scoring.aggregate import aggregate_all
from judge_eval.schema import Trace

NOTE_EVERY = 5.0
"""Seconds between notes of what a run has taken, so that a kill forgets no more than that."""


@dataclass
class Sitting:
    """Judges traces into a run, from the start or from where an earlier sitting ended.

    Args:
        manifest: The run's manifest at the start.
        calling: Who judges, and how calls are made.
        journal: Where results are kept; None keeps them in memory.
        watch: Called with the progress after each block of finished traces.
        keep: Whether results stay in memory where there is no journal.
        earlier: Where there is no journal: the results of an earlier sitting, to go on from.
        fingerprint: Of a stream, which nobody has surveyed.
        remarks: What is said of the rows of a stream.
    """

    manifest: Manifest
    calling: Calling
    journal: Journal | None = None
    watch: Callable[[Progress], None] | None = None
    keep: bool = True
    earlier: Sequence[TraceResult] = ()
    fingerprint: Fingerprint = field(default_factory=Fingerprint)
    remarks: Remarks = field(default_factory=lambda: Remarks("in row"))

    def __post_init__(self) -> None:
        self._memory: dict[int, TraceResult] = {}
        if self.journal is not None:
            self._index = self.journal.index
            if len(self._index):
                self.earlier = ResultsFile(self.journal.folder / RESULTS)
        else:
            self._index = Index(self.calling.scorer.names, self.manifest.intervals.cluster)
        self._before = Earlier(self.earlier)
        self._counting = Counting(self.calling.stack, self.manifest)
        self._noted = monotonic()
        for result in self.earlier:
            self._counting.add(result)
            if self.journal is None:
                self._remember(result)

    @property
    def folder(self) -> Path | None:
        """Where the run is kept; None in memory."""
        return self.journal.folder if self.journal else None

    async def results(
        self, traces: Iterator[tuple[int, Trace]] | AsyncIterator[Trace]
    ) -> AsyncIterator[list[TraceResult]]:
        """Judge the traces and yield results as they finish; what was finished before is passed over.

        Args:
            traces: Each with its place in the dataset, or a stream, whose traces are numbered as they come.

        Raises:
            JudgeEvalError: Whatever ends the run early; the run's folder then says so and can be resumed.
        """
        engine = self.calling.engine()
        source = self._items(traces) if isinstance(traces, Iterator) else self._aitems(traces)
        async with telling(self.folder, lambda: self._counting.progress(self.folder)):
            try:
                async with engine:
                    async for block in engine.results(source):
                        yield self._keep(block)
            except BaseException as error:
                self._keep(engine.take(), quietly=True)
                self._close("failed" if isinstance(error, Exception) else "interrupted", quietly=True)
                if isinstance(error, JudgeEvalError) and self.folder is not None:
                    error.run_folder = str(self.folder)
                raise
            self._before.check_all_seen()
            self._close("incomplete" if self._counting.failures else "done")

    def run(self) -> Run:
        """Return the run as it stands after `results` has ended."""
        if self.folder is not None:
            return Run(self.manifest, ResultsFile(self.folder / RESULTS, self.manifest), self.folder)
        return Run(self.manifest, [self._memory[place] for place in sorted(self._memory)])

    def another(self) -> Sitting | None:
        """Return a sitting that goes on where this one has ended; None where it could mend nothing."""
        if self.manifest.imported or not self._counting.few_unreadable:
            return None
        manifest = self.manifest.model_copy(update={"status": "running", "finished": None})
        journal = None if self.folder is None else Journal(self.folder, manifest)
        return replace(self, manifest=manifest, journal=journal, earlier=list(self._memory.values()))

    def _items(self, traces: Iterator[tuple[int, Trace]]) -> Iterator[Item]:
        for position, trace in traces:
            if (item := self._item(position, trace)) is not None:
                yield item

    async def _aitems(self, traces: AsyncIterator[Trace]) -> AsyncIterator[Item]:
        position = 0
        async for trace in traces:
            if (item := self._item(position, trace)) is not None:
                yield item
            position += 1

    def _item(self, position: int, trace: Trace) -> Item | None:
        if not self.manifest.dataset.digest:  # a stream: nobody has surveyed it
            self.fingerprint.add(trace)
        return self._before.item(position, trace)

    def _keep(self, block: Sequence[Judged], quietly: bool = False) -> list[TraceResult]:
        if not block:
            return []
        undefined: list[MetricError] = []
        results = results_of(block, self.calling.scorer, self._before.all_calls, undefined)
        try:
            if self.journal is not None:
                self.journal.append(results)
            else:
                for result in results:
                    self._remember(result)
        except RunError:
            if quietly:
                return results
            raise
        for result in results:
            self._counting.add(result)
        if self.calling.stack.otel != "off":
            from judge_eval.runs.judging.telemetry import emit_scores

            emit_scores(results, content=self.calling.stack.otel == "content")
        if self.watch is not None:
            self.watch(self._counting.progress(self.folder))
        if self.journal is not None and monotonic() - self._noted > NOTE_EVERY:
            self._noted = monotonic()
            self.manifest = self.manifest.model_copy(update={"tally": self._counting.tally()})
            self.journal.write_manifest(self.manifest)
        if undefined and not quietly:  # what was paid for is kept by now
            raise MetricError(
                f"{undefined[0]}; every verdict is kept: `score` computes other metrics of them"
            )
        return results

    def _remember(self, result: TraceResult) -> None:
        self._index.add(result, 0, 0)
        if self.keep:
            self._memory[result.position] = result

    def _close(self, status: Status, quietly: bool = False) -> None:
        """Write down how the sitting ended."""
        try:
            index = self.journal.sort() if self.journal else self._index.sorted()
            dataset = self.manifest.dataset
            if not dataset.digest and status in ("done", "incomplete"):
                update = {
                    "digest": self.fingerprint.hexdigest(),
                    "traces": self.fingerprint.traces,
                    "chunks": self.fingerprint.chunks,
                    "remarks": self.remarks.told(),
                }
                dataset = dataset.model_copy(update=update)
            metrics = self.calling.scorer.metrics
            self.manifest = self.manifest.model_copy(
                update={
                    "status": status,
                    "finished": datetime.now(UTC),
                    "aggregates": aggregate_all(index, metrics, self.manifest.intervals),
                    "tally": self._counting.tally(),
                    "dataset": dataset,
                }
            )
            if self.journal is not None:
                self.manifest = self.journal.finish(self.manifest)
        except RunError:
            if not quietly:
                raise
        finally:
            if self.journal is not None:
                self.journal.close()
