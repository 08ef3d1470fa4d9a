"""Counts the files that a change must read: those whose functions run, and how often a call goes from file to file.

Run `python -m benchmarks reading`; `--files` lists them.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import judge_eval
from judge_eval import Chunk, EvalRun, Evaluator, Trace

PACKAGE = f"{Path(judge_eval.__file__).parent}/"


class CallCounter:
    """Counts the calls of functions of the package by file, in all threads."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.changes = 0
        self._last: dict[int, str] = {}

    def count(self, action: Callable[[], Any]) -> None:
        """Count while an action runs."""
        threading.setprofile(self._see)
        sys.setprofile(self._see)
        try:
            action()
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def _see(self, frame: FrameType, event: str, _: Any) -> None:
        name = frame.f_code.co_filename
        if event != "call" or not name.startswith(PACKAGE) or frame.f_code.co_name == "<module>":
            return
        self.calls[name[len(PACKAGE) :]] += 1
        thread = threading.get_ident()
        self.changes += self._last.get(thread, name) != name
        self._last[thread] = name


def trace_of(number: int) -> Trace:
    """Make a trace of three chunks."""
    chunks = [Chunk(id=f"c{k}", text=f"Espresso takes 25 to 30 seconds. Note {k}.") for k in range(3)]
    reference = "An espresso takes 25 to 30 seconds."
    return Trace(id=f"q{number}", query="How long does an espresso take?", reference=reference, chunks=chunks)


def main() -> None:
    """Print the counts of `evaluate` into a folder and of `compare`, each done once before it is counted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", action="store_true", help="list the files with their calls")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)

        def evaluate(number: int) -> EvalRun:
            evaluator = Evaluator("fake/overlap", metrics=["AP@5"], cache=place / "cache")
            # In this thread: Python 3.11 sets no profile in a thread that runs already, as the package's own loop does.
            return asyncio.run(evaluator.aevaluate(trace_of(number), out=place / f"runs{number}"))

        evaluate(0)
        many = [
            Evaluator(model, metrics=["AP@5"], cache=False).evaluate([trace_of(k) for k in range(20)])
            for model in ("fake/overlap", "fake/hash")
        ]
        many[0].compare(many[1])
        actions: dict[str, Callable[[], Any]] = {
            "evaluate of one trace into a folder": lambda: evaluate(1),
            "compare": lambda: many[0].compare(many[1]),
        }
        for name, action in actions.items():
            counter = CallCounter()
            counter.count(action)
            total = sum(counter.calls.values())
            print(f"{name}: functions of {len(counter.calls)} files, {total} calls, {counter.changes} changes of file")
            for file, calls in sorted(counter.calls.items()) if args.files else ():
                print(f"  {calls:6} {file}")


if __name__ == "__main__":
    main()
