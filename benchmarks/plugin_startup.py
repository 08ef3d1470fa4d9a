"""What the pytest plugin adds to a test run that does not use it: CPU time, against 20 ms.

Run with `python -m benchmarks.plugin_startup`; `--smoke` starts each kind of run once.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
BOUND = 0.020


def _spent() -> float:
    """Return the CPU seconds of all finished child processes: what others do on the machine counts less."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(repeats: int) -> tuple[list[float], list[float]]:
    """Measure runs of one trivial test, without and with the plugin in turn.

    Args:
        repeats: How many pairs of runs, >= 1.

    Returns:
        CPU seconds of each run without the plugin, and with it.
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
                before = _spent()
                blocked = () if plugin else ("-p", "no:judge_eval")
                command = [sys.executable, "-m", "pytest", "-q", *blocked, "test_one.py"]
                environment = os.environ | {"PYTHONPATH": paths[plugin]}
                subprocess.run(command, cwd=work, env=environment, check=True, stdout=subprocess.DEVNULL)
                if turn:  # the first turn writes the byte code
                    times.append(_spent() - before)
    return without, with_


def main(arguments: list[str] | None = None) -> None:
    """Print the medians and what the plugin adds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--repeats", type=int, default=15)
    given = parser.parse_args(arguments)
    without, with_ = measure(1 if given.smoke else given.repeats)
    least, most = min(without), min(with_)
    print(f"pytest without the plugin  {least * 1000:7.1f} ms CPU (best of {len(without)})")
    print(f"pytest with the plugin     {most * 1000:7.1f} ms CPU (best of {len(with_)})")
    print(f"added                      {(most - least) * 1000:7.1f} ms (bound {BOUND * 1000:.0f} ms)")


if __name__ == "__main__":
    main()
