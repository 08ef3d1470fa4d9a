"""Measures a second run over the same data: no calls, verdicts a second end to end, in one process.

Run `python -m benchmarks.warm`.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from benchmarks.support import dataset, environment, judge_eval, median


def main() -> None:
    """Print verdicts a second, by the wall clock and by CPU."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traces", type=int, default=10_000)
    parser.add_argument("--chunks", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    verdicts = args.traces * args.chunks
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = dataset(folder / "data.jsonl", args.traces, args.chunks)
        command = ("run", str(data), "--model", "fake/hash", "-q", "--json")
        env = environment(folder)
        judge_eval(*command, cwd=folder, env=env)
        takes = [judge_eval(*command, cwd=folder, env=env) for _ in range(args.rounds)]
        for took in takes:
            tally = json.loads(took.out)["tally"]
            assert tally["calls"] == 0, tally
            assert tally["verdicts"] == verdicts, tally
        wall, cpu = (verdicts / median(column) for column in ([t.wall for t in takes], [t.cpu for t in takes]))
        print(f"{verdicts} verdicts, warm, 0 calls: {wall:,.0f} a second by the wall, {cpu:,.0f} a CPU second")


if __name__ == "__main__":
    main()
