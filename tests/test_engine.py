import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from judge_eval.engine import BLOCK, Engine, Item, plan
from judge_eval.errors import CallError
from judge_eval.runs.judging.sources import streamed
from judge_eval.wire import Completion, Request
from tests.support.engines import JUDGE, NO, AtHand, Scripted, collect, items
from tests.support.runs import traces


def test_every_trace_comes_out_once() -> None:
    """Each trace of the source comes out once, with as many outcomes as chunks."""
    result = asyncio.run(collect(Scripted(), items(300), concurrency=8))
    assert sorted(judged.position for judged in result) == list(range(300))
    assert all(len(judged.judgment.outcomes) == 2 for judged in result)


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


def test_what_is_at_hand_never_reaches_a_worker() -> None:
    """Hits are split off before anything is asked."""
    backend = AtHand()
    result = asyncio.run(collect(backend, items(100)))
    assert len(result) == 100
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
            yield Item(place, trace)
            place += 1

    assert len(asyncio.run(collect(Scripted(answer), numbered()))) == 2


def test_a_stream_that_is_left_stops_its_reader() -> None:
    """An endless iterable is not read on once nobody wants it."""
    read = 0

    def endless() -> Iterator[dict[str, str]]:
        nonlocal read
        while True:
            read += 1
            yield {"id": str(read), "query": "q", "chunks": []}

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
    result = plan(JUDGE, backend, iter([*items(3), *items(3)]))
    assert (result.traces, result.chunks, result.calls, result.hits) == (6, 12, 3, 9)
    assert result.output_tokens == 3 * JUDGE.max_tokens
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
                for _ in range(50):  # turns of the loop, in which the others are asked if they ever are
                    await asyncio.sleep(0)
                assert len(backend.asked) == (1 if lead else 3)
                first_is_back.set()
            await first_is_back.wait()
            return NO

        backend = Scripted(answer)
        (judged,) = await collect(backend, items(1, 3), concurrency=8, lead=lead)
        assert [outcome.kind for outcome in judged.judgment.outcomes] == ["verdict"] * 3

    asyncio.run(scenario())
