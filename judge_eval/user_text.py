"""What people give as text: parameters, prompts, files of settings."""

import json
import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from judge_eval.errors import ConfigError

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:(?:/|:)")
_CONNINFO = re.compile(r"(?i)(^|\s)(host|hostaddr|port|user|password|passfile|dbname|service)\s*=\s*\S")


def is_address(place: object) -> bool:
    """Return whether a text or a path is meant as a URL: with blanks around it, or a slash lost, too."""
    return _ADDRESS.match(str(place).strip()) is not None


def check_spelling_of_place(place: object, where: str) -> None:
    """Check that the name of a folder, a file or a URL is one thing only; no message quotes it."""
    text = str(place)
    if is_address(text) and text != text.strip():
        raise ConfigError(f"{where}: the address has a blank before or after it; write it without")
    if not is_address(text) and _CONNINFO.search(text):
        raise ConfigError(
            f"{where}: this is the connection string of a database; write postgresql://user@host:5432/name"
        )


def read_params(pairs: Iterable[str], where: str) -> dict[str, Any]:
    """Read parameters written as `NAME=VALUE`; a value is JSON where it reads as JSON, else text."""
    # Blanks around name and value are not of them; a text that begins with one is written as JSON. `where` is
    # what messages say they were given by.
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
    """Check that texts, given by `where`, are Unicode: no bytes of the command line that are not UTF-8."""
    for value in values:
        if value is not None and not isinstance(value, str):
            raise ConfigError(f"{where}: must be a text, not {str(value)[:60]}")
        try:
            (value or "").encode()
        except UnicodeEncodeError:
            raise ConfigError(f"{where} {value!r} is not Unicode text (UTF-8); type it again") from None


def listed_names(text: str) -> list[str]:
    """Split a list of names at commas and blanks outside parentheses: `AP@5,NDCG(gain=exp)@10`."""
    return [name for name in re.split(r"[,\s]+(?![^()]*\))", text) if name]


def prompt_name(text: str) -> str | Path:
    """Tell a prompt's id from a file: `file:PATH`, and a path that ends in `.toml`, is a file, else an id."""
    if text.startswith("file:"):
        return Path(text[5:])
    return Path(text) if text.endswith(".toml") else text


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file. Raises `ConfigError` if it cannot be read, or is not TOML."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: not TOML: {error}") from None
