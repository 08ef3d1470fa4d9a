"""Holds the formulas of docs/scale.md against measured runs: what a process drives, and a quota.

Run `python -m benchmarks.throughput`. The mock server is a process on this machine: what a process drives
as fast as it can is what the process and the server do together.
"""

from __future__ import annotations

import argparse
import tempfile
from contextlib import ExitStack
from pathlib import Path

from benchmarks.support import dataset, environment, judge_eval, server


def main() -> None:
    """Print predicted and measured seconds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traces", type=int, default=600)
    parser.add_argument("--chunks", type=int, default=10)
    parser.add_argument("--rpm", type=int, default=12_000)
    args = parser.parse_args()
    calls = args.traces * args.chunks
    with tempfile.TemporaryDirectory() as name, ExitStack() as servers:
        folder = Path(name)
        data = dataset(folder / "data.jsonl", args.traces, args.chunks, characters=300)
        url = servers.enter_context(server("--latency", "0.2"))

        def took(*more: str) -> float:
            return judge_eval(
                "run", str(data), "--model", "openai/m", "--cache", "none", "-q", "--out", str(folder / "runs"),
                "--base-url", url, *more, env=environment(folder),
            ).wall  # fmt: skip

        free = took()
        each = calls / free
        print(f"{'as fast as it goes':<36} e = {each:,.0f} verdicts a second")
        quota = took("--rpm", str(args.rpm))
        told(f"{args.rpm:,} RPM", max(60 * calls / args.rpm, calls / each), quota)


def told(what: str, predicted: float, measured: float) -> None:
    """Print one line."""
    print(f"{what:<36} formula {predicted:6.1f} s, measured {measured:6.1f} s, {measured / predicted:.2f} times")


if __name__ == "__main__":
    main()
