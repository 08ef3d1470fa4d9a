"""The store on this machine's disk: diskcache's table, hardened and never evicting, and the leases on its keys."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any
from weakref import WeakSet

from judge_eval.delimiters import process_secret, stored_secret
from judge_eval.errors import StoreError
from judge_eval.llm.cache import store
from judge_eval.spelling import option

DB = "cache.db"
"""The database's name in its folder, which is diskcache's."""
_INLINE = 1  # diskcache's mode of a value that stands in the row itself, the only one that is read or written
_APPLICATION_ID = 0x4A455631  # `JEV1` in the file's header: this program's cache, in its first layout
_SCHEMA = "8d21b01d7a5207e51833e5c3479cbaf05afadd117b0ed3ba19def062e25fdc57"
"""SHA-256 of everything the database's schema holds: a table, index, trigger or view more is refused."""

_SELECT = "SELECT key, mode, filename, value FROM Cache WHERE raw = 1 AND key IN ({})"
_PUT = """
    INSERT INTO Cache (key, raw, store_time, access_time, mode, value) VALUES (?, 1, ?, ?, ?, ?)
    ON CONFLICT (key, raw) DO UPDATE SET store_time = excluded.store_time, access_time = excluded.access_time,
    mode = excluded.mode, value = excluded.value, expire_time = NULL, access_count = 0, tag = NULL, size = 0,
    filename = NULL"""
_BATCH = 500  # SQLite's older limit is 999 parameters; more than 500 gains nothing
_SYNCED = 1.0  # seconds after which written rows are synced to the disk
_PAUSE = 0.005  # seconds between two tries while another process is writing

_WAY_OUT = f"start afresh with `judge-eval cache clear`, or name another folder with {option('cache')}"


