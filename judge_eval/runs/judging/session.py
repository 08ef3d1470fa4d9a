"""One session of a run: judging a dataset, scoring what finishes, keeping it as it comes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Any, Protocol, Self

import numpy as np

from judge_eval.data.remarks import Remarks, ScoreOrder
from judge_eval.engine import Engine, Item, Judged, Source
from judge_eval.errors import DataError, JudgeEvalError, MetricError, RunError
from judge_eval.judges.judge import Judge
from judge_eval.llm.options import Otel
from judge_eval.llm.stack import Stack
from judge_eval.record import trusted
from judge_eval.runs.folder.journal import Index, Journal, ResultsFile, missing_folder, read_notes
from judge_eval.runs.folder.records import FORMAT, JUDGED, Manifest, Status, Tally, TraceResult
from judge_eval.runs.folder.run import Run
from judge_eval.runs.folder.run_files import RESULTS
from judge_eval.runs.judging.counting import PROGRESS_EVERY, Counting, Progress, publishing, total, with_paid
from judge_eval.runs.judging.sources import Fingerprint
from judge_eval.runs.keeping.mirror import is_pushed
from judge_eval.runs.scoring.aggregate import figures
from judge_eval.runs.scoring.rescore import scored_again
from judge_eval.runs.scoring.scorer import Scorer
from judge_eval.schema import Judgment, Trace


class Driver(AbstractAsyncContextManager[Any], Protocol):
    """Runs a session's plans in place of the engine, such as over many machines."""

    @property
    def stack(self) -> Stack | None:
        """The stack that answers and counts its calls; None for the evaluator's own."""
        ...

    def judging_by(self, judge: Judge) -> Self:
        """Set the judge, which may differ from the evaluator's, before the start; return the driver."""
        ...

    def take(self) -> list[Judged]:
        """Return the finished traces that nobody has taken yet."""
        ...

    def results(self, source: Source) -> AsyncIterator[list[Judged]]:
        """Judge every trace of the source and yield blocks of them as they finish, in any order."""
        ...


@dataclass(frozen=True, slots=True)
class RunContext:
    """Who judges, and how calls are made."""

    judge: Judge
    stack: Stack
    scorer: Scorer
    concurrency: int
    """How many calls may be under way."""
    lead: bool
    """Whether a trace's first call goes ahead of its siblings."""
    driver: Driver | None = None
    """Who drives the plans; None has it done in this process."""
    paid: Tally = field(default_factory=Tally)
    """What was paid for before the run begins or goes on: the replies of a batch."""
    run_id: str | None = None
    """The id of a run that begins; None makes one."""

    def engine(self) -> Engine | Driver:
        """Return what runs the plans: the driver, or an engine in this process."""
        if self.driver:
            return self.driver.judging_by(self.judge)
        stack = self.stack
        return Engine(
            self.judge, stack.backend, concurrency=self.concurrency, lead=self.lead, salvage=lambda: not stack.keeps
        )


def results_of(block: Sequence[Judged], scorer: Scorer, failed: list[MetricError] | None = None) -> list[TraceResult]:
    """Score judgments into the results that a run keeps; `failed` collects errors, else they are raised."""
    scored = scorer.score(
        [(judged.trace, judged.judgment.outcomes) for judged in block],
        failed,
        [judged.judgment.claims for judged in block],
    )
    # Not checked again: of 100,000 traces with 10 chunks each that takes 1.4 seconds, this 0.2.
    return [
        trusted(
            TraceResult,
            {
                "v": FORMAT,
                "position": judged.position,
                "trace_id": judged.trace.id,
                "digest": judged.trace.digest,
                "outcomes": judged.judgment.outcomes,  # in the order in which a file is written
                "scores": scores,
                "bounds": bounds,
                **{name: getattr(judged.judgment, name) for name in JUDGED[1:]},
                "trace": judged.trace,
            },
        )
        for judged, (scores, bounds) in zip(block, scored, strict=True)
    ]


