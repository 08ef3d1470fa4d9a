"""Servers that stream unless told not to, and replies that hold no answer."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge_eval import EvalRun, Evaluator, Options
from judge_eval.errors import CallError, FatalCallError, RefusedError, TransientError
from judge_eval.llm.http.events import read_events
from judge_eval.llm.http.openai import create
from tests.support.canned import Canned, error, reply
from tests.support.chat_answers import completion
from tests.support.chat_server import ChatServer
from tests.support.raw_server import RawServer, http
from tests.support.requests import complete

pytestmark = pytest.mark.usefixtures("key")
TEXT = '{"evidence": "San Marzano", "reason": "It names them.", "verdict": true}'
TRACES = [{"id": f"t{n}", "query": "q?", "reference": "r", "chunks": [f"text {n}"]} for n in range(3)]


def event(value: Any) -> bytes:
    """Write one event."""
    return b"data: " + json.dumps(value, ensure_ascii=False).encode() + b"\n\n"


def piece(delta: dict[str, Any], finish: str | None = None, **more: Any) -> bytes:
    """Write the event of a piece of a message."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish, **more}
    return event({"object": "chat.completion.chunk", "model": "some-model", "choices": [choice]})


def judged(server: ChatServer) -> EvalRun:
    """Judge three traces of one chunk."""
    with Evaluator("openai/m", metrics=["AP@1"], cache=False, options=Options(base_url=server.url)) as evaluator:
        return evaluator.evaluate(TRACES)


def streamed(text: str, *, size: int = 7, finish: str | None = "stop", done: bool = True) -> bytes:
    """Write a text as the events of a stream."""
    pieces = [piece({"content": text[at : at + size]}) for at in range(0, len(text), size)]
    end = [piece({}, finish)] if finish else []
    usage = event({"choices": [], "usage": {"prompt_tokens": 812, "completion_tokens": 41}})
    return b"".join([piece({"role": "assistant"}), *pieces, *end, usage, b"data: [DONE]\n\n" if done else b""])


class Streaming(ChatServer):
    """A server that streams, some unless they are told not to and some always."""

    always = True

    def answer(self, raw: bytes, headers: dict[str, str]) -> Canned:
        """Decide on the reply to one call."""
        canned = super().answer(raw, headers)
        body = json.loads(raw)
        if not self.always and body.get("stream") is False:
            return canned
        text = canned.body["choices"][0]["message"]["content"]
        return Canned(200, {"content-type": "text/event-stream"}, streamed(text))


@pytest.mark.parametrize("always", [True, False])
def test_a_server_that_streams_costs_one_call_for_each_chunk(always: bool) -> None:
    """Whether a server heeds `"stream": false` or not: one call for each chunk, every verdict and all tokens."""
    with Streaming() as server:
        server.always = always
        run = judged(server)
    assert [call["stream"] for call in server.calls] == [False] * 3
    assert [outcome.kind for result in run.results for outcome in result.outcomes] == ["verdict"] * 3
    assert run.manifest.tally.output_tokens > 0


def test_a_stream_is_read_as_the_reply_without_streaming(chat: ChatServer) -> None:
    """Text, thoughts, log-probabilities, model, usage and end of a stream are those of the plain reply."""
    plain = completion({"messages": [], "logprobs": True, "model": "m"}, TEXT, reasoning_content="It is short.")
    parts = [
        b": a comment\r\n\r\n",
        piece({"role": "assistant", "reasoning_content": "It is "}),
        piece({"reasoning_content": "short."}),
        *[piece({"content": each["token"]}, logprobs={"content": [each]}) for each in _tokens(plain)],
        piece({"content": ""}, "stop"),
        event({"choices": [], "model": plain["model"], "usage": plain["usage"]}),
        b"data: [DONE]\n\n",
    ]
    chat.script(Canned(body=plain), Canned(body=b"".join(parts)))
    backend = create("m", base_url=chat.url, params={"logprobs": True})
    assert complete(backend) == complete(backend)


def _tokens(body: dict[str, Any]) -> list[Any]:
    return list(body["choices"][0]["logprobs"]["content"])


