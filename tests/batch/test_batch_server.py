"""What a server of batches sends is bounded too, and at worst an error of the package's own."""

from __future__ import annotations

import gzip
import json
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from judge_eval.batch.batch_server import Remote
from judge_eval.batch.gemini_batches import GeminiBatches
from judge_eval.batch.message_batches import MessageBatches
from judge_eval.batch.openai_batches import OpenAIBatches
from judge_eval.batch.orders import refresh
from judge_eval.batch.state import BatchState, Folder
from judge_eval.errors import CallError, FatalCallError, JudgeEvalError
from judge_eval.llm.http.client import Address
from tests.support.odd import KEY, full_count, holds_key, mutated, odd_reply, odd_spelling
from tests.support.raw_server import RawServer, http

BATCH = {
    "id": "batch_1", "object": "batch", "endpoint": "/v1/chat/completions", "completion_window": "24h",
    "created_at": 1750000000, "input_file_id": "file-1", "status": "in_progress", "metadata": {"a": "b"},
    "request_counts": {"total": 3, "completed": 1, "failed": 0}, "errors": None, "output_file_id": None,
}  # fmt: skip
MESSAGES = {
    "id": "batch_1", "type": "message_batch", "processing_status": "ended", "created_at": "2026-01-02T03:04:05Z",
    "request_counts": {"processing": 0, "succeeded": 1, "errored": 0, "canceled": 0, "expired": 0},
    "results_url": "https://elsewhere.example/results",
}  # fmt: skip
OPERATION = {
    "name": "batches/batch_1", "done": True, "response": {},
    "metadata": {
        "state": "BATCH_STATE_SUCCEEDED", "displayName": "judge_eval a 1", "createTime": "2026-01-02T03:04:05.5Z",
        "batchStats": {"requestCount": "3", "successfulRequestCount": "3"}, "output": {"responsesFile": "files/x"},
    },
}  # fmt: skip
WIRES = [(OpenAIBatches, BATCH), (MessageBatches, MESSAGES), (GeminiBatches, OPERATION)]
STATE = {
    "settings": {"data": "x.jsonl", "model": "openai/m"}, "judge": {}, "backend": {},
    "dataset": {"name": "x", "digest": "0" * 64, "traces": 1, "chunks": 1},
    "rounds": [{"number": 1, "parts": [{
        "name": "part-0001.jsonl", "digest": "0" * 64, "requests": 1, "bytes": 1, "phase": "submitted",
        "batch_id": "batch_1",
    }]}],
}  # fmt: skip


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key, and no setting of the machine's own."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


def remote(url: str, timeout: float = 60.0, kind: type[Remote] = OpenAIBatches) -> Remote:
    """Make a remote that asks once."""
    made = kind(Address.parse(url), timeout=timeout)
    made._client.max_retries = 0
    return made


def asked(answer: bytes | Callable[[bytes], Any], timeout: float = 60.0) -> Any:
    """Ask about a batch."""
    with RawServer(answer if callable(answer) else lambda _: answer) as server:
        made = remote(server.url, timeout)
        try:
            return made.retrieve("batch_1")
        finally:
            made.close()


def test_a_redirect_names_both_hosts() -> None:
    """The key and the requests go to no other host."""
    with RawServer(lambda _: http(200, json.dumps(BATCH).encode())) as elsewhere:
        target = elsewhere.url.replace("127.0.0.1", "localhost")
        with pytest.raises(FatalCallError, match="redirects are not followed") as caught:
            asked(http(307, b"", f"location: {target}/batches/batch_1"))
    assert target.removesuffix("/v1") in str(caught.value)
    assert not elsewhere.requests


