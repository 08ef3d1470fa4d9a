"""Runs the benchmarks one after the other: `python -m benchmarks [NAME ...]`.

`--smoke` runs each on little data, to see that it works; its figures mean nothing. Other options go to the
benchmark that is named: `python -m benchmarks stats_calibration --only gate_power`. A module of its parts, such as
`stats_attribution`, is a name too.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

BENCHMARKS: dict[str, tuple[str, ...]] = {
    "startup": ("--rounds", "1"),
    "plugin": ("--rounds", "2"),
    "cold": ("--traces", "5", "--chunks", "4", "--rounds", "1", "--latency", "0.01"),
    "decisions": ("--traces", "5", "--chunks", "4", "--rounds", "1", "--latency", "0.01"),
    "warm": ("--traces", "20", "--rounds", "1"),
    "memory": ("--short", "10", "--long", "20"),
    "faults": ("--traces", "20", "--verdicts", "20", "--rounds", "1"),
    "kills": ("--calls", "100", "--kills", "2"),
    "client_cpu": ("--calls", "50", "--rounds", "1"),
    "store_speed": ("--rows", "1000", "--calls", "100"),
    "durability": ("--rows", "20"),
    "far_cache": ("--calls", "50", "--round-trips", "1", "--repeat", "1"),
    "reading": (),
    "metrics_speed": ("--queries", "2000"),
    "stats_calibration": ("--simulations", "5"),
    "stats_agreement": ("--simulations", "4"),
    "cascade": ("--simulations", "200"),
    "cascade_data": ("hotpotqa",),
    "scale": ("--traces", "200"),
    "pool_scale": ("--questions", "20", "--chunks", "5", "--runs", "3"),
    "throughput": ("--traces", "10", "--rpm", "6000"),
}
"""The modules, with the arguments that make them small."""
PARTS = tuple(sorted(path.stem for path in Path(__file__).parent.glob("stats_*.py") if path.stem not in BENCHMARKS))
"""Modules of parts of `stats_calibration`."""


def main() -> None:
    """Run the benchmarks that were named, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHMARKS)}")
    parser.add_argument("--smoke", action="store_true", help="on little data, as a test that they work")
    words = sys.argv[1:]
    of_one = next((k for k, w in enumerate(words) if w[:1] == "-" and w not in ("--smoke", "-h", "--help")), len(words))
    args, options = parser.parse_args(words[:of_one]), words[of_one:]
    if options and len(args.names) != 1:
        parser.error(f"{options[0]}: name one benchmark that takes it")
    unknown = set(args.names) - BENCHMARKS.keys() - {*PARTS}
    if unknown:
        parser.error(f"no benchmark {', '.join(sorted(unknown))}; known: {', '.join((*BENCHMARKS, *PARTS))}")
    for name in args.names or BENCHMARKS:
        print(f"-- {name}", flush=True)
        part = ("--only", name) if name in PARTS else ()
        module = "stats_calibration" if part else name
        small = BENCHMARKS[module] if args.smoke else ()
        subprocess.run([sys.executable, "-m", f"benchmarks.{module}", *part, *small, *options], check=True)


if __name__ == "__main__":
    main()
