"""Whatever a server sends is at worst the failure of its request.

With `JUDGE_EVAL_FUZZ=100000` in the environment, and `--timeout 0`, as many replies are made.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import random
import zlib
from typing import Any

import pytest

from judge_eval.errors import CallError, DeniedError, FatalCallError, JudgeEvalError, TransientError
from judge_eval.llm.http import client as endpoint
from judge_eval.llm.http.bounded import Received
from judge_eval.llm.http.openai import OpenAI, create
from judge_eval.llm.limit import RateSignal
from tests.support import odd
from tests.support.odd import full_count, holds_key, nested, odd_reply, use
from tests.support.raw_server import RawServer, http
from tests.support.requests import ask, complete

pytestmark = pytest.mark.usefixtures("key")
KEY = odd.KEY
"""What the fixture `key` puts into the environment."""


def check_error(error: JudgeEvalError) -> None:
    """See that an error can be shown and stored, and says no key."""
    text = str(error)
    asked = error.retry_after if isinstance(error, TransientError) else None
    assert asked is None or 0 <= asked <= 1e9
    assert not holds_key(text)
    assert len(text) < 1000
    text.encode()


class OddClient:
    """In place of a server's line: an odd reply to each call."""

    rng = random.Random(0)
    key = "none"

    def __init__(self, *arguments: Any) -> None:
        pass

    async def post(self, content: bytes, url: str = "") -> Received:
        """Answer."""
        return Received(*odd_reply(self.rng))

    async def aclose(self) -> None:
        """Do nothing."""


@pytest.mark.slow
def test_odd_bodies(monkeypatch: pytest.MonkeyPatch) -> None:
    """No status, header or body raises what is not the package's own, through client, ladder and judge."""
    monkeypatch.setattr(endpoint, "Connection", OddClient)
    monkeypatch.setattr(OddClient, "rng", random.Random(11))
    count = full_count(3000)
    outcomes = {"completion": 0, "call": 0, "fatal": 0}

    def listen(signal: RateSignal) -> None:
        for quota in (signal.requests, signal.tokens):
            assert quota is None or 0 < quota.refill < float("inf")

    async def go() -> None:
        for number in range(count):
            if number % 20 == 0:
                params = {"logprobs": True, "top_logprobs": 5} if number % 40 else {}
                backend = OpenAI("m", base_url="http://host.example/v1", params=params)
                backend.listener = listen
            try:
                completion = await backend.complete(ask())
            except FatalCallError as error:
                outcomes["fatal"] += 1
                check_error(error)
            except CallError as error:
                outcomes["call"] += 1
                check_error(error)
            else:
                outcomes["completion"] += 1
                use(completion)
                assert not holds_key(completion.text + completion.model)

    asyncio.run(go())
    assert all(number > count / 30 for number in outcomes.values()), outcomes


NAMED = {
    "error of an odd kind": b'{"error": {"metadata": "x"}}',
    "error in a list": b'[{"error": "x"}]',
    "a number": b"5",
    "location of nothing": b'{"detail": [{"loc": null}]}',
    "nested": b"[" * 200_000,
    "nested objects": b'{"a":' * 100_000,
    "a number of alternatives": b'{"choices": [{"message": {"content": "x"}, "logprobs": {"content": '
    b'[{"token": "x", "logprob": 0, "top_logprobs": 5}]}}]}',
    "a huge logarithm": b'{"choices": [{"message": {"content": "x"}, "logprobs": {"content": '
    b'[{"token": "x", "logprob": -1' + b"0" * 400 + b"}]}}]}",
    "a huge count": b'{"choices": [{"message": {"content": "x"}}], "usage": {"prompt_tokens": 1' + b"0" * 400 + b"}}",
    "a power for a status": '{"error": {"code": "²", "message": "x"}}'.encode(),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMED)
