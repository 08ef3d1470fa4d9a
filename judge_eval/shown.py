"""Text that others wrote, made safe for where it is shown: a terminal, a log, Markdown, a spreadsheet."""

from __future__ import annotations

import re
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
_JOINER = "\u2060"
"""A sign of no width that keeps two signs from being read as one."""
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""What a cell begins with that a spreadsheet computes; the last four are full-width forms of the first."""


def printable(text: str, keep: str = "\n\t") -> str:
    """Show what would steer a terminal, or hide, as escapes.

    Escaped are control characters (C0, DEL, C1), what turns the direction of text, what has no width, line
    and paragraph separators, lone surrogates, and code points that mean nothing.

    Args:
        text: Any text.
        keep: The control characters that stay.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep or category(c) == "Zs" else _escape(c) for c in text)


def one_line(text: str) -> str:
    """Show a text in one line, so that nothing in it can pass for a line of its own."""
    return printable(text, keep="")


def shortened(text: str, most: int) -> str:
    """Return a text with single spaces for all whitespace, cut with `...` where it is longer than `most`."""
    text = " ".join(text.split())
    return text if len(text) <= most else text[: most - 3] + "..."


def logged(text: str) -> str:
    """Make text safe to be written to a stream: no control character, and no command to a CI server."""
    return _COMMAND.sub(_spell, printable(text))


def markdown(text: str) -> str:
    """Make text safe inside Markdown: one line of plain text, without markup, link or mention.

    GitHub and GitLab look for mentions, addresses and numbers of issues once the markup is gone, so that a
    backslash does not keep them from it; a sign of no width does.
    """
    plain = one_line(" ".join(text.split()))
    escaped = "".join("\\" + c if c in _MARKUP else c for c in plain)
    called = _CALLS.sub(lambda hit: hit[0] + _JOINER, escaped)
    return _LEADING.sub(lambda hit: f"\\{hit[1]}" if hit[1] else f"{hit[2]}\\{hit[3]}", called)


def web_address(href: str | None) -> str | None:
    """Return an address that a page may link to; None for any other scheme or what could break out of it."""
    safe = href is not None and href.isprintable() and re.fullmatch(r"https?://[^\s<>\\]+", href)
    return href if safe else None


def safe_cell(value: object) -> object:
    """Return a table's cell such that no spreadsheet takes a text for a formula: a `'` stands before it.

    Numbers stay what they are.
    """
    return "'" + value if isinstance(value, str) and value.startswith(FORMULA) else value


def _escape(char: str) -> str:
    return repr(char)[1:-1]


def _spell(hit: re.Match[str]) -> str:
    return f"{hit[1]}\\x3a" if hit[1] is not None else "\\x23"
