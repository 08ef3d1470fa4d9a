"""What people give as text: parameters, prompts, files of settings."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from judge_eval.errors import ConfigError


def read_params(pairs: Iterable[str], where: str) -> dict[str, Any]:
    """Read parameters written as `NAME=VALUE`; a value is JSON where it reads as JSON, else text.

    Blanks around name and value are not of them; a text that begins with one is written as JSON.

    Args:
        pairs: The parameters.
        where: What they were given by, for the message.

    Raises:
        ConfigError: One has no name, or no `=`.
    """
    params: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = (part.strip() for part in pair.partition("="))
        if not equals or not name:
            # What is not understood may be a key that stands in the wrong place.
            shown = pair if len(pair) < 8 else f"{pair[:6]}..."
            raise ConfigError(f"{where} {shown!r}: write NAME=VALUE, such as temperature=0")
        try:
            params[name] = json.loads(value)
        except ValueError:
            params[name] = value
        except RecursionError:
            raise ConfigError(f"{where} {name}: nested too deeply") from None
    return params


def check_text(where: str, *values: str | None) -> None:
    """See that texts are Unicode, as every file of a run is.

    Args:
        where: What they were given by, for the message.
        values: The texts.

    Raises:
        ConfigError: One holds a lone surrogate: bytes of the command line that are no UTF-8, for instance.
    """
    for value in values:
        try:
            (value or "").encode()
        except UnicodeEncodeError:
            raise ConfigError(f"{where} {value!r} is no Unicode text (UTF-8); write it anew") from None


def prompt_name(given: str) -> str | Path:
    """Tell a prompt's id from a file: `file:PATH` is a file, everything else an id."""
    return Path(given[5:]) if given.startswith("file:") else given


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file.

    Raises:
        ConfigError: It cannot be read, or is not TOML.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: not TOML: {error}") from None
