"""What a run has done so far, counted: verdicts, failures, calls; and the progress file that others read."""

import asyncio
import math
import os
import re
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Any, TypeVar

from pydantic import AwareDatetime, Field

from judge_eval.errors import NEVER_ASKED, NO_FAILURE
from judge_eval.files import open_plain, read_plain, replacing
from judge_eval.judges.judge import Judge, is_complete
from judge_eval.llm.stack import Stack
from judge_eval.record import Record
from judge_eval.runs.folder.journal import BEGUN, MANIFEST, PROGRESS
from judge_eval.runs.folder.records import FORMAT, RESULTS, FailureExample, Manifest, Status, Tally, TraceResult
from judge_eval.safe_text import shortened
from judge_eval.schema import NoVerdict, Stage, repeats_of

Name = TypeVar("Name", bound=str)
MOST_NAMED = 5
"""How many traces a tally names."""
_LONGEST_DETAIL = 200  # characters of an example
_QUOTED = re.compile(r" ?['0-9:]| \"")  # where a detail begins to quote or count
MOST_SERVED = 100
"""How many names of models a tally holds; a server that gives more names its replies, not versions of a model."""


@dataclass(slots=True)
class _Counted:
    """What is to be counted of one trace."""

    failures: Counter[str]
    examples: dict[tuple[str, str], FailureExample]
    """By why and the words of the detail that chunks share: the first failure, and how many there are."""
    stages: Counter[Stage]
    unsupported: int
    fewer_votes: int
    beyond: str | None


def served_names(groups: Iterable[Iterable[str]]) -> tuple[str, ...]:
    """Return what servers called the models, each name once; none if there are more than `MOST_SERVED`."""
    names = {name for group in groups for name in group}
    return tuple(sorted(names)) if len(names) <= MOST_SERVED else ()


class OutcomeCounts:
    """Counts the outcomes of a run; a later result of a trace replaces the earlier one."""

    def __init__(self, imported: bool) -> None:
        self._imported = imported
        self._positions: set[int] = set()
        self._counted: dict[int, _Counted] = {}
        """By position; only traces of which more than verdicts is counted."""
        self.chunks = self.failed = self._repeated = 0
        self.served = set[str]()
        """What servers called the models that answered."""

    def add(self, result: TraceResult) -> None:
        """Count a result."""
        if len(self.served) <= MOST_SERVED:
            self.served.update(call.model for call in result.calls if call.model)
        if result.position not in self._positions:
            self._positions.add(result.position)
            self.chunks += sum(outcome.kind == "verdict" or outcome.why != NO_FAILURE for outcome in result.outcomes)
            self._repeated += sum(repeats_of(result.trace.chunks))
        if earlier := self._counted.pop(result.position, None):
            self.failed -= earlier.failures.total()
        failures = [o for o in result.outcomes if o.kind == "no_verdict" and o.why != NO_FAILURE]
        stages, unsupported = result.stages, result.unsupported(self._imported)
        fewer_votes, beyond = result.fewer_votes, result.beyond_total
        if failures or stages or unsupported or fewer_votes or beyond:
            name = result.trace_id if beyond else None
            whys, examples = Counter[str](o.why for o in failures), _examples(result.trace_id, failures)
            self._counted[result.position] = _Counted(whys, examples, stages, unsupported, fewer_votes, name)
            self.failed += len(failures)

    @property
    def traces(self) -> int:
        """How many traces were counted."""
        return len(self._positions)

    @property
    def failures(self) -> Counter[str]:
        """Why chunks have no verdict."""
        return sum((counted.failures for counted in self._counted.values()), Counter())

    @property
    def example(self) -> FailureExample | None:
        """The most frequent reason of failures, with the first chunk that has it."""
        counts, first = Counter[tuple[str, str]](), dict[tuple[str, str], FailureExample]()
        for _, counted in sorted(self._counted.items()):
            for reason, example in counted.examples.items():
                counts[reason] += example.count
                first.setdefault(reason, example)
        for reason, count in counts.most_common(1):  # of equally frequent ones the first
            return first[reason].replace(count=count)
        return None

    @property
    def open(self) -> int:
        """How many chunks have no verdict that asking again may bring."""
        return self.failed - sum(self.failures[why] for why in NEVER_ASKED)

    def tally(self) -> dict[str, Any]:
        """Return the fields of a `Tally` that the outcomes give."""
        counted = self._counted.values()
        beyond = [name for _, each in sorted(self._counted.items()) if (name := each.beyond) is not None]
        return {
            "traces": self.traces,
            "verdicts": self.chunks - self.failed,
            "failed_verdicts": self.failed,
            "failed_traces": sum(bool(each.failures) for each in counted),
            "failures": total_counts(each.failures for each in counted),
            "example": self.example,
            "unsupported": sum(each.unsupported for each in counted),
            "fewer_votes": sum(each.fewer_votes for each in counted),
            "stages": total_counts(each.stages for each in counted),
            "beyond_total": len(beyond),
            "beyond": tuple(beyond[:MOST_NAMED]),
            "repeated": self._repeated,
        }


