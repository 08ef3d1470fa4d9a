"""What a row of the cache costs: reading, writing, and the whole cache around a call."""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from judge_eval.digest import digest_parts
from judge_eval.llm.backend import Identity
from judge_eval.llm.cache.cached import Cached
from judge_eval.llm.cache.disk import DiskStore
from judge_eval.schema import BINARY, Scale
from judge_eval.wire import Completion, Message, Passage, Request, Usage

REPLY = '{"evidence":"%s","reason":"It states the lease.","instruction_in_chunk":false,"verdict":true}' % ("x" * 200)


@dataclass(frozen=True)
class Form:
    """A form without a prompt: nothing is rendered here."""

    digest: bytes = digest_parts(["benchmark"])
    listwise: bool = False
    scale: Scale = BINARY
    schema: Mapping[str, Any] = field(default_factory=dict, hash=False)
    schema_name: str = "verdict"

    def render(self, request: Request) -> tuple[Message, ...]:
        """Render the question alone."""
        return (Message("user", request.query),)


class Mock:
    """A backend that answers after a time between half and one and a half of what is given."""

    identity = Identity("mock", "mock")

    def __init__(self, wait: float) -> None:
        self.wait = wait

    async def complete(self, request: Request) -> Completion:
        """Wait, then answer; equal requests wait equally long."""
        await asyncio.sleep(self.wait * (0.5 + request.digest[0] / 255))
        return Completion(REPLY, usage=Usage(700, 60), model="mock")

    async def aclose(self) -> None:
        """Do nothing."""


def cpu() -> float:
    """CPU seconds of all threads."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def timed(name: str, count: int, work: Callable[[], object]) -> float:
    """Run once, print and return microseconds of CPU per item."""
    wall, before = time.perf_counter(), cpu()
    work()
    each = (cpu() - before) / count * 1e6
    print(f"{name:58} {each:8.1f} us CPU each {(time.perf_counter() - wall) / count * 1e6:10.1f} us wall each")
    return each


def requests(count: int, start: int = 0) -> list[Request]:
    """Make requests with chunks of 800 characters."""
    text = "lorem ipsum " * 66
    form = Form()
    return [
        Request(form, f"question {n // 5}?", (Passage(f"{n} {text}"),), 300, reference="a reference " * 10)
        for n in range(start, start + count)
    ]


async def drive(backend: Any, asked: Sequence[Request], concurrency: int) -> None:
    """Complete all requests, some at a time."""
    queue = iter(asked)

    async def work() -> None:
        for request in queue:
            await backend.complete(request)

    await asyncio.gather(*(work() for _ in range(concurrency)))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--calls", type=int, default=4_000)
    parser.add_argument("--folder", type=Path, help="where the cache is made (default: a temporary folder)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        measure(Path(folder), options.rows, options.calls)


def measure(folder: Path, rows: int, calls: int) -> None:
    """Measure in a folder."""
    store = DiskStore(folder / "store")
    keys = [os.urandom(32) for _ in range(rows)]
    value = Completion(REPLY, usage=Usage(700, 60), model="mock").encode()
    print(f"{rows} rows of {len(value)} bytes")

    def put(size: int, some: Sequence[bytes]) -> None:
        for start in range(0, len(some), size):
            store.put_many([(key, value) for key in some[start : start + size]])

    def get(size: int, some: Sequence[bytes]) -> None:
        for start in range(0, len(some), size):
            assert None not in store.get_many(some[start : start + size])

    def take_and_release(key: bytes) -> None:
        store.claim_many([key], replacing=True)
        store.release_many([key])

    timed("put_many, 500 rows at a time", rows, lambda: put(500, keys))
    for size in (1, 4, 16):
        fresh = [os.urandom(32) for _ in range(2000)]
        timed(f"put_many, {size} rows at a time", 2000, lambda size=size, fresh=fresh: put(size, fresh))  # type: ignore[misc]
    timed("get_many, 500 keys at a time, first", rows, lambda: get(500, keys))
    timed("get_many, 500 keys at a time, warm", rows, lambda: get(500, keys))
    timed("get_many, 1 key at a time, warm", 5000, lambda: get(1, keys[:5000]))
    timed("get_many, 1 key at a time, missing", 5000, lambda: [store.get_many([k[::-1]]) for k in keys[:5000]])
    timed("claim and release, 1 key at a time", 5000, lambda: [take_and_release(k) for k in keys[:5000]])
    store.close()

    asked = requests(calls)
    for wait, concurrency in ((0.05, 64), (0.064, 64), (0.2, 64)):
        mock = Mock(wait)
        name = f"{calls} calls of {wait * 1000:.0f} ms, {concurrency} in flight, "
        bare = timed(name + "bare", calls, lambda: asyncio.run(drive(mock, asked, concurrency)))  # noqa: B023
        cold = requests(calls)  # anew: a request keeps its digest
        cached = Cached(mock, DiskStore(folder / f"cached-{wait}"))
        whole = timed(name + "cached", calls, lambda: asyncio.run(drive(cached, cold, concurrency)))  # noqa: B023
        print(f"    the cache adds {whole - bare:.1f} us CPU a call")
        asyncio.run(cached.aclose())
    warm = requests(calls)
    again = Cached(Mock(0), DiskStore(folder / "cached-0.2"))
    timed("peek of all, warm (with digests of 800 characters)", calls, lambda: again.peek(warm))
    timed("peek of all, warm (digests known)", calls, lambda: again.peek(warm))
    timed("complete, one after another, warm", calls, lambda: asyncio.run(drive(again, warm, 1)))
    assert again.counts.misses == 0
    asyncio.run(again.aclose())


if __name__ == "__main__":
    main()
