"""One sitting of a run: judging a dataset, scoring what finishes, keeping it as it comes."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from time import monotonic

from judge_eval.backends.stack import Stack, Stacks
from judge_eval.engine import Driver, Engine, Item, Judged
from judge_eval.errors import DataError, JudgeEvalError, RunError
from judge_eval.judges.base import Judge
from judge_eval.record import trusted
from judge_eval.runs.folder.index import Index
from judge_eval.runs.folder.journal import Journal
from judge_eval.runs.folder.records import FORMAT, Manifest, Status, Tally, TraceResult
from judge_eval.runs.folder.results import ResultsFile
from judge_eval.runs.folder.run import Run
from judge_eval.runs.judging.sources import Fingerprint
from judge_eval.runs.scoring.aggregate import aggregate_all
from judge_eval.runs.scoring.scorer import Scorer
from judge_eval.schema import Call, Trace, Verdict

NOTE_EVERY = 5.0
"""Seconds between notes of what a run has taken, so that a kill forgets no more than that."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is; handed to whoever watches."""

    traces: int
    total: int | None
    """How many traces there are; None for a stream."""
    verdicts: int
    failed: int
    calls: int
    hits: int
    retries: int
    seconds: float
    folder: str | None


@dataclass(slots=True)
class _Before:
    """What a resumed run holds of a trace."""

    digest: str
    known: Mapping[str, Verdict]
    calls: tuple[Call, ...]
    """The calls that the known verdicts rest on."""
    finished: bool