@pytest.mark.parametrize("status", [200, 400, 500])
def test_named_oddities(name: str, status: int) -> None:
    """Replies that once ended a run are the failure of their request, or a completion, over real HTTP."""
    with RawServer(lambda _: http(status, NAMED[name])) as server:
        backend = create("m", base_url=server.url)
        try:
            use(complete(backend))
            assert status == 200
        except CallError as error:
            check_error(error)
        except DeniedError:  # the first request ever, declined in each form of it
            assert status == 400


def wire_bytes(rng: random.Random) -> bytes:
    """Write an odd reply as HTTP, with something odd about that too."""
    status, headers, body = odd_reply(rng)
    if rng.random() < 0.7:
        status, headers = 200, {}
    kind = rng.random()
    lines = [f"{name}: {value}" for name, value in headers.items() if len(value) < 9000 and "\x7f" not in value]
    if kind < 0.2:
        packed = gzip.compress(body)
        # fmt: off
        body, coding = rng.choice([
            (packed, "gzip"), (packed[:-5], "gzip"), (body, "gzip"), (body, "br"), (zlib.compress(body),
            "deflate"),
            (gzip.compress(packed), "gzip, gzip"), (body, "zstd"), (body, "identity"), (body, "ÿ"), (body,
            ",,"),
            (packed, "X-GZIP"), (b"", "gzip"),
        ])
        # fmt: on
        lines.append(f"content-encoding: {coding}")
    elif kind < 0.3:
        # fmt: off
        lines.append(rng.choice((
            "content-type: text/html; charset=nonsense", "content-type: \xff",
            "set-cookie: a=b; expires=\xe9",
            "set-cookie: " + "=;" * 40, "transfer-encoding: chunked", "transfer-encoding: nonsense",
            "x" * 9000 + ": y", "content-length: 5", "content-length: -1", "content-length: 1e3", ": empty",
            "no colon", "connection: \xff", "upgrade: h2c", "x: " + "y" * 70_000,
            "content-length: 99999999999",
        )))
        # fmt: on
    data = http(status, body, *lines)
    if kind > 0.97:
        # fmt: off
        first = rng.choice((
            b"HTTP/1.1 99999 Odd", b"HTTP/9.9 200 OK", b"HTTP/1.1 200 \xff\xfe", b"nonsense", b"HTTP/1.1 -1",
            b"HTTP/1.1 200", b"\x00" * 50, b"HTTP/1.1 101 Switching", b"HTTP/1.1 100 Continue",
        ))
        # fmt: on
        data = first + b"\r\n" + data.partition(b"\r\n")[2]
    elif kind > 0.94:
        data = data[: rng.randrange(len(data))]
    return data


@pytest.mark.slow
def test_odd_http() -> None:
    """Nor do bytes on a real connection, through either HTTP library."""
    rng = random.Random(12)
    count = full_count(150, 0.02)

    async def go(url: str) -> int:
        read = 0
        for number in range(count):
            if number % 20 == 0:
                backend = create("m", base_url=url, timeout=20)
            try:
                use(await backend.complete(ask()))
                read += 1
            except (CallError, FatalCallError) as error:
                check_error(error)
            if number % 20 == 19 or number == count - 1:
                await backend.aclose()
        return read

    with RawServer(lambda _: wire_bytes(rng)) as server:
        assert count / 20 < asyncio.run(go(server.url)) < count
    assert len(server.requests) > 0.9 * count  # some find a connection that was just closed


def test_deep_nesting_is_read_alike_everywhere() -> None:
    """What is read as JSON can be written as JSON: no depth lies between the two."""
    from judge_eval.foreign import read_json

    for depth in range(150, 1100, 7):
        for text in (json.dumps(nested(min(depth, 900))), "[" * depth, '["\\ud800",' * depth + "1" + "]" * depth):
            try:
                json.dumps(read_json(text.encode()))
            except ValueError:
                assert depth >= 200 or not text.endswith("]")
