"""Writes the command-line page out of the command line itself, whenever the site is built."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def page() -> str:
    """Return the page: every verb with its arguments and flags, as the program declares them."""
    app = str(Path(__file__).with_name("command_line.py"))
    command = [sys.executable, "-m", "typer", app, "utils", "docs", "--name", "judge-eval"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("JUDGE_EVAL")}
    # The width is fixed and colours are off, so that every machine writes the same page.
    environment |= {"PYTHONPATH": str(ROOT), "NO_COLOR": "1", "COLUMNS": "100"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)  # noqa: S603
    return done.stdout


def on_files(files: Any, config: Any) -> Any:
    """Add the page to the site."""
    from mkdocs.structure.files import File

    files.append(File.generated(config, "cli.md", content=page()))
    return files
