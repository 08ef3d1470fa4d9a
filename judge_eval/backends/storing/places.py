"""Where a cache is: the folder that a name stands for."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from judge_eval.backends.storing.databaseurl import is_postgres

PROJECT = "project"
"""What stands for a cache of the project's own."""
FOLDER = ".judge_eval"
"""The folder in a project that holds it."""
_MARKS = ("judge_eval.toml", "pyproject.toml", ".git")
"""What lies at the top of a project."""


def cache_place(given: str | Path) -> str | Path:
    """Return the folder or the database that a setting names; `project` is `project_cache`.

    A folder of that name is written as `./project`, or as a `Path`.
    """
    if given == PROJECT:
        return project_cache()
    return given if is_postgres(given) else Path(given)


def project_cache(start: Path | None = None) -> Path:
    """Return the cache of a project: `.judge_eval/cache` at its top.

    The top is the nearest folder, from here upwards, that holds a judge_eval.toml, a pyproject.toml or a
    repository; this one where none does.

    Args:
        start: Where to begin; the current folder where None.
    """
    here = (start or Path.cwd()).resolve()
    tops = (folder for folder in (here, *here.parents) if any((folder / mark).exists() for mark in _MARKS))
    return next(tops, here) / FOLDER / "cache"


def keep_out_of_git(folder: Path) -> None:
    """Have a repository pass over a project's cache: answers that were paid for hold the data's texts."""
    if folder.parent.name != FOLDER:
        return
    with suppress(OSError), (folder.parent / ".gitignore").open("x", encoding="utf-8") as file:
        file.write("# Made by judge-eval: answers in the cache hold texts of the data.\n*\n")