def emit(results: Sequence[TraceResult], otel: Otel) -> None:
    """Emit the scores of results as telemetry, if the user turned it on."""
    if otel != "off":
        from judge_eval.runs.judging.telemetry import emit_scores

        emit_scores(results, content=otel == "content")


class PriorTally:
    """What a run had paid when it was killed: by its notes, and by the rows after the last note.

    Without notes (of a run that was pulled) the manifest's tally covers the requests of the
    first rows; the others count as calls, and what was lost is not known.
    """

    def __init__(self, folder: Path, tally: Tally) -> None:
        self._notes, self._tally = read_notes(folder), tally
        self._open: int | None = None
        self._covered = tally.calls + tally.hits
        self._rest = Tally()
        self._keys: dict[int, frozenset[tuple[str, str]]] = {}
        """By position of a trace that was not finished: the calls that are counted."""

    def add(self, result: TraceResult, end: int) -> None:
        """Take in a row, in the order of the file; `end` is the offset of its end."""
        counted = self._keys.pop(result.position, frozenset[tuple[str, str]]())
        calls = [call for call in result.calls if (call.key, call.model) not in counted]
        if result.failed or result.parts:
            self._keys[result.position] = counted | {(call.key, call.model) for call in calls}
        beyond = calls[self._covered :]
        self._covered -= len(calls) - len(beyond)
        self._rest = Tally(
            calls=self._rest.calls + len(beyond),
            input_tokens=self._rest.input_tokens + sum(call.input_tokens for call in beyond),
            output_tokens=self._rest.output_tokens + sum(call.output_tokens for call in beyond),
        )
        self._take_notes(end)

    def _take_notes(self, end: int) -> None:
        while self._notes and self._notes[0].size <= end:
            _, self._tally, self._open = self._notes.pop(0)
            self._rest, self._covered = Tally(), 0

    def tally(self, context: RunContext) -> Tally:
        """Return what was paid in all, and the most that is not counted."""
        self._take_notes(0)  # of a run without a row
        rest = self._rest
        lost = None if self._open is None else max(0, self._open - rest.calls)
        cost = context.stack.cost_of(rest.input_tokens, rest.output_tokens) if rest.calls else 0.0
        return total([self._tally, rest.replace(cost=cost, killed=1, lost=lost)])


class EarlierRows:
    """The rows of a resumed run, read once; `killed` is its folder if it could not write what it paid."""

    def __init__(self, context: RunContext, manifest: Manifest, killed: Path | None = None) -> None:
        self.counting = Counting(context.stack, manifest, context.judge)
        self._judged: dict[str, tuple[str, Judgment | None]] = {}
        """By id of a trace its digest, and its judgment if something is missing in it."""
        self._context, self._names, self._answered = context, set(context.scorer.names), False
        self._paid = None if killed is None else PriorTally(killed, manifest.tally)

    def take(self, result: TraceResult, end: int = 0) -> TraceResult:
        """Take in a row, and return it with the scores of the run's metrics."""
        if self._paid is not None:
            self._paid.add(result, end)
        if result.scores.keys() != self._names:
            (result,) = scored_again([result], self._context.scorer)
        if not self._answered and any(outcome.kind == "verdict" for outcome in result.outcomes):
            self._answered = True
            self._context.stack.note_answered()
        complete = self.counting.add(result)
        self._judged[result.trace_id] = result.digest, None if complete else result.judgment
        return result

    def item(self, position: int, trace: Trace) -> Item | None:
        """Return what is left to judge of a trace, which must be the judged one; None if it is complete."""
        if trace.id not in self._judged:
            return Item(position, trace)
        digest, judgment = self._judged.pop(trace.id)
        if digest != trace.digest:
            raise DataError(f"trace {trace.id!r} is not the one this run judged: its text or chunks have changed")
        return None if judgment is None else Item(position, trace, judgment)

    def check_all_seen(self) -> None:
        """Check that every trace that was judged is still in the data."""
        if self._judged:
            names = ", ".join(map(repr, list(self._judged)[:3]))
            raise RunError(f"{len(self._judged)} traces of this run are not in the data any more: {names}, ...")

    def settle(self, manifest: Manifest) -> Manifest:
        """Complete the manifest, after all rows, with what a kill left out."""
        if self._paid is not None:
            self.counting.before = with_paid(self._paid.tally(self._context), self._context.paid)
            manifest = manifest.replace(tally=self.counting.tally())
        return manifest


