"""The database of the disk cache: the checks before it is opened, and every statement on it."""

from __future__ import annotations

import hashlib
import os
import sqlite3
import stat
import time
from collections.abc import Sequence
from pathlib import Path

from judge_eval.errors import StoreError
from judge_eval.llm.cache.place import keep_out_of_git
from judge_eval.spelling import option

DB = "cache.db"
"""The database's name in its folder."""
INLINE = 1
"""diskcache's mode of a value that stands in the row itself, the only one that is read or written."""
APPLICATION_ID = 0x4A455631
"""`JEV1` in the file's header: this program's cache, in its first layout."""
_SCHEMA = "8d21b01d7a5207e51833e5c3479cbaf05afadd117b0ed3ba19def062e25fdc57"
"""SHA-256 of everything the database's schema holds: a table, index, trigger or view more is refused."""

# What diskcache makes the database with; nothing reads these settings from the file afterwards. Without them it would
# evict from 1 GiB on. Memory mapping is off because a file that is truncated under a map kills the process.
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

WAY_OUT = f"start afresh with `judge-eval cache clear`, or name another folder with {option('cache')}"


class DamagedError(StoreError):
    """The database cannot be used as it is, and may be removed."""


_PUT = """
    INSERT INTO Cache (key, raw, store_time, access_time, mode, value) VALUES (?, 1, ?, ?, ?, ?)
    ON CONFLICT (key, raw) DO UPDATE SET store_time = excluded.store_time, access_time = excluded.access_time,
    mode = excluded.mode, value = excluded.value, expire_time = NULL, access_count = 0, tag = NULL, size = 0,
    filename = NULL"""


def check_files(path: Path) -> os.stat_result | None:
    """Look at the files of a database without opening it, and return its status; None if there is none."""
    database = None
    for name in (path.name, path.name + "-wal", path.name + "-shm"):
        try:
            status = os.lstat(path.with_name(name))
        except FileNotFoundError:
            continue
        except OSError as error:
            raise DamagedError(f"{path}: the cache cannot be read: {error.strerror}; {WAY_OUT}") from None
        if not stat.S_ISREG(status.st_mode):
            raise DamagedError(f"{path.with_name(name)}: not a plain file, which the cache needs; {WAY_OUT}")
        if name == path.name:
            database = status
    # A rollback journal names files that SQLite would delete; this database never has one.
    if os.path.lexists(path.with_name(path.name + "-journal")):
        raise DamagedError(f"{path}: has a rollback journal, which the cache never writes; {WAY_OUT}")
    if database is not None and database.st_size == 0:
        raise DamagedError(f"{path}: the cache's file is empty, so what it held is lost; {WAY_OUT}")
    return database


def writable(path: Path) -> bool:
    """Whether the database and its folder (for the log beside it) can be written by this process."""
    effective = os.access in os.supports_effective_ids
    return all(os.access(each, os.W_OK, effective_ids=effective) for each in (path.parent, path))


def open_database(path: Path) -> sqlite3.Connection:
    """Open a database from any thread after looking over its schema, for reading alone if it cannot be written.

    Opening waits for another process that holds the whole file, as one does that closes it last; statements do not.
    """
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
        raise store_error(path, error) from None
    if application != APPLICATION_ID:
        con.close()
        raise StoreError(f"{path}: the database of another program; name another folder with {option('cache')}")
    if hashlib.sha256("\n".join(sorted(map(repr, rows))).encode()).hexdigest() != _SCHEMA:
        con.close()
        raise DamagedError(f"{path}: another program changed the schema of the cache; {WAY_OUT}")
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
    damaged = message.endswith(WAY_OUT) and not isinstance(error, sqlite3.OperationalError)
    return (DamagedError if damaged else StoreError)(f"{path}: {message.format(f'({chain[-1]})')}")


def inode(path: str) -> int:
    """Return the inode of the file at a path; 0 if there is none."""
    try:
        return os.stat(path).st_ino  # noqa: PTH116 # a third of the time of Path.stat
    except OSError:
        return 0


def can_make(folder: Path) -> bool:
    """Whether a folder exists that can be written, or could be made."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return os.access(folder, os.W_OK, effective_ids=os.access in os.supports_effective_ids)


def make_folder(folder: Path) -> None:
    """Create the folder with mode 700; an existing one keeps its mode."""
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        keep_out_of_git(folder)


def select_rows(con: sqlite3.Connection, keys: Sequence[bytes]) -> list[tuple[bytes, object]]:
    """Return the keys that have a row, and its value; None for a row of another kind."""
    marks = ",".join("?" * len(keys))
    statement = f"SELECT key, mode, filename, value FROM Cache WHERE raw = 1 AND key IN ({marks})"  # noqa: S608
    rows = con.execute(statement, keys).fetchall()
    return [(key, value if mode == INLINE and filename is None else None) for key, mode, filename, value in rows]


def count_rows(con: sqlite3.Connection) -> int:
    """Count the rows."""
    ((entries,),) = con.execute("SELECT count(*) FROM Cache").fetchall()
    return int(entries)


def insert_rows(con: sqlite3.Connection, rows: Sequence[tuple[bytes, bytes]]) -> None:
    """Write keys with their values, in place of what any row of the same key holds."""
    now = time.time()
    # No expiry, no tag, no file, and the one mode: a row is written whole, never read before.
    con.executemany(_PUT, [(sqlite3.Binary(key), now, now, INLINE, sqlite3.Binary(value)) for key, value in rows])


def delete_rows(con: sqlite3.Connection) -> None:
    """Remove every row."""
    con.execute("DELETE FROM Cache")
