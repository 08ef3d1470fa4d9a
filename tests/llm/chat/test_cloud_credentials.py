"""Google's and AWS's own credentials in the place of a key, against servers that check them."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import parse_qs, urlsplit

import pytest

from judge_eval.errors import ConfigError
from judge_eval.llm.http.cloud_credentials import google_token
from judge_eval.llm.options import Options
from judge_eval.llm.stack import create_backend
from tests.support.canned import Canned, error
from tests.support.chat_server import ChatServer
from tests.support.requests import ask

ACCESS, SECRET, SESSION = "AKIDEXAMPLE", "wJalrXUtnFEMI-of-nobody", "session-token-of-nobody"


def calls(model: str, url: str, count: int = 1) -> list[object]:
    """Make calls at once."""
    backend = create_backend(model, Options(base_url=url))

    async def go() -> list[object]:
        try:
            made = (backend.complete(ask(f"text {n}")) for n in range(count))
            return list(await asyncio.gather(*made, return_exceptions=True))
        finally:
            await backend.aclose()

    return asyncio.run(go())


def signature(headers: dict[str, str], body: bytes, region: str, service: str) -> str:
    """Compute AWS Signature Version 4 of a POST, as its documentation states it."""
    names = headers["authorization"].partition("SignedHeaders=")[2].partition(",")[0]
    shown = "".join(f"{name}:{headers[name].strip()}\n" for name in names.split(";"))
    path = urlsplit(headers[":path"]).path
    canonical = "\n".join(["POST", path, "", shown, names, hashlib.sha256(body).hexdigest()])
    moment = headers["x-amz-date"]
    scope = f"{moment[:8]}/{region}/{service}/aws4_request"
    text = "\n".join(["AWS4-HMAC-SHA256", moment, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = f"AWS4{SECRET}".encode()
    for part in (moment[:8], region, service, "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return hmac.digest(key, text.encode(), "sha256").hex()


class Signed(ChatServer):
    """A server that takes only requests that are signed with the secret."""

    service = "bedrock"

    def answer(self, raw: bytes, headers: dict[str, str]) -> Canned:
        """Check the signature and the token."""
        sent = headers.get("authorization", "")
        scope = f"Credential={ACCESS}/{datetime.now(UTC):%Y%m%d}/eu-west-1/{self.service}/aws4_request"
        if scope not in sent or headers.get("x-amz-security-token") != SESSION:
            return error(403, f"The security token is invalid: {sent} {headers.get('x-amz-security-token')}")
        if sent.rpartition("Signature=")[2] != signature(headers, raw, "eu-west-1", self.service):
            return error(403, "The request signature we calculated does not match")
        return super().answer(raw, headers)


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Credentials in AWS's own variables, and none of this machine's."""
    for name in ("AWS_BEARER_TOKEN_BEDROCK", "AWS_PROFILE", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    values = {"AWS_ACCESS_KEY_ID": ACCESS, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_SESSION_TOKEN": SESSION}
    for name, value in {**values, "AWS_REGION": "eu-west-1", "AWS_EC2_METADATA_DISABLED": "true"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))


@pytest.mark.foreign
@pytest.mark.usefixtures("aws")
@pytest.mark.parametrize("provider", ["bedrock", "bedrock-mantle"])
def test_a_request_to_bedrock_is_signed(provider: str) -> None:
    """Without a bearer token AWS's default credentials sign each body for the service and the region."""
    with Signed() as server:
        server.service = provider
        outcomes = calls(f"{provider}/m", server.url, 5)
        assert not [each for each in outcomes if isinstance(each, BaseException)], outcomes
        assert server.counts["paid"] == 5


@pytest.mark.foreign
@pytest.mark.usefixtures("aws")
def test_no_secret_of_aws_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that echoes the session's token is shown without it, and missing credentials are named."""
    with Signed() as server:
        server.service = "another"
        (failure,) = calls("bedrock/m", server.url)
        assert "HTTP 403" in str(failure)
        assert SESSION not in str(failure)
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
            monkeypatch.delenv(name)
        (failure,) = calls("bedrock/m", server.url)
        assert isinstance(failure, ConfigError)
        assert "AWS_BEARER_TOKEN_BEDROCK" in str(failure)


@pytest.mark.foreign
@pytest.mark.usefixtures("aws")
def test_a_bearer_token_goes_before_the_signature(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the variable is set, nothing is signed."""
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "bearer-of-nobody")
    with ChatServer() as server:
        calls("bedrock/m", server.url)
        assert server.headers[0]["authorization"] == "Bearer bearer-of-nobody"
        assert "x-amz-date" not in server.headers[0]


class Tokens(BaseHTTPRequestHandler):
    """Google's token endpoint: another token each time."""

    printed = 0

    def do_POST(self) -> None:
        """Take an assertion, and print a token."""
        form = parse_qs(self.rfile.read(int(self.headers["content-length"])).decode())
        assert form["grant_type"] == ["urn:ietf:params:oauth:grant-type:jwt-bearer"]
        Tokens.printed += 1
        answer = json.dumps({"access_token": f"token-of-nobody-{self.printed}", "expires_in": 3600}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class Vertex(ChatServer):
    """A server at which the first token has ended."""

    def answer(self, raw: bytes, headers: dict[str, str]) -> Canned:
        """Decline all but the second token."""
        if headers.get("authorization") != "Bearer token-of-nobody-2":
            return error(401, f"expired: {headers.get('authorization')}")
        return super().answer(raw, headers)


@pytest.mark.foreign
def test_google_prints_a_token_for_vertex(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without a token in the environment, Google's default credentials make one, and another one on 401."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    monkeypatch.delenv("GOOGLE_OAUTH_ACCESS_TOKEN", raising=False)
    google_token.cache_clear()
    Tokens.printed = 0
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    with HTTPServer(("127.0.0.1", 0), Tokens) as tokens, Vertex() as server:
        Thread(target=tokens.serve_forever, daemon=True).start()
        account = {
            "type": "service_account", "client_email": "judge@nobody.example", "private_key": pem,
            "private_key_id": "1", "token_uri": f"http://127.0.0.1:{tokens.server_port}/token",
        }  # fmt: skip
        (tmp_path / "account.json").write_text(json.dumps(account))
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "account.json"))
        outcomes = calls("vertex/google/m", server.url, 4)
        tokens.shutdown()
    assert not [each for each in outcomes if isinstance(each, BaseException)], outcomes
    assert Tokens.printed == 2


@pytest.mark.foreign
def test_missing_credentials_of_google_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A file that is not there is one clear error."""
    monkeypatch.delenv("GOOGLE_OAUTH_ACCESS_TOKEN", raising=False)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "none.json"))
    google_token.cache_clear()
    (failure,) = calls("vertex/google/m", "http://127.0.0.1:9/v1")
    assert isinstance(failure, ConfigError)
    assert "GOOGLE_OAUTH_ACCESS_TOKEN" in str(failure)
