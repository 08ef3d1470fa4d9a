import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

import pytest

from judge_eval.backends.base import Identity
from judge_eval.engine import BLOCK, Engine, Item, Judged, plan
from judge_eval.errors import CallError, FatalCallError, TransientError
from judge_eval.judges import Judge, Panel, Pointwise
from judge_eval.runs.judging.objects import streamed
from judge_eval.wire import Completion, Request
from tests.support.replies import one
from tests.support.runs import traces

JUDGE = Pointwise("support/binary")
NO = one(False)


class Scripted:
    """A backend that is an async function and notes who was asked."""

    identity: Identity | None = None

    def __init__(self, answer: Callable[[Request], Any] | None = None) -> None:
        self.answer = answer
        self.asked: list[str] = []

    async def complete(self, request: Request) -> Completion:
        """Answer with what the function returns or raises."""
        self.asked += request.chunk_ids
        return NO if self.answer is None else await self.answer(request)

    async def aclose(self) -> None:
        """Do nothing."""


class AtHand(Scripted):
    """A backend that has the answers for some chunks at hand."""

    def peek(self, requests: Sequence[Request]) -> list[Completion | None]:
        """Answer the chunks whose id ends with `a`."""
        return [NO if request.chunk_ids[0].endswith("a") else None for request in requests]


def items(count: int, chunks: int = 2) -> Iterator[Item]:
    """Yield numbered traces."""
    for position, trace in enumerate(traces(count, chunks)):
        yield Item(position, trace, {})


async def collect(backend: Scripted, source: Any, **settings: Any) -> list[Judged]:
    """Run an engine to its end."""
    found: list[Judged] = []
    await gather(Engine(JUDGE, backend, linger=0, **settings), source, found)
    return found


async def gather(engine: Engine, source: Any, found: list[Judged]) -> None:
    """Run an engine to its end and keep what it hands on even where it fails."""
    async with engine:
        async for block in engine.results(source):
            found += block


def test_every_trace_comes_out_once() -> None:
    """Each trace of the source comes out once, with as many outcomes as chunks."""
    found = asyncio.run(collect(Scripted(), items(300), concurrency=8))
    assert sorted(judged.position for judged in found) == list(range(300))
    assert all(len(judged.judgment.outcomes) == 2 for judged in found)


def test_an_empty_source_ends_at_once() -> None:
    """Nothing in, nothing out; traces without chunks need nobody."""
    backend = Scripted()
    assert asyncio.run(collect(backend, iter(()))) == []
    assert len(asyncio.run(collect(backend, items(3, chunks=0)))) == 3
    assert backend.asked == []


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_only_so_many_traces_are_open(kind: str) -> None:
    """Traces are read only as room comes free, so memory does not grow with the dataset."""
    read = done = most = 0

    def counting() -> Iterator[Item]:
        nonlocal read, most
        for item in items(2000, chunks=1):
            read += 1
            most = max(most, read - done)
            yield item

    async def acounting() -> AsyncIterator[Item]:
        for item in counting():
            yield item

    async def main() -> None:
        nonlocal done
        async with Engine(JUDGE, Scripted(), concurrency=4, linger=0) as engine:
            async for block in engine.results(counting() if kind == "sync" else acounting()):
                done += len(block)

    asyncio.run(main())
    assert done == 2000
    # Waiting (twice the concurrency), a block just read, at the workers, and finished but not handed on.
    assert most <= 2 * (2 * 4 + BLOCK + 8)


def test_a_hanging_call_holds_up_only_its_own_trace() -> None:
    """All other traces come out while one call hangs; it comes out when the call returns."""

    async def main() -> None:
        free, others = asyncio.Event(), 0

        async def answer(request: Request) -> Completion:
            if request.chunk_ids == ("q0-a",):
                await free.wait()
            return NO

        async with Engine(JUDGE, Scripted(answer), concurrency=2, linger=0) as engine:
            async for block in engine.results(items(200)):
                if any(judged.position == 0 for judged in block):
                    assert free.is_set()
                others += len(block)
                if others == 199:
                    free.set()
        assert others == 200

    asyncio.run(asyncio.wait_for(main(), 30))


def test_a_fatal_error_stops_at_once_and_loses_nothing_in_flight() -> None:
    """No new call is made after it; what the siblings in flight bring is handed on, then it is raised."""

    async def main() -> tuple[list[Judged], Scripted]:
        found: list[Judged] = []
        failed = asyncio.Event()

        async def answer(request: Request) -> Completion:
            if request.chunk_ids == ("q3-a",):
                failed.set()
                raise FatalCallError("no key")
            await failed.wait()
            return NO

        backend = Scripted(answer)
        engine = Engine(JUDGE, backend, concurrency=4, linger=0)
        with pytest.raises(FatalCallError, match="no key"):
            await gather(engine, items(100, chunks=1), found)
        return found, backend

    found, backend = asyncio.run(asyncio.wait_for(main(), 30))
    assert {f"q{judged.position}-a" for judged in found} == set(backend.asked) - {"q3-a"}
    assert len(backend.asked) < 20


