"""The command line in the process of a test: as in a process of its own, only the verb that is called is loaded."""

from __future__ import annotations

from functools import cache
from typing import Any
from unittest.mock import patch

import typer.testing
from typer.main import get_command

from judge_eval.cli.verbs import GROUPS, VERBS, make_app

app = make_app()


def command(first: str | None = None) -> Any:
    """Return the application as it is for a command line that begins so, made once.

    To make a verb's parameters anew takes as long as what the verb does to a small file.
    """
    return _command(first if first in (*VERBS, *GROUPS, "--version") else None)


@cache
def _command(verb: str | None) -> Any:
    return get_command(make_app(verb))


class CliRunner(typer.testing.CliRunner):
    """Runs a verb of `app` without making the parameters of all the others."""

    def invoke(self, called: typer.Typer, args: Any = None, **more: Any) -> typer.testing.Result:  # type: ignore[override]
        """Return what the verb printed, and its exit code."""
        if called is app and isinstance(args, list | tuple) and args:
            with patch.object(typer.testing, "_get_command", lambda _: command(str(args[0]))):
                return super().invoke(called, args, **more)
        return super().invoke(called, args, **more)
