"""A disk store whose file, folder or disk is not as it should be."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from judge_eval.errors import StoreError
from judge_eval.llm.cache.disk import DiskStore
from judge_eval.llm.cache.store import Sealer
from tests.support.diskrows import child, key


@pytest.mark.parametrize(
    "content",
    [b"", b"this is no database", b"SQLite format 3\0" + b"\xff" * 5000],
    ids=["zero bytes", "text", "broken database"],
)
@pytest.mark.parametrize("use", ["get", "put", "info"])
def test_a_broken_file_is_one_clear_error(tmp_path: Path, content: bytes, use: str) -> None:
    """A file that is no database is told with the way out, is not overwritten, and `clear` removes it."""
    (tmp_path / "cache.db").write_bytes(content)
    store = DiskStore(tmp_path)
    uses: dict[str, Callable[[], object]] = {
        "get": lambda: store.get_many([key(1)]),
        "put": lambda: store.put_many([(key(1), b"v")]),
        "info": store.info,
    }
    with pytest.raises(StoreError, match=r"judge-eval cache clear.*`cache`"):
        uses[use]()
    assert (tmp_path / "cache.db").read_bytes() == content
    store.clear()
    store.put_many([(key(1), b"v")])
    assert store.get_many([key(1)]) == [b"v"]
    store.close()


def test_a_truncated_database_is_an_error(store: DiskStore) -> None:
    """A database cut in half is an error on reading, not a cache with fewer rows."""
    store.put_many([(key(n), b"x" * 400) for n in range(2000)])
    store.close()
    path = store.folder / "cache.db"
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(StoreError, match="damaged"):
        store.get_many([key(n) for n in range(2000)])


def test_flipped_bytes_never_come_out(store: DiskStore) -> None:
    """After one byte in every page was flipped, a look-up gives the right value, None, or a StoreError."""
    rows = {key(n): b"verdict %d " % n * 20 for n in range(300)}
    store.put_many(list(rows.items()))
    store.close()
    path = store.folder / "cache.db"
    data = bytearray(path.read_bytes())
    rng = random.Random(7)
    for start in range(4096, len(data), 4096):
        data[start + rng.randrange(4096)] ^= 1 << rng.randrange(8)
    path.write_bytes(data)
    missing = 0
    for each, value in rows.items():
        try:
            result = store.get_many([each])[0]
        except StoreError:
            result = None
        assert result in (None, value)
        missing += result is None
    assert missing


def test_seal_binds_key_and_value() -> None:
    """A sealed value opens under its own key only, whole only."""
    seal, unseal = Sealer().seal, Sealer().unseal
    row = seal(key(1), b"value")
    assert unseal(key(1), row) == b"value"
    assert unseal(key(2), row) is None
    assert unseal(key(1), row[:-1]) is None
    assert unseal(key(1), row[:4]) is None
    assert unseal(key(1), "text") is None
    assert unseal(key(1), None) is None


def test_a_row_moved_to_another_key_is_a_miss(store: DiskStore) -> None:
    """A row whose value was taken from another key is refused and counted."""
    store.put_many([(key(1), b"one"), (key(2), b"two")])
    store.close()
    with sqlite3.connect(store.folder / "cache.db") as con:
        con.execute("UPDATE Cache SET value = (SELECT value FROM Cache WHERE key = ?) WHERE key = ?", (key(2), key(1)))
    con.close()
    assert store.get_many([key(1), key(2)]) == [None, b"two"]
    assert store.corrupt == 1


def test_a_busy_database_is_an_error_and_no_hang(store: DiskStore) -> None:
    """While another process holds the database for longer than the timeout, a write says so."""
    store.put_many([(key(1), b"v")])
    store.close()
    other = sqlite3.connect(store.folder / "cache.db", isolation_level=None)
    hasty = DiskStore(store.folder, timeout=0.2)
    hasty.put_many([(key(3), b"v")])
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match="another process"):
        hasty.put_many([(key(2), b"v")])
    assert hasty.get_many([key(1)]) == [b"v"]
    other.execute("ROLLBACK")
    other.close()
    hasty.put_many([(key(2), b"v")])
    hasty.close()


AS_NOBODY = """if True:
    import os, sys
    from judge_eval.llm.cache.disk import DiskStore
    from judge_eval.errors import StoreError
    import judge_eval.llm.cache.bytes_disk, urllib.parse  # while the interpreter's own files can be read
    if os.geteuid() == 0:
        os.setgid(65534); os.setuid(65534)
    store = DiskStore(sys.argv[1])
    assert store.info().read_only
    assert store.info().entries == 1
    assert store.get_many([b"k" * 32, b"n" * 32]) == [b"v", None]
    for write in (lambda: store.put_many([(b"n" * 32, b"v")]), store.clear):
        try:
            write()
        except StoreError as error:
            assert "cannot be written" in str(error), error
        else:
            raise AssertionError("written")
    print("refused")
