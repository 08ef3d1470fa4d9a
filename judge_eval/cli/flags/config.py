"""Settings from configuration files, below flags and environment variables in rank."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from judge_eval.errors import ConfigError, advise

KEYS: Mapping[str, str] = {
    "model": "model",
    "prompt": "prompt",
    "mode": "mode",
    "judge": "judge_name",
    "metrics": "metrics",
    "out": "out",
    "cache": "cache",
    "base_url": "base_url",
    "param": "param",
    "label": "label",
    "href": "href",
    "tags": "tag",
    "relevant": "relevant",
    "baseline": "baseline",
    "fail_under": "fail_under",
    "max_drop": "max_drop",
    "non_inferior": "non_inferior",
    "interval": "interval",
    "cluster": "cluster",
    "concurrency": "concurrency",
    "timeout": "timeout",
    "rpm": "rpm",
    "tpm": "tpm",
    "attempts": "attempts",
    "max_failures": "max_failures",
    "max_calls": "max_calls",
    "max_tokens": "max_tokens",
    "max_cost": "max_cost",
    "on_invalid": "on_invalid",
    "thresholds": "threshold",
    "format": "format",
    "map": "map",
    "corpus": "corpus",
    "list_sep": "list_sep",
    "depth": "depth",
    "otel": "otel",
    "columnar": "columnar",
}
"""The keys of `[tool.judge_eval]`, each with the parameter it sets."""

REPEATABLE = frozenset({"metrics", "param", "tags"})
"""The keys that take a list; a single text stands for a list of one."""

FILES = ("judge_eval.toml", "pyproject.toml")


def find_config(start: Path | None = None) -> tuple[Path | None, dict[str, Any]]:
    """Find the nearest configuration, in this folder or one above it.

    `judge_eval.toml` holds the keys at its top; `pyproject.toml` holds them under `[tool.judge_eval]`.

    Returns:
        The file and its settings by parameter name; None and nothing where there is no configuration.

    Raises:
        ConfigError: A file cannot be read, or holds a key that does not exist.
    """
    folder = (start or Path.cwd()).resolve()
    for place in (folder, *folder.parents):
        for name in FILES:
            path = place / name
            if path.is_file():
                settings = _read(path)
                if settings is not None:
                    return path, settings
    return None, {}


def _read(path: Path) -> dict[str, Any] | None:
    try:
        data: Any = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: not TOML: {error}") from None
    if path.name == "pyproject.toml":
        tool = data.get("tool")
        ours = tool.get("judge_eval") if isinstance(tool, dict) else None
        if ours is None:
            return None
        if not isinstance(ours, dict):
            raise ConfigError(f"{path}: tool.judge_eval is not a table; write [tool.judge_eval]")
        data = ours
    out: dict[str, Any] = {}
    for key, value in data.items():
        if key not in KEYS:
            raise ConfigError(f"{path}: no setting {key!r}; {advise(key, sorted(KEYS))}")
        if isinstance(value, dict):
            value = [f"{name}={_plain(inner)}" for name, inner in value.items()]
        elif isinstance(value, list):
            value = [str(item) for item in value]
        elif key in REPEATABLE:
            value = [str(value)]
        out[KEYS[key]] = value
    return out


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