@given(st.text(max_size=60), st.integers(1, 9), st.sampled_from([b"\n", b"\r\n", b"\r"]), st.integers(0, 600))
def test_a_stream_may_be_cut_anywhere(text: str, size: int, end: bytes, cut: int) -> None:
    """The pieces of a text make the text, in any lines; of a cut stream a beginning is read, and it counts as cut."""
    content = streamed(text, size=size).replace(b"\n", end)
    whole = read_events(content)
    assert whole is not None
    assert whole["choices"][0]["message"].get("content", "") == text
    assert whole["choices"][0]["finish_reason"] == "stop"
    part = read_events(content[:cut])
    if part is not None and cut < len(content):
        assert text.startswith(part["choices"][0]["message"].get("content", ""))
        assert part["choices"][0]["finish_reason"] == (
            "stop" if b'"finish_reason": "stop"}' in content[:cut] else "length"
        )


def test_a_stream_that_stays_open_ends_with_its_last_event() -> None:
    """A server that keeps the connection after `[DONE]` costs one call and no time-out, also if that is torn in two."""
    body = streamed(TEXT)
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
    waiting = threading.Event()

    def pieces(_: bytes) -> Iterator[bytes]:
        yield head + body[:-6]
        yield body[-6:]
        waiting.wait(60)

    with RawServer(pieces) as server:
        assert complete(create("m", base_url=server.url, timeout=30)).text == TEXT
        waiting.set()
    assert len(server.requests) == 1


def test_an_error_in_a_stream_is_the_servers_error(chat: ChatServer) -> None:
    """A stream that ends in an error stands for the error, with the kind that it names."""
    chat.script(reply("stream_error"))
    with pytest.raises(TransientError, match="overloaded") as caught:
        complete(create("m", base_url=chat.url))
    assert caught.value.kind == "rate_limit"


NO_ANSWER: list[Any] = [
    "<html>Sign in</html>", "", "[]", '"no"', "{}", '{"choices": null}', '{"choices": []}', '{"id": "1", "choi',
    'data: {"id": "1"}\n\n', "data: [DONE]\n\n",
]  # fmt: skip


@pytest.mark.parametrize("body", NO_ANSWER)
def test_what_was_answered_with_200_is_never_asked_again(chat: ChatServer, body: str) -> None:
    """A reply without an answer may have been billed: its chunk costs one call and says `unparsable`."""
    chat.script(*[Canned(body=body)] * 30)
    run = judged(chat)
    assert len(chat.calls) == 3
    outcomes = [outcome for result in run.results for outcome in result.outcomes]
    assert [outcome.why for outcome in outcomes if outcome.kind == "no_verdict"] == ["unparsable"] * 3
    assert "HTTP 200" in outcomes[0].detail


def test_invalid_gzip_of_an_answer_is_not_asked_again() -> None:
    """A reply that is labelled gzip and is not: final with 200, and asked again with 503."""
    for status, kind in ((200, RefusedError), (503, TransientError)):
        with RawServer(lambda _, status=status: http(status, b"no", "content-encoding: gzip")) as server:
            with pytest.raises(CallError) as caught:
                complete(create("m", base_url=server.url))
            assert type(caught.value) is kind


def test_answers_that_are_none_end_a_long_run() -> None:
    """Twenty traces in a row whose reply holds no answer end the run: the address is a wrong one."""
    with RawServer(lambda _: http(200, b"<html>Sign in</html>")) as server:
        options = Options(base_url=server.url, concurrency=1)
        many = [{**TRACES[0], "id": f"t{n}", "chunks": [f"text {n}"]} for n in range(40)]
        with (
            Evaluator("openai/m", cache=False, options=options) as evaluator,
            pytest.raises(FatalCallError, match="last 20"),
        ):
            evaluator.evaluate(many)
    assert 20 <= len(server.requests) < 40


def test_a_server_without_the_field_is_asked_without_it(chat: ChatServer) -> None:
    """A server that objects to `stream` gets requests without it, and so does one of which it is stated."""
    chat.script(*[error(400, "Unrecognized request argument supplied: stream")] * 2)
    backend = create("m", base_url=chat.url)
    assert complete(backend).dropped == ("stream",)
    assert "stream" not in chat.calls[-1]
    complete(create("m", base_url=chat.url, unsupported=["stream"]))
    assert "stream" not in chat.calls[-1]
