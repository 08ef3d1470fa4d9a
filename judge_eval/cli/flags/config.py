"""Settings from configuration files, below flags and environment variables in rank."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from inspect import signature
from pathlib import Path
from typing import Any, get_args, get_origin

from judge_eval.errors import ConfigError, advise
from judge_eval.given import read_toml

FILES = ("judge_eval.toml", "pyproject.toml")


@cache
def settings() -> Mapping[str, Mapping[str, bool]]:
    """Return the keys of `[tool.judge_eval]`, each with the parameters it sets.

    They are the fields of the groups that are marked so. Of each parameter it says whether it takes a list.
    """
    from judge_eval.cli.flags.calling import CallingFlags
    from judge_eval.cli.flags.gating import GatingFlags
    from judge_eval.cli.flags.groups import flags_of, setting_of
    from judge_eval.cli.flags.judging import JudgingFlags
    from judge_eval.cli.flags.keeping import KeepingFlags
    from judge_eval.cli.flags.numbers import NumbersFlags
    from judge_eval.cli.flags.reading import ChoosingFlags, ReadingFlags
    from judge_eval.cli.flags.running import RunningFlags
    from judge_eval.cli.flags.serving import ServingFlags

    keys: dict[str, dict[str, bool]] = {}
    for group in (
        JudgingFlags,
        NumbersFlags,
        KeepingFlags,
        CallingFlags,
        GatingFlags,
        ReadingFlags,
        ChoosingFlags,
        RunningFlags,
        ServingFlags,
    ):
        for name, flag in flags_of(group).items():
            mark = setting_of(flag.annotation)
            if mark is not None and mark.file:
                kind = get_args(flag.annotation)[0]
                repeatable = any(get_origin(each) is list for each in get_args(kind))
                keys.setdefault(mark.name or name, {})[name] = repeatable
    return keys


def find_config(start: Path | None = None) -> tuple[Path | None, dict[str, Any]]:
    """Find the nearest configuration, in this folder or one above it.

    `judge_eval.toml` holds the keys at its top; `pyproject.toml` holds them under `[tool.judge_eval]`.

    Returns:
        The file and its settings by parameter name; None and nothing where there is no configuration.

    Raises:
        ConfigError: A file cannot be read, or holds a key that does not exist.
    """
    folder = (start or Path.cwd()).resolve()
    for above in (folder, *folder.parents):
        for name in FILES:
            path = above / name
            if path.is_file():
                values = _read(path)
                if values is not None:
                    return path, values
    return None, {}


def settings_for(verb: Callable[..., Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Keep the settings that a verb's flags are marked for; others of its flags may bear the same name."""
    from judge_eval.cli.flags.groups import setting_of

    marks = {name: setting_of(flag.annotation) for name, flag in signature(verb).parameters.items()}
    return {name: value for name, value in values.items() if (mark := marks.get(name)) and mark.file}


def _read(path: Path) -> dict[str, Any] | None:
    data: Any = read_toml(path)
    if path.name == "pyproject.toml":
        tool = data.get("tool")
        data = tool.get("judge_eval") if isinstance(tool, dict) else None
        if data is None:
            return None
        if not isinstance(data, dict):
            raise ConfigError(f"{path}: tool.judge_eval is not a table; write [tool.judge_eval]")
    values: dict[str, Any] = {}
    keys = settings()
    for key, value in data.items():
        if key not in keys:
            raise ConfigError(f"{path}: no setting {key!r}; {advise(key, sorted(keys))}")
        if isinstance(value, dict):
            value = [f"{name}={_plain(inner)}" for name, inner in value.items()]
        elif isinstance(value, list):
            value = [str(item) for item in value]
        for name, repeatable in keys[key].items():
            values[name] = value if isinstance(value, list) or not repeatable else [str(value)]
    return values


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
