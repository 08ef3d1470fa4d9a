"""What an engine hands on where a run is stopped, cancelled, or a judge or a source fails."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from judge_eval.engine import BLOCK, Engine, Item, Judged
from judge_eval.errors import FatalCallError, TransientError
from judge_eval.judges import Judge, Member, Panel, Pointwise
from judge_eval.wire import Completion, Request
from tests.support.engines import JUDGE, NO, Scripted, collect, gather, items
from tests.support.replies import one


def test_a_fatal_error_stops_at_once_and_loses_nothing_in_flight() -> None:
    """No new call is made after it; what the siblings in flight bring is handed on, then it is raised."""

    async def main() -> tuple[list[Judged], Scripted]:
        collected: list[Judged] = []
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
            await gather(engine, items(100, chunks=1), collected)
        return collected, backend

    result, backend = asyncio.run(asyncio.wait_for(main(), 30))
    assert {f"q{judged.position}-a" for judged in result} == set(backend.asked) - {"q3-a"}
    assert len(backend.asked) < 20


@pytest.mark.parametrize("salvage", [True, False])
def test_a_stop_hands_on_the_answers_of_unfinished_traces(salvage: bool) -> None:
    """Where nobody else keeps them, answers of a trace whose siblings are still out are handed on, once."""

    async def main() -> list[Judged]:
        collected: list[Judged] = []
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
            await gather(engine, items(4), collected)
        return collected

    values = {judged.position: judged.judgment for judged in asyncio.run(asyncio.wait_for(main(), 30))}
    assert values[0].failed == 0
    assert 1 not in values  # nothing of it was answered
    if salvage:
        result = values[2].outcomes
        assert [outcome.kind for outcome in result] == ["verdict", "no_verdict"]
        assert result[1].kind == "no_verdict"
        assert result[1].why == "unreachable"
        assert len(values[2].calls) == 1
    else:
        assert 2 not in values


def test_a_stop_during_a_repair_hands_on_what_was_read() -> None:
    """The verdicts of the first round are kept where the run is stopped while a reply is being repaired."""

    async def main() -> list[Judged]:
        collected: list[Judged] = []
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
            await gather(engine, items(2), collected)
        return collected

    (judged,) = asyncio.run(asyncio.wait_for(main(), 30))
    assert [outcome.kind for outcome in judged.judgment.outcomes] == ["no_verdict", "verdict"]


def test_a_stop_makes_no_verdict_that_a_whole_run_would_not_have() -> None:
    """While the plan still asks about a chunk (a quote, another vote), its verdict is not handed on."""

    async def main(judge: Judge) -> list[Judged]:
        collected: list[Judged] = []
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
            await gather(engine, items(2), collected)
        return collected

    samples = Panel([Member(f"sample {k}", Pointwise("support/binary", sample=k)) for k in (1, 2)])
    for judge in (JUDGE, samples):
        (judged,) = asyncio.run(asyncio.wait_for(main(judge), 30))
        assert [outcome.kind for outcome in judged.judgment.outcomes] == ["no_verdict", "verdict"]


def test_a_failed_call_is_no_verdict() -> None:
    """A `CallError` is told as a missing verdict and stops nothing."""

    async def answer(request: Request) -> Completion:
        if request.chunk_ids == ("q1-b",):
            raise TransientError("reset")
        return NO

    result = sorted(asyncio.run(collect(Scripted(answer), items(3))), key=lambda judged: judged.position)
    assert [judged.judgment.failed for judged in result] == [0, 1, 0]


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
        collected: list[Judged] = []
        engine = Engine(JUDGE, Scripted(), concurrency=4, linger=0)
        with pytest.raises(OSError, match="unplugged"):
            await gather(engine, broken() if kind == "sync" else abroken(), collected)
        return len(collected) + len(engine.take())

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
