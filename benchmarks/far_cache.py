"""What a cache behind a network costs: a cold run over PostgreSQL by round trip, beside one on disk."""

from __future__ import annotations

import argparse
import asyncio
import os
import socket
import statistics
import tempfile
import threading
import time
from collections import deque
from contextlib import closing
from pathlib import Path
from typing import TypeAlias
from urllib.parse import quote, urlsplit, urlunsplit

from benchmarks.store_speed import Mock, drive, requests
from judge_eval.llm.cache.cached import Cached
from judge_eval.llm.cache.disk import DiskStore
from judge_eval.llm.cache.postgres import PostgresStore

_Queue: TypeAlias = deque[tuple[float, bytes]]
VARIABLE = "JUDGE_EVAL_TEST_POSTGRES_URL"


class Delay:
    """A proxy on loopback that delivers every byte half a round trip later, in both directions."""

    def __init__(self, host: str, port: int, round_trip: float) -> None:
        self._to, self._half = (host, port), round_trip / 2
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Take no more connections."""
        self._server.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._server.accept()
            except OSError:
                return
            far = socket.create_connection(self._to)
            for first, other in ((near, far), (far, near)):
                for each in (first, other):
                    each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                queue: _Queue = deque()
                there = threading.Semaphore(0)
                threading.Thread(target=self._read, args=(first, queue, there), daemon=True).start()
                threading.Thread(target=self._write, args=(other, queue, there), daemon=True).start()

    def _read(self, first: socket.socket, queue: deque[tuple[float, bytes]], there: threading.Semaphore) -> None:
        data = b"-"
        while data:
            try:
                data = first.recv(1 << 16)
            except OSError:
                data = b""
            queue.append((time.monotonic() + self._half, data))
            there.release()

    def _write(self, other: socket.socket, queue: deque[tuple[float, bytes]], there: threading.Semaphore) -> None:
        while there.acquire():
            due, data = queue.popleft()
            time.sleep(max(0.0, due - time.monotonic()))
            try:
                if not data:
                    other.shutdown(socket.SHUT_WR)
                    return
                other.sendall(data)
            except OSError:
                return


def run(store: DiskStore | PostgresStore, calls: int, latency: float, concurrency: int) -> float:
    """Complete so many requests through a cache, and return the seconds until the last row was written."""
    cached = Cached(Mock(latency), store)
    asked = requests(calls)

    async def work() -> None:
        await drive(cached, asked, concurrency)
        await cached.aclose()

    started = time.perf_counter()
    asyncio.run(work())
    took = time.perf_counter() - started
    assert cached.counts.stored == calls
    assert cached.counts.misses == calls
    return took


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--latency", type=float, default=0.05, help="seconds a call takes")
    parser.add_argument("--concurrency", type=int, default=16)
    parser.add_argument("--round-trips", type=float, nargs="*", default=[0, 1, 5, 20], help="in milliseconds")
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    given = os.environ.get(VARIABLE)
    if not given:
        print(f"skipped: set {VARIABLE} to the URL of a database to measure with")
        return
    shape = (options.calls, options.latency, options.concurrency)
    print(f"{options.calls} calls of {options.latency * 1000:g} ms on average, {options.concurrency} in flight")
    with tempfile.TemporaryDirectory() as folder:
        took = [run(DiskStore(Path(folder) / str(n)), *shape) for n in range(options.repeat)]
        print(f"{'on disk':24} {statistics.median(took):6.2f} s")
    for round_trip in options.round_trips:
        took = [over_network(given, round_trip / 1000, *shape) for _ in range(options.repeat)]
        print(f"PostgreSQL at {round_trip:4g} ms     {statistics.median(took):6.2f} s")


def over_network(url: str, round_trip: float, calls: int, latency: float, concurrency: int) -> float:
    """Run over a database behind a proxy, in a schema of its own."""
    import psycopg

    schema = f"judge_eval_far_{os.getpid()}_{time.monotonic_ns()}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}")
    parts = urlsplit(url)
    delay = Delay(parts.hostname or "127.0.0.1", parts.port or 5432, round_trip)
    user = f"{quote(parts.username or 'postgres')}{':' + parts.password if parts.password else ''}@"
    query = "&".join(filter(None, [parts.query, f"options=-csearch_path%3D{schema}"]))
    near = urlunsplit(parts._replace(netloc=f"{user}127.0.0.1:{delay.port}", query=query))
    try:
        with closing(PostgresStore(near)) as store:
            store.create()
            return run(store, calls, latency, concurrency)
    finally:
        delay.close()
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f"DROP SCHEMA {schema} CASCADE")


if __name__ == "__main__":
    main()
