"""The store on this machine's disk: a diskcache folder, hardened and never evicting, and the leases on its keys."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any
from weakref import WeakSet

from judge_eval.delimiters import process_secret, stored_secret
from judge_eval.errors import StoreError
from judge_eval.llm.cache import database_file as files
from judge_eval.llm.cache.database_file import DB, WAY_OUT, check_files, inode, store_error
from judge_eval.llm.cache.store import (
    KEY_BYTES,
    BusyError,
    KeyClaim,
    KeyedRow,
    Sealer,
    Store,
    StoreInfo,
    check_keys,
    same_sealer,
)
from judge_eval.spelling import option

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
        self._reader: sqlite3.Connection | None = None
        self._reader_inode = 0
        self._writer: sqlite3.Connection | None = None
        self._writer_inode = 0
        self._sync: threading.Timer | None = None
        self._leases = Leases.at(self.folder / "cache.lock")
        self._registered = False

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
            self._close_connections()

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Look up keys of 32 bytes; None if there is no undamaged row."""
        values: dict[bytes, bytes | None] = {}
        for start in range(0, len(keys), _BATCH):
            part = keys[start : start + _BATCH]
            for key, row in self._read(partial(files.select_rows, keys=part)) or ():
                values[key] = self._sealer.unseal(key, row)
                if values[key] is None:
                    self._refused.add((key, hash(row)))
        return [values.get(key) for key in keys]

    def claim_many(self, keys: Sequence[bytes], *, replacing: bool = False) -> list[KeyClaim]:
        """Lease keys, and look them up: who leased one before may just have stored its row."""
        self._register()
        try:
            try:
                leased = self._leases.take(keys)
            except FileNotFoundError:
                files.make_folder(self.folder)
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
        if not wait and self._writer is None:
            raise BusyError(f"{self._path}: not open yet")
        for _ in range(2):
            self._change(partial(self._insert, items), wait=wait)
            if self._writer_inode == inode(self._name):
                self._leases.release([key for key, _ in items])
                self._sync_soon()
                return 0
            with self._lock:
                self._close_writer()  # the folder was removed meanwhile: what was written went with it
        raise StoreError(f"{self._path}: the cache is being removed while it is in use; {WAY_OUT}")

    def release_many(self, keys: Sequence[bytes]) -> None:
        """Give leases back."""
        self._leases.release(keys)

    def info(self) -> StoreInfo:
        """Count rows and bytes; a folder that does not exist holds none."""
        entries = self._read(files.count_rows)
        if entries is None:
            return StoreInfo(str(self.folder), 0, 0, not files.can_make(self.folder))
        names = (DB, DB + "-wal")
        size = sum(path.stat().st_size for path in map(self.folder.joinpath, names) if path.exists())
        return StoreInfo(str(self.folder), entries, size, not files.writable(self._path))

    def blocks(self) -> Iterator[list[tuple[bytes, object]]]:
        """Yield every key with its row as it stands, some at a time; other kinds of rows are left out."""
        last = 0
        while rows := self._read(partial(files.select_next, last=last, count=_BATCH)):
            last = rows[-1][0]
            yield [(key, row) for _, key, row in rows if type(key) is bytes and len(key) == KEY_BYTES]

    def clear(self) -> None:
        """Remove every row; where the database is damaged, remove its files (and no others)."""
        try:
            if check_files(self._path) is not None:
                self._change(files.delete_rows)
        except files.DamagedError:
            if self._path.exists() and not files.writable(self._path):
                raise
            with self._lock:
                self._close_connections()
                try:
                    for name in (DB + "-journal", DB + "-shm", DB + "-wal", DB):
                        (self.folder / name).unlink(missing_ok=True)
                except OSError as error:
                    raise store_error(self._path, error) from None

    def close(self) -> None:
        """Sync what was written, and close the connections; a later use opens them again."""
        with self._lock:
            timer, self._sync = self._sync, None
            self._close_connections()
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
        """Wait for what is running and close the connections, which no fork may inherit."""
        self._lock.acquire()
        self._close_connections()

    def after_fork(self, *, child: bool) -> None:
        """Go on, in a child without leases."""
        if child:
            self._sync = None  # no timer survives a fork
            self._leases.forget()
        self._lock.release()

    def _insert(self, items: Sequence[KeyedRow], con: sqlite3.Connection) -> None:
        files.insert_rows(con, [(key, self._sealer.seal(key, value)) for key, value in items])

    def _read(self, work: Callable[[sqlite3.Connection], Any]) -> Any:
        """Read with the connection for reading; None if there is no database."""
        self._register()
        with self._lock:
            now = inode(self._name)
            if self._reader is None or self._reader_inode != now:
                self._close_reader()
                status = check_files(self._path)
                if status is None:
                    return None
                self._reader, self._reader_inode = files.open_reader(self._path), status.st_ino
            try:
                return work(self._reader)
            except sqlite3.Error as error:
                self._close_reader()
                raise store_error(self._path, error) from None

    def _change(self, work: Callable[[sqlite3.Connection], object], *, wait: bool = True) -> None:
        """Write in one transaction, waiting for another process up to the timeout."""
        self._register()
        until = time.monotonic() + self.timeout
        while True:
            try:
                with self._lock:
                    self._change_now(work)
                return
            except BlockingIOError as error:
                if not wait or time.monotonic() > until:
                    raise BusyError(
                        f"{self._path}: another process has held the cache for too long ({error}); "
                        "try again when it is done"
                    ) from None
            time.sleep(_PAUSE)

    def _change_now(self, work: Callable[[sqlite3.Connection], object]) -> None:
        try:
            with files.transaction(self._open_writer()) as con:
                work(con)
        except BlockingIOError:
            raise
        except StoreError:
            self._close_writer()
            raise
        except Exception as error:  # sqlite3's, diskcache's and the system's own, which share no base
            self._close_writer()  # a failed commit may leave the connection inside its transaction
            raise store_error(self._path, error) from None

    def _open_writer(self) -> sqlite3.Connection:
        if self._writer is None:
            if os.path.expandvars(self.folder) != str(self.folder):  # diskcache would expand it
                raise StoreError(f"{self.folder}: the cache's folder cannot hold the name of a variable ($...)")
            if check_files(self._path) is not None and not files.writable(self._path):
                raise StoreError(
                    f"{self._path}: the cache cannot be written; make it writable or name another folder "
                    f"with {option('cache')}"
                )
            from judge_eval.llm.cache.bytes_disk import make_database

            files.make_folder(self.folder)
            if check_files(self._path) is None:
                make_database(self.folder)
            files.open_reader(self._path).close()
            self._writer, self._writer_inode = files.open_writer(self._path), inode(self._name)
        return self._writer

    def _sync_soon(self) -> None:
        if self._sync is None:
            self._sync = threading.Timer(_SYNCED, self._sync_now)
            self._sync.daemon = True
            self._sync.start()

    def _sync_now(self) -> None:
        self._sync = None
        with contextlib.suppress(StoreError):  # the next write reports it
            self.sync()

    def _close_connections(self) -> None:
        self._close_reader()
        self._close_writer()

    def _close_reader(self) -> None:
        if self._reader is not None:
            self._reader.close()
        self._reader, self._reader_inode = None, 0

    def _close_writer(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._writer, self._writer_inode = None, 0

    def _register(self) -> None:
        """Have the connections closed before a fork."""
        if not self._registered:
            _forks.add(self)
            self._registered = True


class _Forks:
    """The stores that are told of every fork. The system's list of hooks only grows, so there is one for all."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stores: WeakSet[DiskStore] = WeakSet()
        self._stopped: list[DiskStore] = []
        self._registered = False

    def add(self, store: DiskStore) -> None:
        """Add a store, whose lock must not be held by the caller."""
        with self._lock:
            self._stores.add(store)
            if not self._registered and hasattr(os, "register_at_fork"):
                os.register_at_fork(
                    before=self._before,
                    after_in_parent=partial(self._after, child=False),
                    after_in_child=partial(self._after, child=True),
                )
                self._registered = True

    def _before(self) -> None:
        self._lock.acquire()
        for store in list(self._stores):
            store.before_fork()
            self._stopped.append(store)

    def _after(self, *, child: bool) -> None:
        stopped, self._stopped = self._stopped, []
        for store in stopped:
            store.after_fork(child=child)
        self._lock.release()


_forks = _Forks()


def secret_beside(store: Store | None) -> Callable[[], bytes]:
    """Return what tells the secret of a cache's folder; without such a folder that of this process."""
    # Nothing is read or made before it is called. What it has told it tells again, whatever becomes of the
    # folder, so that a run's requests stay alike.
    return partial(_beside, store.folder) if isinstance(store, DiskStore) else process_secret


@cache
def _beside(folder: Path) -> bytes:
    try:
        files.make_folder(folder)
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
