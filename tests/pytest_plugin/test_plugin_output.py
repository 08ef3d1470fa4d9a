"""What the plugin reports of hostile texts neither steers the terminal nor forges a line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.test_safe_output import EVIL, calm
from tests.support.command import ROOT

TEST = f"""
EVIL = {EVIL!r}


def test_it(fake_judge, assert_metrics):
    chunk = {{"id": "c" + EVIL, "text": EVIL}}
    trace = {{"id": "q" + EVIL, "query": EVIL, "reference": EVIL, "chunks": [chunk]}}
    judge = fake_judge("never")
    assert_metrics(trace, {{"AP@5": 0.9}}, judge=judge)
"""


@pytest.mark.slow
def test_failures_and_summary_are_text(tmp_path: Path) -> None:
    """The assertion's message and the table at the end show escapes, each trace on lines of its own."""
    (tmp_path / "test_evil.py").write_text(TEST, encoding="utf-8", errors="surrogatepass")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--judge-eval-mode", "fake", "-p", "no:cacheprovider", "--tb=short"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1"},
        capture_output=True,
        timeout=60,
        check=False,
    )
    output = done.stdout.decode()
    assert done.returncode == 1, output + done.stderr.decode()
    assert "wanted at least 0.9000: fails" in output
    shown = [line for line in output.splitlines() if line.startswith("E ")]
    assert any("forged" in line for line in shown)
    for line in shown:
        calm(line.removeprefix("E").lstrip())
