"""Text for people: what others wrote, made safe for where it is shown, and what people give, checked."""

import json
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal
from unicodedata import category

from judge_eval.errors import ConfigError

_COMMAND = re.compile(r"^(\s*):(?=:)|#(?=#\w*\[)", re.MULTILINE)
"""What makes a line of a CI log a command: GitHub's `::name::`, Azure's `##vso[` and `##[`, TeamCity's."""
_MARKUP = frozenset("\\`*_[]<>{}|#~&!$^")
_CALLS = re.compile(
    r"(?<![A-Za-z0-9_])@"  # a mention, of people or of a team
    r"|@(?=[\w-]+\.\w)"  # an address of mail
    r"|(?<=:)(?=//)|(?i:\b(?:mailto|xmpp):|\bwww(?=\.))"  # what becomes a link by itself
    r"|(?<=\\[#!~$&])(?=\w)|%(?=\w)|\bGH-(?=\d)"  # numbers of issues, and what GitLab has like them
)
_LEADING = re.compile(r"^(?:([-+=/:])|(\d+)([.)]))")
_JOINER = "\u2060"  # a character of no width that separates two others
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""First characters of a cell that a spreadsheet computes; the last four are full-width forms."""


def printable(text: str, keep: str = "\n\t") -> str:
    """Escape what is not printable, except the characters to `keep`."""
    # These are control characters (C0, DEL, C1), marks of direction, characters without width, line and
    # paragraph separators, lone surrogates, and unassigned code points.
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep or category(c) == "Zs" else repr(c)[1:-1] for c in text)


def one_line(text: str) -> str:
    """Return a text as one line, with line breaks escaped."""
    return printable(text, keep="")


def shortened(text: str, most: int) -> str:
    """Return a text with single spaces for all whitespace, cut with `...` where it is longer than `most`."""
    text = " ".join(text.split())
    return text if len(text) <= most else text[: most - 3] + "..."


def counted(n: int, noun: str, many: str | None = None) -> str:
    """Write a count with its noun (plural `many`, by default with an `s`): `1 trace`, `2,000 traces`."""
    return f"{n:,} {noun if n == 1 else many or noun + 's'}"


def value_kind(value: object) -> str:
    """Name a value's kind for a message: `a text`, `a list`, `an int64`, `nothing`."""
    names = {
        dict: "an object",
        list: "a list",
        bool: "a truth value",
        int: "a number",
        float: "a number",
        str: "a text",
    }
    return "nothing" if value is None else names.get(type(value), type_of(value))


def type_of(value: object) -> str:
    """Name a value's Python type with its article: `an int`, `a DataFrame`, `None`."""
    name = type(value).__name__
    return "None" if value is None else f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def logged(text: str) -> str:
    """Make text safe for a log: without control characters and commands to a CI server."""
    return _COMMAND.sub(_spell, printable(text))


def markdown(text: str) -> str:
    """Make text safe inside Markdown: one line of plain text, without markup, link or mention."""
    # A backslash does not stop GitHub and GitLab from finding mentions, addresses and issue numbers; a
    # character of no width does.
    plain = one_line(" ".join(text.split()))
    escaped = "".join("\\" + c if c in _MARKUP else c for c in plain)
    called = _CALLS.sub(lambda hit: hit[0] + _JOINER, escaped)
    return _LEADING.sub(lambda hit: f"\\{hit[1]}" if hit[1] else f"{hit[2]}\\{hit[3]}", called)


def web_address(href: str | None) -> str | None:
    """Return an HTTP address that a page may link to; None for any other text."""
    safe = href is not None and href.isprintable() and re.fullmatch(r"https?://[^\s<>\\]+", href)
    return href if safe else None


def safe_cell(value: object) -> object:
    """Put a `'` before a text that a spreadsheet would take for a formula; leave all else as it is."""
    return "'" + value if isinstance(value, str) and value.startswith(FORMULA) else value


def _spell(hit: re.Match[str]) -> str:
    return f"{hit[1]}\\x3a" if hit[1] is not None else "\\x23"


_HOST = re.compile(r"(\[[^\]]*\]|[^:\[\]]*)(:\d{0,5})?")
"""A host and its port; other text after a colon may be a password."""
_SLASHED = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]+:)/?([^/].*)$", re.DOTALL)  # a URL that lacks a slash or two
_HIDDEN = "***"


def public_url(url: str) -> str:
    """Return a URL without credentials, query and fragment, to be shown; another text stays."""
    # A password that is not escaped is ambiguous: `user:a/b@host` has a password for one reader and the port
    # `a` for another. `***` replaces what any reader takes for a password: all between the first colon and
    # the last `@`, and the whole rest if a `?` or `#` is before that.
    scheme, mark, rest = url.partition("://")
    if not mark:
        slashed = _SLASHED.match(url)
        return url if slashed is None or "@" not in url else f"{slashed[1]}//{_public_rest(slashed[2])}"
    return f"{scheme}://{_public_rest(rest)}"


_USERINFO = re.compile(
    r"""([A-Za-z][A-Za-z0-9+.-]*:/{1,3})(?:[^\s/@'"<>]+@|[^\s/:'"<>]*:[^\s'"<>]*@)"""
    r"""|(\bpassword\s*=\s*)[^\s'"]+""",
    re.IGNORECASE,
)
"""What stands before the host of an address in a sentence, or behind `password=`."""