def _examples(trace_id: str, failures: Iterable[NoVerdict]) -> dict[tuple[str, str], FailureExample]:
    """Return the first failure of each reason, with how many of a trace's there are."""
    counts, first = Counter[tuple[str, str]](), dict[tuple[str, str], NoVerdict]()
    for failure in failures:
        reason = (failure.why, _QUOTED.split(failure.detail, maxsplit=1)[0])
        counts[reason] += 1
        first.setdefault(reason, failure)
    return {
        reason: FailureExample(
            why=failure.why,
            detail=shortened(failure.detail, _LONGEST_DETAIL),
            trace_id=trace_id,
            chunk_id=failure.chunk_id,
            count=counts[reason],
        )
        for reason, failure in first.items()
    }


def total_counts(counts: Iterable[Mapping[Name, int]]) -> dict[Name, int]:
    """Add up counts by name, in alphabetical order."""
    whole = Counter[Name]()
    for each in counts:
        whole.update(each)
    return dict(sorted(whole.items()))


class RunCounts(Record):
    """What a run has judged so far, and the calls of this session."""

    traces: int = Field(ge=0)
    """Traces that have a result."""
    total: int | None = Field(default=None, ge=0)
    """How many traces there are; None for a stream."""
    verdicts: int = Field(ge=0)
    failed: int = Field(ge=0)
    """Chunks that were judged and have no verdict."""
    calls: int = Field(ge=0)
    hits: int = Field(ge=0)
    """Answers from the cache."""
    retries: int = Field(ge=0)


class Progress(RunCounts):
    """How far a run is."""

    seconds: float
    """Since the session began."""
    folder: str | None
    """Where the run is kept; None in memory."""
    cost: float | None = None
    """Dollars that its calls took so far, in all sessions; None where a price is not known."""
    wait: float = 0.0
    """Seconds that a server asked to wait, while calls wait for that; 0 if none does."""


