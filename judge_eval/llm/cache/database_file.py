"""The file of the disk cache: leases on its keys, checks before it is opened, and its connections."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
import stat
import threading
from pathlib import Path
from typing import Any

from judge_eval.errors import StoreError
from judge_eval.llm.cache.folder import keep_out_of_git
from judge_eval.spelling import option


class Leases:
    """Leases on keys among a machine's processes, by locks on bytes of a file; without locks all hold."""

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

    def take_lease(self, key: bytes) -> bool:
        """Lease a key; False while another process, or another task of this one, holds it."""
        try:
            import fcntl
        except ImportError:  # not a POSIX system
            return True
        with self._lock:
            if key in self._keys:
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
            self._keys.add(key)
            return True

    def release_lease(self, key: bytes) -> None:
        """Give a lease back; one that is not held is ignored."""
        with self._lock:
            if key not in self._keys:
                return
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


DB = "cache.db"
"""The database's name in its folder."""
INLINE = 1
"""diskcache's mode of a value that stands in the row itself, the only one that is read or written."""
APPLICATION_ID = 0x4A455631
"""`JEV1` in the file's header: this program's cache, in its first layout."""
_SCHEMA = "8d21b01d7a5207e51833e5c3479cbaf05afadd117b0ed3ba19def062e25fdc57"
"""SHA-256 of everything the database's schema holds: a table, index, trigger or view more is refused."""

WAY_OUT = f"start afresh with `judge-eval cache clear`, or name another folder with {option('cache')}"


class ForeignError(StoreError):
    """The database belongs to another program: it is neither used nor removed."""


def check_files(path: Path) -> os.stat_result | None:
    """Look at the files of a database without opening it, and return its status; None if there is none."""
    database = None
    for name in (path.name, path.name + "-wal", path.name + "-shm"):
        try:
            status = os.lstat(path.with_name(name))
        except FileNotFoundError:
            continue
        except OSError as error:
            raise StoreError(f"{path}: the cache cannot be read: {error.strerror}; {WAY_OUT}") from None
        if not stat.S_ISREG(status.st_mode):
            raise StoreError(f"{path.with_name(name)}: not a plain file, which the cache needs; {WAY_OUT}")
        if name == path.name:
            database = status
    # A rollback journal names files that SQLite would delete; this database never has one.
    if os.path.lexists(path.with_name(path.name + "-journal")):
        raise StoreError(f"{path}: has a rollback journal, which the cache never writes; {WAY_OUT}")
    if database is not None and database.st_size == 0:
        raise StoreError(f"{path}: the cache's file is empty, so what it held is lost; {WAY_OUT}")
    return database


def writable(path: Path) -> bool:
    """Whether the database and its folder (for the log beside it) can be written by this process."""
    effective = os.access in os.supports_effective_ids
    return all(os.access(each, os.W_OK, effective_ids=effective) for each in (path.parent, path))


def open_reader(path: Path) -> sqlite3.Connection:
    """Open a database for reading, from any thread, after looking over its schema."""
    uri = path.as_uri() + "?mode=rw"
    if not writable(path):
        wal = path.with_name(path.name + "-wal")
        # Without the right to write, the log beside the file cannot be read; one that is not empty holds
        # rows, and the file without them may be inconsistent.
        if wal.exists() and wal.stat().st_size:
            raise StoreError(
                f"{path}: cannot be written and was not closed in order; copy its folder to a "
                f"place that can be written and name it with {option('cache')}"
            )
        uri = path.as_uri() + "?mode=ro&immutable=1"
    con = None
    try:
        con = sqlite3.connect(uri, uri=True, timeout=30, isolation_level=None, check_same_thread=False)
        for pragma in ("trusted_schema=OFF", "query_only=ON", "cell_size_check=ON", "mmap_size=0", "cache_size=-32768"):
            con.execute(f"PRAGMA {pragma}")
        ((application,),) = con.execute("PRAGMA application_id").fetchall()
        rows = con.execute("SELECT type, name, tbl_name, sql FROM sqlite_master").fetchall()
    except sqlite3.Error as error:
        if con is not None:
            con.close()
        raise store_error(path, error) from None
    if application != APPLICATION_ID:
        con.close()
        raise ForeignError(f"{path}: the database of another program; name another folder with {option('cache')}")
    if hashlib.sha256("\n".join(sorted(map(repr, rows))).encode()).hexdigest() != _SCHEMA:
        con.close()
        raise StoreError(f"{path}: somebody changed the build of the cache's tables; {WAY_OUT}")
    return con


_FAULTS = (
    (("full", "no space", "file too large"), "no space left for the cache {}; make room, then resume the run"),
    (
        ("disk i/o error",),
        "the disk refused to read or write the cache {}; see whether it is full, over its quota or failing, then "
        "resume the run",
    ),
    (
        ("readonly", "read-only", "permission"),
        f"the cache cannot be written {{}}; make it writable or name another folder with {option('cache')}",
    ),
    (("locked", "busy"), "another process has held the cache for too long; try again when it is done"),
    (("malformed", "not a database", "no such table"), f"the cache is damaged {{}}; {WAY_OUT}"),
    (("",), f"the cache cannot be used {{}}; {WAY_OUT}"),
)
"""What an error's words mean, the first that fits, and the way out."""


def store_error(path: Path, error: BaseException) -> StoreError:
    """Say what went wrong with a database, and the way out."""
    chain: list[str] = []
    cause: BaseException | None = error
    while cause is not None:  # diskcache hides the cause behind its own error or behind a failed rollback
        chain.append(str(cause) or type(cause).__name__)
        cause = cause.__cause__ or cause.__context__
    text = " ".join(chain).lower()
    message = next(message for words, message in _FAULTS if any(word in text for word in words))
    return StoreError(f"{path}: {message.format(f'({chain[-1]})')}")


def inode(path: Path) -> int:
    """Return which file a path leads to now; 0 if there is none."""
    try:
        return path.stat().st_ino
    except OSError:
        return 0


def can_make(folder: Path) -> bool:
    """Whether a folder exists that can be written, or could be made."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return os.access(folder, os.W_OK, effective_ids=os.access in os.supports_effective_ids)


def make_folder(folder: Path) -> None:
    """Make the folder for its owner alone; close one that holds nothing but a cache to others."""
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        keep_out_of_git(folder)
        return
    status = folder.stat()
    shared = status.st_mode & (stat.S_ISVTX | stat.S_ISGID)  # a folder for others too, such as /tmp
    if status.st_mode & 0o077 and not shared and status.st_uid == getattr(os, "geteuid", int)():
        ours = all(child.name.startswith(("cache.", ".new-")) for child in folder.iterdir())
        if ours:
            folder.chmod(0o700)


class Handles:
    """What one process holds open."""

    def __init__(self, folder: Path) -> None:
        self.reading = threading.Lock()
        self.writing = threading.Lock()
        self.reader: sqlite3.Connection | None = None
        self.reader_file = 0
        self.cache: Any = None
        self.cache_file = 0
        self.watched = False
        self.leases = Leases.at(folder / "cache.lock")

    def close_reader(self) -> None:
        """Close the connection that reads."""
        if self.reader is not None:
            self.reader.close()
        self.reader, self.reader_file = None, 0

    def close_cache(self) -> None:
        """Close the connection that writes."""
        if self.cache is not None:
            self.cache.close()
        self.cache, self.cache_file = None, 0

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # at the interpreter's end half of it may be gone
            self.close_reader()
            self.close_cache()