def without_passwords(text: str) -> str:
    """Return a sentence with `***` in place of the credentials of addresses in it."""
    if "@" not in text and "password" not in text.lower():
        return text
    return _USERINFO.sub(lambda hit: f"{hit[1]}{_HIDDEN}@" if hit[1] else f"{hit[2]}{_HIDDEN}", text)


def reads_one_way(url: str) -> bool:
    """Return whether every reader finds the same credentials in a URL, or none."""
    return _HIDDEN not in public_url(url)


def _public_rest(rest: str) -> str:
    head, at, tail = rest.rpartition("@")
    before = re.split("[/?#]", rest, maxsplit=1)[0]
    if not at:
        return _without_userinfo(rest)
    if "?" in head or "#" in head:
        # In a query value or in a password: the begin of the host is unknown.
        plain = ":" not in head and "@" not in before and "/" in re.split("[?#]", head, maxsplit=1)[0]
        return _cut(rest) if plain else _HIDDEN
    if "/" not in head:
        return _cut(tail)
    if ":" in head:
        return f"{_HIDDEN}@{_cut(tail)}"
    return _cut(rest[before.rfind("@") + 1 :])  # the last @ belongs to the path


def _without_userinfo(rest: str) -> str:
    """Show a rest without `@`: hosts with their ports, and URLs in a chain (`zip://a.csv::s3://bucket/b.zip`)."""
    links = _cut(rest).split("::")
    hosts = links[0].partition("/")[0].split(",")
    if rest.startswith("["):
        return _cut(rest) if _HOST.fullmatch(_cut(rest).partition("/")[0]) else _HIDDEN
    if not all(_HOST.fullmatch(host) for host in hosts):
        return _HIDDEN
    return "::".join([links[0], *map(public_url, links[1:])])


def _cut(place: str) -> str:
    return re.split("[?#]", place, maxsplit=1)[0]


def number(value: float | None) -> str:
    """Write a mean with four decimals; `none` if there is none."""
    return "none" if value is None else f"{value:.4f}"


def interval(value: tuple[float, float] | None, sign: Literal["-", "+"] = "-") -> str:
    """Write an interval with four decimals, under `+` with its signs; empty if there is none."""
    return "" if value is None else f"[{value[0]:{sign}.4f}, {value[1]:{sign}.4f}]"


def signed_pair(value: float, ends: tuple[float, float] | None) -> str:
    """Write a difference with its interval, both with signs: `-0.187 [-0.225, -0.148]`."""
    # Three decimals; up to six if fewer would show a number that is not 0 as 0.
    numbers = [value, *(ends or ())]
    digits = next((n for n in range(3, 6) if all(not x or abs(x) >= 0.5 * 10**-n for x in numbers)), 6)
    span = "without an interval" if ends is None else f"[{ends[0]:+.{digits}f}, {ends[1]:+.{digits}f}]"
    return f"{value:+.{digits}f} {span}"


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


HOLDS_KEY = re.compile(r"(?i)(^|_)(api_?key|access_key|key|token|secret|password|passwd|pat)$|^pgpassword$")
"""The names of environment variables that hold a key or a password."""
LEAST_KEY = 8
"""The fewest characters of what is taken for one."""
_CREDENTIAL = re.compile(
    r"(api|access|auth|secret|subscription|private)keys?$|(authorization|cookies?|passwords?|passwd)$"
    r"|(access|auth|bearer|api|security|refresh|hf)tokens?$|^(x?tokens?|bearer|secrets?)$"
    r"|(client|shared)secret$|^credentials?$"
)


def refuse_credentials(params: Mapping[str, Any]) -> None:
    """Raise `ConfigError` if a parameter holds a key: parameters are written into runs and cache keys."""
    known = [value for name, value in os.environ.items() if HOLDS_KEY.search(name) and len(value) >= LEAST_KEY]
    for name, value in params.items():
        place = _credential(name, value, known, ())
        if place is not None:
            raise ConfigError(
                f"the parameter {place} holds a credential, and parameters are written into the run; set the "
                "environment variable OPENAI_API_KEY, which is sent as `Authorization: Bearer ...`; for a "
                "server that wants a password write the base URL as https://user:password@host/v1"
            )


def _credential(name: str, value: Any, known: list[str], above: tuple[str, ...]) -> str | None:
    """Name the place of a credential in a parameter; None if there is none."""
    path = (*above, name)
    plain = re.sub(r"[^a-z0-9]", "", name.lower())
    # Deeper down the name may be that of a field in a JSON schema; only a text or a list is a value of it.
    if value is not None and _CREDENTIAL.search(plain) and (not above or isinstance(value, str | list)):
        return ".".join(path)
    if isinstance(value, str):
        telling = any(secret in value for secret in known) or re.match(r"(?i)(bearer|basic)\s+\S{8}", value)
        return ".".join(path) if telling else None
    if isinstance(value, Mapping):
        inner = [(str(key), each) for key, each in value.items()]
    elif isinstance(value, list | tuple):
        inner = [(str(number), each) for number, each in enumerate(value)]
    else:
        return None
    places = (_credential(key, each, known, path) for key, each in inner)
    return next(filter(None, places), None)


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
