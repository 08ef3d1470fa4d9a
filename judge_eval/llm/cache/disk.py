"""The store on this machine's disk: a diskcache folder, hardened and never evicting, and the leases on its keys."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any
from weakref import WeakSet

from judge_eval.delimiters import process_secret, stored_secret
from judge_eval.errors import StoreError
from judge_eval.llm.cache import database
from judge_eval.llm.cache.database import DB, check_files, inode, store_error
from judge_eval.llm.cache.store import BusyError, KeyClaim, KeyedRow, Sealer, Store, StoreInfo, check_keys, same_sealer

_BATCH = 500  # SQLite's older limit is 999 parameters; more than 500 gains nothing
_SYNCED = 1.0  # seconds after which written rows are synced to the disk
_PAUSE = 0.005  # seconds between two tries while another process is writing


class DiskStore:
    """Completions in a folder of this machine, shared by its threads and processes.

    A method raises `StoreError` if the cache cannot be read or written; the message says the way out. Nothing
    is opened before the first use, and a folder is made by the first write only. The folder is made with mode
    0700 and its files with 0600. A row counts as written once `put_many` returned: it survives the death of
    the process, and a second later, or once `close` returned, that of the machine. The folder must be on a local
    disk, since SQLite's locks do not hold over NFS. Another process that writes is waited for up to `timeout` seconds.
    """

    remote = False

    def __init__(self, folder: str | Path, *, timeout: float = 60.0) -> None:
        self.folder = Path(folder).expanduser().resolve()
        self.timeout = timeout
        self._path = self.folder / DB
        self._name = str(self._path)
        self._sealer = Sealer.from_environment()
        self._refused: set[tuple[bytes, int]] = set()
        self._lock = threading.Lock()  # held while SQLite works
        self._connection: sqlite3.Connection | None = None
        self._inode = 0
        self._sync: threading.Timer | None = None
        self._leases = Leases.at(self.folder / "cache.lock")
        _watch_forks(self)

    @property
    def corrupt(self) -> int:
        """How many rows were refused so far because they are not what was written."""
        return len(self._refused)

    def __repr__(self) -> str:
        return f"DiskStore({str(self.folder)!r})"

    def __getstate__(self) -> tuple[Path, float, str]:
        return self.folder, self.timeout, self._sealer.mark

    def __setstate__(self, state: tuple[Path, float, str]) -> None:
        DiskStore.__init__(self, state[0], timeout=state[1])
        self._sealer = same_sealer(state[2])

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # at the interpreter's end half of it may be gone
            self._close_connection()

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Look up keys of 32 bytes; None if there is no undamaged row."""
        values: dict[bytes, bytes | None] = {}
        for start in range(0, len(keys), _BATCH):
            part = keys[start : start + _BATCH]
            for key, row in self._run(partial(database.select_rows, keys=part)) or ():
                values[key] = self._sealer.unseal(key, row)
                if values[key] is None:
                    self._refused.add((key, hash(row)))
        return [values.get(key) for key in keys]

    def claim_many(self, keys: Sequence[bytes], *, replacing: bool = False) -> list[KeyClaim]:
        """Lease keys, and look them up: who leased one before may just have stored its row."""
        try:
            try:
                leased = self._leases.take(keys)
            except FileNotFoundError:
                database.make_folder(self.folder)
                leased = self._leases.take(keys)
        except OSError as error:
            raise store_error(self._path, error) from None
        try:
            values = self.get_many(keys)
        except BaseException:
            self._leases.release([key for key, own in zip(keys, leased, strict=True) if own])
            raise
        if not replacing:
            rows = [value is not None for value in values]
            self._leases.release([key for key, own, row in zip(keys, leased, rows, strict=True) if own and row])
            leased = [own and not row for own, row in zip(leased, rows, strict=True)]
        return list(map(KeyClaim, values, leased))

    def put_many(self, items: Sequence[KeyedRow], *, wait: bool = True, claimed: bool = False) -> int:  # noqa: ARG002 # leases here end with their holder only
        """Write all rows in one transaction, or none, and end this process's leases on them.

        Raises `BusyError` if another process is writing, with `wait` after the timeout only.
        """
        check_keys(items)
        if not wait and self._connection is None:
            raise BusyError(f"{self._path}: not open yet")
        self._run(partial(self._insert, items), write=True, wait=wait)
        self._leases.release([key for key, _ in items])
        self._sync_soon()
        return 0

    def release_many(self, keys: Sequence[bytes]) -> None:
        """Give leases back."""
        self._leases.release(keys)

    def info(self) -> StoreInfo:
        """Count rows and bytes; a folder that does not exist holds none."""
        entries = self._run(database.count_rows)
        if entries is None:
            return StoreInfo(str(self.folder), 0, 0, not database.can_make(self.folder))
        names = (DB, DB + "-wal")
        size = sum(path.stat().st_size for path in map(self.folder.joinpath, names) if path.exists())
        return StoreInfo(str(self.folder), entries, size, not database.writable(self._path))

    def clear(self) -> None:
        """Remove every row; where the database is damaged, remove its files (and no others)."""
        try:
            if check_files(self._path) is not None:
                self._run(database.delete_rows, write=True)
        except database.DamagedError:
            if self._path.exists() and not database.writable(self._path):
                raise
            with self._lock:
                self._close_connection()
                try:
                    for name in (DB + "-journal", DB + "-shm", DB + "-wal", DB):
                        (self.folder / name).unlink(missing_ok=True)
                except OSError as error:
                    raise store_error(self._path, error) from None

    def close(self) -> None:
        """Sync what was written, and close the connection; a later use opens it again."""
        with self._lock:
            timer, self._sync = self._sync, None
            self._close_connection()
        if timer is not None:
            timer.cancel()
            with contextlib.suppress(StoreError):  # the rows are written; the disk takes them later
                self.sync()
        self._leases.close()

    def sync(self) -> None:
        """Sync what was written to the disk, so that it survives a power failure."""
        # SQLite does not lock the log: opening it here ends no lock of this process.
        for path in (self._path.with_name(DB + "-wal"), self.folder):
            try:
                descriptor = os.open(path, os.O_RDONLY)
            except OSError:  # closed in order meanwhile, which synced it
                continue
            try:
                os.fsync(descriptor)
            except OSError as error:
                raise store_error(self._path, error) from None
            finally:
                os.close(descriptor)

    def before_fork(self) -> None:
        """Wait for what is running and close the connection, which no fork may inherit."""
        self._lock.acquire()
        self._close_connection()

    def after_fork(self, *, child: bool) -> None:
        """Go on, in a child without leases."""
        if child:
            self._sync = None  # no timer survives a fork
            self._leases.forget()
        self._lock.release()

    def _run(self, work: Callable[[sqlite3.Connection], Any], *, write: bool = False, wait: bool = True) -> Any:
        """Work with the database, waiting for another process up to the timeout; None if there is none to read.

        With `write` the work is one transaction, and the database is made if there is none.
        """
        until = time.monotonic() + self.timeout
        while True:
            try:
                with self._lock:
                    return self._run_now(work, write)
            except BusyError:
                if not wait or time.monotonic() > until:
                    raise
            time.sleep(_PAUSE)

    def _run_now(self, work: Callable[[sqlite3.Connection], Any], write: bool) -> Any:
        try:
            con = self._open(make=write)
            if con is None or not write:
                return con and work(con)
            con.execute("BEGIN IMMEDIATE")
            work(con)
            con.execute("COMMIT")
        except StoreError:
            raise
        except BaseException as error:  # sqlite3's, diskcache's and the system's own share no base
            idle = self._connection is not None and not self._connection.in_transaction
            if idle and getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY:
                raise BusyError(
                    f"{self._path}: another process has held the cache for too long; try again when it is done"
                ) from None
            self._close_connection()  # which takes back what was not committed
            if not isinstance(error, Exception):
                raise
            raise store_error(self._path, error) from None

    def _open(self, *, make: bool) -> sqlite3.Connection | None:
        """Return the connection to the database that is in the folder now."""
        if self._connection is not None and self._inode != inode(self._name):
            self._close_connection()
        if self._connection is None:
            if make and check_files(self._path) is None:
                if os.path.expandvars(self.folder) != str(self.folder):  # diskcache would expand it
                    raise StoreError(f"{self.folder}: the cache's folder cannot hold the name of a variable ($...)")
                from judge_eval.llm.cache.bytes_disk import make_database

                database.make_folder(self.folder)
                make_database(self.folder)
            status = check_files(self._path)
            if status is not None:
                self._connection, self._inode = database.open_database(self._path), status.st_ino
        return self._connection

    def _insert(self, items: Sequence[KeyedRow], con: sqlite3.Connection) -> None:
        database.insert_rows(con, [(key, self._sealer.seal(key, value)) for key, value in items])

    def _sync_soon(self) -> None:
        if self._sync is None:
            self._sync = threading.Timer(_SYNCED, self._sync_now)
            self._sync.daemon = True
            self._sync.start()

    def _sync_now(self) -> None:
        self._sync = None
        with contextlib.suppress(StoreError):  # the next write reports it
            self.sync()

    def _close_connection(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection, self._inode = None, 0


_stores: WeakSet[DiskStore] = WeakSet()
_stopped: list[DiskStore] = []
"""The stores that wait for the end of a fork."""
_stores_lock = threading.Lock()


def _watch_forks(store: DiskStore) -> None:
    """Have a store told of every fork."""
    _register_hooks()
    with _stores_lock:
        _stores.add(store)


@cache
def _register_hooks() -> None:
    # Once for all stores: the system's list of hooks only grows.
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(
            before=_before_fork,
            after_in_parent=partial(_after_fork, child=False),
            after_in_child=partial(_after_fork, child=True),
        )


def _before_fork() -> None:
    _stores_lock.acquire()
    for store in list(_stores):
        store.before_fork()
        _stopped.append(store)


def _after_fork(*, child: bool) -> None:
    while _stopped:
        _stopped.pop().after_fork(child=child)
    _stores_lock.release()


def secret_beside(store: Store | None) -> Callable[[], bytes]:
    """Return what tells the secret of a cache's folder; without such a folder that of this process."""
    # Nothing is read or made before it is called. What it has told it tells again, whatever becomes of the
    # folder, so that a run's requests stay alike.
    return partial(_beside, store.folder) if isinstance(store, DiskStore) else process_secret


@cache
def _beside(folder: Path) -> bytes:
    try:
        database.make_folder(folder)
    except (OSError, StoreError):
        return process_secret()
    return stored_secret(folder)


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
