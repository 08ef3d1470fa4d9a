"""The command line in the tests' own process: a new user's empty folder, and what was printed."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from judge_eval.cli import main, verbs
from tests.support.application import command
from tests.support.command import CommandResult


@dataclass(frozen=True)
class Desk:
    """A folder to run commands in, with a cache of its own and nothing of the user's settings."""

    folder: Path
    patch: pytest.MonkeyPatch
    read: Callable[[], tuple[str, str]]

    @classmethod
    def at(cls, folder: Path, patch: pytest.MonkeyPatch, capture: pytest.CaptureFixture[str]) -> Desk:
        """Sit down in a folder, as somebody who has set nothing."""
        import os

        for name in list(os.environ):
            if name.startswith(("JUDGE_EVAL", "OPENAI", "GITHUB", "CI_")):
                patch.delenv(name)
        for name, value in (("NO_COLOR", "1"), ("TERM", "dumb"), ("COLUMNS", "100")):
            patch.setenv(name, value)
        patch.setenv("HOME", str(folder))
        patch.setenv("XDG_CACHE_HOME", str(folder / "xdg"))
        patch.chdir(folder)

        def read() -> tuple[str, str]:
            out, err = capture.readouterr()
            return out, err

        return cls(folder, patch, read)

    def __call__(self, *arguments: object, stdin: str | None = None, **environment: str) -> CommandResult:
        """Run `judge-eval` with these arguments."""
        with self.patch.context() as patch:
            for name, value in environment.items():
                patch.setenv(name, value)
            given = io.TextIOWrapper(io.BytesIO((stdin or "").encode()))
            patch.setattr(sys, "stdin", given)
            patch.setattr(verbs, "make_app", command)
            self.read()
            with pytest.raises(SystemExit) as ended:
                main([str(argument) for argument in arguments])
            out, err = self.read()
        code = ended.value.code
        return CommandResult(code if isinstance(code, int) else 0, out, err)
