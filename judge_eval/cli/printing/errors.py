"""From errors to exit codes, with one message each and no traceback."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from typing import Any

import typer

from judge_eval.cli.flags.groups import spread
from judge_eval.errors import ConfigError, DataError, FatalCallError, JudgeEvalError

OK, GATE, USAGE, INCOMPLETE, INTERRUPTED = 0, 1, 2, 3, 130
"""0 all is well; 1 a gate failed; 2 usage, configuration or data; 3 incomplete; 130 interrupted."""


def verb(function: Callable[..., None]) -> Callable[..., None]:
    """Make a command take its groups' flags, and answer errors with one message and the right exit code."""
    command = spread(function)

    @functools.wraps(command)
    def guarded(**given: Any) -> None:
        try:
            command(**given)
        except JudgeEvalError as error:
            complain(str(error))
            if error.run_folder:
                advise_resume(error.run_folder)
            # Going on does not help where the key, the settings or the data are at fault.
            mine = isinstance(error, FatalCallError | ConfigError | DataError)
            raise typer.Exit(USAGE if mine or error.run_folder is None else INCOMPLETE) from None
        except KeyboardInterrupt:
            complain("interrupted; what was judged is kept")
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            # Whoever read our output has left; say nothing more, not even at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(OK) from None

    return guarded


def complain(message: str) -> None:
    """Write an error to stderr."""
    print(f"error: {message}", file=sys.stderr)


def remark(message: str) -> None:
    """Write a warning or a remark to stderr."""
    print(message, file=sys.stderr)


def advise_resume(folder: str) -> None:
    """Say how to go on with a run that ended early."""
    remark(f"the run is kept in {folder}; the same command with --resume {folder} goes on where it stopped")
