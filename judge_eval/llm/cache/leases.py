"""Leases on the keys of a cache's folder, among the processes of one machine."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Sequence
from pathlib import Path


class Leases:
    """Leases on keys among a machine's processes, by locks on bytes of a file; without locks all are granted."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._keys: set[bytes] = set()
        self._file: int | None = None

    @classmethod
    def at(cls, path: Path) -> Leases:
        """Return the one object of this process for a file."""
        # The system's locks do not tell apart who in a process took them, and closing the file anywhere in
        # the process ends them all.
        return _known.setdefault(path, cls(path))  # one step: no lock that a fork could leave held

    def take(self, keys: Sequence[bytes]) -> list[bool]:
        """Lease keys; False for one that another process, or another task of this one, holds."""
        try:
            import fcntl
        except ImportError:  # not a POSIX system
            return [True] * len(keys)
        with self._lock:
            if self._file is None:
                flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
                self._file = os.open(self._path, flags, 0o600)
            taken = []
            for key in keys:
                free = key not in self._keys
                try:
                    if free:
                        fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _place(key))
                except (BlockingIOError, PermissionError):
                    free = False
                except OSError:  # a file system without locks
                    pass
                if free:
                    self._keys.add(key)
                taken.append(free)
            return taken

    def release(self, keys: Sequence[bytes]) -> None:
        """Give leases back; keys that are not leased are ignored."""
        with self._lock:
            for key in keys:
                if key not in self._keys:
                    continue
                self._keys.discard(key)
                if self._file is not None:
                    import fcntl

                    with contextlib.suppress(OSError):
                        fcntl.lockf(self._file, fcntl.LOCK_UN, 1, _place(key))

    def close(self) -> None:
        """Close the file unless leases are held: closing it would end them."""
        with self._lock:
            if self._file is not None and not self._keys:
                os.close(self._file)
                self._file = None

    def forget(self) -> None:
        """Let go of the file in a forked child, where the leases are not this process's."""
        self._lock, self._keys = threading.Lock(), set()
        self.close()


_known: dict[Path, Leases] = {}


def _place(key: bytes) -> int:
    """The byte that stands for a key; two keys at one byte only wait for each other."""
    return int.from_bytes(key[:8], "big") >> 2
