"""Planting rows and code in a cache, as somebody who can write to its folder."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from judge_eval.llm.cache.disk import DiskStore

KEY = b"k" * 32
OTHER = b"o" * 32


class Bomb:
    """Creates a file when it is unpickled."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return os.mkdir, (str(self.canary),)


def edit(folder: Path, statement: str, *values: object) -> None:
    """Change the database as somebody with a plain SQLite would."""
    with closing(sqlite3.connect(folder / "cache.db")) as con, con:
        con.execute(statement, values)


def use_all(folder: Path) -> DiskStore:
    """Read, count, overwrite, close and clear."""
    store = DiskStore(folder)
    store.get_many([KEY, OTHER])
    store.info()
    store.put_many([(KEY, b"new"), (OTHER, b"new")])
    assert store.get_many([KEY, OTHER]) == [b"new", b"new"]
    store.clear()
    store.close()
    return store
