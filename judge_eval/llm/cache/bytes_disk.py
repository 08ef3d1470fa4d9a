"""diskcache with a disk that stores bytes in the rows, never unpickles, and follows no file name."""

import os
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

import diskcache

from judge_eval.llm.cache.database import APPLICATION_ID, DB, INLINE, SETTINGS


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
        return 0, INLINE, None, sqlite3.Binary(value)

    def fetch(self, mode: object, filename: object, value: object, *_: object) -> bytes | None:
        """Return a stored value; None for one of another kind."""
        return value if mode == INLINE and filename is None and type(value) is bytes else None

    def remove(self, file_path: str) -> None:
        """Leave every file alone: no row of this cache has one."""


def make_database(folder: Path) -> None:
    """Make an empty database in a folder, whole or not at all; an existing one is left alone."""
    # In a private place first: another process never sees a database that is half made, nor is the
    # file ever open to others.
    with tempfile.TemporaryDirectory(prefix=".new-", dir=folder, ignore_cleanup_errors=True) as scratch:
        made = Path(scratch) / DB
        diskcache.Cache(scratch, disk=BytesDisk, **SETTINGS).close()
        with closing(sqlite3.connect(made, isolation_level=None)) as con:
            con.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        made.chmod(0o600)
        try:
            os.link(made, folder / DB)
        except FileExistsError:
            pass
        except OSError:  # a file system without hard links
            if not (folder / DB).exists():
                made.replace(folder / DB)
