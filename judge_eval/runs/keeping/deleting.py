"""Removing a run, if nobody is writing it."""

from __future__ import annotations

import shutil
from pathlib import Path
from uuid import uuid4

from judge_eval.errors import RunError
from judge_eval.files import hold, open_plain
from judge_eval.runs.folder.files import os_errors


class BusyRunError(RunError):
    """A process is writing the run."""


def delete_run(folder: Path) -> None:
    """Remove a run with everything in its folder.

    Raises:
        BusyRunError: A process is judging it.
        FileNotFoundError: It is gone already.
        RunError: The folder cannot be changed.
    """
    if is_being_written(folder):
        raise BusyRunError("the run cannot be deleted while a process is judging it")
    grave = folder.parent / f".deleted-{uuid4()}"
    if not folder.is_dir():
        raise FileNotFoundError(folder)
    with os_errors("the run cannot be deleted"):
        folder.rename(grave)  # in one step: no reader ever sees half a run
    shutil.rmtree(grave, ignore_errors=True)


def is_being_written(folder: Path) -> bool:
    """Tell whether a process holds the lock of a run's folder."""
    try:
        with open_plain(folder / ".lock") as file:
            return not hold(file, wait=False)
    except FileNotFoundError:
        return False
    except OSError:
        return True
