"""What the pytest plugin adds to a test run that does not use it, against 20 ms.

Runs of pytest on one trivial test with and without the plugin, in pairs whose order alternates. Other
plugins that are installed stay out: they take far longer, and vary by more than what is measured.
Run with `python -m benchmarks.plugin`; `--rounds 2` sees that it works.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.support import Took, measured, median

ROOT = Path(__file__).parents[1]
BOUND = 0.020
IMPORT = re.compile(r"import time:\s*\d+ \|\s*(\d+) \| judge_eval\.pytest_plugin$", re.MULTILINE)


def environment(work: Path) -> dict[str, str]:
    """Write a trivial test; return the variables of a run, without whatever plugins are installed here."""
    (work / "test_one.py").write_text("def test_one():\n    pass\n", encoding="utf-8")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST", "JUDGE_EVAL"))}
    kept.pop("PYTHONDONTWRITEBYTECODE", None)
    return kept | {
        "PYTHONPATH": str(ROOT),
        "PYTHONPYCACHEPREFIX": str(work / "bytecode"),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }


def run(work: Path, env: dict[str, str], plugin: bool) -> Took:
    """Run pytest once; it must pass."""
    loaded = ("-p", "judge_eval.pytest_plugin") if plugin else ()
    command = (sys.executable, "-m", "pytest", "-q", *loaded, "test_one.py")
    took = measured(*command, cwd=work, env=env)
    if took.code:
        raise SystemExit(f"pytest ended with {took.code}:\n{took.out}")
    return took


def interval(values: list[float]) -> tuple[float, float]:
    """Return the 95% interval of the median, from the ranks of the values: it supposes nothing of them."""
    n, tail, rank = len(values), 0.0, 0
    while rank < n // 2 and tail + math.comb(n, rank) / 2**n <= 0.025:
        tail += math.comb(n, rank) / 2**n
        rank += 1
    ordered = sorted(values)
    return ordered[max(rank - 1, 0)], ordered[n - max(rank, 1)]


def importing(env: dict[str, str], rounds: int) -> float:
    """Return the seconds that importing the plugin takes behind pytest, by `-X importtime`."""
    command = [sys.executable, "-X", "importtime", "-c", "import pytest, judge_eval.pytest_plugin"]
    took = []
    for _ in range(rounds):
        output = subprocess.run(command, env=env, capture_output=True, text=True, check=True).stderr
        took += [int(match) / 1e6 for match in IMPORT.findall(output)]
    return median(took)


def main() -> None:
    """Print what the plugin adds: the median of the paired differences, with its interval."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        env = environment(work)
        for plugin in (False, True):  # the first turn writes the byte code
            run(work, env, plugin)
        pairs = []
        for turn in range(rounds):
            order = (False, True) if turn % 2 else (True, False)
            took = {plugin: run(work, env, plugin) for plugin in order}
            pairs.append((took[False], took[True]))
        for name in ("cpu", "wall"):
            differences = [getattr(with_, name) - getattr(without, name) for without, with_ in pairs]
            alone = median([getattr(without, name) for without, _ in pairs])
            ends = " to ".join(f"{end * 1000:.1f}" for end in interval(differences))
            print(f"{name:4}: pytest alone {alone * 1000:.1f} ms, the plugin adds", end=" ")
            print(f"{median(differences) * 1000:.1f} ms ({ends}; bound {BOUND * 1000:.0f} ms)")
        print(f"median of {rounds} pairs with its 95% interval")
        print(f"importing the plugin: {importing(env, min(rounds, 15)) * 1000:.1f} ms (-X importtime)")


if __name__ == "__main__":
    main()
