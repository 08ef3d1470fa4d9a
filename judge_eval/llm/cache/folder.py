"""The folder of a cache."""

from contextlib import suppress
from pathlib import Path

from judge_eval.errors import ConfigError
from judge_eval.llm.cache.database_url import is_postgres
from judge_eval.user_text import check_spelling_of_place

PROJECT = "project"
"""The name of a project's own cache."""
NONE = "none"
"""What the command line calls no cache."""
FOLDER = ".judge_eval"
"""The folder in a project that holds it."""
_MARKS = ("judge_eval.toml", "pyproject.toml", ".git")  # what lies at the top of a project


def cache_place(setting: str | Path) -> str | Path:
    """Return the folder or database of a setting; `project` is `project_cache`, `./project` a folder."""
    check_spelling_of_place(setting, "the cache")
    if setting == PROJECT:
        return project_cache()
    if setting in (NONE, "off", "false"):
        raise ConfigError(
            f"the cache {setting!r}: `cache=False` (`--cache {NONE}`) means no cache, and `./{setting}` a folder"
        )
    return setting if is_postgres(setting) else Path(setting)


def project_cache(start: Path | None = None) -> Path:
    """Return the cache of a project: `.judge_eval/cache` at its top."""
    # The top is the nearest folder, from `start` (the current folder) upwards, that holds a judge_eval.toml,
    # a pyproject.toml or a repository; `start` if there is none.
    here = (start or Path.cwd()).resolve()
    tops = (folder for folder in (here, *here.parents) if any((folder / mark).exists() for mark in _MARKS))
    return next(tops, here) / FOLDER / "cache"


def keep_out_of_git(folder: Path) -> None:
    """Exclude a project's cache from its repository, because answers hold the data's texts."""
    if folder.parent.name != FOLDER:
        return
    with suppress(OSError), (folder.parent / ".gitignore").open("x", encoding="utf-8") as file:
        file.write("# Made by judge-eval: answers in the cache hold texts of the data.\n*\n")
