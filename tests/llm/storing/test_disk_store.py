"""What is written comes back, in a folder of its owner alone, and nothing else is done."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import shutil
import sqlite3
import stat
import threading
from pathlib import Path

import pytest

from judge_eval.errors import StoreError
from judge_eval.llm.cache import disk
from judge_eval.llm.cache.cached import Cached
from judge_eval.llm.cache.disk import DB, DiskStore
from judge_eval.llm.cache.store import BusyError, Store
from tests.support.cache_doubles import Counting, ask, take_lease
from tests.support.diskrows import child, key


def test_disk_store_is_a_store(store: DiskStore) -> None:
    """The disk store has the protocol's methods."""
    assert isinstance(store, Store)


def test_rows_come_back_in_order_across_batches(store: DiskStore) -> None:
    """1,201 keys, asked in any order, present and absent mixed, come back each at its place."""
    store.put_many([(key(n), b"value %d" % n) for n in range(1201)])
    numbers = random.Random(1).sample(range(2402), 2402)
    result = store.get_many([key(n) for n in numbers])
    assert result == [b"value %d" % n if n < 1201 else None for n in numbers]
    assert store.get_many([]) == []
    assert store.get_many([key(3), key(3)]) == [b"value 3"] * 2


def test_new_row_replaces_old(store: DiskStore) -> None:
    """Of two values for a key the later one is found, and there is one row."""
    store.put_many([(key(1), b"old")])
    store.put_many([(key(1), b"new"), (key(2), b"")])
    assert store.get_many([key(1), key(2)]) == [b"new", b""]
    assert store.info().entries == 2


def test_rows_outlive_the_process(tmp_path: Path) -> None:
    """What one process wrote, another reads."""
    code = """if True:
        import sys
        from judge_eval.llm.cache.disk import DiskStore
        DiskStore(sys.argv[1]).put_many([(b"k" * 32, b"v")])
    """
    assert child(code, tmp_path / "c").returncode == 0
    assert DiskStore(tmp_path / "c").get_many([b"k" * 32]) == [b"v"]


def test_large_values_stay_in_the_row(store: DiskStore) -> None:
    """A value of a megabyte is kept in the database, not in a file beside it."""
    store.put_many([(key(1), b"x" * 2**20)])
    assert store.get_many([key(1)]) == [b"x" * 2**20]
    assert {path.name for path in store.folder.iterdir()} <= {"cache.db", "cache.db-wal", "cache.db-shm"}


def test_reading_makes_nothing(tmp_path: Path) -> None:
    """Looking something up, counting and clearing leave a folder that does not exist unmade."""
    store = DiskStore(tmp_path / "none")
    assert store.get_many([key(1)]) == [None]
    assert store.info().entries == 0
    assert not store.info().read_only
    store.clear()
    assert not store.folder.exists()


@pytest.mark.slow
def test_first_use_imports_diskcache_and_not_the_module(tmp_path: Path) -> None:
    """Making a store and reading from it loads no diskcache (and with it no pickle); writing does."""
    code = """if True:
        import sys
        from judge_eval.llm.cache.disk import DiskStore
        store = DiskStore(sys.argv[1])
        store.get_many([b"k" * 32])
        assert "diskcache" not in sys.modules
        store.put_many([(b"k" * 32, b"v")])
        assert "diskcache" in sys.modules
    """
    done = child(code, tmp_path / "c")
    assert done.returncode == 0, done.stderr


def test_keys_of_another_length_are_refused(store: DiskStore) -> None:
    """Only keys of 32 bytes are written."""
    with pytest.raises(StoreError, match="32 bytes"):
        store.put_many([(b"short", b"v")])


def test_folder_and_files_are_private(tmp_path: Path) -> None:
    """Whatever the umask, the folder is 0700 and every file in it 0600."""
    before = os.umask(0)
    try:
        store = DiskStore(tmp_path / "deep" / "cache")
        store.put_many([(key(1), b"v")])
        take_lease(store, key(1))
        assert stat.S_IMODE(store.folder.stat().st_mode) == 0o700
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in store.folder.iterdir()}
        assert set(modes) >= {"cache.db", "cache.lock"}
        assert set(modes.values()) == {0o600}
    finally:
        os.umask(before)


def test_nothing_is_evicted(store: DiskStore) -> None:
    """With a size limit of one byte and an eviction policy planted in the file, every row stays."""
    store.put_many([(key(0), b"v")])
    store.close()
    with sqlite3.connect(store.folder / "cache.db") as con:
        for name, value in (("size_limit", 1), ("cull_limit", 100), ("eviction_policy", "least-recently-used")):
            con.execute("UPDATE Settings SET value = ? WHERE key = ?", (value, name))
        con.execute("UPDATE Cache SET expire_time = 1.0")
    con.close()
    again = DiskStore(store.folder)
    again.put_many([(key(n), b"x" * 1000) for n in range(1, 200)])
    assert None not in again.get_many([key(n) for n in range(200)])
    again.close()