@pytest.mark.parametrize("salvage", [True, False])
def test_a_stop_hands_on_the_answers_of_unfinished_traces(salvage: bool) -> None:
    """Where nobody else keeps them, answers of a trace whose siblings are still out are handed on, once."""

    async def main() -> list[Judged]:
        found: list[Judged] = []
        answered = asyncio.Event()

        async def answer(request: Request) -> Completion:
            (name,) = request.chunk_ids
            if name == "q3-a":
                await answered.wait()
                raise FatalCallError("no key")
            if name == "q2-b" or name == "q1-a" or name == "q1-b":
                await asyncio.sleep(60)
            if name == "q2-a":
                answered.set()
            return NO

        engine = Engine(JUDGE, Scripted(answer), concurrency=8, linger=0, drain=0.05, salvage=lambda: salvage)
        with pytest.raises(FatalCallError):
            await gather(engine, items(4), found)
        return found

    found = {judged.position: judged.judgment for judged in asyncio.run(asyncio.wait_for(main(), 30))}
    assert found[0].failed == 0
    assert 1 not in found  # nothing of it was answered
    if salvage:
        told = found[2].outcomes
        assert [outcome.kind for outcome in told] == ["verdict", "no_verdict"]
        assert told[1].kind == "no_verdict"
        assert told[1].why == "unreachable"
        assert len(found[2].calls) == 1
    else:
        assert 2 not in found


def test_a_stop_during_a_repair_hands_on_what_was_read() -> None:
    """The verdicts of the first wave are kept where the run is stopped while a reply is being repaired."""

    async def main() -> list[Judged]:
        found: list[Judged] = []
        repairing = asyncio.Event()

        async def answer(request: Request) -> Completion:
            (name,) = request.chunk_ids
            if name == "q0-a" and request.origin is None:
                return Completion("Well...")
            if name == "q0-a":
                repairing.set()
                await asyncio.sleep(60)
            if name.startswith("q1"):
                await repairing.wait()
                raise FatalCallError("no key")
            return NO

        engine = Engine(JUDGE, Scripted(answer), linger=0, drain=0.05, salvage=lambda: True)
        with pytest.raises(FatalCallError):
            await gather(engine, items(2), found)
        return found

    (judged,) = asyncio.run(asyncio.wait_for(main(), 30))
    assert [outcome.kind for outcome in judged.judgment.outcomes] == ["no_verdict", "verdict"]


def test_a_stop_makes_no_verdict_that_a_whole_run_would_not_have() -> None:
    """While the plan still asks about a chunk (a quote, another vote), its verdict is not handed on."""

    async def main(judge: Judge) -> list[Judged]:
        found: list[Judged] = []
        waiting = asyncio.Event()

        async def answer(request: Request) -> Completion:
            (name,) = request.chunk_ids
            if name.startswith("q1"):
                await waiting.wait()
                raise FatalCallError("no key")
            if name == "q0-a" and (request.follow_up or request.sample == 2):
                waiting.set()
                await asyncio.sleep(60)
            return one(True, evidence="" if name == "q0-a" and request.sample == 0 else "Text")

        engine = Engine(judge, Scripted(answer), linger=0, drain=0.05, salvage=lambda: True)
        with pytest.raises(FatalCallError):
            await gather(engine, items(2), found)
        return found

    samples = Panel.of_samples(lambda k: Pointwise("support/binary", sample=k + 1), 2)
    for judge in (JUDGE, samples):
        (judged,) = asyncio.run(asyncio.wait_for(main(judge), 30))
        assert [outcome.kind for outcome in judged.judgment.outcomes] == ["no_verdict", "verdict"]


def test_a_failed_call_is_no_verdict() -> None:
    """A `CallError` is told as a missing verdict and stops nothing."""

    async def answer(request: Request) -> Completion:
        if request.chunk_ids == ("q1-b",):
            raise TransientError("reset")
        return NO

    found = sorted(asyncio.run(collect(Scripted(answer), items(3))), key=lambda judged: judged.position)
    assert [judged.judgment.failed for judged in found] == [0, 1, 0]


def test_a_bug_in_a_backend_ends_the_run() -> None:
    """An exception that is no `CallError` is raised, not turned into a missing verdict."""

    async def answer(request: Request) -> Completion:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        asyncio.run(collect(Scripted(answer), items(3)))


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_an_error_in_the_source_keeps_what_is_under_way(kind: str) -> None:
    """What was read before the error can finish and is handed over by `take`."""

    def broken() -> Iterator[Item]:
        yield from items(BLOCK + 1, chunks=1)
        raise OSError("unplugged")

    async def abroken() -> AsyncIterator[Item]:
        for item in broken():
            yield item

    async def main() -> int:
        found: list[Judged] = []
        engine = Engine(JUDGE, Scripted(), concurrency=4, linger=0)
        with pytest.raises(OSError, match="unplugged"):
            await gather(engine, broken() if kind == "sync" else abroken(), found)
        return len(found) + len(engine.take())

    assert asyncio.run(main()) >= BLOCK


