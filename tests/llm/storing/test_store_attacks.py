from __future__ import annotations

import inspect
import pickle
import tomllib
from contextlib import closing, suppress
from importlib.metadata import version
from pathlib import Path

import diskcache
import pytest

from judge_eval.llm.cache import bytes_disk
from judge_eval.llm.cache.bytes_disk import BytesDisk
from judge_eval.llm.cache.disk import DiskStore
from tests.support.planting import KEY, OTHER, Bomb, edit, use_all


def test_the_bomb_works(folder: Path, canary: Path) -> None:
    """The planted rows are live: diskcache on its own runs the code (so the other tests can fail)."""
    edit(folder, "UPDATE Cache SET mode = 4, value = ?", pickle.dumps(Bomb(canary)))
    with closing(diskcache.Cache(str(folder))) as cache:
        cache.get(KEY)
    assert canary.exists()


def test_a_pickled_value_is_a_miss(folder: Path, canary: Path) -> None:
    """A row of mode 4 is not unpickled: it is no answer, and counted."""
    edit(folder, "UPDATE Cache SET mode = 4, value = ? WHERE key = ?", pickle.dumps(Bomb(canary)), KEY)
    store = DiskStore(folder)
    assert store.get_many([KEY, OTHER]) == [None, b"other"]
    assert store.corrupt == 1
    store.close()
    use_all(folder)
    assert not canary.exists()


def test_a_row_planted_while_rows_are_written_is_a_miss(folder: Path, canary: Path) -> None:
    """The connection that writes reads no other mode either, and finds what another process has written."""
    with closing(DiskStore(folder)) as store:
        store.put_many([(b"n" * 32, b"new")])
        assert store.get_many([KEY, OTHER, b"n" * 32]) == [b"honest", b"other", b"new"]
        edit(folder, "UPDATE Cache SET mode = 4, value = ? WHERE key = ?", pickle.dumps(Bomb(canary)), KEY)
        with closing(DiskStore(folder)) as other:
            other.put_many([(b"b" * 32, b"beside")])
        assert store.get_many([KEY, OTHER, b"b" * 32]) == [None, b"other", b"beside"]
        assert store.corrupt == 1
    assert not canary.exists()


@pytest.mark.parametrize("mode", [0, 2, 3, 4, 5, -1, None, "1"])
def test_any_other_mode_is_a_miss(folder: Path, mode: object) -> None:
    """Only the mode that is written is read (SQLite itself turns the text "1" into the number)."""
    edit(folder, "UPDATE Cache SET mode = ? WHERE key = ?", mode, KEY)
    assert DiskStore(folder).get_many([KEY]) == [b"honest" if mode == "1" else None]


def test_a_pickled_key_is_never_read(folder: Path, canary: Path) -> None:
    """A row whose key has raw = 0 is not unpickled, whatever is done with the cache."""
    bomb = pickle.dumps(Bomb(canary))
    edit(folder, "INSERT INTO Cache (key, raw, mode, size, value) VALUES (?, 0, 1, 0, ?)", bomb, b"x")
    edit(folder, "UPDATE Cache SET raw = 0 WHERE key = ?", KEY)
    assert DiskStore(folder).get_many([KEY, OTHER]) == [None, b"other"]
    use_all(folder)
    assert not canary.exists()


@pytest.mark.parametrize("mode", [1, 2, 3, 4])
@pytest.mark.parametrize("relative", [True, False])
def test_a_planted_file_name_is_neither_read_nor_removed(folder: Path, victim: Path, mode: int, relative: bool) -> None:
    """A row that names a file outside the folder is a miss; overwriting or clearing it leaves the file."""
    name = "../victim" if relative else str(victim)
    edit(folder, "UPDATE Cache SET mode = ?, filename = ?, value = NULL WHERE key = ?", mode, name, KEY)
    store = DiskStore(folder)
    assert store.get_many([KEY, OTHER]) == [None, b"other"]
    assert store.corrupt == 1
    store.close()
    use_all(folder)
    assert victim.exists()


