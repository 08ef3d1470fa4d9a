"""Measures the CPU that a verdict takes: of a decision model, and of a chat model asked chunk by chunk.

Run `python -m benchmarks.decisions`. Both judge the same traces over loopback with the same number of calls
in flight, in turn, several times; the ratio is of neighbours. It is measured within `evaluate`, after a first
trace, and once more over the whole process. A third row is a second run, answered by the cache.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from benchmarks.support import dataset, environment, measured, median, server

INSIDE = """
import resource, sys, time
from pathlib import Path
from judge_eval import Evaluator, Trace
from judge_eval.llm.options import Options

url, model, data, width, folder = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), Path(sys.argv[5])
params = {"dialect": "openai"} if model.startswith("decisions/") else {}
options = Options(base_url=url, concurrency=width, params=params)
with Evaluator(model, cache=folder / "cache", options=options) as evaluator:
    # The first trace brings in what is loaded when it is first used, and opens a connection.
    evaluator.evaluate(Trace(query="q?", reference="r", chunks=["t"]))
    for turn in ("cold", "warm"):
        started = time.process_time()
        run = evaluator.evaluate(data, out=folder / "runs")
        took = time.process_time() - started
        failed = sum(outcome.kind != "verdict" for result in run.results for outcome in result.outcomes)
        print(turn, took, failed, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""

Figures = tuple[float, float, float, float]
"""CPU ms a verdict: cold, warm, over the whole process; and peak MB."""


def main() -> None:
    """Print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traces", type=int, default=1000)
    parser.add_argument("--chunks", type=int, default=10)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--latency", type=float, default=0.05)
    args = parser.parse_args()
    verdicts = args.traces * args.chunks
    latency = ("--latency", str(args.latency))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = dataset(folder / "data.jsonl", args.traces, args.chunks)

        def judge(url: str, model: str, turn: int) -> Figures:
            own = folder / f"{model.partition('/')[0]}-{turn}"
            command = (sys.executable, "-c", INSIDE, url, model, str(data), str(args.width), str(own))
            took = measured(*command, cwd=folder, env=environment(folder))
            rows = [line.split() for line in took.out.splitlines()]
            if took.code or [row[2] for row in rows] != ["0", "0"]:
                raise SystemExit(took.out)
            cold, warm = (float(row[1]) / verdicts * 1e3 for row in rows)
            return cold, warm, (took.cpu / verdicts * 1e3) - warm, float(rows[0][3])

        with server(*latency) as chat, server(*latency, kind="decision") as decision:
            rounds = [
                (judge(decision, "decisions/m", turn), judge(chat, "openai/m", turn)) for turn in range(args.rounds)
            ]
    print(f"{verdicts} verdicts, {args.chunks} a trace, {args.width} in flight, {args.latency * 1000:.0f} ms")
    for place, what in enumerate(("within `evaluate`", "answered by the cache", "the whole process")):
        ours, theirs = median([d[place] for d, _ in rounds]), median([c[place] for _, c in rounds])
        ratios = [d[place] / c[place] for d, c in rounds]
        print(
            f"CPU a verdict, {what}: {ours:.3f} ms by a decision model, {theirs:.3f} ms by a chat model: "
            f"ratio {median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
        )
    peaks = [median([pair[place][3] for pair in rounds]) for place in (0, 1)]
    print(f"peak memory: {peaks[0]:.0f} MB by a decision model, {peaks[1]:.0f} MB by a chat model")


if __name__ == "__main__":
    main()
