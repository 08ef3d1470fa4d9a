"""The tutorial, run as its page says, with the real embedding model."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.blocks import ROOT, blocks_of, environment, shell

pytestmark = pytest.mark.real

BLOCKS = blocks_of((ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8"))
COMMANDS, GATE = (
    "\n".join(
        line.replace(".venv/bin/", "")
        for block in BLOCKS
        if block.language == "bash"
        for line in block.code.splitlines()
        if line.startswith(".venv/bin/judge-eval") and ("--max-drop" in line) == is_gate
    )
    for is_gate in (False, True)
)
PRINTED, WARNED = (block.code for block in BLOCKS if block.language == "text" and not block.code.startswith("{"))
NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A reader's folder after the second command, whose output is in `printed`."""
    folder = tmp_path_factory.mktemp("reader")
    with (folder / "printed").open("w", encoding="utf-8") as file:
        script = str(ROOT / "docs" / "tutorial" / "tutorial.py")
        subprocess.run(
            [sys.executable, script], cwd=folder, env=environment(folder, ""), stdout=file, check=True, timeout=300
        )
    return folder


def check_shown(shown: str, printed: str) -> None:
    """Check that a page shows what is printed: the same words, and numbers that processors may round differently."""
    assert NUMBER.sub("#", " ".join(shown.split())) == NUMBER.sub("#", " ".join(printed.split()))
    expected, numbers = ([float(number) for number in NUMBER.findall(text)] for text in (shown, printed))
    assert numbers == pytest.approx(expected, abs=0.02, rel=0.1)


@pytest.mark.timeout(400)
def test_the_script_prints_what_the_page_shows(folder: Path) -> None:
    """The retrievers, their hybrid and the chunk sizes are compared in the words that the page explains."""
    check_shown(PRINTED, (folder / "printed").read_text(encoding="utf-8"))
    assert (folder / "tutorial.html").stat().st_size > 50_000


def test_the_runs_are_read_by_the_commands_shown(folder: Path) -> None:
    """Each command that reads the runs shows them, and the gate says why it is undecided."""
    done = shell(COMMANDS, folder, "")
    assert done.returncode == 0, done.stderr
    assert "5 unanswerable questions, in no mean" in done.stdout
    gate = shell(GATE, folder, "")
    assert gate.returncode == 0
    check_shown(WARNED, gate.stderr)
