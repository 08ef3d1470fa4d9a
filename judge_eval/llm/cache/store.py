"""Where a cache is, what a store of completions must do, and the seals of its rows."""

from __future__ import annotations

import hashlib
import hmac
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol, TypeAlias, runtime_checkable

from judge_eval.errors import ConfigError, StoreError
from judge_eval.safe_text import check_spelling_of_place

PROJECT = "project"
"""The name of a project's own cache."""
NONE = "none"
"""What the command line calls no cache."""
FOLDER = ".judge_eval"
"""The folder in a project that holds it."""
_MARKS = ("judge_eval.toml", "pyproject.toml", ".git")  # what lies at the top of a project
_MEANT = re.compile(r"^postgres(ql)?(\+\w+)?:", re.IGNORECASE)


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


def is_postgres(cache: object) -> bool:
    """Whether the name of a cache is meant as the URL of a PostgreSQL database."""
    return isinstance(cache, str) and _MEANT.match(cache) is not None


KEY_VARIABLE = "JUDGE_EVAL_CACHE_KEY"
"""The environment's variable that holds the key of a keyed seal; it is written nowhere."""
_SUM_BYTES = 8
_TAG_BYTES = 16
_SHORTEST = 16
MOST_BYTES = 1 << 26
"""The longest row that is read or written: 64 MiB, a hundred times the longest reply."""


class Sealer:
    """Seals rows by a checksum, or with a key (`secret`) by an HMAC, which nobody without it can make.

    A row under another seal is refused: with a key those without one, and without a key those with one.
    """

    def __init__(self, secret: bytes = b"") -> None:
        self._secret = secret
        self._length = _TAG_BYTES if secret else _SUM_BYTES

    def __repr__(self) -> str:
        return f"Sealer({'keyed' if self._secret else 'plain'})"

    @classmethod
    def from_environment(cls) -> Sealer:
        """Make the sealer with the key `JUDGE_EVAL_CACHE_KEY`; raises `ConfigError` if it is too short."""
        secret = os.environ.get(KEY_VARIABLE, "").strip()
        if secret and len(secret) < _SHORTEST:
            raise ConfigError(
                f"the key in {KEY_VARIABLE} has fewer than {_SHORTEST} characters; make one with "
                "`python -c 'import secrets; print(secrets.token_hex(32))'`"
            )
        return cls(secret.encode("utf-8", "surrogateescape"))

    @property
    def mark(self) -> str:
        """A short text by which two processes compare their keys; empty without one."""
        return hmac.digest(self._secret, b"judge_eval cache", "sha256")[:4].hex() if self._secret else ""

    def seal(self, key: bytes, value: bytes) -> bytes:
        """Put the seal over key and value in front of a value."""
        return self._tag(key, value) + value

    def unseal(self, key: bytes, row: object) -> bytes | None:
        """Return the value that was sealed under this key; None if the row is anything else."""
        if type(row) is not bytes or not self._length <= len(row) <= MOST_BYTES:
            return None
        value = row[self._length :]
        return value if hmac.compare_digest(self._tag(key, value), row[: self._length]) else None

    def _tag(self, key: bytes, value: bytes) -> bytes:
        if self._secret:
            return hmac.digest(self._secret, key + value, "sha256")[:_TAG_BYTES]
        return hashlib.sha256(key + value).digest()[:_SUM_BYTES]


def same_sealer(mark: str) -> Sealer:
    """Make this process's sealer; raises `ConfigError` if its key is not that of the given mark."""
    sealer = Sealer.from_environment()
    if sealer.mark != mark:
        raise ConfigError(f"{KEY_VARIABLE} differs from that of the process that opened the cache; set the same")
    return sealer


KEY_BYTES = 32
"""The length of every key."""
KeyedRow: TypeAlias = tuple[bytes, bytes]
"""A key and its value."""


@dataclass(frozen=True)
class StoreInfo:
    """Place, size and state of a store."""

    path: str
    """Where it is, without credentials."""
    entries: int
    """How many rows it holds."""
    bytes: int
    """What it takes on disk, in bytes."""
    read_only: bool
    """Whether nothing can be written to it."""


class KeyClaim(NamedTuple):
    """The result of a claim of a key."""

    value: bytes | None
    """The value of its row; None if there is no undamaged one."""
    leased: bool
    """Whether this process now has the lease, and may ask."""
    refused: bool = False
    """Whether there is a row that is not what was written."""


class BusyError(StoreError):
    """Another process is writing."""


@runtime_checkable
class Store(Protocol):
    """Bytes by key of 32 bytes, shared by processes, which lease the keys that they ask for.

    Methods block, may be called from any thread, and raise `StoreError`. A lease ends with its process.
    """

    @property
    def remote(self) -> bool:
        """Whether a call takes the time of a network, so that it belongs in a thread."""

    @property
    def corrupt(self) -> int:
        """How many rows were refused so far because they are not what was written."""

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Look up keys, in their order; None for one without an undamaged row."""

    def claim_many(self, keys: Sequence[bytes], *, replacing: bool = False) -> list[KeyClaim]:
        """Look up keys, and lease those without a row and without another lease; `replacing`: with a row, too."""

    def put_many(self, items: Sequence[KeyedRow], *, wait: bool = True, claimed: bool = False) -> int:
        """Write all rows or none, and end this process's leases on them; they are kept once this returns.

        Without `wait` a store of this machine raises `BusyError` while another process is writing. With `claimed`,
        rows that another process wrote meanwhile stay; returns how many keys another one has leased or written.
        """

    def release_many(self, keys: Sequence[bytes]) -> None:
        """Give leases back."""

    def info(self) -> StoreInfo:
        """Count the stored replies."""

    def close(self) -> None:
        """Give back what is open; a later use opens it again."""


def check_keys(items: Sequence[KeyedRow]) -> None:
    """Raise `StoreError` unless every key has the right length."""
    if any(len(key) != KEY_BYTES for key, _ in items):
        raise StoreError(f"a key of the cache has {KEY_BYTES} bytes")
