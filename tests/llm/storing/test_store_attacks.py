from __future__ import annotations

import pickle
import tomllib
from contextlib import closing
from importlib.metadata import version
from pathlib import Path

import diskcache
import pytest

from judge_eval.errors import StoreError
from judge_eval.llm.cache import safe_diskcache as hardened
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


def test_no_method_of_diskcache_reaches_a_row(folder: Path, canary: Path, victim: Path) -> None:
    """Whatever diskcache could read, unpickle, expire, cull or check a row by is refused."""
    bomb = pickle.dumps(Bomb(canary))
    edit(folder, "INSERT INTO Cache (key, raw, mode, size, value) VALUES (?, 0, 4, 0, ?)", bomb, bomb)
    edit(folder, "UPDATE Cache SET mode = 2, expire_time = 1, filename = ? WHERE key = ?", str(victim), KEY)
    statements: list[str] = []
    with closing(hardened.open_cache(folder, 1.0)) as cache:
        for work in (
            lambda: cache.get(KEY), lambda: cache[KEY], lambda: KEY in cache, lambda: list(cache),
            lambda: cache.expire(), lambda: cache.cull(), lambda: cache.check(fix=True),
            lambda: cache.clear(), lambda: cache.evict("x"), lambda: cache.pop(KEY),
            lambda: cache.delete(KEY), lambda: cache.pull(), lambda: cache.peek(),
            lambda: cache.peekitem(), lambda: cache.incr(KEY), lambda: cache.touch(KEY),
            lambda: cache.add(KEY, b"x"), lambda: cache.set(KEY, b"x"), lambda: cache.read(KEY),
            lambda: cache.push(b"x"), lambda: cache.iterkeys(), lambda: list(reversed(cache)),
            lambda: len(cache), lambda: cache.memoize(), lambda: cache.stats(), lambda: cache.volume(),
            lambda: cache._cull(0, 0, 0), lambda: cache._iter(), lambda: cache._select_delete("", ()),
            lambda: cache.__setitem__(KEY, b"x"), lambda: cache._row_update(1, 0, ()),
            lambda: cache._row_insert(KEY, True, 0, ()),
        ):  # fmt: skip
            with pytest.raises(StoreError, match="by the cache alone"):
                work()
        cache._con.set_trace_callback(statements.append)
        cache.put_rows([(KEY, b"new"), (OTHER, b"newer")])
        cache._con.set_trace_callback(None)
    words = [each.split()[0] for each in statements if not each.startswith("--")]
    assert (words[0], words[-1]) == ("BEGIN", "COMMIT")
    assert set(words[1:-1]) == {"INSERT"}, "no row is read in order to be written"
    reaching = {name for name, what in vars(diskcache.Cache).items() if callable(what)} - hardened._USED
    assert all(getattr(hardened.OneConnection, name) is hardened._refuse for name in reaching)
    assert not hardened._USED & {"get", "__getitem__", "expire", "cull", "_cull", "check", "clear", "set", "pop"}
    assert victim.exists()
    assert not canary.exists()


def test_the_version_that_was_checked_is_the_one_that_is_installed() -> None:
    """Diskcache is pinned to the release whose every path to a row was looked at, and that one is here."""
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    assert "diskcache==5.6.3" in project["dependencies"]
    assert version("diskcache") == "5.6.3"
