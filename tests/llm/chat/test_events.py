"""Servers that stream unless told not to, and replies that hold no answer."""

from __future__ import annotations

from typing import Any

import pytest

from judge_eval import EvalRun, Evaluator, Options
from judge_eval.errors import CallError, FatalCallError, RefusedError, TransientError
from judge_eval.llm.http.openai import create
from tests.support.canned import Canned, error
from tests.support.chat_server import ChatServer
from tests.support.raw_server import RawServer, http
from tests.support.requests import complete

pytestmark = pytest.mark.usefixtures("key")
TRACES = [{"id": f"t{n}", "query": "q?", "reference": "r", "chunks": [f"text {n}"]} for n in range(3)]


def judged(server: ChatServer) -> EvalRun:
    """Judge three traces of one chunk."""
    with Evaluator("openai/m", metrics=["AP@1"], cache=False, options=Options(base_url=server.url)) as evaluator:
        return evaluator.evaluate(TRACES)


def test_a_server_is_told_not_to_stream(chat: ChatServer) -> None:
    """Each request says `"stream": false`, for servers that stream unless told not to."""
    judged(chat)
    assert [call["stream"] for call in chat.calls] == [False] * 3


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
