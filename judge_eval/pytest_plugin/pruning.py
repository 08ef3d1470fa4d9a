"""Removing from cassettes what no test asks for any more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from judge_eval.llm.cassettes import Replay, tidy
from judge_eval.safe_text import counted, one_line


class Pruner:
    """Gathers what tests ask of their cassettes; after all have passed, it removes the other answers.

    Raises:
        UsageError: Not all tests of a cassette would be seen: several processes run them, or single tests are named.
    """

    def __init__(self, config: pytest.Config, mode: str) -> None:
        self._asked: dict[Path, set[tuple[str, str]]] = {}
        self._left_out = False
        self._lines: list[str] = []
        fault = ""
        if mode != "replay":
            fault = f"cassettes are pruned in replay mode, not in {mode}"
        elif config.getoption("numprocesses", None):
            fault = "leave out -n: one process must see what all tests ask for"
        elif any("::" in argument for argument in config.args):
            fault = "name files or folders, not single tests: the answers of the others would be removed"
        if fault:
            raise pytest.UsageError(f"--judge-eval-prune: {fault}")

    def see(self, replay: Replay) -> None:
        """Take down what a test asked of its cassette."""
        self._asked.setdefault(replay.path.resolve(), set()).update(replay.asked)

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        """Note that tests were left out."""
        self._left_out = self._left_out or bool(items)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note that a test was skipped."""
        self._left_out = self._left_out or report.skipped

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Remove what was not asked for, if every test passed."""
        if exitstatus != 0 or self._left_out:
            self._lines.append("nothing was pruned: every test must run and pass")
            return
        for path, asked in sorted(self._asked.items()):
            if removed := tidy(path, asked):
                self._lines.append(f"{path}: {counted(removed, 'answer')} removed")
        self._lines = self._lines or ["nothing to prune: every answer was asked for"]

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Say what was removed."""
        for line in self._lines:
            terminalreporter.write_line(f"judge_eval: {one_line(line)}")
