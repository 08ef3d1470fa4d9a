"""Where a cache lies: its folder, or the URL of its database, read as its driver reads it and refused if ambiguous."""

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from judge_eval.errors import ConfigError
from judge_eval.installed import import_extra
from judge_eval.safe_text import check_spelling_of_place

PROJECT = "project"
"""The name of a project's own cache."""
NONE = "none"
"""What the command line calls no cache."""
FOLDER = ".judge_eval"
"""The folder in a project that holds it."""
_MARKS = ("judge_eval.toml", "pyproject.toml", ".git")  # what lies at the top of a project


def cache_place(setting: str | Path) -> str | Path:
    """Return the folder or database of a setting; `project` is `project_cache`, `./project` a folder."""
    check_spelling_of_place(setting, "the cache")
    if setting == PROJECT:
        return project_cache()
    if setting in (NONE, "off", "false"):
        raise ConfigError(
            f"the cache {setting!r}: `cache=False` (`--cache {NONE}`) means no cache, and `./{setting}` a folder"
        )
    return setting if is_postgres(setting) else Path(setting)


def project_cache() -> Path:
    """Return the cache of a project: `.judge_eval/cache` at its top."""
    # The top is the nearest folder, from the current folder upwards, that holds a judge_eval.toml,
    # a pyproject.toml or a repository; the current one if there is none.
    here = Path.cwd().resolve()
    tops = (folder for folder in (here, *here.parents) if any((folder / mark).exists() for mark in _MARKS))
    return next(tops, here) / FOLDER / "cache"


def keep_out_of_git(folder: Path) -> None:
    """Exclude a project's cache from its repository, because answers hold the data's texts."""
    if folder.parent.name != FOLDER:
        return
    with suppress(OSError), (folder.parent / ".gitignore").open("x", encoding="utf-8") as file:
        file.write("# Made by judge-eval: answers in the cache hold texts of the data.\n*\n")


_MEANT = re.compile(r"^postgres(ql)?(\+\w+)?:", re.IGNORECASE)
_SCHEMES = ("postgresql://", "postgres://")
_SECRET = re.compile("pass|secret", re.IGNORECASE)
_PORTS = re.compile(r"[\d,]*")
_ESCAPE = "in names and passwords write %40 for @, %2F for /, %3A for :, %3F for ?, %23 for # and %25 for %"


@dataclass(frozen=True)
class DatabaseAddress:
    """The address of a database: what may be shown, and what may not."""

    location: str
    """The URL with host, port and name alone."""
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """Passwords as in the URL and as sent; never shown and never written down."""


def is_postgres(cache: object) -> bool:
    """Whether the name of a cache is meant as the URL of a PostgreSQL database."""
    return isinstance(cache, str) and _MEANT.match(cache) is not None


def driver() -> Any:
    """Import the database's driver; raises `ConfigError` if it is not installed."""
    return import_extra("a cache in PostgreSQL needs the driver", "postgres", "psycopg")[0]


def read_database_url(url: str) -> DatabaseAddress:
    """Read a URL with the driver's parser and by the general rules, which must agree; never quote it."""
    if not url.startswith(_SCHEMES):
        raise ConfigError("the cache's URL must start with postgresql://, as in postgresql://host/name")
    psycopg = driver()
    try:
        settings = psycopg.conninfo.conninfo_to_dict(url)
        base = psycopg.conninfo.conninfo_to_dict(url.partition("?")[0])
        parts = urlsplit(url)
        # An @ further on may be the one that ends a password with a slash or a question mark in it.
        clear = not parts.fragment and "@" not in parts.path + parts.query
        same = clear and _seen(base) == _by_rule(url) and _PORTS.fullmatch(str(base.get("port", "")))
    except (psycopg.Error, ValueError):  # each may quote what it could not read
        raise ConfigError(f"the cache's URL cannot be read; write postgresql://host:5432/name, and {_ESCAPE}") from None
    if not same:
        raise ConfigError(f"the cache's URL can be read in more than one way; {_ESCAPE}")
    secrets = [str(value) for name, value in settings.items() if _SECRET.search(name)]
    raw = parts.netloc.rpartition("@")[0].partition(":")[2]
    secrets += [raw, *(pair.partition("=")[2] for pair in parts.query.split("&") if _SECRET.search(pair))]
    return DatabaseAddress(_location(settings), tuple(filter(None, secrets)))


def _seen(settings: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(settings.get(name, "")) for name in ("user", "password", "host", "port", "dbname"))


def _by_rule(url: str) -> tuple[str, ...]:
    parts = urlsplit(url)
    userinfo, _, place = parts.netloc.rpartition("@")
    user, _, password = userinfo.partition(":")
    hosts, ports = [], []
    for each in place.split(","):
        host, colon, port = each.rpartition(":") if not each.endswith("]") else (each, "", "")
        hosts.append((host if colon else each).removeprefix("[").removesuffix("]"))
        ports.append(port if colon else "")
    fields = (user, password, ",".join(hosts), ",".join(ports), parts.path.removeprefix("/"))
    return tuple(map(unquote, fields))


def _location(settings: Mapping[str, Any]) -> str:
    hosts = str(settings.get("host") or "localhost").split(",")
    ports = str(settings.get("port") or "").split(",")
    shown = []
    for place, host in enumerate(hosts):
        port = ports[place] if place < len(ports) else ports[-1]
        shown.append((f"[{host}]" if ":" in host else host) + (f":{port}" if port else ""))
    return f"postgresql://{','.join(shown)}/{settings.get('dbname', '')}".removesuffix("/")
