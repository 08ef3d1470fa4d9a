"""Google's and AWS's own credentials in the place of a key, against servers that check them."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import os
import subprocess
import sys
import time
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


@pytest.fixture
def google(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Where Google's variable names a file that is not there yet, and no token in the environment."""
    monkeypatch.delenv("GOOGLE_OAUTH_ACCESS_TOKEN", raising=False)
    google_token.cache_clear()
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "google.json"))
    return tmp_path / "google.json"


@pytest.mark.foreign
@pytest.mark.parametrize(
    "content", ["[]", '"x"', "null", "{", "[" * 100_000, '{"type": 5}', '{"type": "service_account"}']
)
def test_odd_files_of_google_are_one_error(google: Path, content: str) -> None:
    """Whatever the file holds that the variable names, it ends the run in one sentence."""
    google.write_text(content)
    (failure,) = calls("vertex/google/m", "http://127.0.0.1:9/v1")
    assert isinstance(failure, ConfigError)
    assert str(failure).startswith("no token from Google: ")
    assert "GOOGLE_OAUTH_ACCESS_TOKEN" in str(failure)


@pytest.mark.foreign
@pytest.mark.usefixtures("aws")
@pytest.mark.parametrize(
    ("model", "variable"),
    [
        ("vertex/google/m", "GOOGLE_APPLICATION_CREDENTIALS"),
        ("bedrock/m", "AWS_SHARED_CREDENTIALS_FILE"),
        ("bedrock/m", "AWS_CONFIG_FILE"),
        ("bedrock/m", "AWS_WEB_IDENTITY_TOKEN_FILE"),
    ],
)
def test_variables_that_name_no_file_hold_nobody_up(
    google: Path, monkeypatch: pytest.MonkeyPatch, model: str, variable: str
) -> None:
    """A device without an end and a pipe without a writer are refused before anything is read of them."""
    os.mkfifo(google)
    for path in ("/dev/zero", str(google)):
        monkeypatch.setenv(variable, path)
        (failure,) = calls(model, "http://127.0.0.1:9/v1")
        assert isinstance(failure, ConfigError)
        assert f"{variable}: {path} is not a file of credentials" in str(failure)


METADATA = """
import sys
from judge_eval.llm.http.cloud_credentials import google_token
try:
    print("token", google_token().key())
except Exception as error:
    print(type(error).__name__, error)
"""


@pytest.mark.foreign
@pytest.mark.parametrize(
    ("token", "told"),
    [
        ('{"access_token": "metadata-token-1", "expires_in": 3600}', "token metadata-token-1"),
        ("{}", "ConfigError no token from Google"),
        ("[]", "ConfigError no token from Google"),
        ('{"access_token": 5, "expires_in": 30}', "ConfigError what Google's default credentials brought is not a"),
        ('{"access_token": "a\\r\\nX: 1", "expires_in": 30}', "ConfigError what Google's default credentials brought"),
    ],
)
def test_a_metadata_host_brings_a_token_or_one_error(tmp_path: Path, token: str, told: str) -> None:
    """The host that Google's variable names is asked; what is no token never reaches a header."""

    class Metadata(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            account = '{"email": "judge@nobody.example", "scopes": ["s"], "aliases": []}'
            body = (token if "/token" in self.path else account if "service-accounts" in self.path else "p").encode()
            self.send_response(200)
            sent = {"Metadata-Flavor": "Google", "Content-Type": "application/json", "Content-Length": str(len(body))}
            for name, value in sent.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Metadata) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        host = f"127.0.0.1:{server.server_port}"
        own = {name: value for name, value in os.environ.items() if not name.startswith(("GOOGLE", "CLOUDSDK"))}
        where = {**own, "HOME": str(tmp_path), "GCE_METADATA_HOST": host, "GCE_METADATA_IP": host}
        done = subprocess.run([sys.executable, "-c", METADATA], env=where, capture_output=True, text=True, timeout=100)
        server.shutdown()
    assert done.stdout.startswith(told), done.stdout + done.stderr


@pytest.mark.foreign
@pytest.mark.usefixtures("aws")
@pytest.mark.parametrize("model", ["bedrock/m", "vertex/google/m"])
def test_a_redirect_takes_no_credentials_along(monkeypatch: pytest.MonkeyPatch, model: str) -> None:
    """Neither a signature with its session token nor Google's token goes where a server points to."""
    monkeypatch.setattr(google_token(), "_key", "google-token-of-nobody")
    monkeypatch.setattr(google_token(), "_until", float("inf"))
    monkeypatch.delenv("GOOGLE_OAUTH_ACCESS_TOKEN", raising=False)
    with ChatServer() as server, ChatServer() as thief:
        server.script(*[Canned(307, {"location": f"{thief.url}/chat/completions"})] * 9)
        (failure,) = calls(model, server.url)
        assert isinstance(failure, Exception)
        assert "127.0.0.1" in str(failure)
        assert server.headers[0].get("authorization")
        assert not thief.headers


@pytest.mark.foreign
@pytest.mark.usefixtures("aws")
def test_a_program_that_fails_to_renew_is_one_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Credentials of a program are fetched anew before their end; if it fails, no secret of it is shown."""
    program = tmp_path / "program"
    soon = f"{datetime.fromtimestamp(time.time() + 30, UTC):%Y-%m-%dT%H:%M:%SZ}"
    keys = {"Version": 1, "AccessKeyId": ACCESS, "SecretAccessKey": SECRET, "SessionToken": SESSION, "Expiration": soon}
    program.write_text(
        f"#!/bin/sh\nif [ -e {tmp_path}/asked ]; then echo 'api_key=abcdefghij0123 is bad' >&2; exit 3; fi\n"
        f"touch {tmp_path}/asked\necho '{json.dumps(keys)}'\n"
    )
    program.chmod(0o700)
    (tmp_path / "config").write_text(f"[default]\ncredential_process = {program}\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name)
    (failure,) = calls("bedrock/m", "http://127.0.0.1:9/v1")
    assert isinstance(failure, ConfigError)
    assert "AWS's credentials cannot be read" in str(failure)
    assert "abcdefghij0123" not in str(failure)