@pytest.mark.slow
def test_replies_are_bounded() -> None:
    """An endless reply, one in gzip and one that drips end as errors of the call."""

    def endless(_: bytes) -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
        while True:
            yield b"10000\r\n" + b" " * 0x10000 + b"\r\n"

    def dripping(_: bytes) -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 10000\r\n\r\n"
        for _ in range(200):
            time.sleep(0.05)
            yield b" "

    with pytest.raises(CallError, match="larger than 16,000,000"):
        asked(endless)
    body = gzip.compress(json.dumps(BATCH).encode())
    with pytest.raises(CallError, match="not asked for"):
        asked(http(200, body, "content-type: application/json", "content-encoding: gzip"))
    with pytest.raises(CallError, match="content coding"):
        asked(http(200, body, "content-type: application/json", "content-encoding: br"))
    with pytest.raises(CallError, match=r"within 0.5 s"):
        asked(dripping, timeout=0.5)


def test_a_file_of_results_may_be_larger(tmp_path: Path) -> None:
    """The content of a file goes to the disk, however much it is; in a coding it is refused."""
    content = b"x" * 20_000_000
    with RawServer(lambda _: http(200, content)) as server:
        made = remote(server.url)
        made.download("file-1", tmp_path / "got")
        made.close()
    assert (tmp_path / "got").stat().st_size == len(content)
    with RawServer(lambda _: http(200, gzip.compress(content), "content-encoding: gzip")) as server:
        made = remote(server.url)
        with pytest.raises(CallError, match="not asked for"):
            made.download("file-1", tmp_path / "other")
        made.close()
    assert not (tmp_path / "other").exists()


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "sound"), WIRES)
def test_odd_answers_about_batches(tmp_path: Path, kind: type[Remote], sound: dict[str, Any]) -> None:
    """Whatever a server says of a batch, and however, is a batch or an error of the package's own."""
    rng, result = random.Random(41), 0

    def answer(_: bytes) -> bytes:
        status, headers, body = odd_reply(rng)
        if rng.random() < 0.7:
            status, headers, body = 200, {}, odd_spelling(mutated(sound, rng), rng)
        lines = [f"{name}: {value}" for name, value in headers.items() if len(value) < 9000 and value.isprintable()]
        return http(status, body, "content-type: application/json", *lines)

    count, state = full_count(150, 0.02), BatchState.model_validate(STATE)
    with RawServer(answer) as server, Folder(tmp_path / "batch", make=True) as folder:
        made = remote(server.url, kind=kind)
        for number in range(count):
            folder.save(state)
            try:
                if number % 3:
                    refresh(folder, made)
                    assert not holds_key((tmp_path / "batch" / "batch.json").read_text())
                else:
                    list(made.batches())
                result += 1
            except JudgeEvalError as error:
                check(error)
        made.close()
    assert count / 20 < result < count


def check(error: JudgeEvalError) -> None:
    """See that an error can be shown, and says no key."""
    assert not holds_key(str(error))
    assert len(str(error).encode()) < 3000


@pytest.mark.parametrize("place", ["id", "status", "input_file_id", "output_file_id"])
def test_a_name_that_holds_the_key_is_refused(place: str) -> None:
    """What a server calls its batch is stored and shown; the key in it is not."""
    with pytest.raises(CallError, match="contains the key") as caught:
        asked(http(200, json.dumps({**BATCH, place: f"x{KEY[3:]}"}).encode()))
    assert not holds_key(str(caught.value))


def test_downloaded_replies_hold_no_key(tmp_path: Path) -> None:
    """Wherever the server repeats the key, also between two pieces, stars are written; the rest stays."""
    body = b"".join(b"%d " % number for number in range(200_000)) + "ä\xff".encode("latin-1")
    half = 2**20 - 20
    body = KEY.encode() + body[:half] + KEY.encode() + body[half:] + KEY.encode()
    with RawServer(lambda _: http(200, body)) as server:
        made = remote(server.url)
        made.download("file-1", tmp_path / "replies")
        made.close()
    assert (tmp_path / "replies").read_bytes() == body.replace(KEY.encode(), b"***")
