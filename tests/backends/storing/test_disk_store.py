from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import pickle
import random
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from judge_eval.backends.storing import commit
from judge_eval.backends.storing.cached import Cached
from judge_eval.backends.storing.dbfile import DB
from judge_eval.backends.storing.disk import DiskStore
from judge_eval.backends.storing.seals import Sealer
from judge_eval.backends.storing.store import Leasing, Store
from judge_eval.errors import StoreError
from tests.support.cache_doubles import Counting, ask


def key(n: int) -> bytes:
    """Make a key of a number."""
    return n.to_bytes(32, "big")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DiskStore]:
    """A store in a folder that does not exist yet."""
    made = DiskStore(tmp_path / "cache")
    yield made
    made.close()


def child(code: str, *args: object, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    """Run code in a process of its own."""
    command = [sys.executable, "-c", code, *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)


def test_store_is_both_protocols(store: DiskStore) -> None:
    """The disk store is a Store, and one that processes can lease keys in."""
    assert isinstance(store, Store)
    assert isinstance(store, Leasing)


def test_rows_come_back_in_order_across_batches(store: DiskStore) -> None:
    """1,201 keys, asked in any order, present and absent mixed, come back each at its place."""
    store.put_many([(key(n), b"value %d" % n) for n in range(1201)])
    numbers = random.Random(1).sample(range(2402), 2402)
    found = store.get_many([key(n) for n in numbers])
    assert found == [b"value %d" % n if n < 1201 else None for n in numbers]
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
        from judge_eval.backends.storing.disk import DiskStore
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


def test_first_use_imports_diskcache_and_not_the_module(tmp_path: Path) -> None:
    """Making a store and reading from it loads no diskcache (and with it no pickle); writing does."""
    code = """if True:
        import sys
        from judge_eval.backends.storing.disk import DiskStore
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
        store.take_lease(key(1))
        assert stat.S_IMODE(store.folder.stat().st_mode) == 0o700
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in store.folder.iterdir()}
        assert set(modes) >= {"cache.db", "cache.lock"}
        assert set(modes.values()) == {0o600}
    finally:
        os.umask(before)


def test_an_open_cache_folder_is_closed_but_a_shared_one_left_alone(tmp_path: Path) -> None:
    """A folder with only a cache in it becomes private; one that holds other things keeps its mode."""
    alone, among = tmp_path / "alone", tmp_path / "among"
    for folder in (alone, among):
        folder.mkdir()
        folder.chmod(0o755)
    (among / "notes.txt").write_text("mine")
    for folder in (alone, among):
        DiskStore(folder).put_many([(key(1), b"v")])
    assert stat.S_IMODE(alone.stat().st_mode) == 0o700
    assert stat.S_IMODE(among.stat().st_mode) == 0o755
    assert stat.S_IMODE((among / "cache.db").stat().st_mode) == 0o600


def test_nothing_is_evicted(store: DiskStore) -> None:
    """With a size limit of one byte and an eviction policy planted in the file, every row stays."""
    store.put_many([(key(0), b"v")])
    store.close()
    with sqlite3.connect(store.folder / "cache.db") as con:
        for name, value in (
            ("size_limit", 1),
            ("cull_limit", 100),
            ("eviction_policy", "least-recently-used"),
        ):
            con.execute("UPDATE Settings SET value = ? WHERE key = ?", (value, name))
        con.execute("UPDATE Cache SET expire_time = 1.0")
    con.close()
    again = DiskStore(store.folder)
    again.put_many([(key(n), b"x" * 1000) for n in range(1, 200)])
    assert None not in again.get_many([key(n) for n in range(200)])
    again.close()


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
    with pytest.raises(StoreError, match=r"judge-eval cache clear.*--cache"):
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
            found = store.get_many([each])[0]
        except StoreError:
            found = None
        assert found in (None, value)
        missing += found is None
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
        con.execute(
            "UPDATE Cache SET value = (SELECT value FROM Cache WHERE key = ?) WHERE key = ?", (key(2), key(1))
        )
    con.close()
    assert store.get_many([key(1), key(2)]) == [None, b"two"]
    assert store.corrupt == 1


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
    one, two = DiskStore(tmp_path), DiskStore(tmp_path)
    one.put_many([(key(1), b"v")])
    assert two.get_many([key(1)]) == [b"v"]
    two.clear()
    assert one.get_many([key(1)]) == [None]
    one.put_many([(key(2), b"w")])
    assert two.get_many([key(1), key(2)]) == [None, b"w"]
    one.close()
    two.close()


def test_a_folder_removed_while_open_loses_no_later_row(store: DiskStore) -> None:
    """Rows written after somebody removed the folder are in the new one, not in a file without a name."""
    store.put_many([(key(1), b"v")])
    assert store.get_many([key(1)]) == [b"v"]
    shutil.rmtree(store.folder)
    assert store.get_many([key(1)]) == [None]
    store.put_many([(key(2), b"w")])
    assert DiskStore(store.folder).get_many([key(2)]) == [b"w"]


def test_threads_share_a_store(store: DiskStore) -> None:
    """Eight threads that write and read at once lose nothing and raise nothing."""
    errors: list[BaseException] = []

    def work(base: int) -> None:
        try:
            for n in range(base, base + 50):
                store.put_many([(key(n), b"%d" % n)])
                assert store.get_many([key(n)]) == [b"%d" % n]
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(1000 * n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors
    assert store.info().entries == 400


def write_some(folder: Path, base: int, count: int) -> None:
    """Write rows one by one (in a process of its own)."""
    store = DiskStore(folder)
    for n in range(base, base + count):
        store.put_many([(key(n), b"%d" % n)])
    store.close()


def test_processes_share_a_folder_from_the_start(tmp_path: Path) -> None:
    """Four processes that make one cache at the same time and write to it lose nothing."""
    spawn = multiprocessing.get_context("spawn")
    workers = [spawn.Process(target=write_some, args=(tmp_path / "c", 1000 * n, 50)) for n in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0] * 4
    store = DiskStore(tmp_path / "c")
    assert store.info().entries == 200
    assert not [path for path in store.folder.iterdir() if path.name.startswith(".new-")]


FORKS = """if True:
    import os, sys, threading
    from judge_eval.backends.storing.disk import DiskStore
    store = DiskStore(sys.argv[1])
    key = lambda n: n.to_bytes(32, "big")
    done = threading.Event()
    lost = []

    def busy():
        n = 1000
        while not done.is_set():
            store.put_many([(key(n), b"%d" % n)])
            if store.get_many([key(n)]) != [b"%d" % n]:
                lost.append(n)
            n += 1

    threads = [threading.Thread(target=busy)] if sys.argv[2] == "busy" else []
    for thread in threads:
        thread.start()
    store.put_many([(key(0), b"first")])
    assert store.take_lease(key(0))
    for turn in range(1, 11):
        pid = os.fork()
        if pid == 0:
            assert not store.take_lease(key(0))
            assert store.get_many([key(0), key(turn)]) == [b"first", None]
            for n in range(5):
                store.put_many([(key(100 * turn + n), b"child")])
            store.put_many([(key(turn), b"child")])
            store.close()
            os._exit(0)
        if turn % 2:
            store.put_many([(key(100 * turn + 50), b"parent")])
            store.close()
        assert os.waitpid(pid, 0)[1] == 0, turn
        assert store.get_many([key(turn), key(100 * turn + 4)]) == [b"child"] * 2
    done.set()
    for thread in threads:
        thread.join()
    assert not lost, lost
    store.close()
"""


@pytest.mark.parametrize("how", ["quiet", "busy"])
def test_forks_share_nothing_but_the_folder(tmp_path: Path, how: str) -> None:
    """Parent and children forked in the midst of its work go on reading and writing; no row is lost."""
    done = child(FORKS, tmp_path / "c", how)
    assert done.returncode == 0, done.stderr
    assert DiskStore(tmp_path / "c").get_many([key(n) for n in range(1, 11)]) == [b"child"] * 10


def test_kill_9_loses_no_acknowledged_row(tmp_path: Path) -> None:
    """Killed at five moments while writing, every row acknowledged before is found after."""
    code = """if True:
        import sys
        from judge_eval.backends.storing.disk import DiskStore
        store, n = DiskStore(sys.argv[1]), int(sys.argv[2])
        while True:
            store.put_many([(m.to_bytes(32, "big"), b"%d" % m) for m in range(n, n + 3)])
            n += 3
            print(n, flush=True)
    """
    known = 0
    for pause in (0.0, 0.02, 0.05, 0.1, 0.15):
        command = [sys.executable, "-c", code, str(tmp_path), str(known)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(pause)
            process.send_signal(signal.SIGKILL)
            lines = process.stdout.read().splitlines()
        known = max([known + 3, *(int(line) for line in lines if line)])
        found = DiskStore(tmp_path).get_many([key(n) for n in range(known)])
        assert found == [b"%d" % n for n in range(known)]


def test_put_is_all_or_nothing(store: DiskStore) -> None:
    """A batch with a value that cannot be written leaves none of its rows behind."""
    with pytest.raises(StoreError):
        store.put_many([(key(1), b"good"), (key(2), "not bytes")])  # type: ignore[list-item]
    assert store.get_many([key(1)]) == [None]
    store.put_many([(key(1), b"good")])
    assert store.get_many([key(1)]) == [b"good"]


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
    from judge_eval.backends.storing.disk import DiskStore
    from judge_eval.errors import StoreError
    import judge_eval.backends.storing.hardened, urllib.parse  # while the interpreter's own files can be read
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


def test_a_read_only_folder_not_closed_in_order_is_an_error(open_folder: Path) -> None:
    """Rows that only stand in the log beside a read-only database are not passed over in silence."""
    code = """if True:
        import os, sys
        from judge_eval.backends.storing.disk import DiskStore
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


def test_a_full_disk_is_an_error_and_passes(tmp_path: Path) -> None:
    """Where files may not grow the batch fails whole and says why; with room again it is written."""
    code = """if True:
        import resource, sys
        from judge_eval.backends.storing.disk import DiskStore
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
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", mount], capture_output=True
    ).returncode:
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


def test_leases_exclude_other_processes_and_end_with_them(tmp_path: Path) -> None:
    """A lease is refused while another process holds it, and granted once that process was killed."""
    code = """if True:
        import sys, time
        from judge_eval.backends.storing.disk import DiskStore
        store = DiskStore(sys.argv[1])
        assert store.take_lease(b"k" * 32)
        print("held", flush=True)
        time.sleep(60)
    """
    store = DiskStore(tmp_path / "c")
    command = [sys.executable, "-c", code, str(tmp_path / "c")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        assert not store.take_lease(b"k" * 32)
        assert store.take_lease(b"l" * 32)
        process.kill()
    assert store.take_lease(b"k" * 32)
    assert not store.take_lease(b"k" * 32)
    store.release_lease(b"k" * 32)
    assert store.take_lease(b"k" * 32)
    store.close()
    assert not store.take_lease(b"k" * 32)


def test_two_stores_of_one_process_exclude_each_other(tmp_path: Path) -> None:
    """A lease holds against another store on the same folder, and outlives that store's closing."""
    one, two = DiskStore(tmp_path), DiskStore(tmp_path)
    assert one.take_lease(key(1))
    assert not two.take_lease(key(1))
    two.close()
    code = """if True:
        import sys
        from judge_eval.backends.storing.disk import DiskStore
        print(DiskStore(sys.argv[1]).take_lease((1).to_bytes(32, "big")))
    """
    assert child(code, tmp_path).stdout == "False\n"
    one.release_lease(key(1))
    assert two.take_lease(key(1))
    two.release_lease(key(1))


def test_a_store_can_be_sent_to_another_process(store: DiskStore) -> None:
    """Pickled (by us, for a worker) it is a store on the same folder, with connections of its own."""
    store.put_many([(key(1), b"v")])
    again = pickle.loads(pickle.dumps(store))
    assert again.get_many([key(1)]) == [b"v"]
    again.close()


def test_a_folder_named_like_a_variable_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder's name is never expanded to that of another folder."""
    monkeypatch.setenv("ELSEWHERE", "else")
    with pytest.raises(StoreError, match="variable"):
        DiskStore(tmp_path / "$ELSEWHERE").put_many([(key(1), b"v")])
    assert not (tmp_path / "else").exists()


@pytest.mark.timeout(45)  # waiting for the other process would take 60 s
def test_a_row_is_written_at_once_or_not_at_all(tmp_path: Path) -> None:
    """Without waiting: False while another process writes, or before anything is open; else it is there."""
    store = DiskStore(tmp_path)
    assert not store.put_now([(key(1), b"one")])
    store.put_many([(key(1), b"one")])
    assert store.put_now([(key(2), b"two")])
    assert DiskStore(tmp_path).get_many([key(1), key(2)]) == [b"one", b"two"]
    with contextlib.closing(sqlite3.connect(tmp_path / DB, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert not store.put_now([(key(3), b"three")])
        other.execute("ROLLBACK")
    assert store.get_many([key(3)]) == [None]
    assert store.put_now([(key(3), b"three")])
    store.put_many([(key(4), b"four")])
    assert store.get_many([key(3), key(4)]) == [b"three", b"four"]
    shutil.rmtree(tmp_path)
    assert not store.put_now([(key(5), b"five")])
    store.put_many([(key(5), b"five")])
    assert store.get_many([key(5)]) == [b"five"]


def test_what_is_written_is_on_the_disk_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A moment after an answer, and at closing, the disk was told: a power cut from then on loses none."""
    folder, cut = tmp_path / "cache", tmp_path / "cut"
    monkeypatch.setattr(commit, "_FLUSHED", 0.02)

    def fsync(descriptor: int) -> None:
        # What the files hold when the disk is told outlives a power cut.
        shutil.rmtree(cut, ignore_errors=True)
        shutil.copytree(folder, cut)
        real(descriptor)

    real = os.fsync
    monkeypatch.setattr(os, "fsync", fsync)

    async def run() -> None:
        cached = Cached(Counting(), DiskStore(folder))
        for n in range(3):
            await cached.complete(ask(f"q{n}"))
        for _ in range(500):
            await asyncio.sleep(0.01)
            if cut.exists() and DiskStore(cut).info().entries == 3:
                break
        else:
            raise AssertionError("the disk was not told")
        shutil.rmtree(cut)
        await cached.complete(ask("last"))
        await cached.aclose()
        assert DiskStore(cut).info().entries == 4

    asyncio.run(run())
