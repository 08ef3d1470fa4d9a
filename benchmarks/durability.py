"""What it costs that a power cut loses nothing: telling the disk at every row, or once a second."""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from judge_eval.llm.cache.disk import DiskStore

VALUE = b"x" * 400


def each(store: DiskStore, rows: int, after: Callable[[], object] = lambda: None) -> list[float]:
    """Write rows one by one, each followed by `after`; return the milliseconds each took."""
    took = []
    for _ in range(rows):
        started = time.perf_counter()
        store.put_many([(os.urandom(32), VALUE)])
        after()
        took.append((time.perf_counter() - started) * 1000)
    return took


def told(name: str, took: list[float]) -> None:
    """Print the median and the 99th percentile."""
    ordered = sorted(took)
    worst = ordered[len(ordered) * 99 // 100]
    print(f"{name:52} median {statistics.median(took):7.3f} ms   99th of 100 {worst:8.3f} ms")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--folder", type=Path, help="where the cache is made (default: a temporary folder)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        store = DiskStore(Path(folder))
        each(store, 10)
        told("synchronous=NORMAL, as it is", each(store, options.rows))
        cache = store._connection
        assert cache is not None
        cache.execute("PRAGMA synchronous = FULL")
        told("synchronous=FULL: the disk is told at every row", each(store, options.rows))
        cache.execute("PRAGMA synchronous = NORMAL")

        def checkpoint() -> None:
            cache.execute("PRAGMA wal_checkpoint(FULL)").fetchall()

        told("a checkpoint at every row", each(store, options.rows, checkpoint))
        syncs = []
        for _ in range(50):
            each(store, 20)
            started = time.perf_counter()
            store.sync()
            syncs.append((time.perf_counter() - started) * 1000)
        told("one sync of what was written since (here 20 rows)", syncs)
        store.close()


if __name__ == "__main__":
    main()