def test_clear_removes_rows_and_gives_space_back(store: DiskStore) -> None:
    """After `clear` there are no rows, the file is small, and the store works on."""
    store.put_many([(key(n), b"x" * 1000) for n in range(1000)])
    store.clear()
    store.close()
    assert store.info().entries == 0
    assert (store.folder / "cache.db").stat().st_size < 100_000
    store.put_many([(key(1), b"v")])
    assert store.get_many([key(1)]) == [b"v"]


def test_clear_while_another_store_is_open(tmp_path: Path) -> None:
    """A store that was open while another one cleared the folder goes on writing what can be found."""
    first, two = DiskStore(tmp_path), DiskStore(tmp_path)
    first.put_many([(key(1), b"v")])
    assert two.get_many([key(1)]) == [b"v"]
    two.clear()
    assert first.get_many([key(1)]) == [None]
    first.put_many([(key(2), b"w")])
    assert two.get_many([key(1), key(2)]) == [None, b"w"]
    first.close()
    two.close()


def test_a_folder_removed_while_open_loses_no_later_row(store: DiskStore) -> None:
    """Rows written after somebody removed the folder are in the new one, not in a file without a name."""
    store.put_many([(key(1), b"v")])
    assert store.get_many([key(1)]) == [b"v"]
    shutil.rmtree(store.folder)
    assert store.get_many([key(1)]) == [None]
    store.put_many([(key(2), b"w")])
    assert DiskStore(store.folder).get_many([key(2)]) == [b"w"]


def test_put_is_all_or_nothing(store: DiskStore) -> None:
    """A batch with a value that cannot be written leaves none of its rows behind."""
    with pytest.raises(StoreError):
        store.put_many([(key(1), b"good"), (key(2), "not bytes")])  # type: ignore[list-item]
    assert store.get_many([key(1)]) == [None]
    store.put_many([(key(1), b"good")])
    assert store.get_many([key(1)]) == [b"good"]


def test_a_folder_named_like_a_variable_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder's name is never expanded to that of another folder."""
    monkeypatch.setenv("ELSEWHERE", "else")
    with pytest.raises(StoreError, match="variable"):
        DiskStore(tmp_path / "$ELSEWHERE").put_many([(key(1), b"v")])
    assert not (tmp_path / "else").exists()


@pytest.mark.timeout(45)  # waiting for the other process would take 60 s
def test_put_without_waiting_writes_or_raises(tmp_path: Path) -> None:
    """Without `wait`: an error while another process writes, or before anything is open; else the row is there."""
    store = DiskStore(tmp_path)

    def is_busy(number: int) -> bool:
        try:
            store.put_many([(key(number), b"value %d" % number)], wait=False)
        except BusyError:
            return True
        return False

    assert is_busy(1)
    store.put_many([(key(1), b"value 1")])
    assert not is_busy(2)
    assert DiskStore(tmp_path).get_many([key(1), key(2)]) == [b"value 1", b"value 2"]
    with contextlib.closing(sqlite3.connect(tmp_path / DB, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert is_busy(3)
        other.execute("ROLLBACK")
    assert store.get_many([key(3)]) == [None]
    assert not is_busy(3)
    store.put_many([(key(4), b"four")])
    assert store.get_many([key(3), key(4)]) == [b"value 3", b"four"]
    shutil.rmtree(tmp_path)
    assert not is_busy(5)
    assert DiskStore(tmp_path).get_many([key(5)]) == [b"value 5"]


def test_what_is_written_is_on_the_disk_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A moment after an answer, and at closing, the disk was told: a power cut from then on loses none."""
    folder, cut = tmp_path / "cache", tmp_path / "cut"
    monkeypatch.setattr(disk, "_SYNCED", 0.02)

    copying = threading.RLock()

    def fsync(descriptor: int) -> None:
        # What the files hold when the disk is told outlives a power cut.
        with copying:
            shutil.rmtree(cut, ignore_errors=True)
            shutil.copytree(folder, cut, ignore=shutil.ignore_patterns("*.lock"))  # which come and go
        real(descriptor)

    def kept() -> int:
        with copying, contextlib.suppress(StoreError):  # rows may have been written during the copy
            return DiskStore(cut).info().entries if cut.exists() else 0
        return 0

    real = os.fsync
    monkeypatch.setattr(os, "fsync", fsync)

    async def run() -> None:
        cached = Cached(Counting(), DiskStore(folder))
        for n in range(3):
            await cached.complete(ask(f"q{n}"))
        while kept() < 3:
            await asyncio.sleep(0.01)
        with copying:  # the disk may be told once more for what is there already
            shutil.rmtree(cut)
        await cached.complete(ask("last"))
        await cached.aclose()
        assert DiskStore(cut).info().entries == 4

    asyncio.run(run())
