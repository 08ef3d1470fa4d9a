"""Whatever stands in a batch's result file is at worst the failure of its request."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from judge_eval.batch.message_batches import MessageBatches
from judge_eval.batch.openai_batches import OpenAIBatches
from judge_eval.batch.replies import Answers
from judge_eval.errors import CallError
from judge_eval.llm.http.openai import create
from judge_eval.wire import Completion
from tests.support.odd import KEY, VALID, full_count, holds_key, mutated, odd_body, odd_spelling, use


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key in the environment."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


def line_of_result(number: int, rng: random.Random) -> bytes:
    """Write a line about a request, with something wrong in it."""
    reply = rng.choice(VALID)
    line: Any = {
        "id": f"batch_req_{number}",
        "custom_id": number.to_bytes(32).hex(),
        "response": {"status_code": reply["status"], "request_id": "r", "body": reply["body"]},
        "error": None,
    }
    kind = rng.random()
    if kind < 0.2:
        line["response"]["body"] = odd_body(rng).decode("utf-8", "replace")
    elif kind < 0.3:
        line["response"], line["error"] = None, {"code": "batch_expired", "message": KEY}
    kept = mutated(line, rng)
    if isinstance(kept, dict) and rng.random() < 0.9:
        kept["custom_id"] = line["custom_id"]
    return odd_spelling(kept, rng).replace(b"\n", b" ") + b"\n"


@pytest.mark.slow
def test_odd_lines(tmp_path: Path) -> None:
    """Each line is a completion, an error of its request, to be asked again, or counted as unreadable."""
    rng, path = random.Random(31), tmp_path / "result.jsonl"
    count, done = full_count(2000), 0
    values = {"completion": 0, "error": 0, "nothing": 0}
    while done < count:
        block = range(done, min(done + 2000, count))
        written = [line_of_result(number, rng) for number in block]
        path.write_bytes(b"".join(written))
        answers = Answers([path], create("m", base_url="https://host.example/v1"), OpenAIBatches.reply)
        for number in block:
            answer = answers.find(number.to_bytes(32))
            if isinstance(answer, Completion):
                values["completion"] += 1
                use(answer)
                assert not holds_key(answer.text + answer.model)
            elif isinstance(answer, CallError):
                values["error"] += 1
                assert not holds_key(answer.detail)
                answer.detail.encode()
            else:
                values["nothing"] += 1
        assert answers.unreadable + len(answers._index) + answers.doubled == sum(map(bool, map(bytes.strip, written)))
        for text in (*answers.unanswered, *answers.declined):
            assert not holds_key(text)
            assert len(text) < 1000
            text.encode()
        done += len(block)
    assert all(number > count / 50 for number in values.values()), values


@pytest.mark.parametrize("status", [401, 402, 403, 404, 302])
def test_a_line_that_says_no_call_can_succeed_ends_nothing(tmp_path: Path, status: int) -> None:
    """A failure that would end a run online is one line's here: its request is open again."""
    good = next(reply["body"] for reply in VALID if reply["status"] == 200 and "choices" in reply["body"])
    bodies = [(status, {"error": {"message": f"no {KEY}"}}), (200, good)]
    path = tmp_path / "result.jsonl"
    lines = [
        {"custom_id": number.to_bytes(32).hex(), "response": {"status_code": code, "body": body}}
        for number, (code, body) in enumerate(bodies)
    ]
    path.write_text("\n".join(map(json.dumps, lines)) + "\n")
    answers = Answers([path], create("m", base_url="https://host.example/v1"), OpenAIBatches.reply)
    assert answers.find((0).to_bytes(32)) is None
    assert isinstance(answers.find((1).to_bytes(32)), Completion)
    (result,) = answers.unanswered
    assert f"HTTP {status}" in result
    assert not holds_key(result)


def test_a_lone_surrogate_is_a_reply_that_was_paid(tmp_path: Path) -> None:
    """A line that spells half a character is read, not thrown away."""
    path = tmp_path / "result.jsonl"
    body = {"choices": [{"message": {"content": "half \ud800"}, "finish_reason": "stop"}]}
    line = {"custom_id": "00" * 32, "response": {"status_code": 200, "body": body}}
    path.write_text(json.dumps(line) + "\n")
    answers = Answers([path], create("m", base_url="https://host.example/v1"), OpenAIBatches.reply)
    answer = answers.find(bytes(32))
    assert isinstance(answer, Completion)
    assert answer.text == "half \ufffd"
    assert answers.unreadable == 0


def test_a_refused_line_names_its_request(tmp_path: Path) -> None:
    """As in an online call, the server's name of the request stands behind its words, once, and without a key."""
    path, number = tmp_path / "result.jsonl", b"\1" * 32
    failed = {"error": {"message": "no such chunk", "code": "x", "param": None}}
    for name, shown in (("req_7", " (req_7)"), (KEY, " (***)"), (None, ""), (["x"], "")):
        line = {"custom_id": number.hex(), "response": {"status_code": 451, "request_id": name, "body": failed}}
        path.write_text(json.dumps(line) + "\n")
        answer = Answers([path], create("m", base_url="https://host.example/v1"), OpenAIBatches.reply).find(number)
        assert isinstance(answer, CallError)
        assert answer.detail == f"HTTP 451 from https://host.example/v1: no such chunk{shown}"
    error = {"type": "error", "error": {"type": "invalid_request_error", "message": "no"}, "request_id": "req_8"}
    record = {"custom_id": number.hex(), "result": {"type": "errored", "error": error}}
    assert MessageBatches.reply(record).request_id == "req_8"
