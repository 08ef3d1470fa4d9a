"""What is read of a reply is bounded in size and time, and goes nowhere but to the server that was named."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import ssl
import subprocess
import sys
import zlib
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest

from judge_eval.errors import CallError, ConfigError, FatalCallError, TransientError
from judge_eval.llm.http.bounded import unpack
from judge_eval.llm.http.openai import OpenAI, create
from judge_eval.llm.options import MOST_BYTES
from judge_eval.wire import Completion
from tests.support.canned import Canned
from tests.support.chat_answers import completion
from tests.support.chat_server import ChatServer
from tests.support.raw_server import RawServer, http
from tests.support.requests import ask

pytestmark = pytest.mark.usefixtures("key")
GOOD = json.dumps(completion({}, '{"verdict": true}')).encode()


def complete(backend: OpenAI, times: int = 1) -> Completion:
    """Make calls in a loop of their own, and return the last answer."""

    async def go() -> Completion:
        try:
            for _ in range(times):
                answer = await backend.complete(ask())
            return answer
        finally:
            await backend.aclose()

    return asyncio.run(go())


# Who is called


@pytest.mark.foreign
def test_a_certificate_is_checked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A server whose certificate nobody vouches for gets no request; one of `SSL_CERT_FILE` is called."""
    certificate = certify(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    with RawServer(lambda _: http(200, GOOD, "content-type: application/json"), tls=context) as server:
        with pytest.raises(TransientError) as caught:
            complete(create("m", base_url=server.url))
        assert not caught.value.sent
        assert not server.requests
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert "verdict" in complete(create("m", base_url=server.url)).text


def certify(folder: Path) -> Path:
    """Make a certificate of 127.0.0.1 that vouches for itself, with its key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, now, day = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC), timedelta(days=1)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(now - day).not_valid_after(now + day)
    host = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    ca = x509.BasicConstraints(ca=True, path_length=None)
    made = builder.add_extension(host, critical=False).add_extension(ca, critical=True).sign(key, hashes.SHA256())
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path = folder / "certificate.pem"
    path.write_bytes(secret + made.public_bytes(serialization.Encoding.PEM))
    return path


def test_a_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever library calls, a proxy gets the whole address, and a host that is excepted is called itself."""
    with RawServer(lambda _: http(200, GOOD, "content-type: application/json")) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url.removesuffix("/v1"))
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        complete(create("m", base_url="http://judge.example/v1"))
        assert proxy.requests[0].startswith(b"POST http://judge.example/v1/chat/completions HTTP/1.1")
        complete(create("m", base_url=proxy.url))
        assert proxy.requests[1].startswith(b"POST /v1/chat/completions HTTP/1.1")


# Where a reply may send a request


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_not_followed(status: int) -> None:
    """Question and chunks go to no other host; the error names both, and ends a run that has just begun."""
    with ChatServer() as elsewhere, ChatServer() as server:
        target = elsewhere.url.replace("127.0.0.1", "localhost")
        server.script(Canned(status, {"location": f"{target}/chat/completions?k=s3same"}, ""))
        with pytest.raises(FatalCallError) as caught:
            complete(create("m", base_url=server.url))
    assert not elsewhere.calls
    assert len(server.calls) == 1
    message = str(caught.value)
    assert f"HTTP {status}" in message
    assert server.url in message
    assert target.removesuffix("/v1") in message
    assert "s3same" not in message


@pytest.mark.parametrize("location", ["", "http://[::1", "http://h:99999/", None])
def test_a_redirect_to_nowhere(location: str | None) -> None:
    """A redirect that cannot be read is told as that."""
    with ChatServer() as server:
        server.script(Canned(302, {} if location is None else {"location": location}, ""))
        # The older HTTP library reads the address itself, and fails.
        with pytest.raises((FatalCallError, CallError), match=r"an address that cannot be read|connection lost"):
            complete(create("m", base_url=server.url))


# How much is read


def test_a_reply_is_read_up_to_a_size() -> None:
    """A body of as many bytes as allowed is read; with one more, or unpacked to one more, it is an error."""
    most = 20_000
    padded = GOOD + b" " * (most - len(GOOD))
    replies = [
        http(200, padded), http(200, gzip.compress(padded), "content-encoding: gzip"),
        http(200, padded + b" "), http(200, gzip.compress(padded + b" "), "content-encoding: gzip"),
        http(500, padded + b" "),
    ]  # fmt: skip
    answers = iter(replies)
    with RawServer(lambda _: next(answers)) as server:
        for number in range(len(replies)):
            backend = create("m", base_url=server.url, max_reply=most)
            if number < 2:
                assert complete(backend).text
                continue
            with pytest.raises(CallError, match="larger than 20,000 bytes") as caught:
                complete(backend)
            assert not isinstance(caught.value, TransientError)  # it would be as large again
    assert b"accept-encoding: gzip\r\n" in server.requests[0].lower()


def test_an_endless_reply_ends() -> None:
    """A body without an end is given up at the bound, long before the timeout."""

    def endless() -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
        while True:
            yield b"10000\r\n" + b" " * 0x10000 + b"\r\n"

    with RawServer(lambda _: endless()) as server, pytest.raises(CallError, match="larger than 16,000,000"):
        complete(create("m", base_url=server.url))


