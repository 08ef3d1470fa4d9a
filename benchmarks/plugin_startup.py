"""What the pytest plugin adds to a test run that does not use it: CPU and wall time, against 20 ms.

Run with `python -m benchmarks.plugin_startup`; `--smoke` starts each kind of run once.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
BOUND = 0.020


def measure(repeats: int) -> tuple[list[float], list[float]]:
    """Time runs of one trivial test, without and with the plugin in turn.

    Args:
        repeats: How many pairs of runs, >= 1.

    Returns:
        Seconds of each run without the plugin, and with it.
    """
    without, with_ = [], []
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        (work / "test_one.py").write_text("def test_one():\n    pass\n", encoding="utf-8")
        installed = work / "site"
        info = installed / "judge_eval_plugin-0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(
            "Metadata-Version: 2.1\nName: judge-eval-plugin\nVersion: 0\n", encoding="utf-8"
        )
        (info / "entry_points.txt").write_text(
            "[pytest11]\njudge_eval = judge_eval.pytest_plugin\n", encoding="utf-8"
        )
        (info / "RECORD").write_text("", encoding="utf-8")
        paths = {False: str(ROOT), True: f"{ROOT}{os.pathsep}{installed}"}
        for turn in range(repeats + 1):
            for plugin, times in ((False, without), (True, with_)):
                started = time.perf_counter()
                blocked = () if plugin else ("-p", "no:judge_eval")
                command = [sys.executable, "-m", "pytest", "-q", *blocked, "test_one.py"]
                environment = os.environ | {"PYTHONPATH": paths[plugin]}
                subprocess.run(command, cwd=work, env=environment, check=True, stdout=subprocess.DEVNULL)
                if turn:  # the first turn writes the byte code
                    times.append(time.perf_counter() - started)
    return without, with_


def main(arguments: list[str] | None = None) -> None:
    """Print the medians and what the plugin adds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--repeats", type=int, default=15)
    given = parser.parse_args(arguments)
    without, with_ = measure(1 if given.smoke else given.repeats)
    pairs = [b - a for a, b in zip(without, with_, strict=True)]
    print(f"pytest without the plugin  {statistics.median(without) * 1000:7.1f} ms (median)")
    print(f"pytest with the plugin     {statistics.median(with_) * 1000:7.1f} ms (median)")
    added = statistics.median(pairs) * 1000
    print(f"added                      {added:7.1f} ms (median of pairs; bound {BOUND * 1000:.0f} ms)")


if __name__ == "__main__":
    main()
