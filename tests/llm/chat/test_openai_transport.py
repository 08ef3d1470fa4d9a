"""How a chat server is reached: keys, addresses, connections, time, event loops."""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from judge_eval.errors import CallError, ConfigError, FatalCallError, TransientError
from judge_eval.llm.backend import Backend
from judge_eval.llm.http.openai import create
from judge_eval.llm.retry import Retried
from tests.support.canned import Canned, reply
from tests.support.chat_server import ChatServer
from tests.support.raw_server import RawServer, http
from tests.support.requests import ask, complete

GOOD = b'{"choices": [{"message": {"content": "{}"}, "finish_reason": "stop"}]}'
KEY = "sk-test-0123456789abcdef"


@pytest.mark.slow
def test_nothing_is_loaded_before_the_first_call() -> None:
    """Making the backend loads neither the SDK nor an HTTP library nor tenacity."""
    code = (
        "import sys\n"
        "from judge_eval.llm.http.openai import create\n"
        "from judge_eval.llm.limit import Limited\n"
        "from judge_eval.llm.retry import Retried\n"
        "from judge_eval.llm.budget import Budgeted\n"
        "Retried(Budgeted(Limited(create('m')), max_calls=1))\n"
        "names = 'openai', 'httpx', 'httpx2', 'aiohttp', 'tenacity', 'genai_prices'\n"
        "print([name for name in names if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]", done.stderr


def test_it_is_a_backend(chat: ChatServer) -> None:
    """The class satisfies the protocol, with an identity that holds nothing secret."""
    backend = create("m", base_url=chat.url.replace("http://", f"http://user:{KEY}@") + "/?api-key=abcdef")
    assert isinstance(backend, Backend)
    assert backend.identity.base_url == chat.url
    assert backend.identity.params == (("temperature", "0"),)
    assert KEY not in repr(backend.identity)
    assert KEY not in backend.scope


def test_key_is_sent_and_never_shown(
    chat: ChatServer, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """The server gets the key; no log or output does, whatever goes wrong."""
    caplog.set_level(logging.DEBUG)
    chat.script(reply("binary"), reply("401"), reply("500"), Canned(fate="reset"))
    backend = create("m", base_url=chat.url)
    complete(backend)
    assert chat.headers[0]["authorization"] == f"Bearer {KEY}"
    for _ in range(3):
        with pytest.raises((CallError, FatalCallError)) as caught:
            complete(backend)
        assert KEY not in repr(caught.getrepr(style="long"))
    assert KEY not in caplog.text
    assert KEY not in "".join(capfd.readouterr())


def test_missing_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a key the variable is named, before anything is sent; making the backend needs none."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    backend = create("m")
    with pytest.raises(ConfigError, match="OPENAI_API_KEY"):
        backend.check()
    with pytest.raises(ConfigError, match="OPENAI_API_KEY"):
        complete(backend)


def test_no_key_on_loopback(chat: ChatServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server on this machine needs no key."""
    monkeypatch.delenv("OPENAI_API_KEY")
    assert complete(create("m", base_url=chat.url)).text


@pytest.mark.parametrize("key", ["sk-ä", "sk-a b", "sk-\x01"])
def test_unsendable_key(chat: ChatServer, monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    """A key that no header can hold is a configuration error which does not repeat it."""
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with pytest.raises(ConfigError) as caught:
        create("m", base_url=chat.url).check()
    assert key not in str(caught.value)


def test_other_variable_for_the_key(chat: ChatServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The key may stand in another variable, with the line end a file leaves behind."""
    monkeypatch.setenv("ROUTER_KEY", "rk-1234567\n")
    complete(create("m", base_url=chat.url, key_env="ROUTER_KEY"))
    assert chat.headers[0]["authorization"] == "Bearer rk-1234567"


def test_base_url_from_environment(chat: ChatServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """`OPENAI_BASE_URL` is used where no base URL is given."""
    monkeypatch.setenv("OPENAI_BASE_URL", chat.url)
    backend = create("m")
    assert backend.identity.base_url == chat.url
    assert complete(backend).text


@pytest.mark.parametrize(
    ("given", "public"),
    [
        ("HTTPS://Api.Example.com:443/v1/", "https://api.example.com/v1"),
        ("http://u:p@host:8000/v1?key=secret#x", "http://host:8000/v1"),
        ("http://[::1]:8000/v1", "http://[::1]:8000/v1"),
    ],
)
def test_base_url_normalised(given: str, public: str) -> None:
    """Spellings of one address are one identity, without credentials."""
    assert create("m", base_url=given).identity.base_url == public


@pytest.mark.parametrize("url", ["api.example.com/v1", "ftp://host/v1", "http://", "http://h:99999/v1"])
def test_bad_base_url(url: str) -> None:
    """What is no http URL is a configuration error."""
    with pytest.raises(ConfigError, match="base URL"):
        create("m", base_url=url)


@pytest.mark.parametrize(
    "arguments",
    [
        {"model": " "},
        {"model": "m", "timeout": 0},
        {"model": "m", "concurrency": 0},
        {"model": "m", "params": {"max_tokens": 5}},
        {"model": "m", "params": {"temperature": float("nan")}},
        {"model": "m", "params": {"stop": object()}},
        {"model": "m", "params": {"seed": "x"}},
    ],
)
def test_bad_arguments(arguments: dict[str, object]) -> None:
    """What cannot be used is said at once."""
    with pytest.raises(ConfigError):
        create(**arguments)  # type: ignore[arg-type]


def test_every_parameter_is_in_the_identity() -> None:
    """Another parameter is another identity; one set to None is not sent and not named."""
    digests = {
        create("m", params=params).identity.digest
        for params in ({}, {"temperature": 1}, {"seed": 1}, {"temperature": None}, {"reasoning_effort": "low"})
    }
    assert len(digests) == 5
    assert create("m", params={"temperature": None}).identity.params == ()


def test_refused_connection() -> None:
    """A refused connection is known not to have been sent."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        with pytest.raises(TransientError) as caught:
            complete(create("m", base_url=f"http://127.0.0.1:{port}/v1"))
    assert (caught.value.kind, caught.value.sent) == ("connection", False)
    assert "cannot connect" in caught.value.detail
    assert "refused" in caught.value.detail
    assert "Errno" not in caught.value.detail


def test_reset_connection(chat: ChatServer) -> None:
    """A connection lost after the request was sent may have been billed."""
    chat.script(Canned(fate="reset"))
    with pytest.raises(TransientError) as caught:
        complete(create("m", base_url=chat.url))
    assert (caught.value.kind, caught.value.sent) == ("connection", True)


@pytest.mark.slow
def test_hang(chat: ChatServer) -> None:
    """Calls that hang end as timeouts, one by one, and leave their connections usable by others."""
    chat.script(*[Canned(fate="hang")] * 4)
    backend = create("m", base_url=chat.url, timeout=1.0, concurrency=2)

    async def go() -> list[object]:
        slots = asyncio.Semaphore(2)

        async def one(number: int) -> object:
            async with slots:
                try:
                    return (await backend.complete(ask(f"text {number}"))).finish
                except TransientError as error:
                    return error.kind, error.sent

        try:
            return list(await asyncio.gather(*(one(number) for number in range(20))))
        finally:
            await backend.aclose()

    outcomes = asyncio.run(go())
    assert outcomes.count(("timeout", True)) == 4
    assert outcomes.count("stop") == 16


@pytest.mark.slow
def test_connections_are_reused_up_to_the_concurrency(chat: ChatServer) -> None:
    """150 calls in flight really are, over at most 150 connections, which the next 150 use again."""
    backend = create("m", base_url=chat.url, concurrency=150)

    async def go() -> None:
        await backend.complete(ask())  # others wait for the first answer
        chat.together = 150
        for turn in range(2):
            await asyncio.gather(*(backend.complete(ask(f"text {turn} {n}")) for n in range(150)))
        await backend.aclose()

    asyncio.run(go())
    assert chat.most_in_flight == 150
    assert chat.connections <= 155


def test_loop_after_loop(chat: ChatServer) -> None:
    """One backend serves several event loops, one after the other, closed or not."""
    backend = create("m", base_url=chat.url)
    assert complete(backend).text
    assert complete(backend).text

    async def twice_closed() -> None:
        await backend.complete(ask())
        await backend.aclose()
        await backend.aclose()
        assert (await backend.complete(ask())).text
        await backend.aclose()

    asyncio.run(twice_closed())


def test_hostile_text_arrives_unchanged(chat: ChatServer) -> None:
    """Quotes, control characters, other scripts and half surrogate pairs do not break the body."""
    for text in ('"}],"model":"evil', "日本語\u202e\x00\n", "half \ud800 pair"):
        complete(create("m", base_url=chat.url), ask(text))
        assert text in chat.calls[-1]["messages"][-1]["content"]
        assert chat.calls[-1]["model"] == "m"


def test_samples_ask_with_another_seed(chat: ChatServer) -> None:
    """A repeated sample is another request where a seed is given."""
    backend = create("m", base_url=chat.url, params={"seed": 7})
    for sample in (0, 1):
        complete(backend, ask(sample=sample))
    assert [body["seed"] for body in chat.calls] == [7, 8]


def test_scope_tells_keys_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Quotas are per base URL, key and model."""
    monkeypatch.setenv("OPENAI_API_KEY", "a")
    scopes = {create("m").scope, create("n").scope, create("m", base_url="http://h/v1").scope}
    monkeypatch.setenv("OPENAI_API_KEY", "b")
    assert len(scopes | {create("m").scope}) == 4
    assert create("m").scope == create("m").scope


def test_a_closed_kept_connection_costs_no_verdict() -> None:
    """A server that closes each connection after its reply, without a word, costs attempts and no answer."""
    with RawServer(lambda _: http(200, GOOD, "content-type: application/json")) as server:
        backend = Retried(create("m", base_url=server.url), base=0.0)

        async def go() -> list[str]:
            replies = [(await backend.complete(ask(f"text {n}"))).text for n in range(20)]
            await backend.aclose()
            return replies

        assert len(asyncio.run(go())) == 20


def test_a_cancelled_call_closes_its_connection(chat: ChatServer) -> None:
    """A call that is cancelled leaves no connection on which its late answer could meet another call."""
    chat.script(reply("binary"), Canned(fate="hang"), reply("binary"))
    backend = create("m", base_url=chat.url, concurrency=1)

    async def go() -> str:
        await backend.complete(ask("first"))
        hanging = asyncio.ensure_future(backend.complete(ask("second")))
        while len(chat.calls) < 2:
            await asyncio.sleep(0.01)
        hanging.cancel()
        await asyncio.wait([hanging])
        try:
            return (await backend.complete(ask("third"))).text
        finally:
            await backend.aclose()

    assert asyncio.run(go())
    assert chat.connections == 2


@pytest.mark.slow
def test_connections_of_ended_loops_are_closed(chat: ChatServer) -> None:
    """A backend that serves loop after loop keeps connections of the last one alone."""
    backend = create("m", base_url=chat.url)
    for _ in range(5):
        asyncio.run(backend.complete(ask()))
    assert len(backend._clients) == 1
    complete(backend)
    assert not backend._clients
    gc.collect()


def test_netrc_is_not_read(chat: ChatServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Passwords of `~/.netrc` go to no server."""
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login me password sesame-1234\n")
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    monkeypatch.delenv("OPENAI_API_KEY")
    complete(create("m", base_url=chat.url))
    assert "sesame" not in str(chat.headers)
    assert "Basic" not in str(chat.headers)


def test_a_proxy_that_is_not_http_is_refused(monkeypatch: pytest.MonkeyPatch, key: None) -> None:
    """A SOCKS proxy is a configuration error, before anything is sent past it."""
    monkeypatch.setenv("http_proxy", "socks5://127.0.0.1:1080")
    with pytest.raises(ConfigError, match="socks5"):
        complete(create("m", base_url="http://judge.example/v1"))