@dataclass
class Sitting:
    """Judges traces into a run, from the start or from where an earlier sitting ended.

    Args:
        manifest: The run's manifest at the start.
        judge: The plan.
        stack: Who answers.
        scorer: The metrics.
        journal: Where results are kept; None keeps them in memory.
        concurrency: How many calls may be under way.
        watch: Called with the progress after each block of finished traces.
    """

    manifest: Manifest
    judge: Judge
    stack: Stack | Stacks
    scorer: Scorer
    journal: Journal | None = None
    concurrency: int = 64
    lead: bool = False
    """Whether a trace's first call goes ahead of its siblings."""
    watch: Callable[[Progress], None] | None = None
    keep: bool = True
    """Whether results stay in memory where there is no journal."""
    driver: Driver | None = None
    """Who drives the inquiries; None has it done here."""
    earlier: Sequence[TraceResult] = ()
    """Where there is no journal: the results of an earlier sitting, to go on from."""
    fingerprint: Fingerprint = field(default_factory=Fingerprint)

    def __post_init__(self) -> None:
        self._index = (
            self.journal.index if self.journal else Index(self.scorer.names, self.manifest.intervals.cluster)
        )
        self._memory: dict[int, TraceResult] = {}
        if self.journal is not None and len(self.journal.index):
            self.earlier = ResultsFile(self.journal.folder / "results.jsonl")
        self._before = _before(self.earlier)
        self._calls: dict[int, tuple[Call, ...]] = {}
        self._base = self.manifest.tally
        self._failures: dict[int, Counter[str]] = {}
        self._failed = 0
        self._chunks = 0
        self._seen: set[int] = set()
        self._started = self._noted = monotonic()
        self._counts = self.stack.counts()
        for result in self.earlier:
            self._count(result)
            if self.journal is None:
                self._remember(result)

    async def results(
        self, traces: Iterator[tuple[int, Trace]] | AsyncIterator[Trace]
    ) -> AsyncIterator[list[TraceResult]]:
        """Judge the traces and yield results as they finish; what was finished before is passed over.

        Args:
            traces: Each with its place in the dataset, or a stream, whose traces are numbered as they come.

        Raises:
            JudgeEvalError: Whatever ends the run early; the run's folder then says so and can be resumed.
        """
        engine = self.driver or Engine(
            self.judge,
            self.stack.backend,
            concurrency=self.concurrency,
            lead=self.lead,
            salvage=lambda: not self.stack.keeps,
        )
        source = self._items(traces) if isinstance(traces, Iterator) else self._aitems(traces)
        try:
            async with engine:
                async for block in engine.results(source):
                    yield self._keep(block)
        except BaseException as error:
            self._keep(engine.take(), quietly=True)
            status: Status = "failed" if isinstance(error, Exception) else "interrupted"
            self._close(status, quietly=True)
            if isinstance(error, JudgeEvalError) and self.journal is not None:
                error.run_folder = str(self.journal.folder)
            raise
        self._check_all_seen()
        self._close("incomplete" if self._failures else "done")

    def run(self) -> Run:
        """Return the run as it stands after `results` has ended."""
        if self.journal is not None:
            return Run(self.manifest, ResultsFile(self.journal.folder / "results.jsonl"), self.journal.folder)
        return Run(self.manifest, [self._memory[place] for place in sorted(self._memory)])

    @property
    def worth_another(self) -> bool:
        """Whether a few replies (at most a tenth) stayed unreadable, which another sitting may mend."""
        unreadable = sum(whys["unparsable"] for whys in self._failures.values())
        return 0 < unreadable <= max(1, self._chunks // 10)

    def another(self) -> Sitting:
        """Return a sitting that goes on where this one has ended."""
        manifest = self.manifest.model_copy(update={"status": "running", "finished": None})
        folder = self.journal.folder if self.journal else None
        journal = None if folder is None else Journal(folder, manifest)
        return replace(self, manifest=manifest, journal=journal, earlier=list(self._memory.values()))

    def _items(self, traces: Iterator[tuple[int, Trace]]) -> Iterator[Item]:
        for position, trace in traces:
            item = self._item(position, trace)
            if item is not None:
                yield item

    async def _aitems(self, traces: AsyncIterator[Trace]) -> AsyncIterator[Item]:
        position = 0
        async for trace in traces:
            item = self._item(position, trace)
            position += 1
            if item is not None:
                yield item

    def _item(self, position: int, trace: Trace) -> Item | None:
        """Number a trace; None where an earlier sitting has finished it."""
        if not self.manifest.dataset.digest:  # a stream: nobody has surveyed it
            self.fingerprint.add(trace)
        before = self._before.pop(trace.id, None)
        if before is None:
            return Item(position, trace, {})
        if before.digest != trace.digest:
            raise DataError(
                f"trace {trace.id!r} is not the one this run judged: its text or chunks have changed"
            )
        if before.finished:
            return None
        if before.calls:
            self._calls[position] = before.calls
        return Item(position, trace, before.known)

    def _check_all_seen(self) -> None:
        if self._before:
            names = ", ".join(map(repr, list(self._before)[:3]))
            raise RunError(
                f"{len(self._before)} traces of this run are not in the data any more: {names}, ..."
            )

    def _keep(self, block: Sequence[Judged], quietly: bool = False) -> list[TraceResult]:
        if not block:
            return []
        scored = self.scorer.score([(judged.trace, judged.judgment.outcomes) for judged in block])
        results = [
            trusted(
                TraceResult,
                {
                    "v": FORMAT,
                    "position": judged.position,
                    "trace_id": judged.trace.id,
                    "digest": judged.trace.digest,
                    "outcomes": judged.judgment.outcomes,
                    "scores": scores,
                    "bounds": bounds,
                    "calls": self._all_calls(judged),
                    "votes": judged.judgment.votes,
                    "trace": judged.trace,
                },
            )
            for judged, (scores, bounds) in zip(block, scored, strict=True)
        ]
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
            self._count(result)
        if self.stack.otel != "off":
            from judge_eval.runs.judging.telemetry import report

            report(results, content=self.stack.otel == "content")
        if self.watch is not None:
            self.watch(self.progress())
        if self.journal is not None and monotonic() - self._noted > NOTE_EVERY:
            self._noted = monotonic()
            self.manifest = self.manifest.model_copy(update={"tally": self._tally()})
            self.journal.write_manifest(self.manifest)
        return results

    def _remember(self, result: TraceResult) -> None:
        self._index.add(result, 0, 0)
        if self.keep:
            self._memory[result.position] = result

    def _all_calls(self, judged: Judged) -> tuple[Call, ...]:
        """Join a trace's calls of this sitting and of earlier ones, in the order of the chunks."""
        earlier = self._calls.pop(judged.position, ())
        if not earlier:
            return judged.judgment.calls
        ranks = {chunk.id: rank for rank, chunk in enumerate(judged.trace.chunks)}
        joined = earlier + judged.judgment.calls
        return tuple(sorted(joined, key=lambda call: ranks[call.chunk_ids[0]]))

    def _count(self, result: TraceResult) -> None:
        if result.position not in self._seen:
            self._seen.add(result.position)
            self._chunks += len(result.outcomes)
        if before := self._failures.pop(result.position, None):
            self._failed -= before.total()
        whys = [o.why for o in result.outcomes if o.kind == "no_verdict"]
        if whys:
            self._failures[result.position] = Counter(whys)
            self._failed += len(whys)

    def progress(self) -> Progress:
        """Tell how far the run is."""
        counts = self.stack.counts().since(self._counts)
        dataset = self.manifest.dataset
        return Progress(
            traces=len(self._seen),
            total=(dataset.shard or dataset).traces or None,
            verdicts=self._chunks - self._failed,
            failed=self._failed,
            calls=counts.calls,
            hits=counts.hits,
            retries=sum(counts.retries.values()),
            seconds=monotonic() - self._started,
            folder=str(self.journal.folder) if self.journal else None,
        )

    def _tally(self) -> Tally:
        whys: Counter[str] = sum(self._failures.values(), Counter())
        base, counts = self._base, self.stack.counts().since(self._counts)
        cost = self.stack.spent(self._counts)
        return Tally(
            traces=len(self._seen),
            verdicts=self._chunks - self._failed,
            failed_verdicts=self._failed,
            failed_traces=len(self._failures),
            failures=dict(sorted(whys.items())),
            calls=base.calls + counts.calls,
            hits=base.hits + counts.hits,
            input_tokens=base.input_tokens + counts.usage.input_tokens,
            output_tokens=base.output_tokens + counts.usage.output_tokens,
            cost=None if cost is None or (base.cost is None and base.calls) else cost + (base.cost or 0.0),
            retries=dict(Counter(base.retries) + Counter(counts.retries)),
            dropped=tuple(sorted({*base.dropped, *counts.dropped})),
        )

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
                }
                dataset = dataset.model_copy(update=update)
            aggregates = aggregate_all(index, self.scorer.metrics, self.manifest.intervals)
            self.manifest = self.manifest.model_copy(
                update={
                    "status": status,
                    "finished": datetime.now(UTC),
                    "aggregates": aggregates,
                    "tally": self._tally(),
                    "dataset": dataset,
                }
            )
            if self.journal is not None:
                self.journal.write_manifest(self.manifest)
        except RunError:
            if not quietly:
                raise
        finally:
            if self.journal is not None:
                self.journal.close()


def _before(results: Iterable[TraceResult]) -> dict[str, _Before]:
    """Note what earlier sittings of a run have judged, by trace id."""
    before: dict[str, _Before] = {}
    for result in results:
        finished = not result.failed
        known = {} if finished else {o.chunk_id: o for o in result.outcomes if o.kind == "verdict"}
        calls = tuple(call for call in result.calls if known.keys() & set(call.chunk_ids))
        before[result.trace_id] = _Before(result.digest, known, calls, finished)
    return before
