"""Kills a run with -9 at random moments and resumes it: nothing is paid twice but what was in flight.

Run `python -m benchmarks.kills`. The results must equal an uninterrupted run's byte for byte, but for the ids that the
server gives to requests.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.support import dataset, environment, judge_eval, server, server_stats
from tests.support.runs import unnamed

START = 0.7
"""Seconds until the first call of a run, more or less."""


def results(folder: Path) -> bytes:
    """Read the results of the one run in a folder, without the ids of requests: each request has another."""
    (run,) = (folder / "runs").iterdir()
    return unnamed((run / "results.jsonl").read_bytes())


def main() -> None:
    """Print the calls in all, and whether the results are equal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--width", type=int, default=16)
    args = parser.parse_args()
    rng = random.Random(5)
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        data = dataset(root / "data.jsonl", args.calls // 5, 5, 300)
        flags = ["run", str(data), "--model", "openai/m", "--concurrency", str(args.width), "-q", "--resume"]
        whole, broken = root / "whole", root / "broken"
        whole.mkdir()
        broken.mkdir()
        with server("--latency", "0.05") as url:
            judge_eval(*flags, "--base-url", url, cwd=whole, env=environment(whole))
            before = server_stats(url)["calls"]
            span = args.calls * 0.05 / args.width / (args.kills + 1)
            for _ in range(args.kills):
                command = [sys.executable, "-m", "judge_eval", *flags, "--base-url", url]
                process = subprocess.Popen(command, cwd=broken, env=environment(broken), stdout=subprocess.DEVNULL)
                time.sleep(START + rng.uniform(0.1, 1.0) * span)
                process.send_signal(signal.SIGKILL)
                process.wait()
            judge_eval(*flags, "--base-url", url, "--json", cwd=broken, env=environment(broken))
            calls = server_stats(url)["calls"] - before
        most = args.calls + args.kills * args.width
        print(f"{args.kills} kills: {calls} calls for {args.calls} verdicts; at most {most} allowed")
        assert calls <= most, calls
        assert results(whole) == results(broken), "the results differ"
        statuses = [json.loads(path.read_text())["status"] for path in broken.glob("runs/*/manifest.json")]
        print(f"the results are equal byte for byte; status {statuses}")


if __name__ == "__main__":
    main()
