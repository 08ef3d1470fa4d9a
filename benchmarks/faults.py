"""Runs a dataset against a server full of faults and compares every verdict with the fault-free run's.

Run `python -m benchmarks.faults`. First it times 1,000 verdicts against faults at random, a server that names
a quota once, and hangs, in turn with the same stack without any hold (a fixed number in flight). Then the
whole command: 5% answer 429 with Retry-After, 5% 500, 2% malformed JSON, 1% reset the connection, 0.5% hang;
every verdict must be there and equal the fault-free run's. A second part fails one trace for good: exactly
that one must be failed and named.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from benchmarks.pacing import pacing
from benchmarks.support import Took, dataset, environment, measured, server, server_stats

RATES = {"429": 0.05, "500": 0.05, "malformed": 0.02, "reset": 0.01, "hang": 0.005}


def outcomes(folder: Path) -> dict[str, list[dict[str, object]]]:
    """Read the outcomes of the newest run, by trace."""
    newest = max(path for path in (folder / "runs").iterdir())
    lines = (newest / "results.jsonl").read_text(encoding="utf-8").splitlines()
    return {row["trace_id"]: row["outcomes"] for row in map(json.loads, lines)}


def sitting(folder: Path, *arguments: str) -> Took:
    """Run `judge-eval` to the end."""
    took = measured(sys.executable, "-m", "judge_eval", *arguments, cwd=folder, env=environment(folder))
    if took.code:
        raise SystemExit(took.out)
    return took


def main() -> None:
    """Print what was retried and whether all is equal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traces", type=int, default=1000)
    parser.add_argument("--verdicts", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    pacing(args.verdicts, args.rounds)
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        data = dataset(root / "data.jsonl", args.traces, 5, 400)
        flags = ("run", str(data), "--model", "openai/m", "--concurrency", "64", "--timeout", "3", "-q", "--json")
        collected = {}
        for kind in ("calm", "faulty"):
            folder = root / kind
            folder.mkdir()
            rates = [f"--rate-{fault}={share}" for fault, share in RATES.items()] if kind == "faulty" else []
            with server("--latency", "0.02", "--retry-after", "0.2", *rates) as url:
                took = sitting(folder, *flags, "--base-url", url)
                counts = server_stats(url)
            collected[kind] = outcomes(folder)
            tally = json.loads(took.out)["tally"]
            print(f"{kind}: {tally['verdicts']} verdicts, {tally['failed_verdicts']} failed, {took.wall:.1f} s")
            print(f"  retried {tally['retries']}; the server counted {counts}")
        assert collected["calm"] == collected["faulty"], "a verdict differs"
        print("every verdict was obtained and equals the fault-free run's")

        folder = root / "one"
        folder.mkdir()
        row = json.loads(data.read_text(encoding="utf-8").splitlines()[args.traces // 2])
        with server("--latency", "0.02", f"--fail-text={row['query']}") as url:
            command = (*flags, "--base-url", url, "--attempts", "3")
            took = measured(sys.executable, "-m", "judge_eval", *command, cwd=folder, env=environment(folder))
        failed = [trace for trace, rows in outcomes(folder).items() if any(r["kind"] == "no_verdict" for r in rows)]
        assert failed == [row["id"]], failed
        assert took.code == 3, took.out
        print(f"one trace failing for good: exactly {failed} is failed, exit code {took.code}")


if __name__ == "__main__":
    main()
