"""llama.cpp's server started late, killed or left alone, while it judges."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real.conftest import STEADY
from tests.support.llama import Llama
from tests.support.real_runs import RealRuns
from tests.support.waiting import until

pytestmark = pytest.mark.real

ANSWERED = "stop processing"
"""What the server's log says of each reply, whole or cancelled."""
LAUNCHED, CANCELLED = "processing task", "cancel task"
FREE = [part for form in ("strict", "json_schema", "json_object") for part in ("--unsupported", form)]
"""No grammar, which would end a reply."""


def test_a_server_that_starts_with_the_run_and_is_killed_in_the_middle(tmp_path: Path, real: RealRuns) -> None:
    """A server that is not there, loads its model (503), answers, is killed and comes back costs no verdict."""
    server = Llama(tmp_path, STEADY, n_parallel=2, n_ctx=2048)
    process = real.start(server.url, "--concurrency", "2")
    try:
        time.sleep(0.5)
        server.start()
        until(lambda: server.log().count(ANSWERED) >= 2, process)
        server.kill()
        time.sleep(4)
        assert process.poll() is None
        server.start()
        while server.status("/health") == 0:
            time.sleep(0.01)
        loading = server.status("/health")
        said = real.ended(process)
    finally:
        process.kill()
        server.kill()
    assert (loading, said.code) == (503, 0), said
    tally = real.run.manifest.tally
    assert (tally.verdicts, tally.failed_verdicts) == (6, 0)
    assert tally.retries.keys() <= {"connection", "loading"}
    assert tally.retries["connection"] >= 1
    assert "the server answers again" in said.err


@pytest.mark.parametrize("ended_by", [signal.SIGINT, signal.SIGKILL])
def test_a_client_that_ends_frees_its_slots(ended_by: signal.Signals, server: Llama, tmp_path: Path) -> None:
    """After Ctrl-C or `kill -9` the server stops long replies that nobody waits for."""
    real, launched, cancelled = RealRuns(tmp_path, cap=800), server.log().count(LAUNCHED), server.log().count(CANCELLED)
    process = real.start(server.url, "-p", "ignore_eos=true", *FREE)
    until(lambda: server.log().count(LAUNCHED) >= launched + 2, process)
    process.send_signal(ended_by)
    said = real.ended(process)
    assert said.code == (130 if ended_by == signal.SIGINT else -signal.SIGKILL)
    while server.log().count(CANCELLED) < cancelled + 2:
        time.sleep(0.05)
    while server.busy():
        time.sleep(0.5)


def test_a_call_that_times_out_frees_its_slot(server: Llama, tmp_path: Path) -> None:
    """The server stops each reply that came too late; the chunk has no verdict."""
    real, cancelled = RealRuns(tmp_path, [["The oven is ready."]], cap=800), server.log().count(CANCELLED)
    said = real.judge(server.url, "-p", "ignore_eos=true", *FREE, "--timeout", "1")
    assert said.code == 3, said
    assert real.run.manifest.tally.failures == {"unreachable": 1}
    tries = sum(real.run.manifest.tally.retries.values()) + 1
    while server.log().count(CANCELLED) < cancelled + tries or server.busy():
        time.sleep(0.1)
    assert server.log().count(CANCELLED) == cancelled + tries


def test_a_client_that_is_killed_pays_nothing_twice(server: Llama, real: RealRuns) -> None:
    """After `kill -9` the run goes on; the server is asked again for no more than what was in flight."""
    answered, launched = server.log().count(ANSWERED), server.log().count(LAUNCHED)
    process = real.start(server.url, "--concurrency", "2", "--record", "first")
    until(lambda: server.log().count(ANSWERED) >= answered + 3, process)
    process.kill()
    process.communicate()
    assert real.judge(server.url, "--concurrency", "2", "--record", "second", "--resume").code == 0
    tally = real.run.manifest.tally
    assert (tally.verdicts, tally.failed_verdicts) == (6, 0)
    asked = {key for name in ("first", "second") for key in keys(real.shell.folder / name)}
    assert server.log().count(LAUNCHED) - launched <= len(asked) + 2


def keys(tape: Path) -> Iterator[str]:
    """Return the keys of the requests whose replies are on a tape, of which the last line may be torn."""
    for line in tape.read_text(encoding="utf-8").split("\n")[1:-1]:
        yield json.loads(line)["key"]