NOTE_EVERY = 5.0
"""Seconds between manifests that say what a run has taken so far."""


@dataclass
class RunSession:
    """Judges traces into a run, from its start or after an earlier session.

    Without a journal results are in memory, if `keep` says so, beside those `remembered` of an earlier
    session. `watch` is called with the progress after each block of finished traces. `fingerprint`, `remarks`
    and `order` are of a stream, which cannot be surveyed.
    """

    manifest: Manifest
    context: RunContext
    journal: Journal | None = None
    watch: Callable[[Progress], None] | None = None
    keep: bool = True
    rows: EarlierRows | None = None
    remembered: Collection[TraceResult] = ()
    fingerprint: Fingerprint = field(default_factory=Fingerprint)
    remarks: Remarks = field(default_factory=lambda: Remarks("in row"))
    order: ScoreOrder = field(default_factory=ScoreOrder)

    def __post_init__(self) -> None:
        self._memory: dict[int, TraceResult] = {}
        self._before = self.rows or EarlierRows(self.context, self.manifest)
        self._counting = self._before.counting
        if self.journal is not None:
            self._index = self.journal.index
        else:
            self._index = Index(self.context.scorer.names, self.manifest.intervals.cluster)
        self._noted = monotonic()
        for result in self.remembered:
            self._remember(result)

    @property
    def folder(self) -> Path | None:
        """Where the run is kept; None in memory."""
        return self.journal.folder if self.journal else None

    async def results(
        self, traces: Iterator[tuple[int, Trace]] | AsyncIterator[Trace]
    ) -> AsyncIterator[list[TraceResult]]:
        """Judge the traces and yield results as they finish; finished traces are skipped."""
        # Each trace comes with its position in the dataset; those of a stream are numbered as they come. If
        # the run ends early, its folder says so and can be resumed.
        engine = self.context.engine()
        source = self._items(traces) if isinstance(traces, Iterator) else self._aitems(traces)
        async with publishing(self.folder, self._progress), self._telling_of_waits():
            try:
                with self._noting_begins():
                    async with engine:
                        async for block in engine.results(source):
                            yield self._keep(block)
            except BaseException as error:
                self._keep(engine.take(), quietly=True)
                failed, journal = isinstance(error, Exception), self.journal
                if failed and journal and journal.is_new and not self._asked and not is_pushed(journal.folder):
                    journal.discard()
                    raise
                self._close("failed" if failed else "interrupted", quietly=True)
                if isinstance(error, JudgeEvalError) and self.folder is not None:
                    error.run_folder = str(self.folder)
                raise
            self._before.check_all_seen()
            self._close(self._counting.status)

    def run(self) -> Run:
        """Return the run as it is after `results` has ended."""
        if self.folder is not None:
            results, digest = ResultsFile(self.folder / RESULTS, self.manifest), self.manifest.results_digest
            if digest is not None:
                offsets = np.array(self._index.offsets, dtype=np.int64)
                results.placed(np.column_stack([offsets, np.arange(1, len(offsets) + 1)]), digest.sha256)
            return Run(self.manifest, results, self.folder)
        return Run(self.manifest, [self._memory[place] for place in sorted(self._memory)])

    def another(self) -> RunSession | None:
        """Return a session that continues after this one; None if it could correct nothing."""
        if self.manifest.imported or not self._counting.few_unreadable:
            return None
        manifest = self.manifest.replace(status="running", finished=None)
        rows, memory = EarlierRows(self.context, manifest), self._memory.values()
        for result in memory:
            rows.take(result)
        journal = None if self.folder is None else Journal(self.folder, manifest, rows.take, rows.settle)
        return replace(self, manifest=manifest, journal=journal, rows=rows, remembered=memory)

    @property
    def _asked(self) -> bool:
        """Whether anything was answered, also by the cache; if not, a run that fails leaves no folder."""
        taken = self._counting.taken()
        return bool(len(self._index) or taken.calls or taken.hits)

    @contextmanager
    def _noting_begins(self) -> Iterator[None]:
        """Have each request noted before it is sent."""
        if self.journal is None:
            yield
            return
        counters = self.context.stack.counters
        for counter in counters:
            counter.on_begin.append(self.journal.begin)
        try:
            yield
        finally:
            for counter in counters:
                counter.on_begin.remove(self.journal.begin)

    @property
    def _in_flight(self) -> int | None:
        """How many requests are in flight; None if others make them."""
        counters = self.context.stack.counters
        return sum(counter.in_flight for counter in counters) if counters else None

    def _progress(self) -> Progress:
        if self.journal is not None:
            self.journal.note(self._counting.taken(), self._in_flight)
        return self._counting.progress(self.folder)

    @asynccontextmanager
    async def _telling_of_waits(self) -> AsyncIterator[None]:
        """Call `watch` about every second while a server's wait holds calls up, for then no trace may finish."""
        if self.watch is None:
            yield
            return
        task = asyncio.create_task(self._tell_of_waits(self.watch), name="judge_eval waits")
        try:
            yield
        finally:
            task.cancel()

    async def _tell_of_waits(self, watch: Callable[[Progress], None]) -> None:
        while True:
            await asyncio.sleep(PROGRESS_EVERY)
            if self.context.stack.asked_wait:
                watch(self._counting.progress(self.folder))

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
            self.order.add(trace)
        return self._before.item(position, trace)

    def _keep(self, block: Sequence[Judged], quietly: bool = False) -> list[TraceResult]:
        if not block:
            return []
        undefined: list[MetricError] = []
        results = results_of(block, self.context.scorer, undefined)
        try:
            if self.journal is not None:
                self.journal.append(results, self._counting.taken(), self._in_flight)
            else:
                for result in results:
                    self._remember(result)
        except RunError:
            if quietly:
                return results
            raise
        for result in results:
            self._counting.add(result)
        emit(results, self.context.stack.otel)
        if self.watch is not None:
            self.watch(self._counting.progress(self.folder))
        if self.journal is not None and monotonic() - self._noted > NOTE_EVERY:
            self._noted = monotonic()
            self.manifest = self.manifest.replace(tally=self._counting.tally())
            self.journal.write_manifest(self.manifest)
        if undefined and not quietly:  # what was paid for is kept by now
            raise MetricError(f"{undefined[0]}; every verdict is kept: `score` computes other metrics of them")
        return results

    def _remember(self, result: TraceResult) -> None:
        self._index.add(result, 0, 0)
        if self.keep:
            self._memory[result.position] = result

    def _close(self, status: Status, quietly: bool = False) -> None:
        try:
            index = self._index = self.journal.sort() if self.journal else self._index.sorted()
            dataset = self.manifest.dataset
            if not dataset.digest and status in ("done", "incomplete"):
                seen, remarks = self.fingerprint, (*self.remarks.sentences(), *self.order.sentences())
                dataset = dataset.replace(
                    digest=seen.hexdigest(), traces=seen.traces, chunks=seen.chunks, remarks=remarks
                )
            self.manifest = self.manifest.replace(
                status=status,
                finished=datetime.now(UTC),
                tally=self._counting.tally(),
                dataset=dataset,
                **figures(index, self.context.scorer, self.manifest.intervals),
            )
            if self.journal is not None:
                self.manifest = self.journal.finish(self.manifest)
        except RunError as error:
            if not quietly:
                raise (self.folder and missing_folder(self.folder)) or error from None
        finally:
            if self.journal is not None:
                self.journal.close()