class DamagedError(StoreError):
    """The database cannot be used as it is, and may be removed."""


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
        self._sealer = store.Sealer.from_environment()
        self._refused: set[tuple[bytes, int]] = set()
        self._lock = threading.Lock()  # held while SQLite works
        self._connection: sqlite3.Connection | None = None
        self._inode = 0
        self._sync: threading.Timer | None = None
        self._leases = Leases.at(self.folder / "cache.lock")
        _register_hooks()
        with _stores_lock:
            _stores.add(self)

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
        self._sealer = store.same_sealer(state[2])

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # at the interpreter's end half of it may be gone
            self._close_connection()

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Look up keys of 32 bytes; None if there is no undamaged row."""
        values: dict[bytes, bytes | None] = {}
        for start in range(0, len(keys), _BATCH):
            part = keys[start : start + _BATCH]
            for key, mode, filename, value in self._run(_SELECT.format(",".join("?" * len(part))), part):
                row = value if mode == _INLINE and filename is None else None
                values[key] = self._sealer.unseal(key, row)
                if values[key] is None:
                    self._refused.add((key, hash(row)))
        return [values.get(key) for key in keys]

    def claim_many(self, keys: Sequence[bytes], *, replacing: bool = False) -> list[store.KeyClaim]:
        """Lease keys, and look them up: who leased one before may just have stored its row."""
        try:
            try:
                leased = self._leases.take(keys)
            except FileNotFoundError:
                _make_folder(self.folder)
                leased = self._leases.take(keys)
        except OSError as error:
            raise _store_error(self._path, error) from None
        try:
            values = self.get_many(keys)
        except BaseException:
            self._leases.release([key for key, own in zip(keys, leased, strict=True) if own])
            raise
        kept = [own and (replacing or value is None) for own, value in zip(leased, values, strict=True)]
        self._leases.release([key for key, own, keeps in zip(keys, leased, kept, strict=True) if own and not keeps])
        return list(map(store.KeyClaim, values, kept))

    def put_many(self, items: Sequence[store.KeyedRow], *, wait: bool = True, claimed: bool = False) -> int:  # noqa: ARG002 # leases here end with their holder only
        """Write all rows in one transaction, or none, and end this process's leases on them.

        Raises `BusyError` if another process is writing, with `wait` after the timeout only.
        """
        store.check_keys(items)
        if not wait and self._connection is None:
            raise store.BusyError(f"{self._path}: not open yet")
        now = time.time()
        # Sealed within the transaction, once it has begun, so that a fault undoes it.
        rows = ((key, now, now, _INLINE, self._sealer.seal(key, value)) for key, value in items)
        self._run(_PUT, rows, write=True, wait=wait)
        self._leases.release([key for key, _ in items])
        self._sync_soon()
        return 0

    def release_many(self, keys: Sequence[bytes]) -> None:
        """Give leases back."""
        self._leases.release(keys)

    def info(self) -> store.StoreInfo:
        """Count rows and bytes; a folder that does not exist holds none."""
        counts = self._run("SELECT count(*) FROM Cache")
        if not counts:
            return store.StoreInfo(str(self.folder), 0, 0, not _can_make(self.folder))
        names = (DB, DB + "-wal")
        size = sum(path.stat().st_size for path in map(self.folder.joinpath, names) if path.exists())
        return store.StoreInfo(str(self.folder), counts[0][0], size, not _writable(self._path))

    def clear(self) -> None:
        """Remove every row; where the database is damaged, remove its files (and no others)."""
        try:
            if _check_files(self._path) is not None:
                self._run("DELETE FROM Cache", [()], write=True)
        except DamagedError:
            if self._path.exists() and not _writable(self._path):
                raise
            with self._lock:
                self._close_connection()
                try:
                    for name in (DB + "-journal", DB + "-shm", DB + "-wal", DB):
                        (self.folder / name).unlink(missing_ok=True)
                except OSError as error:
                    raise _store_error(self._path, error) from None

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
                raise _store_error(self._path, error) from None
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

    def _run(self, statement: str, values: Any = (), *, write: bool = False, wait: bool = True) -> list[Any]:
        """Return the rows of a statement, waiting for another process up to the timeout; none without a database.

        With `write` it is executed for each of the values, all or none, and the database is made if there is none.
        """
        until = time.monotonic() + self.timeout
        while True:
            try:
                with self._lock:
                    return self._run_now(statement, values, write)
            except store.BusyError:
                if not wait or time.monotonic() > until:
                    raise
            time.sleep(_PAUSE)

    def _run_now(self, statement: str, values: Any, write: bool) -> list[Any]:
        try:
            con = self._open(make=write)
            if con is None or not write:
                return con.execute(statement, values).fetchall() if con is not None else []
            con.execute("BEGIN IMMEDIATE")
            con.executemany(statement, values)
            con.execute("COMMIT")
            return []
        except StoreError:
            raise
        except BaseException as error:  # sqlite3's, diskcache's and the system's own share no base
            idle = self._connection is not None and not self._connection.in_transaction
            if idle and getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY:
                raise store.BusyError(
                    f"{self._path}: another process has held the cache for too long; try again when it is done"
                ) from None
            self._close_connection()  # which takes back what was not committed
            if not isinstance(error, Exception):
                raise
            raise _store_error(self._path, error) from None

    def _open(self, *, make: bool) -> sqlite3.Connection | None:
        """Return the connection to the database that is in the folder now."""
        if self._connection is not None and self._inode != _inode(self._name):
            self._close_connection()
        if self._connection is None:
            if make and _check_files(self._path) is None:
                if os.path.expandvars(self.folder) != str(self.folder):  # diskcache would expand it
                    raise StoreError(f"{self.folder}: the cache's folder cannot hold the name of a variable ($...)")
                from judge_eval.llm.cache.bytes_disk import make_database

                _make_folder(self.folder)
                make_database(self.folder, _APPLICATION_ID)
            status = _check_files(self._path)
            if status is not None:
                self._connection, self._inode = _open_database(self._path), status.st_ino
        return self._connection

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


def _check_files(path: Path) -> os.stat_result | None:
    """Look at the files of a database without opening it, and return its status; None if there is none."""
    database = None
    for name in (path.name, path.name + "-wal", path.name + "-shm"):
        try:
            status = os.lstat(path.with_name(name))
        except FileNotFoundError:
            continue
        except OSError as error:
            raise DamagedError(f"{path}: the cache cannot be read: {error.strerror}; {_WAY_OUT}") from None
        if not stat.S_ISREG(status.st_mode):
            raise DamagedError(f"{path.with_name(name)}: not a plain file, which the cache needs; {_WAY_OUT}")
        if name == path.name:
            database = status
    # A rollback journal names files that SQLite would delete; this database never has one.
    if os.path.lexists(path.with_name(path.name + "-journal")):
        raise DamagedError(f"{path}: has a rollback journal, which the cache never writes; {_WAY_OUT}")
    if database is not None and database.st_size == 0:
        raise DamagedError(f"{path}: the cache's file is empty, so what it held is lost; {_WAY_OUT}")
    return database


def _writable(path: Path) -> bool:
    """Whether the database and its folder (for the log beside it) can be written by this process."""
    return _can_write(path.parent) and _can_write(path)


def _open_database(path: Path) -> sqlite3.Connection:
    """Open a database from any thread after looking over its schema, for reading alone if it cannot be written.

    Opening waits for another process that holds the whole file, as one does that closes it last; statements do not.
    """
    uri = path.as_uri() + "?mode=rw"
    if not _writable(path):
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
        con = sqlite3.connect(uri, uri=True, timeout=60, isolation_level=None, check_same_thread=False)
        for pragma in ("trusted_schema=OFF", "cell_size_check=ON", "mmap_size=0", "synchronous=NORMAL"):
            con.execute(f"PRAGMA {pragma}")
        ((application,),) = con.execute("PRAGMA application_id").fetchall()
        rows = con.execute("SELECT type, name, tbl_name, sql FROM sqlite_master").fetchall()
        con.execute("PRAGMA cache_size=-32768")
        con.execute("PRAGMA busy_timeout=0")
    except sqlite3.Error as error:
        if con is not None:
            con.close()
        raise _store_error(path, error) from None
    if application != _APPLICATION_ID:
        con.close()
        raise StoreError(f"{path}: the database of another program; name another folder with {option('cache')}")
    if hashlib.sha256("\n".join(sorted(map(repr, rows))).encode()).hexdigest() != _SCHEMA:
        con.close()
        raise DamagedError(f"{path}: another program changed the schema of the cache; {_WAY_OUT}")
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
    (("malformed", "not a database", "no such table"), f"the cache is damaged {{}}; {_WAY_OUT}"),
    (("",), f"the cache cannot be used {{}}; {_WAY_OUT}"),
)
"""What an error's words mean, the first that fits, and the way out."""


