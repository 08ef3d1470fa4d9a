from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from judge_eval import EvalRun
from judge_eval.llm.cache.disk import DiskStore
from judge_eval.server.rest_client import Client
from tests.support.canned import Canned, error
from tests.support.chat_server import ChatServer
from tests.support.waiting import until

TRACES, CHUNKS, ANSWERED = 6, 4, 10


def start(root: Path, chat: ChatServer, *more: str) -> tuple[subprocess.Popen[str], str]:
    """Start the real command in a process of its own; returns it with its address."""
    command = [
        sys.executable, "-m", "judge_eval", "serve", "--out", str(root / "runs"), "--port", "0",
        "--model", "openai/some-model", "--base-url", chat.url, "--cache", str(root / "cache"), *more,
    ]  # fmt: skip
    environment = {**os.environ, "OPENAI_API_KEY": "sk-secret-secret", "JUDGE_EVAL_SERVER_TOKEN": ""}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    line = process.stdout.readline()
    if "http://" not in line:
        process.kill()
        pytest.fail(f"{line!r} {process.communicate()}")
    return process, line.split()[-1]


def submit(client: Client) -> str:
    """Submit traces whose chunks all differ."""
    for i in range(TRACES):
        chunks = [f"Chunk {j} of trace {i} says so." for j in range(CHUNKS)]
        client.add_trace(f"Question {i}?", chunks, reference=f"Reference {i}.", id=f"q{i}")
    return client.evaluate(label="long").uuid


@pytest.mark.slow
@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM], ids=["kill -9", "stopped"])
def test_a_restart_completes_the_run_and_pays_no_verdict_twice(tmp_path: Path, ending: signal.Signals) -> None:
    """Killed half way, the server goes on at its next start and asks for no verdict that was answered."""
    with ChatServer() as chat:
        # The first calls are answered; the others hang until the server is gone, so none of them is paid.
        chat.script(*[Canned()] * ANSWERED, *[Canned(fate="hang")] * 500)
        process, url = start(tmp_path, chat)
        try:
            uuid = submit(Client(url))
            until(lambda: chat.counts["hang"] >= 1, process)
            until(lambda: DiskStore(tmp_path / "cache").info().entries == ANSWERED, process)
        finally:
            process.send_signal(ending)
            process.communicate(timeout=60)
        assert process.returncode == (0 if ending == signal.SIGTERM else -signal.SIGKILL)
        before = [json.dumps(call, sort_keys=True) for call in chat.calls]
        assert chat.counts["paid"] == ANSWERED
        chat.reset()
        process, url = start(tmp_path, chat)
        try:
            run = Client(url).get_eval_run(uuid, wait=60)
        finally:
            process.kill()
            out, err = process.communicate(timeout=60)
        assert run.status == "done"
        assert run.manifest.tally.verdicts == TRACES * CHUNKS
        after = [json.dumps(call, sort_keys=True) for call in chat.calls]
        assert not set(before[:ANSWERED]) & set(after)
        assert chat.counts["paid"] == TRACES * CHUNKS - ANSWERED
        assert len(set(after)) == len(after)
        files = [path for path in (tmp_path / "runs").rglob("*") if path.is_file()]
        assert not any(b"sk-secret" in path.read_bytes() for path in files)
        assert "sk-secret" not in out + err


@pytest.mark.slow
def test_sigterm_ends_an_idle_server_with_success(tmp_path: Path) -> None:
    """A service manager that stops the server sees no failure, and nothing is printed."""
    with ChatServer() as chat:
        process, url = start(tmp_path, chat)
        assert Client(url).list_runs() == ()
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (0, "")


@pytest.mark.slow
def test_a_second_sigterm_ends_the_server_at_once(tmp_path: Path) -> None:
    """The first SIGTERM lets calls under way finish; the second does not wait, and the run goes on later."""
    with ChatServer() as chat:
        chat.script(*[Canned(fate="hang")] * 500)
        process, url = start(tmp_path, chat)
        try:
            uuid = submit(Client(url))
            until(lambda: chat.counts["hang"] > 2, process)
        finally:
            while process.poll() is None:
                process.send_signal(signal.SIGTERM)
                time.sleep(0.5)  # two that come before the first was seen are one
            _, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (143, "")
        (folder,) = (tmp_path / "runs").glob(f"*-{uuid[:8]}")
        assert EvalRun.load(folder).status == "running"  # nobody had the time to write more


@pytest.mark.slow
def test_a_run_that_cannot_be_judged_fails_with_its_reason(tmp_path: Path) -> None:
    """A refused key makes the run `failed`, with a message that holds no key; it can be resumed."""
    with ChatServer() as chat:
        chat.script(*[error(401, "Incorrect API key provided: sk-secret-secret", code="invalid_api_key")] * 200)
        process, url = start(tmp_path, chat)
        try:
            client = Client(url)
            uuid = submit(client)
            until(lambda: client.list_runs()[0].status == "failed", process)
            result = client.list_runs()[0]
            assert result.error
            assert "sk-secret-secret" not in result.error
            chat._scripted.clear()
            client._raw("POST", f"/runs/{uuid}/resume")
            assert client.get_eval_run(uuid).status == "done"
            assert client.list_runs()[0].error is None
        finally:
            process.kill()
            process.communicate(timeout=60)


@pytest.mark.slow
def test_a_server_with_another_judge_does_not_touch_the_run(tmp_path: Path) -> None:
    """A run submitted under one judge is never finished by another: it fails and says what differs."""
    with ChatServer() as chat:
        chat.script(*[Canned(fate="hang")] * 500)
        process, url = start(tmp_path, chat)
        try:
            uuid = submit(Client(url))
            until(lambda: chat.counts["hang"] > 0, process)
        finally:
            process.kill()
            process.communicate(timeout=60)
        chat.reset()
        process, url = start(tmp_path, chat, "--prompt", "support/graded")
        try:
            client = Client(url)
            until(lambda: client.list_runs()[0].status == "failed", process)
            assert "differs" in (client.list_runs()[0].error or "")
            assert not chat.calls
        finally:
            process.kill()
            process.communicate(timeout=60)
        (folder,) = (tmp_path / "runs").iterdir()
        assert EvalRun.load(folder).id == uuid
