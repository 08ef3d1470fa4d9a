"""Seals: what tells a row that was written here from one that was damaged, moved or planted."""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Iterator, Sequence
from typing import Protocol

from judge_eval.backends.storing.store import KeyedRow
from judge_eval.errors import ConfigError
from judge_eval.wire import Completion

KEY_VARIABLE = "JUDGE_EVAL_CACHE_KEY"
"""The environment's variable that holds the key of a keyed seal; it is written nowhere."""
_SUM_BYTES = 8
_TAG_BYTES = 16
_SHORTEST = 16
MOST_BYTES = 1 << 26
"""The longest row that is read or written: 64 MiB, a hundred times the longest reply."""


class Sealer:
    """Seals rows: by a checksum, or with a key by an HMAC, which nobody without the key can make.

    A row under another seal is none: with a key rows without one are refused, and without a key those with.

    Args:
        secret: The key; empty for the checksum.
    """

    def __init__(self, secret: bytes = b"") -> None:
        self._secret = secret
        self._length = _TAG_BYTES if secret else _SUM_BYTES

    def __repr__(self) -> str:
        return f"Sealer({'keyed' if self.keyed else 'plain'})"

    @classmethod
    def from_environment(cls) -> Sealer:
        """Make the sealer that `JUDGE_EVAL_CACHE_KEY` asks for.

        Raises:
            ConfigError: The key is too short.
        """
        secret = os.environ.get(KEY_VARIABLE, "").strip()
        if secret and len(secret) < _SHORTEST:
            raise ConfigError(
                f"the key in {KEY_VARIABLE} has fewer than {_SHORTEST} characters; make one with "
                "`python -c 'import secrets; print(secrets.token_hex(32))'`"
            )
        return cls(secret.encode("utf-8", "surrogateescape"))

    @property
    def keyed(self) -> bool:
        """Whether there is a key."""
        return bool(self._secret)

    @property
    def mark(self) -> str:
        """A short text by which two processes find that they have the same key; empty without one."""
        return hmac.digest(self._secret, b"judge_eval cache", "sha256")[:4].hex() if self._secret else ""

    def seal(self, key: bytes, value: bytes) -> bytes:
        """Put the seal over key and value in front of a value."""
        return self._tag(key, value) + value

    def unseal(self, key: bytes, row: object) -> bytes | None:
        """Return the value that was sealed under this key; None where the row is anything else."""
        if type(row) is not bytes or not self._length <= len(row) <= MOST_BYTES:
            return None
        value = row[self._length :]
        return value if hmac.compare_digest(self._tag(key, value), row[: self._length]) else None

    def _tag(self, key: bytes, value: bytes) -> bytes:
        if self._secret:
            return hmac.digest(self._secret, key + value, "sha256")[:_TAG_BYTES]
        return hashlib.sha256(key + value).digest()[:_SUM_BYTES]


def same_sealer(mark: str) -> Sealer:
    """Make this process's sealer, which must be that of the process a store came from.

    Raises:
        ConfigError: `JUDGE_EVAL_CACHE_KEY` is another one here; every row would be paid for again.
    """
    sealer = Sealer.from_environment()
    if sealer.mark != mark:
        raise ConfigError(f"{KEY_VARIABLE} is not the same here as where the cache was opened; set it alike")
    return sealer


class Resealable(Protocol):
    """A store whose rows can be walked through as they stand."""

    def blocks(self) -> Iterator[list[tuple[bytes, object]]]:
        """Yield every key with its sealed row, some at a time."""
        ...

    def put_many(self, items: Sequence[KeyedRow]) -> None:
        """Write rows under the seal in force."""
        ...


def reseal(store: Resealable) -> tuple[int, int]:
    """Put every row that has a plain seal and can be read under the key.

    Returns:
        How many rows were sealed anew, and how many were left because they are not what was written.

    Raises:
        ConfigError: There is no key.
        StoreError: The store cannot be read or written.
    """
    keyed, plain = Sealer.from_environment(), Sealer()
    if not keyed.keyed:
        raise ConfigError(f"there is no key to seal with: set {KEY_VARIABLE}")
    sealed = refused = 0
    for block in store.blocks():
        rows = []
        for key, row in block:
            if keyed.unseal(key, row) is not None:
                continue
            value = plain.unseal(key, row)
            if value is None or not _is_completion(value):
                refused += 1
            else:
                rows.append((key, value))
        store.put_many(rows)
        sealed += len(rows)
    return sealed, refused


def _is_completion(value: bytes) -> bool:
    try:
        Completion.decode(value)
    except ValueError:
        return False
    return True
