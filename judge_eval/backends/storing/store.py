"""What a store of completions is: bytes by key, read and written in batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias, runtime_checkable

from judge_eval.errors import StoreError

KEY_BYTES = 32
"""The length of every key."""
KeyedRow: TypeAlias = tuple[bytes, bytes]
"""A key and its value."""


@dataclass(frozen=True)
class StoreInfo:
    """What a store says of itself."""

    path: str
    """Where it is, without credentials."""
    entries: int
    """How many rows it holds."""
    bytes: int
    """What it takes on disk, in bytes."""
    read_only: bool
    """Whether nothing can be written to it."""


@runtime_checkable
class Store(Protocol):
    """Bytes by key. Both methods block: the caller decides about threads; both may be called from any."""

    @property
    def corrupt(self) -> int:
        """How many rows were refused so far because they are not what was written."""
        ...

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Look up keys of 32 bytes, answers in their order; None where there is no (undamaged) row.

        Raises:
            StoreError: The store cannot be read.
        """
        ...

    def put_many(self, items: Sequence[KeyedRow]) -> None:
        """Write all rows or none; a row that is there is replaced. They are kept once this returns.

        Raises:
            StoreError: The store cannot be written; it holds what it held before.
        """
        ...

    def info(self) -> StoreInfo:
        """Count what is there.

        Raises:
            StoreError: The store cannot be read.
        """
        ...

    def close(self) -> None:
        """Give back what is open; a later use opens it again."""
        ...


@runtime_checkable
class Immediate(Protocol):
    """A store that can write within a blink, so that an answer is kept in the moment it arrives."""

    def put_now(self, items: Sequence[KeyedRow]) -> bool:
        """Write all rows if that takes no waiting; False where nothing was written, for whatever reason."""
        ...


@runtime_checkable
class Flushing(Protocol):
    """A store whose written rows outlive the process at once, and the machine's end once it was flushed."""

    def flush(self) -> None:
        """Have the disk take what was written.

        Raises:
            StoreError: The disk refuses.
        """
        ...


@runtime_checkable
class Leasing(Protocol):
    """A store shared by processes that can say which of them is asking for what."""

    def take_lease(self, key: bytes) -> bool:
        """Lease a key for this process; False while someone else holds it. Ends with the process."""
        ...

    def release_lease(self, key: bytes) -> None:
        """Give a lease back."""
        ...


class KeyClaim(NamedTuple):
    """What came of asking for a key."""

    value: bytes | None
    """The value of its row; None where there is no undamaged one."""
    leased: bool
    """Whether the key is leased to this process now, which may ask."""
    refused: bool = False
    """Whether there is a row that is not what was written."""


@runtime_checkable
class Claiming(Leasing, Protocol):
    """A store behind a network: what takes several steps elsewhere takes one here, for many keys at once."""

    def claim_many(self, keys: Sequence[bytes]) -> list[KeyClaim]:
        """Look up keys and lease those that have no row and that nobody else holds."""
        ...

    def put_claimed(self, items: Sequence[KeyedRow]) -> int:
        """Write rows and end their leases; what somebody else wrote since stays.

        Returns:
            How many keys had been leased to, or written by, somebody else.
        """
        ...

    def release_many(self, keys: Sequence[bytes]) -> None:
        """Give leases back."""
        ...


def check_keys(items: Sequence[KeyedRow]) -> None:
    """See that every key is of the right length.

    Raises:
        StoreError: One is not.
    """
    if any(len(key) != KEY_BYTES for key, _ in items):
        raise StoreError(f"a key of the cache has {KEY_BYTES} bytes")
