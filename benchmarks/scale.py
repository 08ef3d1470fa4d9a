"""Time and memory of a large run: shards, merge, loading, scoring again, comparing.

`python -m benchmarks.scale --traces 1000000 --chunks 10 --shards 4` is the bound: every step under 1 GB.
Each step is a process of its own, so that the memory told is its alone.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LOAD = """
import sys
from judge_eval.runs.run import EvalRun
run = EvalRun.load(sys.argv[1])
print(len(run.results), run.results[len(run.results) // 2].trace_id, run["AP@10"])
"""
RESCORE = """
import sys
from judge_eval.runs.rescore import rescore
from judge_eval.runs.run import EvalRun
print(rescore(EvalRun.load(sys.argv[1]), ["AP@5", "MRR"])["MRR"])
"""
COMPARE = """
import sys
from judge_eval.runs.run import EvalRun
one, two = EvalRun.load(sys.argv[1]), EvalRun.load(sys.argv[1])
one.compare(two)
"""


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traces", type=int, default=20_000)
    parser.add_argument("--chunks", type=int, default=10)
    parser.add_argument("--shards", type=int, default=2)
    parser.add_argument("--run", type=Path, help="a run that is there, in place of making one")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        if args.run is None:
            data = base / "data.jsonl"
            write(data, args.traces, args.chunks)
            size = args.traces * args.chunks
            for shard in range(1, args.shards + 1):
                measure(
                    f"run, shard {shard}/{args.shards}", size // args.shards, "-m", "judge_eval", "run", data,
                    "--model", "fake/hash", "--no-cache", "--metrics", "AP@10,NDCG@10",
                    "--out", base / "runs",
                    "--shard", f"{shard}/{args.shards}", "-q",
                )  # fmt: skip
            runs = sorted((base / "runs").iterdir())
            measure("merge", size, "-m", "judge_eval", "runs", "merge", *runs, "--out", base / "merged")
            (run,) = (base / "merged").iterdir()
        else:
            run = args.run
            told = json.loads((run / "manifest.json").read_bytes())
            size = told["tally"]["verdicts"]
        measure("load, one trace, a mean", size, "-c", LOAD, run)
        measure("score again", size, "-c", RESCORE, run)
        measure("compare", size, "-c", COMPARE, run)


def write(path: Path, traces: int, chunks: int) -> None:
    """Write a synthetic dataset."""
    with path.open("w") as file:
        for n in range(traces):
            passages = [{"id": f"c{k}", "text": f"Passage {k} of thing {n}."} for k in range(chunks)]
            trace = {"id": f"q{n}", "query": f"What is thing {n}?", "reference": "Blue.", "chunks": passages}
            file.write(json.dumps(trace) + "\n")


def measure(name: str, verdicts: int, *arguments: object) -> None:
    """Run a step, and print its seconds, verdicts a second and the most memory it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    code = (
        "import resource, runpy, subprocess, sys; "
        "p = subprocess.run([sys.executable, *sys.argv[1:]], stdout=subprocess.DEVNULL); "
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss); sys.exit(p.returncode)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], stdout=subprocess.PIPE, text=True, check=True
    )
    took = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    scale = 1024 if sys.platform != "darwin" else 1
    memory = int(done.stdout.split()[-1]) * scale / 1e6
    print(
        f"{name:<28}{took:8.1f} s {cpu:8.1f} s CPU {verdicts / took:12,.0f} verdicts/s {memory:8.0f} MB",
        flush=True,
    )


if __name__ == "__main__":
    main()
