"""Every shape a chat server's reply takes, over real HTTP."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from judge_eval.errors import CallError, FatalCallError, RefusedError, TransientError
from judge_eval.llm.http.openai import create
from judge_eval.llm.limit import Quota, RateSignal
from judge_eval.wire import Completion, Usage
from tests.support.canned import REPLIES, Canned, reply
from tests.support.chat_server import ChatServer
from tests.support.requests import complete

KEY = "sk-test-0123456789abcdef"


@pytest.fixture(scope="module")
def chat() -> Iterator[ChatServer]:
    """One server for the module."""
    with ChatServer() as server:
        yield server


@pytest.fixture(autouse=True)
def fresh(chat: ChatServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget the last test's calls, and have a key."""
    chat.reset()
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


READ = {
    "binary": ("stop", '{"evidence"'),
    "graded": ("stop", '{"evidence"'),
    "listwise": ("stop", '{"verdicts"'),
    "fenced": ("stop", "```json"),
    "prose": ("stop", "Sure!"),
    "quoted_object": ("stop", "The chunk contains"),
    "draft_object": ("stop", '{"evidence"'),
    "reasoning_object": ("stop", ""),
    "think": ("stop", "<think>"),
    "reasoning_content": ("stop", '{"evidence"'),
    "reasoning_only": ("length", ""),
    "content_parts": ("stop", '{"evidence"'),
    "refusal": ("refusal", "I'm sorry"),
    "length": ("length", '{"evidence"'),
    "loop": ("length", '{"evidence"'),
    "content_filter_finish": ("filter", '{"evidence"'),
    "malformed": ("stop", '{"evidence"'),
    "logprobs": ("stop", '{"verdict": true}'),
    "no_usage": ("stop", '{"evidence"'),
    "ollama": ("stop", '{"evidence"'),
    "reasoning_tokens": ("stop", '{"evidence"'),
    "stream": ("stop", '{"evidence"'),
    "stream_cut": ("length", '{"evidence"'),
}
TRANSIENT = {
    "error_in_200": ("server", True),
    "rate_limit_in_200": ("rate_limit", False),
    "error_in_choice": ("server", True),
    "stream_error": ("rate_limit", False),
    "429": ("rate_limit", False),
    "500": ("server", True),
    "502_html": ("server", True),
    "503": ("server", True),
    "503_loading": ("loading", False),
    "529": ("server", True),
}
FATAL = ["insufficient_quota", "401", "402", "403", "404"]
REFUSED = {
    "400_content_filter": "refused",
    "400_context_length": "refused",
    "400_output_limit": "truncated",
    "400_bad_argument": "refused",
    "403_moderation": "refused",
    "413": "refused",
    **dict.fromkeys(
        ["choices_null", "choices_empty", "message_null", "broken_body", "html", "json_string", "empty_body"],
        "unparsable",
    ),
}


@pytest.mark.parametrize("name", READ)
def test_reply_is_read(chat: ChatServer, name: str) -> None:
    """A reply with a message becomes a completion, with the way it ended."""
    chat.script(reply(name))
    finish, start = READ[name]
    completion = complete(create("m", base_url=chat.url))
    assert completion.finish == finish
    assert completion.text.startswith(start)
    assert bool(completion.text) == bool(start)
    assert Completion.decode(completion.encode()) == completion


@pytest.mark.parametrize("name", TRANSIENT)
def test_transient_failure(chat: ChatServer, name: str) -> None:
    """What may pass is a `TransientError` after exactly one request: nobody retries below."""
    chat.script(reply(name))
    with pytest.raises(TransientError) as caught:
        complete(create("m", base_url=chat.url))
    assert (caught.value.kind, caught.value.sent) == TRANSIENT[name]
    assert len(chat.calls) == 1


@pytest.mark.parametrize("name", FATAL)
def test_fatal_failure(chat: ChatServer, name: str) -> None:
    """What no repetition can cure ends the run, without a key in the message."""
    chat.script(reply(name))
    with pytest.raises(FatalCallError) as caught:
        complete(create("m", base_url=chat.url))
    assert "HTTP 4" in str(caught.value)
    assert "sk-" not in str(caught.value)
    assert len(chat.calls) == 1


@pytest.mark.parametrize("name", REFUSED)
def test_refused_request(chat: ChatServer, name: str) -> None:
    """What the server will not do for this request, or answers with nothing, is final and leaves nothing out later."""
    chat.script(reply(name))
    backend = create("m", base_url=chat.url)
    with pytest.raises(RefusedError) as caught:
        complete(backend)
    assert caught.value.why == REFUSED[name]
    assert backend.capabilities.dropped == ()