def _store_error(path: Path, error: BaseException) -> StoreError:
    chain: list[str] = []
    cause: BaseException | None = error
    while cause is not None:  # diskcache hides the cause behind its own error or behind a failed rollback
        chain.append(str(cause) or type(cause).__name__)
        cause = cause.__cause__ or cause.__context__
    text = " ".join(chain).lower()
    message = next(message for words, message in _FAULTS if any(word in text for word in words))
    damaged = message.endswith(_WAY_OUT) and not isinstance(error, sqlite3.OperationalError)
    return (DamagedError if damaged else StoreError)(f"{path}: {message.format(f'({chain[-1]})')}")


def _inode(path: str) -> int:
    """Return the inode of the file at a path; 0 if there is none."""
    try:
        return os.stat(path).st_ino  # noqa: PTH116 # a third of the time of Path.stat
    except OSError:
        return 0


def _can_make(folder: Path) -> bool:
    """Whether a folder exists that can be written, or could be made."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return _can_write(folder)


def _can_write(path: Path) -> bool:
    return os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids)


def _make_folder(folder: Path) -> None:
    """Create the folder with mode 700; an existing one keeps its mode."""
    if folder.exists():
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.parent.name == store.FOLDER:  # a project's, whose repository must not hold the data's texts
        with contextlib.suppress(OSError), (folder.parent / ".gitignore").open("x", encoding="utf-8") as file:
            file.write("# Made by judge-eval: answers in the cache hold texts of the data.\n*\n")


_stores: WeakSet[DiskStore] = WeakSet()
_stopped: list[DiskStore] = []
"""The stores that wait for the end of a fork."""
_stores_lock = threading.Lock()


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
    for each in list(_stores):
        each.before_fork()
        _stopped.append(each)


def _after_fork(*, child: bool) -> None:
    while _stopped:
        _stopped.pop().after_fork(child=child)
    _stores_lock.release()


def secret_beside(cache_store: store.Store | None) -> Callable[[], bytes]:
    """Return what tells the secret of a cache's folder; without such a folder that of this process."""
    # Nothing is read or made before it is called. What it has told it tells again, whatever becomes of the
    # folder, so that a run's requests stay alike.
    return partial(_beside, cache_store.folder) if isinstance(cache_store, DiskStore) else process_secret


@cache
def _beside(folder: Path) -> bytes:
    try:
        _make_folder(folder)
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
            held = self._keys.intersection(keys)
            self._keys -= held
            if held and self._file is not None:
                import fcntl

                for key in held:
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
