import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit, urlunsplit

import pytest

from judge_eval.errors import ConfigError, StoreError
from judge_eval.llm.cache.postgres import TABLE, PostgresStore
from judge_eval.llm.cache.store import Store
from judge_eval.llm.stack import open_store
from tests.support.application import CliRunner, app
from tests.support.cache_doubles import take_lease
from tests.support.chat_server import ChatServer
from tests.support.postgres import VARIABLE, execute, schema_of_its_own, using_server
from tests.support.waiting import until

pytestmark = pytest.mark.foreign


def key(n: int) -> bytes:
    """Make a key."""
    return hashlib.sha256(b"%d" % n).digest()


@pytest.fixture
def store(url: str) -> Iterator[PostgresStore]:
    """A store with its table."""
    made = PostgresStore(url, timeout=20)
    made.create()
    yield made
    made.close()


def test_rows_come_back_in_order_and_are_replaced(store: PostgresStore) -> None:
    """What was written comes back, in the order asked for, the last write counting; the rest is None."""
    assert isinstance(store, Store)
    rows = [(key(n), b"value %d" % n * n) for n in range(2500)]
    store.put_many(rows)
    store.put_many([(key(1), b"first"), (key(1), b"second")])
    store.create()
    got = store.get_many([key(n) for n in range(2499, -1, -1)] + [key(9999)])
    assert got[0] == rows[2499][1]
    assert got[-3:] == [b"second", rows[0][1], None]
    assert store.info().entries == 2500
    assert not store.info().read_only
    store.clear()
    assert store.info().entries == 0


def test_rows_that_were_changed_are_refused(store: PostgresStore, url: str) -> None:
    """A row that is not what was written under its key is no answer, and is counted."""
    store.put_many([(key(1), b"one"), (key(2), b"two")])
    execute(url, f"UPDATE {TABLE} SET value = 'garbage'")
    assert store.get_many([key(1), key(2)]) == [None, None]
    assert store.corrupt == 2


def ends(url: str, key: bytes) -> Any:
    """Tell when the lease of a key ends, by the database's clock."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        (result,) = connection.execute(f"SELECT until FROM {TABLE} WHERE key = %s", [key])
    return result[0]


def test_leases_are_one_persons_until_they_are_given_back(store: PostgresStore, url: str) -> None:
    """A leased key is refused to others and to other tasks, and free after release, a write or its end."""
    other = PostgresStore(url, lease=1.5)
    assert take_lease(store, key(1))
    assert not take_lease(store, key(1))
    assert not take_lease(other, key(1))
    store.release_many([key(1)])
    assert take_lease(other, key(1))
    other.put_many([(key(1), b"paid")])
    assert take_lease(store, key(1))
    store.release_many([key(1)])
    assert store.get_many([key(1)]) == [b"paid"]
    assert take_lease(other, key(2))
    first = last = ends(url, key(2))
    while last == first:  # a lease that is held is renewed
        time.sleep(0.01)
        last = ends(url, key(2))
    assert last > first
    assert not take_lease(store, key(2))
    other.close()  # nobody renews any more, as when its process dies
    while not take_lease(store, key(2)):
        time.sleep(0.01)
    assert store.info().entries == 1


def test_two_who_lease_never_both_win(url: str, store: PostgresStore) -> None:
    """Of many who lease a key at once exactly one gets it."""
    stores = [PostgresStore(url) for _ in range(4)]
    wins: list[bytes] = []

    def take(first: PostgresStore) -> None:
        wins.extend(key(n) for n in range(50) if take_lease(first, key(n)))

    threads = [threading.Thread(target=take, args=(entry,)) for entry in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for item in stores:
        item.close()
    assert sorted(wins) == sorted(key(n) for n in range(50))


def test_lost_connections_are_opened_again(store: PostgresStore, url: str) -> None:
    """When the server ends every connection, reads, writes and leases go on without an error."""
    store.put_many([(key(1), b"one")])
    given, ours = os.environ[VARIABLE], dict(parse_qsl(urlsplit(url).query))["application_name"]
    for work in (
        lambda: store.get_many([key(1)]),
        lambda: store.put_many([(key(2), b"two")]),
        lambda: take_lease(store, key(3)),
        lambda: store.release_many([key(3)]),
    ):
        execute(
            given,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            f"WHERE application_name = '{ours}' AND pid <> pg_backend_pid()",
        )
        work()
    assert store.get_many([key(1), key(2)]) == [b"one", b"two"]


def test_missing_table_and_server_are_told_without_credentials(url: str) -> None:
    """Errors name the place and the way out, never the password."""
    with pytest.raises(StoreError, match="cache init"):
        PostgresStore(url).get_many([key(1)])
    secret = "postgresql://someone:p%40ssw0rd@127.0.0.1:1/nowhere?password=hunter22"
    store = PostgresStore(secret, timeout=0.1)
    with pytest.raises(StoreError) as caught:
        store.get_many([key(1)])
    for text in (str(caught.value), repr(store), store.location):
        assert "ssw0rd" not in text
        assert "hunter22" not in text
    for bad in ("postgresql://host:port/x", "mysql://x"):
        with pytest.raises(ConfigError):
            PostgresStore(bad)


def test_cache_verbs_of_a_database(url: str) -> None:
    """Init makes the table, info counts, path and doctor hide the password, clear empties."""
    runner = CliRunner()
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    user = parts.username or "postgres"
    secret = urlunsplit(parts._replace(netloc=f"{user}:topsecret99@{host}"))
    for verb in (["init"], ["info"], ["path"], ["clear", "--yes"]):
        done = runner.invoke(app, ["cache", *verb, "--cache", secret])
        assert done.exit_code == 0, done.output
        assert "postgresql://" in done.output
        assert "topsecret99" not in done.output
    done = runner.invoke(app, ["doctor", "--model", "fake/overlap", "--cache", secret])
    assert done.exit_code == 0, done.output
    assert "topsecret99" not in done.output


def test_run_with_a_shared_store_pays_once(url: str, store: PostgresStore, tmp_path: Path) -> None:
    """A second run over the same data, from the command line, is answered by the database alone."""
    assert isinstance(open_store(url), PostgresStore)
    data = tmp_path / "data.jsonl"
    line = {"query": "q?", "reference": "r", "chunks": ["one", "two", "three"]}
    data.write_text(json.dumps(line) + "\n")
    with ChatServer() as server:
        for _ in range(2):
            done = CliRunner().invoke(
                app,
                ["run", str(data), "--model", "openai/m", "--base-url", server.url, "--cache", url,
                 "--out", str(tmp_path / "runs"), "-q"],
            )  # fmt: skip
            assert done.exit_code == 0, done.output
            paid = server.counts["paid"]
        assert len({json.dumps(call) for call in server.calls}) == paid


def start(server: ChatServer, url: str, out: Path, count: int) -> "subprocess.Popen[bytes]":
    """Start a process that judges."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.support.postgres_writer", server.url, url, str(out), str(count)],
        cwd=Path(__file__).parents[3],
        stderr=subprocess.PIPE,
    )