def test_a_planted_file_name_beside_a_good_value_is_refused(folder: Path, victim: Path) -> None:
    """Even with an honest value a row that names a file is no answer."""
    edit(folder, "UPDATE Cache SET filename = ? WHERE key = ?", str(victim), KEY)
    assert DiskStore(folder).get_many([KEY]) == [None]
    use_all(folder)
    assert victim.exists()


def test_rows_of_other_shapes_are_misses(folder: Path) -> None:
    """Text, numbers, nothing, too short and too long values are no answers and no exceptions."""
    for value in ("text", 7, 1.5, None, b"", b"short", b"x" * 10_000):
        edit(folder, "UPDATE Cache SET value = ? WHERE key = ?", value, KEY)
        store = DiskStore(folder)
        assert store.get_many([KEY, OTHER]) == [None, b"other"]
        assert store.corrupt == 1
        store.close()


def test_a_pickle_in_a_file_is_neither_read_nor_removed(folder: Path, canary: Path) -> None:
    """A row that names a file with a pickle inside the cache's own folder is a miss, and the file stays."""
    (folder / "planted.val").write_bytes(pickle.dumps(Bomb(canary)))
    edit(folder, "UPDATE Cache SET mode = 4, filename = 'planted.val', value = NULL WHERE key = ?", KEY)
    with closing(diskcache.Cache(str(folder))) as cache:
        cache.get(KEY)
    assert canary.exists(), "the row is live: diskcache on its own runs the code"
    canary.rmdir()
    store = DiskStore(folder)
    assert store.get_many([KEY, OTHER]) == [None, b"other"]
    assert store.claim_many([KEY])[0].value is None
    store.close()
    use_all(folder)
    assert (folder / "planted.val").exists()
    assert not canary.exists()


@pytest.mark.slow
def test_no_method_of_diskcache_unpickles_or_follows_a_name(folder: Path, canary: Path, victim: Path) -> None:
    """With the disk that stores bytes, whatever diskcache does with planted rows runs nothing and opens no file."""
    bomb = pickle.dumps(Bomb(canary))
    works = (
        lambda cache: cache.get(KEY), lambda cache: cache[KEY], lambda cache: KEY in cache, list,
        lambda cache: cache.peek(), lambda cache: cache.peekitem(), lambda cache: cache.pull(),
        lambda cache: cache.touch(KEY), lambda cache: cache.add(KEY, b"x"), lambda cache: cache.set(KEY, b"x"),
        lambda cache: cache.read(OTHER), lambda cache: list(cache.iterkeys()), lambda cache: list(reversed(cache)),
        lambda cache: cache.delete(OTHER), lambda cache: cache.pop(OTHER),
        lambda cache: cache.expire(), lambda cache: cache.cull(), lambda cache: cache.clear(),
    )  # fmt: skip
    for work in works:
        edit(folder, "DELETE FROM Cache")
        edit(folder, "INSERT INTO Cache (key, raw, mode, size, value) VALUES (?, 0, 4, 0, ?)", bomb, bomb)
        for key, expires in ((KEY, None), (OTHER, 1)):
            edit(
                folder,
                "INSERT INTO Cache (key, raw, mode, expire_time, filename, value) VALUES (?, 1, 4, ?, ?, ?)",
                key, expires, str(victim), bomb,
            )  # fmt: skip
        with (
            closing(diskcache.Cache(str(folder), disk=BytesDisk)) as cache,
            suppress(KeyError, TypeError, ValueError, diskcache.Timeout),
        ):
            assert work(cache) != b"secret"
    assert victim.exists()
    assert not canary.exists()


def test_diskcache_hands_rows_to_the_disk_alone() -> None:
    """Diskcache opens a database in one place, with the disk that stores bytes."""
    source = inspect.getsource(bytes_disk)
    assert source.count("diskcache.Cache(") == source.count("disk=BytesDisk") == 1
    for name in ("put", "get", "store", "fetch", "remove"):
        assert name in vars(bytes_disk.BytesDisk), f"diskcache's own {name} could unpickle or open a file"


def test_the_version_that_was_checked_is_the_one_that_is_installed() -> None:
    """Diskcache is pinned to the release whose every path to a row was looked at, and that one is here."""
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    assert "diskcache==5.6.3" in project["dependencies"]
    assert version("diskcache") == "5.6.3"
