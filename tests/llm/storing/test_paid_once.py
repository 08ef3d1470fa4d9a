from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from judge_eval.errors import StoreError
from judge_eval.llm.cache import cached as cached_module
from judge_eval.llm.cache.cached import Cached
from judge_eval.llm.cache.disk import DiskStore
from judge_eval.llm.cache.postgres import PostgresStore
from judge_eval.llm.cache.store import KeyClaim
from judge_eval.wire import Completion, Message
from tests.support.application import CliRunner, app
from tests.support.cache_doubles import Counting, Held, ask, readable, take_lease
from tests.support.chat_server import ChatServer
from tests.support.postgres import execute

HERE = str(Path(__file__).parents[3])
REPAIRING = """if True:
    import asyncio, os, sys, time
    from dataclasses import replace
    sys.path.insert(0, sys.argv[3])
    from judge_eval.llm.stack import open_store
    from judge_eval.llm.cache.cached import Cached
    from judge_eval.wire import Message
    from tests.support.cache_doubles import Counting, ask, readable
    backend = Counting(lambda r: "yes" if r.follow_up else "perhaps", wait=0.02)
    cached = Cached(backend, open_store(sys.argv[1]))
    while not os.path.exists(sys.argv[2]):
        time.sleep(0.001)
    async def judge(n):
        first = ask(f"q{n}", accepts=readable)
        found = await cached.complete(first)
        if found.text == "perhaps":
            await asyncio.sleep(0.05)  # its siblings of the round are out
            found = await cached.complete(replace(first, follow_up=(Message("user", "again"),), origin=first))
        assert found.text == "yes"
    async def run():
        queue = iter(range(40))
        async def work():
            for n in queue:
                await judge(n)
        await asyncio.gather(*(work() for _ in range(8)))
        await cached.aclose()
    asyncio.run(run())
    print(len(backend.asked))
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["disk", pytest.param("postgres", marks=pytest.mark.foreign)])
def test_processes_in_step_pay_for_a_repair_once(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Two processes that begin the same work pay for each question and for its repair once between them."""
    place = str(tmp_path / "cache") if kind == "disk" else str(request.getfixturevalue("url"))
    if kind == "postgres":
        with closing(PostgresStore(place)) as store:
            store.create()
    command = [sys.executable, "-c", REPAIRING, place, str(tmp_path / "go"), HERE]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    (tmp_path / "go").touch()
    paid = [int(process.communicate(timeout=100)[0]) for process in processes]
    assert sum(paid) == 2 * 40


def test_a_lease_kept_for_a_repair_ends_when_none_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for ever for a repair: the lease ends after a while, at a second failure, at closing."""
    monkeypatch.setattr(cached_module, "_KEPT", 0.05)
    store = DiskStore(tmp_path)
    cached = Cached(Counting(lambda _: "perhaps"), store)
    first = ask(accepts=readable)
    key = cached.key(first)
    assert key is not None

    async def run() -> None:
        await cached.complete(first)
        assert not take_lease(store, key)
        while not take_lease(store, key):
            await asyncio.sleep(0.01)
        store.release_many([key])
        await cached.complete(first)
        await cached.complete(replace(first, follow_up=(Message("user", "again"),), origin=first))
        assert take_lease(store, key)
        store.release_many([key])
        await cached.complete(first)
        await cached.aclose()
        assert take_lease(store, key)
        store.release_many([key])

    asyncio.run(run())
    store.close()


STOPPED = """if True:
    import asyncio, os, sys
    sys.path.insert(0, sys.argv[2])
    from judge_eval.llm.cache.cached import Cached
    from judge_eval.llm.cache.postgres import PostgresStore
    from tests.support.cache_doubles import Counting, ask
    class Slow(Counting):
        async def complete(self, request):
            print("asking", flush=True)
            while not os.path.exists(sys.argv[3]):
                await asyncio.sleep(0.01)
            return await super().complete(request)
    slow = Slow(lambda _: "yes, says the one who was stopped")
    cached = Cached(slow, PostgresStore(sys.argv[1], lease=0.4))
    async def run():
        print((await cached.complete(ask())).text, flush=True)
        await cached.aclose()
        print(cached.counts.beside, flush=True)
    asyncio.run(run())
