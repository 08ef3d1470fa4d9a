"""Settings from configuration files, below flags and environment variables in rank."""

import re
from collections.abc import Callable, Mapping
from functools import cache
from inspect import signature
from pathlib import Path
from typing import Any, get_args, get_origin

from judge_eval.cli.flags.common import nearest_config
from judge_eval.cli.flags.groups import is_flagged
from judge_eval.compare.options import Gates
from judge_eval.data.options import ReadOptions
from judge_eval.errors import ConfigError, advise
from judge_eval.runs.options import Selection
from judge_eval.settings import setting_of

_in_force: list[tuple[Path, dict[str, Any]]] = []
"""The configuration of the current command, if there is one."""


@cache
def records() -> tuple[type, ...]:
    """Return the groups of options whose fields may be keys of `[tool.judge_eval]`."""
    from judge_eval.cli.flags.common import KeepingFlags, NumbersFlags
    from judge_eval.cli.flags.judging import CallingFlags, JudgingFlags, RunningFlags
    from judge_eval.server.server_settings import ServerLimits, Serving

    return (
        JudgingFlags, NumbersFlags, KeepingFlags, CallingFlags, Gates, ReadOptions, Selection,
        RunningFlags, Serving, ServerLimits,
    )  # fmt: skip


@cache
def settings() -> Mapping[str, Mapping[str, bool]]:
    """Return the keys of `[tool.judge_eval]` with the parameters each sets, and whether these take a list."""
    from judge_eval.cli.flags.groups import flags_of

    keys: dict[str, dict[str, bool]] = {}
    for record in records():
        for name, flag in flags_of(record).items():
            mark = setting_of(flag.annotation)
            if mark is not None and mark.file:
                kind = get_args(flag.annotation)[0]
                repeatable = any(get_origin(each) is list for each in get_args(kind))
                keys.setdefault(mark.name or name, {})[name] = repeatable
    return keys


def find_config(start: Path | None = None) -> tuple[Path | None, dict[str, Any]]:
    """Find the nearest configuration, in this folder or one above it; None and nothing if there is none."""
    # `judge_eval.toml` holds the keys at its top; `pyproject.toml` holds them under `[tool.judge_eval]`. An
    # unknown key is an error. Its providers, `[provider.NAME]`, are known from then on.
    _in_force.clear()
    path, data = nearest_config(start)
    if "provider" in data or "dialect" in data:
        from judge_eval.providers import begin_project

        begin_project(data, path or "")
    if path is None:
        return None, {}
    values = _values(path, data)
    _in_force.append((path, values))
    return path, values


def blamed(message: str) -> str | None:
    """Return the file of the configuration and which of its settings a message is about; None if none."""
    first = re.match(r"(?:`[^`]*` \(`)?--([a-z-]+)", message)
    if message.startswith("Missing") or (first and is_flagged(first[1].replace("-", "_"))):
        return None  # it is about the command line
    for path, values in _in_force:
        names = [
            name
            for name, value in values.items()
            if not is_flagged(name)
            and (
                re.search(rf"--{name.replace('_', '-')}(?![\w-])", message)
                or any(repr(each) in message for each in (value if isinstance(value, list) else [value]))
            )
        ]
        if names:
            return f"{path} sets {', '.join(names)}"
    return None


def settings_for(verb: Callable[..., Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Keep the settings that a verb's flags are marked for; others of its flags may bear the same name."""
    marks = {name: setting_of(flag.annotation) for name, flag in signature(verb).parameters.items()}
    return {name: value for name, value in values.items() if (mark := marks.get(name)) and mark.file}


def _values(path: Path, data: Mapping[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    keys = settings()
    for key, value in data.items():
        if key == "judge" and isinstance(value, dict):
            if odd := [name for name, table in value.items() if not isinstance(table, dict)]:
                raise ConfigError(f"{path}: judge.{odd[0]} is not a table; write [judge.NAME] for each judge")
            continue
        if key in ("provider", "dialect"):
            continue
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
