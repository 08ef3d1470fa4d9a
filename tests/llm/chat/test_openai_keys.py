"""Keys are sent to the server and stand nowhere else: no message, log, file or parameter holds one."""

from __future__ import annotations

import base64
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from judge_eval import Chunk, Evaluator, Trace
from judge_eval.errors import CallError, ConfigError, FatalCallError, RefusedError
from judge_eval.llm.http.client import Address
from judge_eval.llm.http.openai import OpenAI, create
from judge_eval.llm.http.secrets import Scrubber
from judge_eval.llm.options import Options
from judge_eval.llm.stack import create_backend
from tests.support.canned import Canned
from tests.support.chat_answers import completion
from tests.support.chat_server import ChatServer
from tests.support.requests import complete

KEY = "sk-or-v1-7Qm2xT9bLw4Zc8Rk3Vn6Jp1Hs5Fd0Gy"


def shares(text: str, secret: str, size: int = 8) -> bool:
    """Tell whether so many characters of a secret in a row stand in a text."""
    return any(secret[at : at + size] in text for at in range(len(secret) - size + 1))


def messages() -> list[str]:
    """Place a key at every distance from where a message is cut."""
    words = [f"{'w ' * before}token={KEY} and more" for before in range(110, 160)]
    lines = ["x" * before + f"\n{KEY}" for before in range(4_960, 5_001, 8)]
    return [*words, *lines, " " * 4_980 + KEY, f"\t{KEY}" * 400, KEY * 200, json.dumps({"deep": [KEY]})]


@pytest.mark.parametrize("shape", ["error", "detail", "text", "raw", "json", "param"])
def test_a_message_is_cleaned_before_it_is_cut(chat: ChatServer, shape: str) -> None:
    """Wherever the cut falls, no piece of a key is left before it."""
    backend = create("m", base_url=chat.url)
    for message in messages():
        body: Any = {
            "error": {"error": {"message": message}},
            "detail": {"detail": [{"loc": ["body", "x"], "msg": message}]},
            "text": message,
            "raw": {"error": {"metadata": {"raw": message}}},
            "json": {"error": {"message": [message]}},
            "param": {"detail": [{"loc": [message], "msg": message}]},
        }[shape]
        failure = backend_error(backend, json.dumps(body).encode() if shape != "text" else message.encode())
        assert not shares(failure, KEY, 4), failure
        assert len(failure) < 500


def backend_error(backend: OpenAI, content: bytes) -> str:
    """Read a failure as a batch does, and return its message."""
    from judge_eval.llm.http.failures import Declined

    try:
        backend.read(content, 418)
    except Declined as declined:
        return declined.error.detail
    except RefusedError as error:
        return error.detail
    raise AssertionError("no error")


def test_no_part_of_a_key_reaches_a_run(chat: ChatServer, tmp_path: Path) -> None:
    """A server repeats the key, whole or in part, in errors and in replies: no file of the run has it."""
    chat.verdict = lambda _: {
        "evidence": "",
        "reason": f"I was sent {KEY}, or {KEY[5:25]}.",
        "instruction_in_chunk": False,
        "verdict": False,
    }
    bad = {"error": {"message": "w " * 140 + KEY}}
    chat.script(Canned(418, {}, bad), Canned(400, {}, bad), Canned(400, {}, {"detail": KEY[10:30]}))
    trace = Trace(id="t", query="q", reference="r", chunks=[Chunk(id=str(n), text=f"text {n}") for n in range(5)])
    options = Options(base_url=chat.url, concurrency=1)
    cache = tmp_path / "cache"
    with Evaluator("openai/m", options=options, cache=cache) as evaluator:
        run = evaluator.evaluate(trace, out=tmp_path / "runs")
    assert {outcome.kind for outcome in run.results[0].outcomes} == {"verdict", "no_verdict"}
    reasons = [outcome.reason for outcome in run.results[0].outcomes if outcome.kind == "verdict"]
    assert reasons[0] == "I was sent ***, or ***."
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) > 3
    for path in files:
        assert not shares(path.read_bytes().decode("latin-1"), KEY), path


def test_plain_words_are_no_keys_in_a_reply() -> None:
    """A local server's placeholder for a key does not change what a judge quotes."""
    for key in ("none", "ollama", "not-needed-for-this", "1234567890123456789"):
        text = f"It says: {key}, ollama, not-needed."
        assert Scrubber(key).reply(text) == text