"""


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that any user can reach (pytest's own are closed to others)."""
    folder = Path(tempfile.mkdtemp(prefix="judge-eval-test-"))
    folder.chmod(0o755)
    yield folder
    for path in (folder / "c", folder):
        if path.exists():
            path.chmod(0o755)
    shutil.rmtree(folder)


def test_a_read_only_folder_is_read_and_not_written(open_folder: Path) -> None:
    """A user without the right to write reads every row and is told plainly that nothing is written."""
    store = DiskStore(open_folder / "c")
    store.put_many([(b"k" * 32, b"v")])
    store.close()
    (store.folder / "cache.db").chmod(0o444)
    store.folder.chmod(0o555)
    before = sorted((path.name, path.stat().st_mtime_ns) for path in store.folder.iterdir())
    done = child(AS_NOBODY, store.folder)
    assert done.stdout == "refused\n", done.stderr
    assert sorted((path.name, path.stat().st_mtime_ns) for path in store.folder.iterdir()) == before


@pytest.mark.slow
def test_a_read_only_folder_not_closed_in_order_is_an_error(open_folder: Path) -> None:
    """Rows that only stand in the log beside a read-only database are not passed over in silence."""
    code = """if True:
        import os, sys
        from judge_eval.llm.cache.disk import DiskStore
        store = DiskStore(sys.argv[1])
        store.put_many([(b"k" * 32, b"v")])
        os._exit(0)
    """
    assert child(code, open_folder / "c").returncode == 0
    assert (open_folder / "c" / "cache.db-wal").stat().st_size
    for path in (open_folder / "c").iterdir():
        path.chmod(0o444)
    (open_folder / "c").chmod(0o555)
    done = child(AS_NOBODY, open_folder / "c")
    assert "not closed in order" in done.stderr


@pytest.mark.slow
def test_a_full_disk_is_an_error_and_passes(tmp_path: Path) -> None:
    """Where files may not grow the batch fails whole and says why; with room again it is written."""
    code = """if True:
        import resource, sys
        from judge_eval.llm.cache.disk import DiskStore
        from judge_eval.errors import StoreError
        key = lambda n: n.to_bytes(32, "big")
        store = DiskStore(sys.argv[1])
        store.put_many([(key(0), b"v")])
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
        batch = [(key(n), b"x" * 1000) for n in range(1, 1001)]
        for _ in range(2):
            try:
                store.put_many(batch)
            except StoreError as error:
                print(error)
            else:
                raise AssertionError("written")
            assert store.get_many([key(0), key(1)]) == [b"v", None]
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        store.put_many(batch)
        assert None not in store.get_many([key(n) for n in range(1001)])
        store.close()
    """
    done = child(code, tmp_path / "c")
    assert done.returncode == 0, done.stderr
    assert "full" in done.stdout


def test_a_full_file_system_is_told_as_such(tmp_path: Path) -> None:
    """On a file system of one megabyte the error says that there is no space, and room cures it."""
    mount = tmp_path / "small"
    mount.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", mount], capture_output=True).returncode:
        pytest.skip("file systems cannot be mounted here")
    try:
        store = DiskStore(mount / "c")
        store.put_many([(key(0), b"v")])
        ballast = mount / "ballast"
        ballast.write_bytes(b"x" * 500_000)
        batch = [(key(n), b"x" * 1000) for n in range(1, 500)]
        with pytest.raises(StoreError, match="no space left"):
            store.put_many(batch)
        assert store.get_many([key(0), key(1)]) == [b"v", None]
        ballast.unlink()
        store.put_many(batch[:100])
        assert store.get_many([key(0), key(1)]) == [b"v", b"x" * 1000]
        store.close()
    finally:
        subprocess.run(["umount", mount], check=True)
