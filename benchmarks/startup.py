"""Measures what importing the package and starting the command cost over the interpreter's own start.

Run `python -m benchmarks.startup`.
"""

from __future__ import annotations

import argparse
import sys

from benchmarks.support import measured, median


def main() -> None:
    """Print the medians, each pair measured in turn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    args = parser.parse_args()
    programs = {
        "import judge_eval": ("-c", "import judge_eval"),
        "from judge_eval import Evaluator, Trace": ("-c", "from judge_eval import Evaluator, Trace"),
        "judge-eval --version": ("-m", "judge_eval", "--version"),
    }
    for name, program in programs.items():
        over = []
        for _ in range(args.rounds):
            empty = measured(sys.executable, "-c", "pass")
            over.append(measured(sys.executable, *program).wall - empty.wall)
        print(f"{name}: {median(over) * 1000:.0f} ms over the interpreter's start")


if __name__ == "__main__":
    main()
