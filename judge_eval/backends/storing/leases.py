"""Leases: which process is asking for what, told by locks that end with the process."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path


class Leases:
    """Leases on keys, shared by the processes of one machine through locks on bytes of one empty file.

    Where the system has no such locks every lease is granted: a verdict may then be paid by two
    processes at once, but none is lost.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._held: set[bytes] = set()
        self._file: int | None = None

    @classmethod
    def at(cls, path: Path) -> Leases:
        """Return the one object of this process for a file.

        The system's locks do not tell apart who in a process took them, and closing the file anywhere
        in the process ends them all.
        """
        return _known.setdefault(path, cls(path))  # one step: no lock that a fork could leave held

    def take_lease(self, key: bytes) -> bool:
        """Lease a key; False while another process, or another task of this one, holds it."""
        try:
            import fcntl
        except ImportError:  # not a POSIX system
            return True
        with self._lock:
            if key in self._held:
                return False
            if self._file is None:
                flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
                self._file = os.open(self._path, flags, 0o600)
            try:
                fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _place(key))
            except (BlockingIOError, PermissionError):
                return False
            except OSError:  # a file system without locks
                pass
            self._held.add(key)
            return True

    def release_lease(self, key: bytes) -> None:
        """Give a lease back; one that is not held is ignored."""
        with self._lock:
            if key not in self._held:
                return
            self._held.discard(key)
            if self._file is not None:
                import fcntl

                with contextlib.suppress(OSError):
                    fcntl.lockf(self._file, fcntl.LOCK_UN, 1, _place(key))

    def close(self) -> None:
        """Close the file unless leases are held: closing it would end them."""
        with self._lock:
            if self._file is not None and not self._held:
                os.close(self._file)
                self._file = None

    def forget(self) -> None:
        """Let go of the file in a forked child, where the leases are not this process's."""
        self._lock, self._held = threading.Lock(), set()
        self.close()


_known: dict[Path, Leases] = {}


def _place(key: bytes) -> int:
    """The byte that stands for a key; two keys at one byte only wait for each other."""
    return int.from_bytes(key[:8], "big") >> 2