def test_secrets_of_the_environment_are_masked(chat: ChatServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values of variables that hold keys by their name, and a proxy's password, stand in no message."""
    secrets = {
        "HF_TOKEN": "hf_AbCdEfGhIjKlMnOp",
        "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG",
        "JUDGE_EVAL_SERVER_TOKEN": "server-token-1",
        "PGPASSWORD": "correct horse battery",
    }
    for name, value in secrets.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("HTTPS_PROXY", "http://me:proxy-sesame@proxy.example:3128")
    chat.script(
        Canned(418, {}, {"error": {"message": f"{list(secrets.values())} proxy-sesame {secrets['HF_TOKEN'][3:12]}"}})
    )
    with pytest.raises(RefusedError) as caught:
        complete(create("m", base_url=chat.url))
    answers = caught.value.detail
    assert "***" in answers
    for secret in (*secrets.values(), "proxy-sesame"):
        assert not shares(answers, secret)


# Parameters


@pytest.mark.parametrize(
    ("params", "named"),
    [
        ({"api_key": "abc"}, "api_key"),
        ({"API-Key": 5}, "API-Key"),
        ({"openai_api_key": "abc"}, "openai_api_key"),
        ({"extra_headers": {"Authorization": "Bearer x"}}, "extra_headers.Authorization"),
        ({"extra_headers": {"api-key": "x"}}, "extra_headers.api-key"),
        ({"headers": {"x-api-key": "x"}}, "headers.x-api-key"),
        ({"extra_headers": {"Cookie": "a=b"}}, "extra_headers.Cookie"),
        ({"extra_headers": {"Ocp-Apim-Subscription-Key": "x"}}, "extra_headers.Ocp-Apim-Subscription-Key"),
        ({"extra_headers": [["x-auth", "Bearer abcdefgh12"]]}, "extra_headers.0.1"),
        ({"extra_query": {"access_token": "x"}}, "extra_query.access_token"),
        ({"password": "x"}, "password"),
        ({"user": f"me {KEY}"}, "user"),
        ({"metadata": {"a": [KEY]}}, "metadata.a.0"),
    ],
)
def test_parameters_with_credentials_are_refused(
    monkeypatch: pytest.MonkeyPatch, params: dict[str, Any], named: str
) -> None:
    """A key given as a parameter would be written into every run: it is refused with the right way named."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    for make in (lambda: create("m", params=params), lambda: create_backend("openai/m", Options(params=params))):
        with pytest.raises(ConfigError) as caught:
            make()
        message = str(caught.value)
        assert f"parameter {named} holds a credential" in message
        assert "OPENAI_API_KEY" in message
        assert KEY not in message
        assert "Bearer abc" not in message


@pytest.mark.parametrize(
    "params",
    [
        {"max_thinking_tokens": 5, "stop_token_ids": [1], "prompt_cache_key": "a", "user": "me"},
        {"min_tokens": 1, "thinking": {"type": "enabled", "budget_tokens": 5}},
        {"guided_json": {"properties": {"api_key": {"type": "string"}}}, "skip_special_tokens": True},
        {"api_key": None, "extra_headers": {"X-Title": "mine"}, "safety_identifier": "x", "seed": 1},
    ],
)
def test_other_parameters_are_taken(monkeypatch: pytest.MonkeyPatch, params: dict[str, Any]) -> None:
    """Parameters whose names only sound like keys stay."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert create("m", params=params).identity.params


# The base URL


@pytest.mark.parametrize("password", ["s3same-open", "p@ss:w/rd%"])
def test_a_password_in_the_base_url(
    chat: ChatServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path, password: str
) -> None:
    """User and password are sent as Basic in the key's place, by both transports, and stand nowhere else."""
    from urllib.parse import quote

    monkeypatch.delenv("OPENAI_API_KEY")
    caplog.set_level(logging.DEBUG)
    url = chat.url.replace("http://", f"http://someone:{quote(password, safe='')}@")
    backend = create("m", base_url=url)
    assert complete(backend).text
    basic = base64.b64encode(f"someone:{password}".encode()).decode()
    assert chat.headers[0]["authorization"] == f"Basic {basic}"
    chat.script(Canned(418, {}, {"error": {"message": f"no {basic} {password} {quote(password)}"}}))
    with pytest.raises(CallError) as caught:
        complete(backend)
    with Evaluator("openai/m", options=Options(base_url=url), cache=False) as evaluator:
        evaluator.evaluate(Trace(id="t", query="q", reference="r", chunks=[Chunk(id="c", text="x")]), out=tmp_path)
    texts = [str(caught.value), caplog.text, repr(backend.identity), repr(Address.parse(url))]
    texts += [path.read_text() for path in tmp_path.rglob("*") if path.is_file()]
    assert len(texts) > 5
    for text in texts:
        for secret in (password, quote(password, safe=""), basic):
            assert secret not in text


@pytest.mark.parametrize("url", ["https://token-alone@host/v1", "https://:sesame@host/v1", "https://me:@host/v1"])
def test_half_a_password_is_refused(url: str) -> None:
    """A name or a password alone is no credential of either kind; the message does not repeat it."""
    with pytest.raises(ConfigError, match="alone") as caught:
        create("m", base_url=url)
    assert "sesame" not in str(caught.value)
    assert "token-alone" not in str(caught.value)


def test_a_key_in_the_query_is_in_no_log(chat: ChatServer, caplog: pytest.LogCaptureFixture) -> None:
    """The HTTP library logs each URL; what its query holds is not in it."""
    caplog.set_level(logging.DEBUG)
    complete(create("m", base_url=chat.url + "?code=s3same-open-9"))
    assert "s3same" not in caplog.text


def test_wrong_key_names_no_key(chat: ChatServer) -> None:
    """A server that repeats a wrong key, as some do, does not get it into the error that ends the run."""
    chat.script(Canned(401, {}, {"error": {"message": f"Incorrect API key provided: {KEY[:12]}****{KEY[-9:]}"}}))
    with pytest.raises(FatalCallError) as caught:
        complete(create("m", base_url=chat.url))
    assert not shares(str(caught.value), KEY)


def test_half_characters_reach_no_message(chat: ChatServer) -> None:
    """Completions and errors can always be written to a file."""
    chat.script(Canned(200, {}, completion({}, "\ud800")), Canned(418, {}, {"error": {"message": "\udfff"}}))
    backend = create("m", base_url=chat.url)
    complete(backend).text.encode()
    with pytest.raises(RefusedError) as caught:
        complete(backend)
    caught.value.detail.encode()
