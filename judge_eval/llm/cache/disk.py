"""The store on this machine's disk: a diskcache folder, hardened and never evicting."""

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any
from weakref import WeakSet

from judge_eval.delimiters import process_secret, stored_secret
from judge_eval.errors import StoreError
from judge_eval.llm.cache import database_file as files
from judge_eval.llm.cache.database_file import DB, INLINE, WAY_OUT, Handles, check_files, inode, store_error
from judge_eval.llm.cache.store import KEY_BYTES, KeyedRow, Sealer, Store, StoreInfo, check_keys, same_sealer
from judge_eval.spelling import option

_BATCH = 500  # SQLite's older limit is 999 parameters; more than 500 gains nothing

_WALK = (
    "SELECT rowid, key, value FROM Cache WHERE raw = 1 AND mode = ? AND filename IS NULL AND rowid > ? "
    "ORDER BY rowid LIMIT ?"
)


class DiskStore:
    """Completions in a folder of this machine, shared by its threads and processes.

    A method raises `StoreError` if the cache cannot be read or written; the message says the way out. Nothing
    is opened before the first use, and a folder is made by the first write only. The folder is made with mode
    0700 and its files with 0600. A row counts as written once `put_many` returned: it survives the death of
    the process, and once `flush` returned that of the machine. The folder must be on a local disk, since
    SQLite's locks do not hold over NFS. Another process that writes is waited for up to `timeout` seconds.
    """

    def __init__(self, folder: str | Path, *, timeout: float = 60.0) -> None:
        self.folder = Path(folder).expanduser().resolve()
        self.timeout = timeout
        self._path = self.folder / DB
        self._open = Handles(self.folder)
        self._sealer = Sealer.from_environment()
        self._refused: set[tuple[bytes, int]] = set()

    @property
    def corrupt(self) -> int:
        """How many rows were refused so far because they are not what was written."""
        return len(self._refused)

    def __getstate__(self) -> tuple[Path, float, str]:
        return self.folder, self.timeout, self._sealer.mark

    def __setstate__(self, state: tuple[Path, float, str]) -> None:
        DiskStore.__init__(self, state[0], timeout=state[1])
        self._sealer = same_sealer(state[2])

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Look up keys of 32 bytes; None if there is no undamaged row."""
        values: dict[bytes, bytes | None] = {}
        with self._reading() as con:
            if con is None:
                return [None] * len(keys)
            for start in range(0, len(keys), _BATCH):
                part = keys[start : start + _BATCH]
                marks = ",".join("?" * len(part))
                rows = con.execute(
                    "SELECT key, mode, filename, value FROM Cache "  # noqa: S608 # only question marks
                    f"WHERE raw = 1 AND key IN ({marks})",
                    part,
                )
                for key, mode, filename, row in rows.fetchall():
                    inline = mode == INLINE and filename is None
                    values[key] = self._sealer.unseal(key, row) if inline else None
                    if values[key] is None:
                        self._refused.add((key, hash(row)))
        return [values.get(key) for key in keys]

    def put_many(self, items: Sequence[KeyedRow]) -> None:
        """Write all rows in one transaction, or none."""
        check_keys(items)
        here = self._open
        with here.writing:
            for _ in range(2):
                self._write(here, items)
                if here.cache_file == inode(self._path):
                    return
                here.close_cache()  # the folder was removed meanwhile: what was written went with it
        raise StoreError(f"{self._path}: the cache is being removed while it is in use; {WAY_OUT}")

    def put_now(self, items: Sequence[KeyedRow]) -> bool:
        """Write all rows in one transaction if nobody else is writing; False if nothing was written."""
        # It takes a twentieth of a millisecond, less than handing the rows to a thread.
        here = self._open
        if here.cache is None or not here.writing.acquire(blocking=False):
            return False
        try:
            _put(here.cache, self._sealed(items), 0)
            return here.cache_file == inode(self._path)
        except Exception as error:  # the way that waits will meet it again and say what it is
            if type(error).__name__ != "Timeout":  # another process is writing, and nothing was begun
                here.close_cache()
            return False
        finally:
            here.writing.release()

    def flush(self) -> None:
        """Have the disk take what was written: then it outlives the machine's end, too."""
        # SQLite does not lock the log: opening it here ends no lock of this process.
        for path in (self._path.with_name(DB + "-wal"), self.folder):
            try:
                descriptor = os.open(path, os.O_RDONLY)
            except OSError:  # closed in order meanwhile, which told the disk
                continue
            try:
                os.fsync(descriptor)
            except OSError as error:
                raise store_error(self._path, error) from None
            finally:
                os.close(descriptor)

    def blocks(self) -> Iterator[list[tuple[bytes, object]]]:
        """Yield every key with its row as it stands, some at a time; other kinds of rows are left out."""
        last = 0
        while True:
            with self._reading() as con:
                rows = con.execute(_WALK, (INLINE, last, _BATCH)).fetchall() if con is not None else []
            if not rows:
                return
            last = rows[-1][0]
            yield [(key, row) for _, key, row in rows if type(key) is bytes and len(key) == KEY_BYTES]

    def info(self) -> StoreInfo:
        """Count rows and bytes; a folder that does not exist holds none."""
        with self._reading() as con:
            if con is None:
                return StoreInfo(str(self.folder), 0, 0, not files.can_make(self.folder))
            ((entries,),) = con.execute("SELECT count(*) FROM Cache").fetchall()
        names = (DB, DB + "-wal")
        size = sum(path.stat().st_size for path in map(self.folder.joinpath, names) if path.exists())
        return StoreInfo(str(self.folder), entries, size, not files.writable(self._path))

    def clear(self) -> None:
        """Remove every row; where the database is damaged, remove its files (and no others)."""
        here = self._open
        with here.writing, here.reading:
            try:
                if self._reader(here) is None:
                    return
                with closing(sqlite3.connect(self._path, timeout=self.timeout, isolation_level=None)) as con:
                    con.execute("DELETE FROM Cache")
                return
            except sqlite3.OperationalError as error:  # full, locked, read-only: not damaged
                raise store_error(self._path, error) from None
            except files.ForeignError:
                raise
            except (StoreError, sqlite3.Error) as error:
                if self._path.exists() and not files.writable(self._path):
                    raise error if isinstance(error, StoreError) else store_error(self._path, error) from None
            here.close_reader()
            here.close_cache()
            try:
                for name in (DB + "-journal", DB + "-shm", DB + "-wal", DB):
                    (self.folder / name).unlink(missing_ok=True)
            except OSError as error:
                raise store_error(self._path, error) from None

    def take_lease(self, key: bytes) -> bool:
        """Lease a key for this process; False while someone else holds it. Ends with the process."""
        here = self._open
        self._watch(here)
        leases = here.leases
        try:
            try:
                return leases.take_lease(key)
            except FileNotFoundError:
                files.make_folder(self.folder)
                return leases.take_lease(key)
        except OSError as error:
            raise store_error(self._path, error) from None

    def release_lease(self, key: bytes) -> None:
        """Give a lease back."""
        self._open.leases.release_lease(key)

    def close(self) -> None:
        """Close the connections; a later use opens them again."""
        here = self._open
        with here.writing, here.reading:
            here.close_reader()
            here.close_cache()
            here.leases.close()

    def before_fork(self) -> None:
        """Wait for what is running and close the connections, which no fork may inherit."""
        self._open.writing.acquire()
        self._open.reading.acquire()
        self._open.close_reader()
        self._open.close_cache()

    def after_fork(self, *, child: bool) -> None:
        """Go on, in a child with locks of its own."""
        before = self._open
        if child:
            self._open = Handles(self.folder)
            before.leases.forget()
        before.reading.release()
        before.writing.release()

    def _sealed(self, items: Sequence[KeyedRow]) -> list[KeyedRow]:
        return [(key, self._sealer.seal(key, value)) for key, value in items]

    def _watch(self, here: Handles) -> None:
        if not here.watched:
            here.watched = True
            _forks.add(self)

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection | None]:
        """Give a connection to one thread; None if there is no database."""
        here = self._open
        # The one that writes keeps the pages it has read, which each of its rows costs the one that reads.
        if here.cache is not None and here.writing.acquire(blocking=False):
            try:
                if here.cache is not None and here.cache_file == inode(self._path):
                    try:
                        yield here.cache.open_connection
                    except sqlite3.Error as error:
                        here.close_cache()
                        raise store_error(self._path, error) from None
                    return
            finally:
                here.writing.release()
        with here.reading:
            con = self._reader(here)
            try:
                yield con
            except sqlite3.Error as error:
                here.close_reader()
                raise store_error(self._path, error) from None

    def _reader(self, here: Handles) -> sqlite3.Connection | None:
        now = inode(self._path)
        if here.reader is not None and here.reader_file == now:
            return here.reader
        here.close_reader()
        status = check_files(self._path)
        if status is not None:
            self._watch(here)
            here.reader, here.reader_file = files.open_reader(self._path), status.st_ino
        return here.reader

    def _writer(self, here: Handles) -> Any:
        if here.cache is None:
            if os.path.expandvars(self.folder) != str(self.folder):  # diskcache would expand it
                raise StoreError(f"{self.folder}: the cache's folder cannot hold the name of a variable ($...)")
            if check_files(self._path) is not None and not files.writable(self._path):
                raise StoreError(
                    f"{self._path}: the cache cannot be written; make it writable or name another folder "
                    f"with {option('cache')}"
                )
            from judge_eval.llm.cache import safe_diskcache as hardened

            files.make_folder(self.folder)
            if check_files(self._path) is None:
                hardened.make_database(self.folder)
            self._watch(here)
            files.open_reader(self._path).close()
            here.cache = hardened.open_cache(self.folder, self.timeout)
            here.cache_file = inode(self._path)
        return here.cache

    def _write(self, here: Handles, items: Sequence[KeyedRow]) -> None:
        try:
            _put(self._writer(here), self._sealed(items), self.timeout)
        except StoreError:
            here.close_cache()  # a failed commit may leave the connection inside its transaction
            raise
        except Exception as error:  # sqlite3's, diskcache's and the system's own, which share no base
            here.close_cache()
            raise store_error(self._path, error) from None


