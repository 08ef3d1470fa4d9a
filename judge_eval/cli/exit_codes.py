"""Exit codes and error messages of commands; users see one message and never a traceback."""

from __future__ import annotations

import functools
import inspect
import os
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import typer

from judge_eval.cli.flags.command import VerbCommand
from judge_eval.cli.flags.config import blamed
from judge_eval.cli.flags.groups import spread
from judge_eval.cli.printing.gates import write_ci_report
from judge_eval.cli.printing.output import complain, remark
from judge_eval.cli.printing.safe_output import OutputError, doors
from judge_eval.cli.stopping import TERMINATED, Terminated
from judge_eval.errors import ConfigError, DataError, FatalCallError, JudgeEvalError, MissError, StoreError, mask
from judge_eval.llm.cache.store import NONE
from judge_eval.llm.http.secrets import environment_secrets

if TYPE_CHECKING:
    from judge_eval.evaluator import Evaluator

OK, GATE, USAGE, INCOMPLETE, CREDIT, UNEXPECTED, INTERRUPTED, CLOSED = 0, 1, 2, 3, 4, 70, 130, 141
"""0 all is well; 1 a gate failed; 2 usage, configuration or data; 3 incomplete; 4 the account has no credit left;
70 a fault of this program; 130 interrupted, or a question not answered with yes; 141 whoever read the output has left;
and `TERMINATED`, 143, stopped (SIGTERM)."""

_UsageError = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")
"""The base of what is wrong with a command line; typer brings its own click, or uses the one installed."""


VerbFunction: TypeAlias = Callable[..., int | None]
"""What a verb runs; it returns the exit code if that is not 0."""


def verb(function: VerbFunction, *, in_batch: bool = False) -> Callable[..., None]:
    """Make a command take its groups' flags, and answer errors with one message and the right exit code.

    `in_batch` marks a step of a batch: what was stopped is kept in its folder.
    """
    command = spread(function)
    own = frozenset(inspect.signature(command).parameters)

    @functools.wraps(command)
    def guarded(**flags: Any) -> None:
        begun = time.time()
        try:
            code = command(**flags)
        except JudgeEvalError as error:
            code = _report(error, "resume" in own)
            _write_reports(flags, f"error: {error}")
        except (KeyboardInterrupt, Terminated) as ending:
            stopped = isinstance(ending, Terminated)
            code, end = (TERMINATED, "stopped by SIGTERM") if stopped else (INTERRUPTED, "interrupted")
            complain(end)
            _write_reports(flags, end)
            for advice in getattr(ending, "__notes__", None) or _how_it_goes_on(flags, begun, in_batch=in_batch):
                remark(advice)
        if code:
            raise typer.Exit(code)

    return guarded


class VerbGroup(typer.Typer):
    """A group of verbs: `@GROUP.verb("list")` adds one."""

    def __init__(self, help: str) -> None:
        super().__init__(help=help, no_args_is_help=True)

    def verb(self, name: str, *, in_batch: bool = False) -> Callable[[VerbFunction], Any]:
        """Return what adds a function as the verb of that name; see `verb`."""
        return lambda function: self.command(name, cls=VerbCommand)(verb(function, in_batch=in_batch))


def exit_code(command: Callable[[], object]) -> int:
    """Run a command line, print what went wrong, and return the exit code."""
    code = OK
    try:
        with doors(remark):
            code = _code_of(command)
    except OutputError as error:
        if error.closed:
            return CLOSED
        complain(f"standard output: {error}")
        return USAGE
    return code


def _write_reports(flags: Mapping[str, Any], fault: str) -> None:
    """Write why a verb with a gate ended into the reports for CI that it would have written."""
    outputs = flags.get("output")
    if "fail_under" not in flags or not isinstance(outputs, list):
        return

    for path in outputs:
        if path.suffix.lower() in (".md", ".xml"):
            with suppress(JudgeEvalError):  # it may be what cannot be written
                write_ci_report(path, None, None, (), " ".join(fault.split()))


def _code_of(command: Callable[[], object]) -> int:
    try:
        code = command()
    except (OutputError, SystemExit):
        raise
    except JudgeEvalError as error:
        return _report(error)
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