def test_cancelling_lets_calls_in_flight_finish() -> None:
    """A cancelled run waits for the calls it has paid for, and leaves no task behind."""

    async def main() -> tuple[int, int]:
        started, free = asyncio.Event(), asyncio.Event()

        async def answer(request: Request) -> Completion:
            started.set()
            await free.wait()
            return NO

        engine = Engine(JUDGE, Scripted(answer), concurrency=4, linger=0)

        async def consume() -> None:
            async with engine:
                async for _ in engine.results(items(50, chunks=1)):
                    pass

        task = asyncio.create_task(consume())
        await started.wait()
        for _ in range(10):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.sleep(0)
        free.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        workers = [task for task in asyncio.all_tasks() if task.get_name() == "judge_eval worker"]
        return len(engine.take()), len(workers)

    taken, workers = asyncio.run(asyncio.wait_for(main(), 30))
    assert 0 < taken < 50
    assert workers == 0


def test_draining_ends() -> None:
    """A call that never returns is cancelled when the time to drain is over."""

    async def main() -> bool:
        cancelled = False

        async def answer(request: Request) -> Completion:
            nonlocal cancelled
            if request.chunk_ids == ("q1-a",):
                raise FatalCallError("no key")
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled = True
                raise
            return NO

        with pytest.raises(FatalCallError):
            await collect(Scripted(answer), items(2, chunks=1), concurrency=2, drain=0.01)
        return cancelled

    assert asyncio.run(asyncio.wait_for(main(), 30))


def test_what_is_at_hand_never_reaches_a_worker() -> None:
    """Hits are split off before anything is asked."""
    backend = AtHand()
    found = asyncio.run(collect(backend, items(100)))
    assert len(found) == 100
    assert sorted(backend.asked) == sorted(f"q{n}-b" for n in range(100))


def test_a_blocking_iterable_is_read_beside_the_calls() -> None:
    """A source that waits for an answer of an earlier trace gets it: reading does not block the loop."""
    answered = threading.Event()

    async def answer(request: Request) -> Completion:
        answered.set()
        return NO

    def waiting() -> Iterator[Any]:
        first, second = traces(2)
        yield first
        assert answered.wait(30)
        yield second

    async def numbered() -> AsyncIterator[Item]:
        place = 0
        async for trace in streamed(waiting(), lambda _: None):
            yield Item(place, trace, {})
            place += 1

    assert len(asyncio.run(collect(Scripted(answer), numbered()))) == 2


def test_a_stream_that_is_left_stops_its_reader() -> None:
    """An endless iterable is not read on once nobody wants it."""
    read = 0

    def endless() -> Iterator[dict[str, str]]:
        nonlocal read
        while True:
            read += 1
            yield {"id": str(read), "query": "q"}

    async def main() -> None:
        stream = streamed(endless(), lambda _: None)
        await anext(stream)
        await stream.aclose()  # type: ignore[attr-defined]

    asyncio.run(main())
    for thread in threading.enumerate():
        if thread.name == "judge_eval reader":
            thread.join(10)
            assert not thread.is_alive()
    assert read <= 200


def test_the_plan_counts_what_would_be_asked() -> None:
    """Equal requests and what is at hand are counted apart from calls, and nobody is asked."""
    backend = AtHand()
    told = plan(JUDGE, backend, iter([*items(3), *items(3)]))
    assert (told.traces, told.chunks, told.calls, told.hits) == (6, 12, 3, 9)
    assert told.output_tokens == 3 * JUDGE.max_tokens
    assert backend.asked == []


def test_call_errors_have_reasons() -> None:
    """The reason of a failed call is the reason of the missing verdict."""

    async def answer(request: Request) -> Completion:
        raise CallError("strange", why="truncated")

    (judged,) = asyncio.run(collect(Scripted(answer), items(1, chunks=1)))
    assert judged.judgment.outcomes[0].model_dump() == {
        "kind": "no_verdict",
        "chunk_id": "q0-a",
        "why": "truncated",
        "detail": "strange",
    }


@pytest.mark.parametrize("lead", [False, True])
def test_the_first_call_of_a_trace_can_lead(lead: bool) -> None:
    """With `lead` no sibling is asked before the trace's first call is back; without, all go at once."""

    async def scenario() -> None:
        first_is_back = asyncio.Event()

        async def answer(request: Request) -> Completion:
            if len(backend.asked) == 1:
                await asyncio.sleep(0.05)
                assert len(backend.asked) == (1 if lead else 3)
                first_is_back.set()
            await first_is_back.wait()
            return NO

        backend = Scripted(answer)
        (judged,) = await collect(backend, items(1, 3), concurrency=8, lead=lead)
        assert [outcome.kind for outcome in judged.judgment.outcomes] == ["verdict"] * 3

    asyncio.run(scenario())
