"""The command line in the process of a test: as in a process of its own, only the verb that is called is loaded."""

from __future__ import annotations

from typing import Any

import typer.testing

from judge_eval.cli.verbs import make_app

app = make_app()


class CliRunner(typer.testing.CliRunner):
    """Runs a verb of `app` without making the parameters of all the others."""

    def invoke(self, called: typer.Typer, args: Any = None, **more: Any) -> typer.testing.Result:  # type: ignore[override]
        """Return what the verb printed, and its exit code."""
        if called is app and isinstance(args, list | tuple) and args:
            called = make_app(str(args[0]))
        return super().invoke(called, args, **more)