class Counting:
    """Counts the outcomes and the calls of a session, on top of those of earlier sessions."""

    def __init__(self, stack: Stack, manifest: Manifest, judge: Judge) -> None:
        self._stack, self._dataset, self._judge = stack, manifest.dataset, judge
        self._open: set[int] = set()
        """The positions of traces that a resume would ask about."""
        self.before = manifest.tally
        """What earlier sessions took."""
        self._outcomes = OutcomeCounts(manifest.imported)
        self._start, self._started = stack.counts(), monotonic()
        self._speed = Speed()
        self._requests: RequestsBegun | None = None
        self._written = -1
        """How many calls the progress file covers."""

    def add(self, result: TraceResult) -> bool:
        """Count a result, and return whether nothing is missing in it."""
        self._outcomes.add(result)
        complete = is_complete(self._judge, result.trace, result.judgment)
        (self._open.discard if complete else self._open.add)(result.position)
        return complete

    @property
    def status(self) -> Status:
        """The status of a run that has judged all its traces."""
        retrieval = self._dataset.retrieval
        lacks = self._open or self._outcomes.open or (retrieval is not None and retrieval.failed)
        return "incomplete" if lacks else "done"

    @property
    def few_unreadable(self) -> bool:
        """Whether a few replies (at most a tenth) stayed unreadable, which another session may correct."""
        return 0 < self._outcomes.failures["unparsable"] <= max(1, self._outcomes.chunks // 10)

    def progress(self, folder: Path | None) -> Progress:
        """Return how far the run is; `folder` is where it is kept."""
        counts, outcomes = self._stack.counts().since(self._start), self._outcomes
        return Progress(
            traces=outcomes.traces,
            total=(self._dataset.shard or self._dataset).traces or None,
            verdicts=outcomes.chunks - outcomes.failed,
            failed=outcomes.failed,
            calls=counts.calls,
            hits=counts.hits,
            retries=sum(counts.retries.values()),
            seconds=monotonic() - self._started,
            folder=None if folder is None else str(folder),
            cost=self.taken().cost,
            wait=self._stack.asked_wait,
        )

    @contextmanager
    def noting_requests(self, folder: Path | None) -> Iterator[None]:
        """Note each request before it is sent, in the run's folder; not for a run in memory or calls made elsewhere."""
        counters = self._stack.counters
        if folder is not None:
            remove_progress(folder)  # it speaks of an earlier session, whose tally the manifest holds by now
        if folder is None or not counters:
            yield
            return
        self._requests = requests = RequestsBegun(folder)
        for counter in counters:
            counter.on_begin.append(requests.begin)
        try:
            yield
        finally:
            for counter in counters:
                counter.on_begin.remove(requests.begin)
            requests.close()

    @property
    def _ended(self) -> int | None:
        if self._requests is None or self._requests.count is None:
            return None
        return self._requests.count - sum(counter.in_flight for counter in self._stack.counters)

    def cover_calls(self, folder: Path) -> None:
        """Write the progress if calls were paid since it was last written."""
        if self._stack.counts().calls != self._written:
            self.write(folder)

    def write(self, folder: Path | None) -> None:
        """Write how far the run is, and what it has paid, into its folder; nothing for a run in memory."""
        if folder is not None:
            self._written = self._stack.counts().calls
            current = self.progress(folder)
            rate, left = self._speed.rate(current)
            counts = current.model_dump(include=set(RunCounts.model_fields))
            news = ProgressFile(
                at=datetime.now(UTC), rate=rate, left=left, taken=self.taken(), ended=self._ended, **counts
            )
            write_progress(folder, news)

    def tally(self) -> Tally:
        """Return what the run took in all its sessions, and what failed in it."""
        served = served_names([self.before.served, self._outcomes.served])
        return self.taken().replace(**self._outcomes.tally(), served=served)

    def taken(self) -> Tally:
        """Return what the calls of all sessions took, without the outcomes."""
        counts = self._stack.counts().since(self._start)
        taken = Tally(
            calls=counts.calls,
            hits=counts.hits,
            input_tokens=counts.usage.input_tokens,
            output_tokens=counts.usage.output_tokens,
            cost=self._stack.spent(self._start),
            retries=counts.retries,
            dropped=counts.dropped,
            cache=counts.cache,
            lost=counts.lost,
        )
        return total([self.before, taken])


_SUMMED = (
    *("traces", "verdicts", "failed_verdicts", "failed_traces", "fewer_votes", "repeated"),
    *("unsupported", "beyond_total"),
    *("calls", "killed", "hits", "input_tokens", "output_tokens"),
)


def total(tallies: Sequence[Tally]) -> Tally:
    """Add up the tallies of sessions or shards; the cost is known if that of all calls is."""
    fields: dict[str, Any] = {name: sum(getattr(tally, name) for tally in tallies) for name in _SUMMED}
    for name in ("failures", "stages", "retries", "cache"):
        fields[name] = total_counts(getattr(tally, name) for tally in tallies)
    lost = [tally.lost for tally in tallies]
    costs = [0.0 if tally.cost is None and not tally.calls else tally.cost for tally in tallies]
    return Tally(
        **fields,
        beyond=tuple(name for tally in tallies for name in tally.beyond)[:MOST_NAMED],
        cost=None if None in costs else math.fsum(cost for cost in costs if cost is not None),
        lost=None if None in lost else sum(number for number in lost if number is not None),
        dropped=tuple(sorted({name for tally in tallies for name in tally.dropped})),
        served=served_names(tally.served for tally in tallies),
    )


def with_paid(tally: Tally, paid: Tally) -> Tally:
    """Add what was paid beside a run's own calls to its tally."""
    if not paid.calls:
        return tally
    added = total([tally, paid])
    names = ("calls", "input_tokens", "output_tokens", "cost")
    return tally.replace(**{name: getattr(added, name) for name in names})


_MOST = 1 << 16
"""Bytes that the file may have."""


class RunProgress(RunCounts):
    """How far a run is that is judged, as its process tells other processes."""

    rate: float | None = Field(default=None, ge=0)
    """Chunks judged in a second, lately; None where it is not known yet."""
    left: float | None = Field(default=None, ge=0)
    """Seconds until the last trace is judged, at the rate of late; None where it is not known."""


class ProgressFile(RunProgress):
    """The progress of a run that is being judged: `progress.json`."""

    v: int = Field(default=FORMAT, ge=1, le=FORMAT)
    at: AwareDatetime
    """When it was written."""
    taken: Tally | None = None
    """What the calls of all sessions took by then, those of unfinished traces included."""
    ended: int | None = None
    """How many requests of this session had ended by then; None where that is not known."""


def write_progress(folder: Path, progress: ProgressFile) -> None:
    """Replace a run's progress file in one step, without waiting for the disk; errors are ignored."""
    with suppress(OSError), replacing(folder / PROGRESS, durable=False) as file:
        file.write(progress.model_dump_json(exclude_defaults=True).encode() + b"\n")


def read_progress(folder: Path) -> tuple[ProgressFile | None, float]:
    """Read a run's progress without its lock, and the seconds since it last wrote, which show a kill."""
    now = datetime.now(UTC)
    try:
        news = ProgressFile.model_validate_json(read_plain(folder / PROGRESS, _MOST))
    except (OSError, ValueError):
        return None, max(0.0, now.timestamp() - max(_written(folder), default=0.0))
    return news, max(0.0, (now - news.at).total_seconds())


def remove_progress(folder: Path) -> None:
    """Remove a run's progress file, and the requests it had begun; what stays shows a kill."""
    for name in (PROGRESS, BEGUN):  # in this order: without the first, all requests count as unanswered
        with suppress(OSError):
            (folder / name).unlink(missing_ok=True)


class RequestsBegun:
    """Notes the requests of a session before they are sent: the file `.begun` has a byte for each.

    It is not waited for: `kill -9` leaves what was written, a power cut may not. A folder that cannot take a byte has
    no such file, so that nothing is said of the requests.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / BEGUN
        self.count: int | None = 0
        """How many requests have begun; None where they cannot be noted."""
        try:
            self._file = open_plain(self._path, "ab")
        except OSError:
            self.count = None

    def begin(self) -> None:
        """Note that a request begins."""
        if self.count is None:
            return
        try:
            self._file.write(b".")
            self.count += 1
        except OSError:
            self.close()
            self.count = None
            with suppress(OSError):
                self._path.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the file; safe to call twice."""
        if self.count is not None:
            self._file.close()


def tally_of_killed(folder: Path, manifest: Manifest) -> Tally:
    """Return what a run had paid when it was killed, by its progress file or its manifest, and what it lost at most."""
    # The file is written before the results that it covers: what was paid since is at most the requests that had begun
    # when the run was killed and had not ended when the file was written.
    news, _ = read_progress(folder)
    begun = lost = None
    with suppress(OSError), open_plain(folder / BEGUN) as file:
        begun = os.fstat(file.fileno()).st_size
    ended = 0 if news is None else news.ended
    if begun is not None and ended is not None:
        lost = max(0, begun - ended)
    paid = manifest.tally if news is None or news.taken is None else news.taken
    return total([paid, Tally(killed=1, lost=lost)])


def _written(folder: Path) -> Iterator[float]:
    for name in (MANIFEST, RESULTS):
        with suppress(OSError):
            yield os.lstat(folder / name).st_mtime


PROGRESS_EVERY = 1.0
"""Seconds between two writes of a run's progress."""
RECENT = 30.0
"""Seconds over which the rate is measured."""


class Speed:
    """The recent speed of a run."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int, int]] = deque()

    def rate(self, progress: Progress) -> tuple[float | None, float | None]:
        """Take in the progress; return chunks a second and the seconds left, each if known."""
        now = (progress.seconds, progress.traces, progress.verdicts + progress.failed)
        self._seen.append(now)
        while len(self._seen) > 2 and now[0] - self._seen[1][0] >= RECENT:
            self._seen.popleft()
        seconds, traces, chunks = (b - a for a, b in zip(self._seen[0], now, strict=True))
        if seconds <= 0 or traces <= 0:  # nothing ended: a run that goes on may give traces again
            return (0.0 if seconds >= RECENT else None), None
        left = None
        if progress.total is not None and progress.traces < progress.total:
            left = (progress.total - progress.traces) * seconds / traces
        return max(0.0, chunks / seconds), left


@asynccontextmanager
async def every_second(action: Callable[[], None]) -> AsyncIterator[None]:
    """Call a function at once and about every second while the block runs."""

    async def repeat() -> None:
        while True:
            action()
            await asyncio.sleep(PROGRESS_EVERY)

    task = asyncio.create_task(repeat(), name="judge_eval progress")
    try:
        yield
    finally:
        task.cancel()
