"""An evaluator that nobody closes leaves no connection and no warning behind; a script on a terminal shows progress."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.blocks import ROOT, blocks_of, environment
from tests.support.chat_server import ChatServer

EXAMPLE = next(b.code for b in blocks_of((ROOT / "docs" / "index.md").read_text("utf-8")) if b.language == "python")
"""The first example in Python of the documentation, which closes nothing."""
IN_LOOPS = """
import asyncio
asyncio.run(evaluator.aevaluate(trace.replace(id="q2", reference="At ten.")))
asyncio.run(evaluator.ajudge(trace.replace(id="q3", reference="At noon.")))
"""
SOCKETS = """
import gc, os, time

def sockets():
    kinds = (os.path.realpath(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd"))
    return sum("socket:" in kind for kind in kinds)

del evaluator, run
gc.collect()
until = time.monotonic() + 10
while sockets() > 2 and time.monotonic() < until:  # the loop of sync calls has two of its own
    time.sleep(0.01)
assert sockets() <= 2, sockets()
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_an_evaluator_that_nobody_closes_leaves_nothing_open(tmp_path: Path) -> None:
    """Connections of ended event loops, and of an evaluator that is gone, are closed without a warning."""
    with ChatServer() as server:
        done = subprocess.run(
            [sys.executable, "-X", "dev", "-c", EXAMPLE + IN_LOOPS + SOCKETS],
            cwd=tmp_path,
            env=environment(tmp_path, server.url),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    assert "Traceback" not in done.stderr


SLOW = """
from judge_eval import Options, evaluate

rows = [{"id": f"q{k}", "query": f"When {k}?", "reference": "At nine.", "chunks": ["At nine."]} for k in range(90)]
evaluate(rows, "fake/overlap", cache=False, options=Options(params={"latency": 0.1}, concurrency=2))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo terminal")
def test_a_script_on_a_terminal_shows_its_progress(tmp_path: Path) -> None:
    """An evaluation that takes more than a second shows a bar on the terminal, and nothing where there is none."""
    ours, theirs = pty.openpty()
    variables = environment(tmp_path, "") | {"TERM": "xterm", "COLUMNS": "100"}
    with subprocess.Popen([sys.executable, "-c", SLOW], cwd=tmp_path, env=variables, stderr=theirs) as process:
        os.close(theirs)
        shown = b""
        while chunk := _read(ours):
            shown += chunk
    os.close(ours)
    assert process.returncode == 0
    assert b" of 90 traces" in shown
    silent = subprocess.run(
        [sys.executable, "-c", SLOW], cwd=tmp_path, env=variables, capture_output=True, timeout=60, check=True
    )
    assert silent.stderr == b""


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:  # Linux's end of a terminal that nobody has open any more
        return b""
