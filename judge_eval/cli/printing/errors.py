"""From how a command ended to its exit code, with one message and no traceback."""

from __future__ import annotations

import functools
import os
import tempfile
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import typer

from judge_eval.cli.flags.groups import spread
from judge_eval.cli.printing.door import OutputError, complain, doors, remark
from judge_eval.cli.stopping import TERMINATED, Terminated
from judge_eval.errors import ConfigError, DataError, FatalCallError, JudgeEvalError, StoreError, mask

if TYPE_CHECKING:
    from judge_eval.evaluator import Evaluator

OK, GATE, USAGE, INCOMPLETE, UNEXPECTED, INTERRUPTED, CLOSED = 0, 1, 2, 3, 70, 130, 141
"""0 all is well; 1 a gate failed; 2 usage, configuration or data; 3 incomplete; 70 a fault of this program;
130 interrupted, or a question not answered with yes; 141 whoever read the output has left; and
`TERMINATED`, 143, stopped (SIGTERM)."""

_UsageError = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")
"""The base of what is wrong with a command line; typer brings its own click, or uses the one installed."""


def verb(function: Callable[..., None]) -> Callable[..., None]:
    """Make a command take its groups' flags, and answer errors with one message and the right exit code."""
    command = spread(function)

    @functools.wraps(command)
    def guarded(**given: Any) -> None:
        try:
            command(**given)
        except JudgeEvalError as error:
            raise typer.Exit(_told(error)) from None
        except KeyboardInterrupt:
            complain("interrupted; what was judged is kept")
            raise typer.Exit(INTERRUPTED) from None
        except Terminated:
            complain("stopped by SIGTERM; what was judged is kept")
            raise typer.Exit(TERMINATED) from None

    return guarded


def exit_code(command: Callable[[], object]) -> int:
    """Run a command line, say what went wrong, and return the code to exit with."""
    code = OK
    try:
        with doors():
            code = _code_of(command)
    except OutputError as error:
        if error.closed:
            return CLOSED
        complain(f"standard output: {error}")
        return USAGE
    return code


def _code_of(command: Callable[[], object]) -> int:
    try:
        code = command()
    except (OutputError, SystemExit):
        raise
    except JudgeEvalError as error:
        return _told(error)
    except typer.Abort:
        remark("stopped: the question was not answered with yes")
        return INTERRUPTED
    except Exception as error:
        if isinstance(error, _UsageError):
            _show_usage(error)
            return USAGE
        if isinstance(error, OSError) and error.filename is not None:
            complain(f"{os.fsdecode(error.filename)}: {error.strerror or error}")
            return USAGE
        complain(_fault(error))
        return UNEXPECTED
    return code if isinstance(code, int) else OK


def _told(error: JudgeEvalError) -> int:
    """Say what an error says, and how to go on; return the exit code."""
    complain(str(error))
    if error.run_folder:
        advise_resume(error.run_folder)
    # Going on does not help where the key, the settings or the data are at fault.
    mine = isinstance(error, FatalCallError | ConfigError | DataError)
    return USAGE if mine or error.run_folder is None else INCOMPLETE


def _show_usage(error: Any) -> None:
    """Say what is wrong with the command line; a bare command shows its help."""
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return
    if error.ctx is not None:
        for line in error.ctx.get_usage().splitlines():
            remark(line)
        remark(f"Try '{error.ctx.command_path} --help' for help.")
    complain(error.format_message())


def _fault(error: Exception) -> str:
    """Keep the traceback of an error nobody has foreseen, and say where; keys are left out of it."""
    ends = ("KEY", "TOKEN", "SECRET", "PASSWORD")
    secrets = [value for name, value in os.environ.items() if name.upper().endswith(ends) and len(value) > 5]
    text = mask("".join(traceback.format_exception(error)), secrets)
    said = mask(f"{type(error).__name__}: {error}"[:300], secrets)
    try:
        number, name = tempfile.mkstemp(prefix="judge-eval-", suffix=".txt")
        with os.fdopen(number, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
        where = f"its traceback is in {name}"
    except OSError:
        where = "its traceback could not be written to a temporary file"
    return f"unexpected {said}; this is a fault of judge-eval, please report it: {where}"


def advise_resume(folder: str) -> None:
    """Say how to go on with a run that ended early."""
    remark(f"the run is kept in {folder}; the same command with --resume {folder} goes on where it stopped")


def close(evaluator: Evaluator) -> None:
    """Close an evaluator whose run is whole and kept; a cache that fails then is worth a remark, no more."""
    try:
        evaluator.close()
    except StoreError as error:
        remark(f"warning: {error}; the run is whole, and a later one would pay for these answers again")