@pytest.mark.parametrize("coding", ["br", "zstd", "deflate", "gzip, gzip", "gzip, br", "compress", "x" * 500])
def test_codings_that_were_not_asked_for(coding: str) -> None:
    """Another coding than gzip, or gzip twice, is refused before it is unpacked."""
    body = zlib.compress(GOOD) if coding == "deflate" else gzip.compress(gzip.compress(GOOD))
    answer = http(200, body, f"content-encoding: {coding}")
    with RawServer(lambda _: answer) as server, pytest.raises(CallError, match="content coding") as caught:
        complete(create("m", base_url=server.url))
    assert not isinstance(caught.value, TransientError)
    assert len(str(caught.value)) < 300


def test_gzip_is_read_or_said_to_be_none() -> None:
    """Whole gzip is unpacked, torn and false gzip may pass, and nothing is unpacked beyond the bound."""
    packed = gzip.compress(GOOD)
    assert unpack(packed, 10_000, "h") == GOOD
    for odd in (packed[:-3], packed[:9], b"no gzip", zlib.compress(GOOD)):
        with pytest.raises(TransientError, match="labelled gzip and is not"):
            unpack(odd, 10_000, "h")
    with pytest.raises(CallError, match="larger"):
        unpack(gzip.compress(b" " * 10_001), 10_000, "h")


BOMB = """if True:
    import asyncio, resource, sys
    from judge_eval.llm.http.openai import create
    from judge_eval.errors import CallError
    from tests.support.requests import ask

    def peak():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024

    async def call(backend):
        try:
            await backend.complete(ask())
        except CallError as error:
            return str(error)

    async def go():
        backend = create("m", base_url=sys.argv[1])
        await call(backend)  # loads what a call needs
        before = peak()
        for _ in range(3):
            said = await call(backend)
        await backend.aclose()
        print(peak() - before, said)
    asyncio.run(go())
"""


@pytest.fixture(scope="module")
def packed_spaces() -> bytes:
    """400 MB in 0.4 MB of gzip."""
    pieces, packer = [], zlib.compressobj(wbits=31)
    for _ in range(400):
        pieces.append(packer.compress(b" " * 1_000_000))
    return b"".join([*pieces, packer.flush()])


@pytest.mark.slow
@pytest.mark.parametrize("layers", [1, 2])
def test_a_bomb_costs_no_memory(layers: int, packed_spaces: bytes) -> None:
    """What unpacks to 400 MB, also when packed twice, costs no more than the bound."""
    bomb, coding = packed_spaces, "gzip"
    if layers == 2:
        bomb, coding = gzip.compress(bomb), "gzip, gzip"
    replies = iter([http(200, GOOD), *[http(200, bomb, f"content-encoding: {coding}")] * 3])
    with RawServer(lambda _: next(replies)) as server:
        done = subprocess.run([sys.executable, "-c", BOMB, server.url], capture_output=True, text=True, timeout=100)
    assert done.stdout, done.stderr
    grown, _, answers = done.stdout.partition(" ")
    assert ("larger than 16,000,000 bytes" if layers == 1 else "content coding") in answers
    assert int(grown) < 4 * MOST_BYTES / 1_000_000  # megabytes: packed, unpacked, and what the allocator keeps


# How long is waited


def drip(what: str) -> Iterator[bytes]:
    """Write a reply a byte at a time: its head, its body or its chunks."""
    head = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(GOOD)
    if what == "head":
        yield from (bytes([byte]) for byte in head)
        yield GOOD
    elif what == "body":
        yield head
        yield from (bytes([byte]) for byte in GOOD)
    else:
        yield b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
        yield from (b"1\r\n%c\r\n" % byte for byte in GOOD)


@pytest.mark.slow
@pytest.mark.parametrize("what", ["head", "body", "chunks"])
def test_a_dripping_server_does_not_outlast_the_timeout(what: str) -> None:
    """Connection, head and body together take no longer than one call may, however steadily bytes come."""

    def slow(_: bytes) -> Iterable[bytes]:
        return drip(what)

    with RawServer(slow, pause=0.05) as server:
        backend = create("m", base_url=server.url, timeout=0.8)
        with pytest.raises(TransientError, match=r"within 0.8 s") as caught:
            complete(backend)
    assert caught.value.kind == "timeout"


def test_a_connection_that_never_stands_is_given_up() -> None:
    """A server that accepts nobody takes no longer than a call may either."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        port = full.getsockname()[1]
        waiting = []
        for _ in range(4):  # fill the queue, so that the next one is left unanswered
            first = socket.socket()
            first.setblocking(False)
            first.connect_ex(("127.0.0.1", port))
            waiting.append(first)
        with pytest.raises(TransientError):
            complete(create("m", base_url=f"http://127.0.0.1:{port}/v1", timeout=0.5))
        for first in waiting:
            first.close()


@pytest.mark.parametrize("most", [0, -1])
def test_a_bound_must_be_one(most: int) -> None:
    """A bound that allows nothing is said at once."""
    with pytest.raises(ConfigError, match="max_reply"):
        create("m", max_reply=most)
