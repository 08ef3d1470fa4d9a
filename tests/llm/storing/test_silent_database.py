"""A database that is there and does not answer, as one that was stopped: the run says so, and ends in time."""

from __future__ import annotations

import json
import logging
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import pytest

from judge_eval.errors import StoreError
from judge_eval.llm.cache import postgres
from judge_eval.llm.cache.postgres import PostgresStore
from tests.support.chat_server import ChatServer
from tests.support.stalling import Stalling, stalling
from tests.support.waiting import until

pytestmark = pytest.mark.foreign
KEY = b"k" * 32


@pytest.fixture
def proxy(url: str) -> Iterator[tuple[Stalling, str]]:
    """A proxy to the database, and the cache's URL through it."""
    with closing(PostgresStore(url)) as store:
        store.create()
    parts = urlsplit(url)
    assert parts.hostname is not None
    with stalling(parts.hostname, parts.port or 5432) as between:
        user = parts.netloc.rpartition("@")[0]
        yield between, urlunsplit(parts._replace(netloc=f"{user}@127.0.0.1:{between.port}"))


def test_a_silent_database_is_left_in_time(proxy: tuple[Stalling, str]) -> None:
    """A statement that gets no answer is an error that says so once the time is over; a later one works."""
    between, url = proxy
    with closing(PostgresStore(url, timeout=1.0)) as store:
        store.put_many([(KEY, b"value")])
        between.moving.clear()
        begun = time.monotonic()
        with pytest.raises(StoreError, match="has not answered for"):
            store.get_many([KEY])
        assert time.monotonic() - begun < 10
        between.moving.set()
        assert store.get_many([KEY]) == [b"value"]


def test_waiting_for_the_cache_is_said(
    proxy: tuple[Stalling, str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A line says that the cache is waited for, without a password; the statement is answered in the end."""
    monkeypatch.setattr(postgres, "_REMARK", 0.5)
    between, url = proxy
    with closing(PostgresStore(url)) as store, caplog.at_level(logging.WARNING, "judge_eval"):
        store.put_many([(KEY, b"value")])
        between.moving.clear()
        threading.Timer(2.0, between.moving.set).start()
        assert store.get_many([KEY]) == [b"value"]
    assert any("waits for the cache since" in message for message in caplog.messages)


def test_an_interrupt_ends_the_wait(proxy: tuple[Stalling, str]) -> None:
    """Once the process is asked to end, a statement under way ends within seconds, and so do later ones."""
    between, url = proxy
    with closing(PostgresStore(url)) as store:
        store.put_many([(KEY, b"value")])
        between.moving.clear()
        begun = time.monotonic()
        threading.Timer(0.3, store._connections.interrupted).start()
        for _ in range(2):
            with pytest.raises(StoreError):
                store.get_many([KEY])
        assert time.monotonic() - begun < 15
        between.moving.set()


@pytest.mark.slow
def test_sigterm_ends_a_run_whose_database_is_silent(proxy: tuple[Stalling, str], tmp_path: Path) -> None:
    """The run ends within the seconds for calls in flight and a few more, keeps what is judged, and can be resumed."""
    between, url = proxy
    data = tmp_path / "data.jsonl"
    rows = (
        {"id": f"t{n}", "query": f"q{n}?", "reference": "r", "chunks": ["It is so.", "Or not."]} for n in range(300)
    )
    data.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    with ChatServer(latency=0.05) as server:
        command = [sys.executable, "-m", "judge_eval", "run", str(data), "--model", "openai/m"]
        command += ["--base-url", server.url, "--cache", url, "--out", str(tmp_path / "runs"), "--concurrency", "4"]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        until(lambda: server.counts["paid"] >= 40, process)
        between.moving.clear()
        assert process.stderr is not None
        while "waits for the cache since" not in (line := process.stderr.readline()):
            assert line, "the run ended without a word"
        begun = time.monotonic()
        process.send_signal(signal.SIGTERM)
        _, message = process.communicate(timeout=60)
        assert time.monotonic() - begun < 25  # 5 s for calls in flight, 2 to 5 for the cache; the machine may be busy
        assert process.returncode == 143, message
        assert "--resume" in message
        between.moving.set()
        paid = server.counts["paid"]
        done = subprocess.run([*command, "--resume", "newest", "-q"], capture_output=True, text=True, timeout=200)
        assert done.returncode == 0, done.stderr
        assert server.counts["paid"] <= 600 + 8, f"{paid} were paid before"
