"""Data that lie behind a URL, brought to this machine for as long as they are read."""

import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote

from judge_eval.errors import ConfigError, DataError, mask
from judge_eval.installed import import_extra
from judge_eval.safe_text import public_url, reads_one_way

_URL = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]+(::|://)")


def is_url(name: object) -> bool:
    """Tell whether a name is the URL of something that fsspec reads, such as `s3://bucket/traces.jsonl`."""
    return isinstance(name, str) and _URL.match(name) is not None


def file_system(url: str) -> tuple[Any, str]:
    """Open what a URL lies in: a file system of fsspec, and the path there."""
    (fsspec,) = import_extra(f"{public_url(url)} needs fsspec", "fsspec", "fsspec")
    try:
        place: tuple[Any, str] = fsspec.core.url_to_fs(url)
    except Exception as error:  # some file systems connect when they are made
        raise ConfigError(f"{public_url(url)} cannot be opened: {error_text(error, url)}") from None
    return place


def error_text(error: Exception, url: str) -> str:
    """Return what an error says, in one line, without what the URL keeps secret."""
    if not reads_one_way(url):  # each reader takes another part of it for the password, and may quote it
        return type(error).__name__
    text = " ".join(str(error).split()) or type(error).__name__
    userinfo, at, _ = url.partition("://")[2].rpartition("@")
    password = userinfo.partition(":")[2] if at else ""
    query = url.partition("?")[2].partition("#")[0]
    values = [value for _, value in parse_qsl(query) if len(value) > 3]
    return mask(text.replace(url, public_url(url)), (password, unquote(password), query, *values))


@contextmanager
def local_copy(url: str) -> Iterator[Path]:
    """Bring a file behind a URL to this machine, and remove it afterwards; its suffix stays."""
    system, path = file_system(url)
    name = path.rstrip("/").rpartition("/")[2] or "data"
    with tempfile.TemporaryDirectory(prefix="judge_eval-") as folder:
        target = Path(folder) / name
        try:
            with system.open(path, "rb") as source, target.open("wb") as file:
                shutil.copyfileobj(source, file, 1 << 20)
        except Exception as error:  # each file system has errors of its own, without a common base
            raise DataError(f"cannot be read: {error_text(error, url)}", file=public_url(url)) from None
        yield target
