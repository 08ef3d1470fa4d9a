"""Speed and memory of the ranking metrics, beside bounds and peers: `python -m benchmarks.metrics_speed`."""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from typing import Any

import numpy as np

from judge_eval.metrics import GradeTable, parse_metric

NAMES = ("AP@10", "RR@10", "NDCG@10", "P@10")
PEER_NAMES = {"map_cut.10", "recip_rank", "ndcg_cut.10", "P.10"}


def make_table(queries: int, seed: int = 7) -> GradeTable:
    """Make rows of 10 to 100 grades 0..3, slice by slice so that this stays within the memory bound too."""
    rng = np.random.default_rng(seed)
    offsets = np.zeros(queries + 1, dtype=np.int64)
    np.cumsum(rng.integers(10, 101, queries), out=offsets[1:])
    grades = np.empty(int(offsets[-1]), dtype=np.int8)
    for start in range(0, len(grades), 1 << 20):
        part = grades[start : start + (1 << 20)]
        draws = rng.integers(0, 100, len(part), dtype=np.int8)
        part[:] = (draws >= 70).view(np.int8) + (draws >= 85).view(np.int8) + (draws >= 95).view(np.int8)
    return GradeTable(grades, offsets, relevant=2, maximum=3)


def measure_many(queries: int) -> dict[str, Any]:
    """Time the four metrics together over a fresh table each round; peak memory of this process in MB."""
    metrics = [parse_metric(name) for name in NAMES]
    table = make_table(queries)
    seconds = []
    for _ in range(3):
        fresh = GradeTable(table.grades, table.offsets, relevant=2, maximum=3)
        start = time.perf_counter()
        for metric in metrics:
            metric.compute(fresh)
        seconds.append(time.perf_counter() - start)
    return {
        "chunks": len(table.grades),
        "chunks_per_s": len(table.grades) / min(seconds),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def measure_one() -> dict[str, Any]:
    """Time the table and the four metrics of one 10-chunk trace; the median in microseconds."""
    metrics = [parse_metric(name) for name in NAMES]
    row = [3, 2, 0, 0, 1, 3, 0, 2, 0, 1]
    times = []
    for _ in range(3000):
        start = time.perf_counter()
        table = GradeTable.from_rows([row], relevant=2)
        for metric in metrics:
            metric.compute(table)
        times.append(time.perf_counter() - start)
    return {"trace_us": sorted(times)[len(times) // 2] * 1e6}


def measure_peer(queries: int) -> dict[str, Any]:
    """Time pytrec_eval, its evaluator already built, on the first rows of the same data."""
    import pytrec_eval

    table = make_table(queries)
    qrels, run = {}, {}
    for row in range(queries):
        grades = table.grades[table.offsets[row] : table.offsets[row + 1]].tolist()
        qrels[str(row)] = {f"d{rank}": grade for rank, grade in enumerate(grades)}
        run[str(row)] = {f"d{rank}": float(-rank) for rank in range(len(grades))}
    evaluator = pytrec_eval.RelevanceEvaluator(qrels, PEER_NAMES, relevance_level=2)
    start = time.perf_counter()
    evaluator.evaluate(run)
    return {"peer_chunks_per_s": len(table.grades) / (time.perf_counter() - start)}


def _in_process(*arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.metrics_speed", *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=600)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def main() -> None:
    """Print the figures; each part runs in a process of its own so that peaks do not mix."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=["many", "one", "peer"])
    parser.add_argument("--queries", type=int, default=1_000_000)
    given = parser.parse_args()
    if given.part:
        parts = {"many": measure_many, "peer": measure_peer}
        print(json.dumps(measure_one() if given.part == "one" else parts[given.part](given.queries)))
        return
    many = _in_process("--part", "many", "--queries", str(given.queries))
    first = _in_process("--part", "one")
    peer = _in_process("--part", "peer", "--queries", str(min(given.queries, 20_000)))
    print(f"{given.queries:,} queries, {many['chunks']:,} chunks, {', '.join(NAMES)} together")
    print(f"  chunks per second   {many['chunks_per_s']:.3g}   (bound: at least 2e8)")
    ratio = many["chunks_per_s"] / peer["peer_chunks_per_s"]
    print(f"  over pytrec_eval    {ratio:.0f} x   (bound: at least 50 x)")
    print(f"  peak memory         {many['peak_mb']:.0f} MB   (bound: under 350 MB)")
    print(f"  one 10-chunk trace  {first['trace_us']:.0f} us   (bound: under 120 us)")


if __name__ == "__main__":
    main()
