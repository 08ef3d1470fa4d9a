"""Options in messages: a message names an option, and each front door spells it as its users write it.

`option("mode", "pointwise")` puts a reference into a message. `str()` of an error spells it for Python
(`mode="pointwise"`); the command line, REST and a configuration file spell the same reference as
`--mode pointwise`, `"mode": "pointwise"` and `mode = "pointwise"`.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

_OPEN, _CLOSE = "\x0e", "\x0f"
"""Around a reference; JSON escapes both, so that neither stands inside one."""
_REFERENCE = re.compile(f"{_OPEN}([^{_OPEN}{_CLOSE}]*){_CLOSE}")


@dataclass(frozen=True, slots=True)
class OptionName:
    """An option that a message names."""

    name: str
    """As the argument in Python is called."""
    value: Any = None
    """What to set it to; None where the message names the option alone."""
    python: str | None = None
    """How Python spells it where that is another argument."""


Spelling: TypeAlias = Callable[[OptionName], str]
"""How a front door spells an option."""


def option(name: str, value: object = None, *, python: str | None = None) -> str:
    """Return a reference to an option, to be put into the message of an error."""
    # The name is that of the argument in Python; `python` is the name where that is another argument. Value
    # None names the option alone.
    return f"{_OPEN}{json.dumps([name, value, python], default=str)}{_CLOSE}"


def spell(message: str, spelling: Spelling) -> str:
    """Return a message with each reference spelled; whatever is not a reference stays as it is."""
    return _REFERENCE.sub(lambda match: _spelled(match, spelling), message) if _OPEN in message else message


def _spelled(match: re.Match[str], spelling: Spelling) -> str:
    try:
        name, value, python = json.loads(match[1])
    except (ValueError, TypeError):  # the data that a message quotes may hold the same characters
        return match[0]
    if not isinstance(name, str) or not isinstance(python, str | None):
        return match[0]
    return spelling(OptionName(name, value, python))


def python_spelling(named: OptionName) -> str:
    """Spell an option as an argument: `mode="pointwise"`."""
    if named.python is not None:
        return named.python
    if named.value is None:
        return f"`{named.name}`"
    return f"{named.name}={_literal(named.value)}"


def json_spelling(named: OptionName) -> str:
    """Spell an option as a field of a JSON object: `"mode": "pointwise"`."""
    key = _text(named.name)
    return key if named.value is None else f"{key}: {_text(named.value)}"


def toml_spelling(named: OptionName) -> str:
    """Spell an option as a key of a configuration file: `mode = "pointwise"`."""
    return named.name if named.value is None else f"{named.name} = {toml_value(named.value)}"


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _literal(value: object) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_text(key)}: {_literal(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_literal, value)) + "]"
    return _text(value) if isinstance(value, str) else repr(value)


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
