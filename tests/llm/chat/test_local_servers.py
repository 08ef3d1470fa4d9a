"""Servers on this machine: started late, loading, slow, few calls at a time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from judge_eval import EvalRun, Evaluator, Options
from judge_eval.llm.cache.cached import cache_key
from judge_eval.llm.http.openai import OpenAI
from tests.support.canned import error, reply
from tests.support.chat_server import ChatServer
from tests.support.ports import quiet_port

TRACES = [{"id": f"t{n}", "query": "q?", "reference": "r", "chunks": [f"text {n}"]} for n in range(12)]


@pytest.fixture
def server() -> Iterator[ChatServer]:
    """A server of this machine that needs no key."""
    with ChatServer() as made:
        yield made


def judged(url: str, **options: object) -> EvalRun:
    """Judge all traces with a server of llama.cpp."""
    with Evaluator("llamacpp/m", cache=False, options=Options(base_url=url, **options)) as evaluator:  # type: ignore[arg-type]
        return evaluator.evaluate(TRACES)


@pytest.mark.slow
def test_a_server_that_starts_after_the_run(caplog: pytest.LogCaptureFixture) -> None:
    """A server that is there 3 seconds later costs no verdict; people are told what is waited for and how it starts."""
    late = ChatServer(port=quiet_port())
    timer = threading.Timer(3.0, late.__enter__)
    timer.start()
    try:
        run = judged(late.url)
    finally:
        timer.join()
        late.__exit__()
    assert run.manifest.tally.failed_verdicts == 0
    assert "`llama-server -m FILE.gguf` starts it); waits up to 20 s for it" in caplog.text


def test_a_server_that_loads_its_model(server: ChatServer) -> None:
    """Attempts while the model loads do not count among the eight."""
    server.script(*[reply("503_loading")] * 4)
    run = judged(server.url, concurrency=1, attempts=2)
    assert run.manifest.tally.failed_verdicts == 0
    assert run.manifest.tally.retries == {"loading": 4}


def schema_of(call: dict[str, Any]) -> dict[str, Any]:
    """The fields of the schema in a request."""
    fields: dict[str, Any] = call["response_format"]["json_schema"]["schema"]["properties"]
    return fields


def test_texts_of_a_reply_are_bounded_where_the_server_takes_it(server: ChatServer) -> None:
    """A grammar ends evidence and reason of small models; hosts, which decline `maxLength`, never get it."""
    judged(server.url)
    fields = schema_of(server.calls[0])
    assert (fields["evidence"]["maxLength"], fields["reason"]["maxLength"]) == (600, 300)
    with Evaluator("openai/m", cache=False, options=Options(base_url=server.url)) as evaluator:
        evaluator.evaluate(TRACES[:1])
    assert "maxLength" not in str(server.calls[-1])


def test_bounds_are_left_out_where_a_server_objects(server: ChatServer) -> None:
    """The objection costs the bounds alone, not the schema, and the run says so."""
    server.script(*[error(400, "Invalid schema for response_format: 'maxLength' is not permitted.")] * 2)
    run = judged(server.url, concurrency=1)
    assert run.manifest.tally.failed_verdicts == 0
    assert run.manifest.tally.dropped == ("maxLength",)
    assert schema_of(server.calls[-1])["evidence"] == {"type": "string"}


def test_answers_to_a_bounded_schema_have_keys_of_their_own() -> None:
    """What a model may write is part of the key; with `unsupported` the key is the one without bounds."""
    url = "http://127.0.0.1:9/v1"
    plain, bounded, without = (
        OpenAI("m", base_url=url, provider=provider, unsupported=left_out).identity
        for provider, left_out in (("openai", ()), ("llamacpp", ()), ("llamacpp", ("maxLength",)))
    )
    assert plain is not None
    assert bounded is not None
    assert without is not None
    assert ("maxLength", "true") in bounded.params
    assert without.params == plain.params
    assert cache_key(bounded, b"x") != cache_key(without, b"x")