@pytest.mark.slow
def test_eight_processes_pay_for_each_verdict_once(url: str, store: PostgresStore, tmp_path: Path) -> None:
    """Eight processes over one dataset of 2,000 verdicts make as many calls as one would."""
    with ChatServer(latency=0.02) as server:
        started = [start(server, url, tmp_path / str(n), 500) for n in range(8)]
        for process in started:
            _, result = process.communicate(timeout=240)
            assert process.returncode == 0, result.decode()[-2000:]
        distinct = {json.dumps(call) for call in server.calls}
        assert server.counts["paid"] == len(distinct)
        assert sum(len(call["messages"]) == 2 for call in server.calls) == 2000


@pytest.fixture
def lonely_url() -> Iterator[str]:
    """A schema of its own, while nobody else uses the database's server."""
    with using_server(fcntl.LOCK_EX), schema_of_its_own() as address:
        yield address


@pytest.mark.slow
def test_server_restarted_in_the_middle_loses_nothing(lonely_url: str, tmp_path: Path) -> None:
    """While the database restarts a run waits; it ends well, and every paid verdict is in the store."""
    url, control = lonely_url, shutil.which("pg_ctlcluster")
    if control is None or urlsplit(url).hostname not in ("127.0.0.1", "localhost"):
        pytest.skip("no pg_ctlcluster here to restart the server with")
    clusters = subprocess.run(["pg_lsclusters", "-h"], capture_output=True, text=True, check=True).stdout
    version, name = clusters.split()[:2]
    with closing(PostgresStore(url)) as store:
        store.create()
    with ChatServer(latency=0.05) as server:
        process = start(server, url, tmp_path / "run", 400)
        until(lambda: server.counts["paid"] >= 200, process)
        subprocess.run([control, "--skip-systemctl-redirect", version, name, "restart", "-m", "fast"], check=True)
        _, result = process.communicate(timeout=240)
        assert process.returncode == 0, result.decode()[-2000:]
        distinct = {json.dumps(call) for call in server.calls}
        assert server.counts["paid"] == len(distinct)
        before = server.counts["paid"]
        again = start(server, url, tmp_path / "again", 400)
        _, result = again.communicate(timeout=240)
        assert again.returncode == 0, result.decode()[-2000:]
        assert server.counts["paid"] == before