def _report(error: JudgeEvalError, resumes: bool = True) -> int:
    """Print an error with how to go on; return the exit code."""
    _complain_of_settings(str(error))
    kept = error.run_folder is not None and Path(error.run_folder).is_dir()  # it may have been deleted
    if error.run_folder and kept:
        advise_resume(error.run_folder, resumes)
    # Resuming does not help if the key, the settings or the data are at fault.
    if isinstance(error, FatalCallError) and error.needs_credit:
        return CREDIT
    is_users = isinstance(error, FatalCallError | ConfigError | DataError)
    return INCOMPLETE if isinstance(error, MissError) or (kept and not is_users) else USAGE


def _show_usage(error: Any) -> None:
    """Print what is wrong with the command line; a bare command shows its help."""
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return
    if error.ctx is not None:
        for line in error.ctx.get_usage().splitlines():
            remark(line)
        remark(f"Try '{error.ctx.command_path} --help' for help.")
    _complain_of_settings(error.format_message())


def _complain_of_settings(text: str) -> None:
    """Print an error; if it may be about a setting of the configuration, also the file that sets it."""
    complain(text)
    if (settings := blamed(text)) is not None:
        remark(settings)


def _fault(error: Exception) -> str:
    """Write the traceback of an unexpected error to a file, without keys; return the message."""
    secrets = environment_secrets()
    text = mask("".join(traceback.format_exception(error)), secrets)
    summary = mask(f"{type(error).__name__}: {error}"[:300], secrets)
    try:
        number, name = tempfile.mkstemp(prefix="judge-eval-", suffix=".txt")
        with os.fdopen(number, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
        where = f"its traceback is in {name}"
    except OSError:
        where = "its traceback could not be written to a temporary file"
    return f"unexpected {summary}; this is a fault of judge-eval, please report it: {where}"


def advise_resume(folder: str, resumes: bool = True) -> None:
    """Print how to go on with a run that ended early; `resumes`: whether the verb has the flag."""
    remark(_resuming(folder, resumes))


def _resuming(folder: str, resumes: bool) -> str:
    from judge_eval.runs.keeping.mirror import is_mirror, shown

    # Behind a URL, whose password is not shown, the same command finds the run by the name of its folder.
    path = Path(folder)
    mirrored = is_mirror(path.parent)
    again = f"the same command with --resume {path.name if mirrored else folder}" if resumes else "the same command"
    return f"the run is kept in {shown(path.parent) if mirrored else folder}; {again} continues where it stopped"


def _how_it_goes_on(flags: Mapping[str, Any], begun: float, *, in_batch: bool) -> Iterator[str]:
    """Say where the work of a command that was stopped is kept, and which command continues it."""
    from judge_eval.runs.folder.journal import MANIFEST
    from judge_eval.runs.folder.run import load_manifest

    # Only what is on this machine is looked at: a storage that does not answer must not delay the end.
    judges = in_batch or ({"cache", "model"} <= flags.keys() and not {"host", "live"} & flags.keys())
    places = ("*", "cascade-*/*/*") if judges and "out" in flags else ()  # of runs, and of those of a fit
    paths = [path for place in places for path in Path(flags["out"]).glob(f"{place}/{MANIFEST}")]
    for path in sorted(paths, key=lambda path: path.stat().st_mtime, reverse=True):
        if path.stat().st_mtime < begun:
            break
        with suppress(JudgeEvalError):
            if load_manifest(path.parent).status == "interrupted":
                yield _resuming(str(path.parent), "resume" in flags)
                return
    if in_batch:
        yield f"the batch is kept in {flags['folder']}; the same command continues where it stopped"
    elif "model" in flags and not judges and "host" not in flags:  # a verb with a cache of its own
        yield "the answers so far are kept: the same command does not ask for them again"
    elif judges and flags["cache"] == NONE:
        yield "without a cache no answer is kept: the same command starts again"
    elif judges:
        yield "the answers so far are in the cache: the same command does not ask for them again"


def close(evaluator: Evaluator) -> None:
    """Close an evaluator after its run was kept; if the cache fails then, a remark is enough."""
    try:
        evaluator.close()
    except StoreError as error:
        remark(f"warning: {error}; the run is whole, and a later one would pay for these answers again")