"""


@pytest.mark.foreign
def test_a_stopped_holders_late_answer_is_told_apart(url: str, tmp_path: Path) -> None:
    """A holder that stands still loses its lease; its late answer is given, counted, and replaces nothing."""
    store = PostgresStore(url)
    store.create()
    command = [sys.executable, "-c", STOPPED, url, HERE, str(tmp_path / "answer")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "asking\n"
        os.kill(process.pid, signal.SIGSTOP)
        try:
            backend = Counting(lambda _: "yes, says the other")
            other = Cached(backend, store)
            assert asyncio.run(other.complete(ask())).text == "yes, says the other"
            assert len(backend.asked) == 1
            asyncio.run(other.aclose())
            assert other.counts.beside == 0
        finally:
            (tmp_path / "answer").touch()
            os.kill(process.pid, signal.SIGCONT)
        result, _ = process.communicate(timeout=60)
    assert result == "yes, says the one who was stopped\n1\n"
    (kept,) = Cached(Counting(), store).peek([ask()])
    assert kept is not None
    assert kept.text == "yes, says the other"
    store.close()


@pytest.mark.foreign
def test_a_late_answer_that_comes_first_is_there_for_others(url: str) -> None:
    """Where the new holder has not answered yet, the late one is kept until the new one comes."""
    old, new = PostgresStore(url, lease=0.2), PostgresStore(url)
    old.create()
    key = b"k" * 32
    assert old.claim_many([key]) == [KeyClaim(None, True)]
    old._stop.set()  # nobody renews it any more, as while the process stands still
    while (claim := new.claim_many([key])) == [KeyClaim(None, False)]:
        time.sleep(0.01)
    assert claim == [KeyClaim(None, True)]
    assert old.put_many([(key, b"late")], claimed=True) == 1
    assert new.get_many([key]) == [b"late"]
    assert PostgresStore(url).claim_many([key]) == [KeyClaim(b"late", False)]
    assert new.put_many([(key, b"new")], claimed=True) == 0
    assert old.put_many([(key, b"later")], claimed=True) == 1
    assert new.put_many([(key, b"new")], claimed=True) == 0, "a statement whose answer was lost may be repeated"
    assert old.get_many([key]) == [b"new"]
    for store in (old, new):
        store.close()


def test_an_answer_after_patience_ran_out_is_counted(tmp_path: Path) -> None:
    """On one machine too: who asked because another took too long says so, and nobody's row is replaced."""
    store = DiskStore(tmp_path)

    async def run() -> tuple[Cached, Cached]:
        backend = Held()
        slow = Cached(backend, store, patience=0.01)
        quick = Cached(Counting(lambda _: "yes, quick"), store, patience=0.05)
        first = asyncio.create_task(slow.complete(ask()))
        await backend.called.wait()
        assert (await quick.complete(ask())).text == "yes, quick"
        backend.may_answer.set()
        assert (await first).text == "yes, slow"
        await asyncio.gather(slow.aclose(), quick.aclose())
        return slow, quick

    slow, quick = asyncio.run(run())
    assert (slow.counts.beside, quick.counts.beside) == (1, 0)
    (kept,) = Cached(Counting(), store).peek([ask()])
    assert kept is not None
    assert kept.text == "yes, quick"
    store.close()


MAKE = "CREATE TABLE judge_eval_cache "
WRONG = {
    "text for bytes": MAKE + "(key text PRIMARY KEY, value text, holder uuid, until timestamptz)",
    "a column less": MAKE + "(key bytea PRIMARY KEY, value bytea)",
    "keys that repeat": MAKE + "(key bytea, value bytea, holder uuid, until timestamptz)",
    "a view": "CREATE VIEW judge_eval_cache AS SELECT ''::bytea AS key, ''::bytea AS value, "
    "gen_random_uuid() AS holder, now() AS until",
}


@pytest.mark.foreign
@pytest.mark.parametrize("statement", WRONG.values(), ids=WRONG)
def test_a_table_of_other_columns_is_refused_at_the_first_look(url: str, statement: str) -> None:
    """Reading, writing, claiming and `cache init` refuse a table that is not the cache's."""
    execute(url, statement)
    for work in (
        lambda store: store.create(),
        lambda store: store.get_many([b"k" * 32]),
        lambda store: store.put_many([(b"k" * 32, b"v")]),
        lambda store: store.claim_many([b"k" * 32]),
        lambda store: store.info(),
    ):
        with closing(PostgresStore(url)) as store, pytest.raises(StoreError, match="its columns must be"):
            work(store)


@pytest.mark.foreign
def test_a_strangers_row_in_a_shared_table_is_a_miss_that_is_counted(url: str) -> None:
    """A well-sealed row of another shape is asked for anew, replaced, and counted once."""
    store = PostgresStore(url)
    store.create()
    backend = Counting()
    cached = Cached(backend, store)
    key = cached.key(ask())
    assert key is not None
    store.put_many([(key, b'["yes","stop",[-5,1,0,0],"m",[]]')])
    assert cached.peek([ask()]) == [None]

    async def run() -> Completion:
        result = await cached.complete(ask())
        await cached.aclose()
        return result

    assert asyncio.run(run()).text == "yes why?"
    assert cached.counts.corrupt == 1
    assert cached.counts.beside == 0
    execute(url, "UPDATE judge_eval_cache SET value = 'garbage'")
    again = Cached(backend, store)
    asyncio.run(again.complete(ask()))
    asyncio.run(again.aclose())
    assert len(backend.asked) == 2
    assert again.counts.corrupt == 1
    assert again.counts.beside == 0
    (kept,) = Cached(backend, store).peek([ask()])
    assert kept is not None
    store.close()


def test_what_is_odd_about_a_cache_is_said(tmp_path: Path) -> None:
    """A bad row in the cache of a finished run is asked anew, counted and said, and ends nothing."""
    data = tmp_path / "data.jsonl"
    data.write_text(json.dumps({"query": "q?", "reference": "r", "chunks": ["one", "two"]}) + "\n")
    with ChatServer() as server:
        messages = []
        for _ in range(3):
            done = CliRunner().invoke(
                app,
                ["run", str(data), "--model", "openai/m", "--base-url", server.url,
                 "--cache", str(tmp_path / "cache"), "--out", str(tmp_path / "runs")],
            )  # fmt: skip
            assert done.exit_code == 0, done.output
            messages.append(done.output)
            if len(messages) == 1:
                with closing(sqlite3.connect(tmp_path / "cache" / "cache.db")) as con:
                    key, row = con.execute("SELECT key, value FROM Cache").fetchone()
                with closing(DiskStore(tmp_path / "cache")) as store:
                    store.put_many([(key, row[8:].replace(b",[", b",[-1", 1))])
    assert ["1 row of the cache refused" in each for each in messages] == [False, True, False]
    tallies = [json.loads(path.read_text())["tally"] for path in (tmp_path / "runs").glob("*/manifest.json")]
    assert sorted(tally["cache"].get("refused", 0) for tally in tallies) == [0, 0, 1]
    assert all(tally["failed_verdicts"] == 0 for tally in tallies)
