"""What of a URL may be shown, by one rule for every kind of URL."""

from __future__ import annotations

import re

_HOST = re.compile(r"(\[[^\]]*\]|[^:\[\]]*)(:\d{0,5})?")
"""A host and its port: what follows its colon are digits, else it may be a password."""
_SLASHED = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]+:)/?([^/].*)$", re.DOTALL)
"""A URL that lacks a slash or two, which somebody meant to be one."""
_HIDDEN = "***"


def public_url(url: str) -> str:
    """Return a URL without credentials, query and fragment, to be shown; a text that is none stays.

    A password that is not escaped can be read in several ways: `user:a/b@host` has a password for one reader
    and the port `a` for another. Whatever is part of a password in any reading is left out: all between the
    first colon and the last `@`, and all of it where a `?` or `#` stands before that. `***` then stands in
    its place.
    """
    scheme, mark, rest = url.partition("://")
    if not mark:
        slashed = _SLASHED.match(url)
        return url if slashed is None or "@" not in url else f"{slashed[1]}//{_public_rest(slashed[2])}"
    return f"{scheme}://{_public_rest(rest)}"


def reads_one_way(url: str) -> bool:
    """Tell whether every reader finds the same credentials in a URL, or none."""
    return _HIDDEN not in public_url(url)


def _public_rest(rest: str) -> str:
    head, at, tail = rest.rpartition("@")
    before = re.split("[/?#]", rest, maxsplit=1)[0]
    if not at:
        return _without_userinfo(rest)
    if "?" in head or "#" in head:
        # Of a query value or of a password: there is no telling where the host begins.
        plain = ":" not in head and "@" not in before and "/" in re.split("[?#]", head, maxsplit=1)[0]
        return _cut(rest) if plain else _HIDDEN
    if "/" not in head:
        return _cut(tail)
    if ":" in head:
        return f"{_HIDDEN}@{_cut(tail)}"
    return _cut(rest[before.rfind("@") + 1 :])  # the last @ is of the path


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
