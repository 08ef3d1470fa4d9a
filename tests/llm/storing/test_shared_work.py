"""Processes that judge the same data over one cache share the work."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from judge_eval.llm.cache.postgres import PostgresStore
from judge_eval.llm.stack import open_store
from tests.support.chat_server import ChatServer

KINDS = ["disk", pytest.param("postgres", marks=pytest.mark.foreign)]


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A cache's place: a folder, or a database with its table."""
    if request.param == "disk":
        return str(tmp_path / "cache")
    url: str = request.getfixturevalue("url")
    with closing(PostgresStore(url)) as store:
        store.create()
    return url


def write_data(path: Path, traces: int, chunks: int) -> Path:
    """Write a dataset of distinct questions."""
    rows = (
        {"id": f"t{n}", "query": f"question {n}?", "reference": f"reference {n}",
         "chunks": [f"chunk {m} of {n}" for m in range(chunks)]}
        for n in range(traces)
    )  # fmt: skip
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def start(server: ChatServer, data: Path, place: str, out: Path, concurrency: int) -> subprocess.Popen[str]:
    """Start a process that judges the data."""
    command = [sys.executable, "-m", "judge_eval", "run", str(data), "--model", "openai/m", "--base-url", server.url]
    command += ["--cache", place, "--out", str(out), "--concurrency", str(concurrency), "-q", "--json"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_three_processes_share_the_calls(place: str, tmp_path: Path) -> None:
    """Each of three makes its part of the calls, none is paid twice, and all have every verdict."""
    data = write_data(tmp_path / "data.jsonl", 60, 4)
    with ChatServer(latency=0.4) as server:
        processes = [start(server, data, place, tmp_path / f"runs{n}", 4) for n in range(3)]
        tallies = [json.loads(process.communicate(timeout=200)[0])["tally"] for process in processes]
        assert [tally["verdicts"] for tally in tallies] == [240] * 3
        calls = sorted(tally["calls"] for tally in tallies)
        assert sum(calls) == server.counts["paid"] == 240
        assert calls[0] >= 240 // 6, f"one process left the work to the others: {calls}"
        assert calls[-1] <= 240 // 2, f"one process did the others' work: {calls}"


HOLDING = """if True:
    import sys, time
    from judge_eval.llm.stack import open_store
    store = open_store(sys.argv[1])
    assert all(claim.leased for claim in store.claim_many([bytes([n]) * 32 for n in range(40)]))
    print("held", flush=True)
    time.sleep(100)
"""


@pytest.mark.slow
def test_a_killed_holder_costs_others_five_seconds_at_most(place: str) -> None:
    """A process that lives keeps its leases; once it was killed, others get them within five seconds."""
    keys = [bytes([n]) * 32 for n in range(40)]
    with closing(open_store(place)) as store:
        command = [sys.executable, "-c", HOLDING, place]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "held\n"
            begun = time.monotonic()
            while time.monotonic() < begun + 6:
                assert not any(claim.leased for claim in store.claim_many(keys)), "its holder lives"
                time.sleep(0.1)
            process.kill()
        begun = time.monotonic()
        while keys:
            keys = [key for key, claim in zip(keys, store.claim_many(keys), strict=True) if not claim.leased]
            time.sleep(0.05)
        assert time.monotonic() - begun < 5
