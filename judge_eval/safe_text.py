"""Text for people: what others wrote, made safe for where it is shown, and numbers in words."""

import re
from typing import Literal
from unicodedata import category

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
