"""The command line, as a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "fixtures"
GOLDEN = ROOT / "tests" / "golden"
_FOREIGN = ("JUDGE_EVAL", "OPENAI", "GITHUB_", "GITLAB_", "CI_")


def judge_eval(
    folder: Path, *arguments: object, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run `judge-eval` in a folder, with a cache there and nothing of the caller's settings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}
    kept |= {
        "XDG_CACHE_HOME": str(folder / "cache"),
        "PYTHONPATH": str(ROOT),
        "NO_COLOR": "1",
        "TERM": "dumb",
    }
    return subprocess.run(
        [sys.executable, "-m", "judge_eval", *map(str, arguments)],
        cwd=folder,
        env=kept | dict(environment or {}),
        capture_output=True,
        text=True,
        timeout=60,
    )


def assert_golden(name: str, text: str) -> None:
    """Compare with the file of that name; `GOLDEN=write` in the environment writes it anew."""
    path = GOLDEN / name
    if os.environ.get("GOLDEN") == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")
