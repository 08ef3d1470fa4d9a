"""How options and values are written: an option in a message, for Python and the command line; a value as TOML."""

import json
import re
import shlex
from collections.abc import Mapping
from typing import Any


def option(name: str, value: object = None, *, python: str | None = None) -> str:
    """Name an option in a message: `` `mode="pointwise"` (`--mode pointwise`) ``.

    Args:
        name: The argument in Python, of which the flag is made.
        value: What to set it to; None names the option alone.
        python: What to write in Python if that is another argument.
    """
    flag = f"--{name.replace('_', '-')}"
    if value is None or value is True:
        written = name if value is None else f"{name}=True"
        return f"`{python or written}` (`{flag}`)"
    values = [f"{key}={each}" for key, each in value.items()] if isinstance(value, Mapping) else value
    flags = " ".join(f"{flag} {shlex.quote(str(each))}" for each in (values if isinstance(values, list) else [values]))
    return f"`{python or f'{name}={_literal(value)}'}` (`{flags}`)"


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _literal(value: object) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_text(key)}: {_literal(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_literal, value)) + "]"
    return repr(value) if isinstance(value, int | float) else _text(value)


def toml_key(name: str) -> str:
    """Write a key as TOML."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else toml_value(name)


def toml_value(value: Any) -> str:
    """Write a value as TOML, in one line; what is None in a table is left out."""
    if isinstance(value, Mapping):
        inner = ", ".join(f"{toml_key(key)} = {toml_value(each)}" for key, each in value.items() if each is not None)
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_value, value))}]"
    return _text(value).replace("\x7f", "\\u007f")
