import asyncio
import inspect
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator

import pytest

from judge_eval.background_loop import background_loop
from tests.support.command import ROOT


async def double(number: int) -> int:
    """Return twice the number, a little later."""
    await asyncio.sleep(0)
    return 2 * number


def test_a_script_calls_it() -> None:
    """A coroutine is run to its end from plain code; its error is raised."""

    async def fails() -> None:
        raise ValueError("told")

    assert background_loop.run(double(2)) == 4
    with pytest.raises(ValueError, match="told"):
        background_loop.run(fails())


def test_a_running_loop_calls_it() -> None:
    """It works inside a running event loop, as in a notebook."""

    async def cell() -> int:
        return background_loop.run(double(3))

    assert asyncio.run(cell()) == 6


def test_threads_call_it() -> None:
    """Threads share one loop and do not hinder each other."""
    collected: list[int] = []
    threads = [threading.Thread(target=lambda n=n: collected.append(background_loop.run(double(n)))) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(collected) == [0, 2, 4, 6, 8, 10, 12, 14]
    assert sum(thread.name == "judge_eval" for thread in threading.enumerate()) == 1


def test_a_sync_call_inside_it_is_an_error() -> None:
    """A sync call from the private loop would wait for itself; it is told instead."""

    async def nested() -> int:
        return background_loop.run(double(1))

    with pytest.raises(RuntimeError, match="use the async one"):
        background_loop.run(nested())


def test_a_forked_child_calls_it() -> None:
    """After a fork the child starts a loop of its own."""
    assert background_loop.run(double(1)) == 2
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if background_loop.run(double(21)) == 42 else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_iterating_closes_what_it_steps_through() -> None:
    """An async iterator is stepped through from sync code and closed when it is left."""
    closed = threading.Event()

    async def numbers() -> AsyncIterator[int]:
        try:
            for n in range(10):
                yield n
        finally:
            closed.set()

    steps = background_loop.iterate(numbers())
    assert [next(steps), next(steps)] == [0, 1]
    steps.close()  # type: ignore[attr-defined]
    assert closed.is_set()
    assert list(background_loop.iterate(numbers())) == list(range(10))


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_the_loop_outlives_what_ends_a_program(kind: type[BaseException]) -> None:
    """What a function raises to end the program reaches the caller, from a task inside too; the loop goes on."""

    async def ends() -> None:
        raise kind

    async def work() -> None:
        await asyncio.gather(asyncio.ensure_future(ends()))

    for coroutine in (ends, work):
        with pytest.raises(kind):
            background_loop.run(coroutine())
    assert background_loop.run(asyncio.sleep(0, "alive")) == "alive"


@pytest.mark.slow
def test_ctrl_c_cancels_and_waits() -> None:
    """Ctrl-C cancels the coroutine, lets it clean up, and is raised then."""
    script = """
import asyncio
from judge_eval.background_loop import background_loop

async def work():
    try:
        print("ready", flush=True)
        await asyncio.sleep(60)
    finally:
        await asyncio.sleep(0.05)
        print("clean", flush=True)

try:
    background_loop.run(work())
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
    child = subprocess.Popen(
        [sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    with child:
        assert child.stdout.readline() == "ready\n"
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=60)
    assert out.split() == ["clean", "interrupted"], err


@pytest.mark.slow
def test_ctrl_c_at_any_moment_leaves_nothing_running() -> None:
    """Wherever the signal arrives, what began has cleaned up by the time it is raised."""
    script = """
import asyncio, random, signal
from judge_eval.background_loop import background_loop

began = cleaned = raised = 0

async def work():
    global began, cleaned
    began += 1
    try:
        await asyncio.sleep(60)
    finally:
        await asyncio.sleep(0.0005)
        cleaned += 1

background_loop.loop()
signal.signal(signal.SIGALRM, signal.default_int_handler)
chance = random.Random(1)
for _ in range(400):
    coroutine = work()
    try:
        signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.00001, 0.0006))
        background_loop.run(coroutine)
    except KeyboardInterrupt:
        raised += 1
    assert began == cleaned, (began, cleaned, raised)
    coroutine.close()  # where the signal came before it was handed over
print(raised, began > 0)
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.returncode) == ("400 True\n", 0), done.stderr


def test_a_sync_verb_is_made_of_its_async_one() -> None:
    """It has the async one's parameters and text, a name and a return type of its own, and waits for it."""

    class Counter:
        async def acount(self, most: int, *, step: int = 1) -> int:
            """Count."""
            return await double(most // step)

        count = background_loop.blocking(acount)

        async def asteps(self, most: int) -> AsyncIterator[int]:
            """Step."""
            for number in range(most):
                yield await double(number)

        steps = background_loop.iterating(asteps)

    class Faster(Counter):
        async def acount(self, most: int, *, step: int = 1) -> int:
            """Count at once."""
            return most

    assert (Counter().count(3), Counter().count(4, step=2), list(Counter().steps(3))) == (6, 4, [0, 2, 4])
    assert Faster().count(3) == 3
    assert Counter.count.__name__ == "count"
    assert Counter.count.__qualname__.endswith("Counter.count")
    assert Counter.count.__doc__ == "Count."
    assert list(inspect.signature(Counter.count).parameters) == ["self", "most", "step"]
