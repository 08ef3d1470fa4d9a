"""A disk store among threads, processes and forks, and what a kill leaves."""

from __future__ import annotations

import multiprocessing
import pickle
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from judge_eval.llm.cache.disk import DiskStore
from tests.support.cache_doubles import take_lease
from tests.support.diskrows import child, key


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


def test_a_store_that_is_opened_waits_for_the_whole_file(store: DiskStore) -> None:
    """A process that closes the file as its last user holds all of it for a moment; a store that opens it waits."""
    store.put_many([(key(1), b"1")])
    store.close()
    holder = sqlite3.connect(store.folder / "cache.db", isolation_level=None, check_same_thread=False)
    for statement in ("PRAGMA locking_mode=EXCLUSIVE", "BEGIN EXCLUSIVE", "DELETE FROM Cache", "ROLLBACK"):
        holder.execute(statement)
    threading.Timer(0.2, holder.close).start()
    store.put_many([(key(2), b"2")])
    assert store.get_many([key(1), key(2)]) == [b"1", b"2"]


@pytest.mark.slow
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
    from judge_eval.llm.cache.disk import DiskStore
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
    assert store.claim_many([key(0)], replacing=True)[0].leased
    for turn in range(1, 11):
        pid = os.fork()
        if pid == 0:
            assert not store.claim_many([key(0)], replacing=True)[0].leased
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


@pytest.mark.slow
@pytest.mark.parametrize("how", ["quiet", "busy"])
def test_forks_share_nothing_but_the_folder(tmp_path: Path, how: str) -> None:
    """Parent and children forked in the midst of its work go on reading and writing; no row is lost."""
    done = child(FORKS, tmp_path / "c", how)
    assert done.returncode == 0, done.stderr
    assert DiskStore(tmp_path / "c").get_many([key(n) for n in range(1, 11)]) == [b"child"] * 10


@pytest.mark.slow
def test_kill_9_loses_no_acknowledged_row(tmp_path: Path) -> None:
    """Killed at five moments while writing, every row acknowledged before is found after."""
    code = """if True:
        import sys
        from judge_eval.llm.cache.disk import DiskStore
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
        result = DiskStore(tmp_path).get_many([key(n) for n in range(known)])
        assert result == [b"%d" % n for n in range(known)]


def test_leases_exclude_other_processes_and_end_with_them(tmp_path: Path) -> None:
    """A lease is refused while another process holds it, and granted once that process was killed."""
    code = """if True:
        import sys, time
        from judge_eval.llm.cache.disk import DiskStore
        store = DiskStore(sys.argv[1])
        assert store.claim_many([b"k" * 32])[0].leased
        print("held", flush=True)
        time.sleep(60)
    """
    store = DiskStore(tmp_path / "c")
    command = [sys.executable, "-c", code, str(tmp_path / "c")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        assert not take_lease(store, b"k" * 32)
        assert take_lease(store, b"l" * 32)
        process.kill()
    assert take_lease(store, b"k" * 32)
    assert not take_lease(store, b"k" * 32)
    store.release_many([b"k" * 32])
    assert take_lease(store, b"k" * 32)
    store.close()
    assert not take_lease(store, b"k" * 32)


def test_two_stores_of_one_process_exclude_each_other(tmp_path: Path) -> None:
    """A lease holds against another store on the same folder, and outlives that store's closing."""
    first, two = DiskStore(tmp_path), DiskStore(tmp_path)
    assert take_lease(first, key(1))
    assert not take_lease(two, key(1))
    two.close()
    code = """if True:
        import sys
        from judge_eval.llm.cache.disk import DiskStore
        print(DiskStore(sys.argv[1]).claim_many([(1).to_bytes(32, "big")])[0].leased)
    """
    assert child(code, tmp_path).stdout == "False\n"
    first.release_many([key(1)])
    assert take_lease(two, key(1))
    two.release_many([key(1)])


def test_a_store_can_be_sent_to_another_process(store: DiskStore) -> None:
    """Pickled (by us, for a worker) it is a store on the same folder, with connections of its own."""
    store.put_many([(key(1), b"v")])
    again = pickle.loads(pickle.dumps(store))
    assert again.get_many([key(1)]) == [b"v"]
    again.close()
