"""diskcache with a disk that stores bytes in the rows, never unpickles, and follows no file name."""

import os
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

import diskcache
from diskcache.core import DBNAME, MODE_RAW

# What diskcache makes the database with; nothing reads these settings from the file afterwards. Without them it
# would evict from 1 GiB on. Memory mapping is off because a file that is truncated under a map kills the process.
_SETTINGS: dict[str, int | str] = {
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


class BytesDisk(diskcache.Disk):  # type: ignore[misc] # diskcache carries no types
    """How keys and values are stored: as bytes, in the row itself.

    diskcache hands a key or a value from its database to these methods only. None of them reads a pickle or a file,
    whatever a row says, so CVE-2025-69872 does not apply.
    """

    def put(self, key: bytes) -> tuple[sqlite3.Binary, bool]:
        """Return how a key is stored."""
        return sqlite3.Binary(key), True

    def get(self, key: object, raw: object) -> bytes:
        """Return a stored key; empty bytes for one of another kind."""
        return key if raw == 1 and type(key) is bytes else b""

    def store(self, value: bytes, *_: object, **__: object) -> tuple[int, int, None, sqlite3.Binary]:
        """Return size, mode, file name and value of a row."""
        return 0, MODE_RAW, None, sqlite3.Binary(value)

    def fetch(self, mode: object, filename: object, value: object, *_: object) -> bytes | None:
        """Return a stored value; None for one of another kind."""
        return value if mode == MODE_RAW and filename is None and type(value) is bytes else None

    def remove(self, file_path: str) -> None:
        """Leave every file alone: no row of this cache has one."""


def make_database(folder: Path, application_id: int) -> None:
    """Make an empty database in a folder, whole or not at all; an existing one is left alone."""
    # In a private place first: another process never sees a database that is half made, nor is the
    # file ever open to others.
    with tempfile.TemporaryDirectory(prefix=".new-", dir=folder, ignore_cleanup_errors=True) as scratch:
        made = Path(scratch) / DBNAME
        diskcache.Cache(scratch, disk=BytesDisk, **_SETTINGS).close()
        with closing(sqlite3.connect(made, isolation_level=None)) as con:
            con.execute(f"PRAGMA application_id = {application_id}")
        made.chmod(0o600)
        try:
            os.link(made, folder / DBNAME)
        except FileExistsError:
            pass
        except OSError:  # a file system without hard links
            if not (folder / DBNAME).exists():
                made.replace(folder / DBNAME)
