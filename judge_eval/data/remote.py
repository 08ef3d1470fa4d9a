"""Data that lie behind a URL, brought to this machine for as long as they are read."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from judge_eval.errors import ConfigError, DataError, mask, needs_extra

_URL = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]+(::|://)")


def is_url(name: object) -> bool:
    """Tell whether a name is the URL of something that fsspec reads, such as `s3://bucket/traces.jsonl`."""
    return isinstance(name, str) and _URL.match(name) is not None


def public(url: str) -> str:
    """Return a URL without credentials, query and fragment, to be shown."""
    scheme, mark, rest = url.partition("://")
    place = rest.partition("?")[0].partition("#")[0]
    host, slash, path = place.partition("/")
    return f"{scheme}{mark}{host.rpartition('@')[2]}{slash}{path}"


def file_system(url: str) -> tuple[Any, str]:
    """Open what a URL lies in: a file system of fsspec, and the path there.

    Raises:
        ConfigError: fsspec, or its driver for such URLs, is not installed.
    """
    try:
        import fsspec
    except ImportError:
        raise needs_extra(f"{public(url)} needs fsspec", "fsspec") from None
    try:
        place: tuple[Any, str] = fsspec.core.url_to_fs(url)
    except Exception as error:  # some file systems connect when they are made
        raise ConfigError(f"{public(url)} cannot be opened: {error_text(error, url)}") from None
    return place


def error_text(error: Exception, url: str) -> str:
    """Return what an error says, in one line, without what the URL keeps secret."""
    text = " ".join(str(error).split()) or type(error).__name__
    parts = urlsplit(url)
    return mask(text.replace(url, public(url)), (parts.password, parts.query))


@contextmanager
def local_copy(url: str) -> Iterator[Path]:
    """Bring a file behind a URL to this machine, and remove it afterwards; its suffix stays.

    Raises:
        ConfigError: Such URLs cannot be opened here.
        DataError: There is no such file, or it cannot be read.
    """
    system, path = file_system(url)
    name = path.rstrip("/").rpartition("/")[2] or "data"
    with tempfile.TemporaryDirectory(prefix="judge_eval-") as folder:
        target = Path(folder) / name
        try:
            with system.open(path, "rb") as source, target.open("wb") as file:
                shutil.copyfileobj(source, file, 1 << 20)
        except Exception as error:  # each file system has errors of its own, without a common base
            raise DataError(f"cannot be read: {error_text(error, url)}", file=public(url)) from None
        yield target