def test_every_recorded_reply_is_tested() -> None:
    """No file in the folder of replies is left out here or among the objections."""
    objections = {path.stem for path in REPLIES.glob("*.json") if path.stem.startswith(("400", "422", "403_l"))}
    tested = {*READ, *TRANSIENT, *FATAL, *REFUSED}
    assert {path.stem for path in REPLIES.glob("*.json")} - objections == tested - objections


@pytest.mark.parametrize("name", ["refusal", "length", "content_filter_finish"])
def test_billed_without_verdict(chat: ChatServer, name: str) -> None:
    """Completions without a verdict were billed: their usage is kept."""
    chat.script(reply(name))
    assert complete(create("m", base_url=chat.url)).usage.input_tokens == 812


def test_usage_in_full(chat: ChatServer) -> None:
    """Cached and reasoning tokens are counted."""
    chat.script(reply("binary"), reply("reasoning_tokens"))
    backend = create("m", base_url=chat.url)
    assert complete(backend).usage == Usage(812, 41, 512, 0)
    assert complete(backend).usage == Usage(812, 300, 0, 256)


@pytest.mark.parametrize("usage", [{"prompt_tokens": None}, {"prompt_tokens": -1}, {"prompt_tokens": "9"}, [], 3])
def test_odd_usage(chat: ChatServer, usage: object) -> None:
    """Usage that is no count is no usage, and not an error."""
    body = {"choices": [{"message": {"content": "x"}}], "usage": usage}
    chat.script(Canned(body=body))
    assert complete(create("m", base_url=chat.url)).usage == Usage()


def test_logprobs_read(chat: ChatServer) -> None:
    """Log-probabilities come with their alternatives."""
    chat.script(reply("logprobs"))
    asked = create("m", base_url=chat.url, params={"logprobs": True, "top_logprobs": 5})
    completion = complete(asked)
    assert chat.calls[0]["logprobs"] is True
    assert completion.logprobs[1].token == " true"
    assert completion.logprobs[1].top == ((" true", -0.105), (" false", -2.303))


def test_infinite_logprob(chat: ChatServer) -> None:
    """-Infinity, which JSON cannot hold, is read as OpenAI's -9999 and can be stored."""
    text = '{"choices":[{"message":{"content":"x"},"logprobs":{"content":[{"token":"x","logprob":-Infinity}]}}]}'
    chat.script(Canned(body=text))
    completion = complete(create("m", base_url=chat.url))
    assert completion.logprobs[0].logprob == -9999.0
    assert Completion.decode(completion.encode()) == completion


def test_lone_surrogate_in_reply(chat: ChatServer) -> None:
    """A reply with half a surrogate pair can still be stored."""
    chat.script(Canned(body='{"choices":[{"message":{"content":"a\\ud800b"}}]}'))
    completion = complete(create("m", base_url=chat.url))
    assert completion.text == "a�b"
    assert completion.encode()


def test_retry_after_prefers_milliseconds(chat: ChatServer) -> None:
    """`retry-after-ms` goes before `Retry-After`, and this before the resets."""
    chat.script(reply("429"))
    with pytest.raises(TransientError) as caught:
        complete(create("m", base_url=chat.url))
    assert caught.value.retry_after == 1.5


def test_advertised_limits_are_told(chat: ChatServer) -> None:
    """The listener hears the limits of good replies and of bad ones."""
    heard: list[RateSignal] = []
    backend = create("m", base_url=chat.url)
    backend.listener = heard.append
    limits = {"x-ratelimit-limit-requests": "500", "x-ratelimit-remaining-requests": "499"}
    chat.script(reply("binary", headers=limits), reply("429"))
    complete(backend)
    with pytest.raises(TransientError):
        complete(backend)
    assert heard[0] == RateSignal(Quota(500, 499, None), None)
    assert heard[1] == RateSignal(Quota(500, 0, 0.12), Quota(200000, 150000, 360.0))


def test_key_echoed_by_server(chat: ChatServer) -> None:
    """A server that repeats the key in an error does not get it into ours."""
    chat.script(Canned(500, {}, {"error": {"message": f"bad header: Bearer {KEY}"}}))
    with pytest.raises(CallError) as caught:
        complete(create("m", base_url=chat.url))
    assert KEY not in str(caught.value)
    assert KEY not in repr(caught.value)
    assert "bad header" in str(caught.value)
