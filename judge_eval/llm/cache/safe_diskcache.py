"""diskcache, restricted so that it neither unpickles nor touches a file that a row names."""

import contextlib
import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import diskcache

from judge_eval.errors import StoreError
from judge_eval.llm.cache.database_file import APPLICATION_ID, DB, INLINE
from judge_eval.llm.cache.store import KeyedRow

# Every setting is given, so that none is taken from the file: diskcache keeps its settings there and would evict from 1
# GiB on. Memory mapping is off because a file that is truncated under a map kills the process.
SETTINGS: dict[str, int | str] = {
    "cull_limit": 0,
    "disk_min_file_size": 2**62,
    "disk_pickle_protocol": 5,
    "eviction_policy": "none",
    "size_limit": 2**62,
    "sqlite_auto_vacuum": 1,
    "sqlite_cache_size": 2**13,
    "sqlite_journal_mode": "wal",
    "sqlite_mmap_size": 0,
    "sqlite_synchronous": 1,
    "statistics": 0,
    "tag_index": 0,
}
_COUNTERS = ("count", "hits", "misses", "size")


_PUT = """
    INSERT INTO Cache (key, raw, store_time, access_time, mode, value) VALUES (?, 1, ?, ?, ?, ?)
    ON CONFLICT (key, raw) DO UPDATE SET store_time = excluded.store_time, access_time = excluded.access_time,
    mode = excluded.mode, value = excluded.value, expire_time = NULL, access_count = 0, tag = NULL, size = 0,
    filename = NULL"""
_USED = {
    "__init__", "__enter__", "__exit__", "_con", "_sql", "_sql_retry", "_transact", "transact", "reset",
    "close", "directory", "timeout", "disk", "drop_tag_index",
}  # fmt: skip
"""What of diskcache is used: it makes the tables, keeps its settings and opens transactions."""


class OneConnection(diskcache.Cache):  # type: ignore[misc] # diskcache carries no types
    """A cache with one connection for all threads, which its owner lets in one at a time.

    diskcache keeps a connection in each thread, which nobody else can close; before a fork all have to
    be closed. None of its methods that touch a row can be called.
    """

    _only: sqlite3.Connection | None = None
    _patience: float | None = None

    @property
    def _con(self) -> sqlite3.Connection:
        if self._only is None:
            path = str(Path(self._directory) / DB)
            self._only = sqlite3.connect(path, timeout=self._timeout, isolation_level=None, check_same_thread=False)
            for pragma in ("trusted_schema=OFF", "cell_size_check=ON"):
                self._only.execute(f"PRAGMA {pragma}")
            for name, value in SETTINGS.items():
                if name.startswith("sqlite_"):
                    self.reset(name, value, update=False)
        return self._only

    @property
    def open_connection(self) -> sqlite3.Connection:
        """The one connection, for statements that only read."""
        return self._con

    def put_rows(self, rows: Sequence[KeyedRow]) -> None:
        """Write rows in one transaction, in place of what any row of the same key says."""
        now = time.time()
        # No expiry, no tag, no file, and the one mode: a row is written whole, never read before.
        values = [(sqlite3.Binary(key), now, now, INLINE, sqlite3.Binary(value)) for key, value in rows]
        if len(values) == 1:  # a statement by itself is a transaction, at a third of the price
            try:
                self._con.execute(_PUT, values[0])
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:
                    raise diskcache.Timeout from None
                raise
            return
        with self.transact(retry=False):
            self._con.executemany(_PUT, values)

    def wait(self, seconds: float) -> None:
        """Set how long a transaction waits for another process that is writing."""
        if self._patience != seconds:
            self._con.execute(f"PRAGMA busy_timeout = {int(seconds * 1000)}")
            self._patience = seconds

    def close(self) -> None:
        """Close the connection; a later use opens it again."""
        if self._only is not None:
            self._only.close()
            self._only = self._patience = None


def _refuse(*_: object, **__: object) -> NoReturn:
    raise StoreError("the rows of the cache are read and written by the cache alone")


# Whatever of diskcache could read, unpickle, expire, cull or check a row.
for _name in vars(diskcache.Cache).keys() - _USED:
    if callable(getattr(diskcache.Cache, _name)) and _name not in vars(OneConnection):
        setattr(OneConnection, _name, _refuse)


def make_database(folder: Path) -> None:
    """Make an empty database in a folder, whole or not at all; an existing one is left alone."""
    # In a private place first: another process never sees a database that is half made, nor is the
    # file ever open to others.
    scratch = Path(tempfile.mkdtemp(prefix=".new-", dir=folder))
    try:
        made = scratch / DB
        OneConnection(str(scratch), timeout=60, **SETTINGS).close()
        with contextlib.closing(sqlite3.connect(made, isolation_level=None)) as con:
            con.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        made.chmod(0o600)
        try:
            os.link(made, folder / DB)
        except FileExistsError:
            pass
        except OSError:  # a file system without hard links
            if not (folder / DB).exists():
                made.replace(folder / DB)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def heal_settings(path: Path) -> None:
    """Restore settings in the file that somebody changed: diskcache runs them."""
    with contextlib.closing(sqlite3.connect(path, timeout=60, isolation_level=None)) as con:
        rows = con.execute("SELECT key, value FROM Settings").fetchall()
        ours = {key: value for key, value in rows if key not in _COUNTERS}
        counters = {key: value for key, value in rows if key in _COUNTERS}
        if ours == SETTINGS and all(type(counters.get(key)) is int for key in _COUNTERS):
            return
        con.execute("BEGIN IMMEDIATE")
        try:
            con.execute("DELETE FROM Settings")
            con.executemany("INSERT INTO Settings VALUES (?, ?)", SETTINGS.items())
            con.executemany("INSERT INTO Settings VALUES (?, ?)", [(key, 0) for key in _COUNTERS])
            con.execute("UPDATE Settings SET value = (SELECT count(*) FROM Cache) WHERE key = 'count'")
        except BaseException:
            con.execute("ROLLBACK")
            raise
        con.execute("COMMIT")


def open_cache(folder: Path, timeout: float) -> Any:
    """Open a database that was looked over before."""
    heal_settings(folder / DB)
    return OneConnection(str(folder), timeout=timeout, **SETTINGS)
