"""Event loops, processes and forks over one cache, and what a kill leaves."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from judge_eval.llm.cache.cached import Cached
from judge_eval.llm.cache.disk import DiskStore
from judge_eval.wire import Request
from tests.support.cache_doubles import Counting, Held, ask, take_lease
from tests.support.caching import complete_all


def test_event_loops_come_and_go(tmp_path: Path) -> None:
    """One cache serves one event loop after another, and two at once in two threads."""
    backend = Counting(wait=0.005)
    cached = Cached(backend, DiskStore(tmp_path))
    for n in range(3):
        complete_all(cached, *[ask(f"q{m}") for m in range(n * 5, n * 5 + 8)])
    errors: list[BaseException] = []

    def work(requests: list[Request]) -> None:
        try:
            complete_all(cached, *requests)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=([ask(f"t{m}") for m in range(20)],)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert errors == []
    asyncio.run(cached.aclose())
    assert len(backend.asked) == 18 + 20
    assert DiskStore(tmp_path).info().entries == 38


TWO_PROCESSES = """if True:
    import asyncio, os, sys, time
    sys.path.insert(0, sys.argv[3])
    from tests.support.cache_doubles import Counting, ask
    from judge_eval.llm.cache.cached import Cached
    from judge_eval.llm.cache.disk import DiskStore
    backend = Counting(wait=0.01)
    cached = Cached(backend, DiskStore(sys.argv[1]))
    while not os.path.exists(sys.argv[2]):
        time.sleep(0.001)
    async def run():
        queue = iter(range(300))
        async def work():
            for n in queue:
                found = await cached.complete(ask(f"q{n}"))
                assert found.text == f"yes q{n}"
        await asyncio.gather(*(work() for _ in range(16)))
        await cached.aclose()
    asyncio.run(run())
    print(len(backend.asked))
"""


@pytest.mark.slow
def test_processes_in_step_pay_once(tmp_path: Path) -> None:
    """Three processes that begin the same work at the same moment make each call once between them."""
    here = str(Path(__file__).parents[3])
    command = [sys.executable, "-c", TWO_PROCESSES, str(tmp_path / "c"), str(tmp_path / "go"), here]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    (tmp_path / "go").touch()
    paid = [int(process.communicate(timeout=60)[0]) for process in processes]
    assert [process.returncode for process in processes] == [0] * 3
    assert sum(paid) == 300
    assert DiskStore(tmp_path / "c").info().entries == 300


KILLED = """if True:
    import asyncio, os, sys
    sys.path.insert(0, sys.argv[3])
    from tests.support.cache_doubles import Counting, ask
    from judge_eval.llm.cache.cached import Cached
    from judge_eval.llm.cache.disk import DiskStore
    log = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    def answer(request):
        os.write(log, b"called\\n")
        return f"yes {request.query}"
    cached = Cached(Counting(answer, wait=0.005), DiskStore(sys.argv[1]))
    async def run():
        queue = iter(range(400))
        async def work():
            for n in queue:
                await cached.complete(ask(f"q{n}"))
                print(n, flush=True)
        await asyncio.gather(*(work() for _ in range(8)))
        await cached.aclose()
    asyncio.run(run())
"""


@pytest.mark.slow
def test_killed_runs_pay_again_only_for_what_was_in_flight(tmp_path: Path) -> None:
    """Killed three times, then finished: at most eight calls more for each kill, and every answer there."""
    here = str(Path(__file__).parents[3])
    command = [sys.executable, "-c", KILLED, str(tmp_path / "c"), str(tmp_path / "log"), here]
    for lines in (30, 130, 230):
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for _ in range(lines):
                assert process.stdout.readline()
            process.kill()
    assert subprocess.run(command, stdout=subprocess.DEVNULL, timeout=60, check=False).returncode == 0
    assert 400 <= len((tmp_path / "log").read_bytes().splitlines()) <= 400 + 3 * 8
    result = Cached(Counting(), DiskStore(tmp_path / "c")).peek([ask(f"q{n}") for n in range(400)])
    assert [c and c.text for c in result] == [f"yes q{n}" for n in range(400)]


def test_a_stalled_process_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    """When another one holds a lease longer than the patience, the call is made all the same."""
    store, other = DiskStore(tmp_path), DiskStore(tmp_path)
    backend = Counting()
    cached = Cached(backend, store, patience=0.05)
    key = cached.key(ask())
    assert key is not None
    assert take_lease(store, key)
    assert complete_all(cached, ask())[0].text == "yes why?"
    assert len(backend.asked) == 1
    store.release_many([key])
    assert other.get_many([key]) != [None]
    asyncio.run(cached.aclose())
    other.close()


def test_a_failed_call_gives_its_lease_back(tmp_path: Path) -> None:
    """After an error or a cancellation nobody has to wait for the lease."""
    store = DiskStore(tmp_path)
    backend = Held()
    cached = Cached(backend, store)
    key = cached.key(ask())
    assert key is not None

    async def run() -> None:
        task = asyncio.create_task(cached.complete(ask()))
        await backend.called.wait()
        assert not take_lease(store, key)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert take_lease(store, key)
    store.release_many([key])
    store.close()


@pytest.mark.slow
def test_a_fork_goes_on_with_the_same_cache(tmp_path: Path) -> None:
    """A child forked after the cache was used writes its own rows and ends in order."""
    code = """if True:
        import asyncio, os, sys
        sys.path.insert(0, sys.argv[2])
        from tests.support.cache_doubles import Counting, ask
        from judge_eval.llm.cache.cached import Cached
        from judge_eval.llm.cache.disk import DiskStore
        cached = Cached(Counting(), DiskStore(sys.argv[1]))
        asyncio.run(cached.complete(ask("before")))
        pid = os.fork()
        name = "parent" if pid else "child"
        asyncio.run(cached.complete(ask(name)))
        asyncio.run(cached.aclose())
        if pid:
            assert os.waitpid(pid, 0)[1] == 0
            assert cached.peek([ask("before"), ask("child"), ask("parent")]).count(None) == 0
    """
    command = [sys.executable, "-c", code, str(tmp_path), str(Path(__file__).parents[3])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
