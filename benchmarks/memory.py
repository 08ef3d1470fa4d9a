"""Measures the peak memory of a long run beside a short one: reading is lazy, so they should not differ.

Run `python -m benchmarks.memory`.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from benchmarks.support import dataset, environment, judge_eval


def main() -> None:
    """Print both peaks, cold and warm."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", type=int, default=2_000)
    parser.add_argument("--long", type=int, default=20_000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for state in ("cold", "warm"):
            peaks = []
            for traces in (args.short, args.long):
                data = folder / f"{traces}.jsonl"
                if not data.exists():
                    dataset(data, traces)
                env = environment(folder) | {"XDG_CACHE_HOME": str(folder / f"cache-{traces}")}
                peaks.append(judge_eval("run", str(data), "--model", "fake/hash", "-q", cwd=folder, env=env).peak_mb)
            short, long = peaks
            print(
                f"{state}: {args.short} traces x 10 chunks {short:.0f} MB, {args.long} traces {long:.0f} MB: "
                f"{long - short:+.0f} MB"
            )


if __name__ == "__main__":
    main()
