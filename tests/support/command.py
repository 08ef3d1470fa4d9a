"""Running the command line in a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.support.forking import ROOT, call

FIXTURES = ROOT / "fixtures"


@dataclass(frozen=True)
class CommandResult:
    """What a command left behind."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Shell:
    """A folder to run commands in, with a cache of its own and nothing of the user's settings."""

    folder: Path

    def environment(self, **more: str) -> dict[str, str]:
        """Return the environment of the commands."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("JUDGE_EVAL", "OPENAI", "PYTHON", "GIT_"))
        }
        return {
            **kept,
            "PYTHONPATH": str(ROOT),
            "JUDGE_EVAL_CACHE": str(self.folder / "cache"),
            "COLUMNS": "100",
            "NO_COLOR": "1",
            "TERM": "dumb",
            **more,
        }

    def __call__(self, *arguments: str | Path, stdin: str | None = None, **environment: str) -> CommandResult:
        """Run `judge-eval` with these arguments and wait for it."""
        done = call([*map(str, arguments)], self.folder, self.environment(**environment), stdin)
        return CommandResult(done.returncode, done.stdout, done.stderr)

    def start(self, *arguments: str | Path, **environment: str) -> subprocess.Popen[bytes]:
        """Start `judge-eval` and leave it running."""
        return subprocess.Popen(
            [sys.executable, "-m", "judge_eval", *map(str, arguments)],
            cwd=self.folder,
            env=self.environment(**environment),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )


def stable(text: str, folder: Path) -> str:
    """Replace what differs from run to run: folders, ids and times."""
    text = text.replace(str(folder), "FOLDER")
    text = re.sub(r"\d{8}-\d{6}-[0-9a-f]{8}", "RUN-FOLDER", text)
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d", "YYYY-MM-DD HH:MM", text)
    return re.sub(r"\b(run |^)[0-9a-f]{8}\b", r"\1RUN-ID__", text, flags=re.MULTILINE)


_FOREIGN = ("JUDGE_EVAL", "OPENAI", "GITHUB_", "GITLAB_", "CI_")


def judge_eval(
    folder: Path, *arguments: object, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run `judge-eval` in a folder, with a cache there and nothing of the caller's settings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}
    kept |= {"XDG_CACHE_HOME": str(folder / "cache"), "PYTHONPATH": str(ROOT), "NO_COLOR": "1", "TERM": "dumb"}
    return call([*map(str, arguments)], folder, kept | dict(environment or {}), None)