class _Forks:
    """The stores that are told of every fork. The system's list of hooks only grows, so there is one for all."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._forking = threading.Lock()
        self._watched: WeakSet[DiskStore] = WeakSet()
        self._told: list[DiskStore] = []
        self._registered = False

    def add(self, who: DiskStore) -> None:
        with self._lock:
            self._watched.add(who)
            if not self._registered and hasattr(os, "register_at_fork"):
                os.register_at_fork(
                    before=self._before,
                    after_in_parent=partial(self._after, child=False),
                    after_in_child=partial(self._after, child=True),
                )
                self._registered = True

    def _before(self) -> None:
        self._forking.acquire()
        while True:
            self._lock.acquire()
            new = [who for who in self._watched if who not in self._told]
            if not new:
                return  # the lock is held over the fork: nobody opens anything now
            # Released before anybody's own lock is taken, for they take theirs before they come here.
            self._lock.release()
            for who in new:
                who.before_fork()
                self._told.append(who)

    def _after(self, *, child: bool) -> None:
        warned, self._told = self._told, []
        for who in warned:
            who.after_fork(child=child)
        self._lock.release()
        self._forking.release()


_forks = _Forks()


def _put(cache: Any, items: Sequence[KeyedRow], patience: float) -> None:
    cache.wait(patience)
    cache.put_rows(items)


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
