from __future__ import annotations

import http.client
from pathlib import Path

import pytest

from judge_eval.errors import ConfigError, RunError
from judge_eval.server.guard import Guard
from judge_eval.server.rest_client import Client
from judge_eval.server.server_settings import ServerSettings
from judge_eval.trust import is_loopback
from tests.support.application import CliRunner, app
from tests.support.serving import ask, serving

TOKEN = "a-long-random-text"


@pytest.fixture(scope="module")
def open_url(tmp_path_factory: pytest.TempPathFactory):
    """Serve without a token."""
    with serving(ServerSettings(tmp_path_factory.mktemp("open"))) as url:
        yield url


@pytest.fixture(scope="module")
def closed_url(tmp_path_factory: pytest.TempPathFactory):
    """Serve with a token."""
    with serving(ServerSettings(tmp_path_factory.mktemp("closed"), token=TOKEN)) as url:
        yield url


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "localhost.", "[::2]", "a b"])
def test_a_foreign_host_is_refused(open_url: str, host: str) -> None:
    """A name that was pointed at this machine from outside gets nothing, pages included."""
    for path in ("/", "/api/v1/runs"):
        assert ask(f"{open_url}{path}", headers={"Host": host})[0] == 400


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:1234", "LOCALHOST:80", "[::1]:80"])
def test_this_machines_names_are_known(open_url: str, host: str) -> None:
    """Loopback names are answered under any port, whatever the case."""
    assert ask(f"{open_url}/api/v1/health", headers={"Host": host})[0] == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1", "file://", ""])
def test_a_foreign_origin_is_refused(open_url: str, origin: str) -> None:
    """A page of another origin can neither read nor write."""
    for method in ("GET", "DELETE", "POST"):
        assert ask(f"{open_url}/api/v1/runs", method=method, headers={"Origin": origin})[0] == 403


def test_the_own_origin_is_welcome(open_url: str) -> None:
    """The pages' own requests carry their origin and come through."""
    assert ask(f"{open_url}/api/v1/runs", headers={"Origin": open_url})[0] == 200


def test_a_token_is_asked_for(closed_url: str) -> None:
    """With a token set, the API answers 401 without it or with another, and never repeats it."""
    for headers in (
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": TOKEN},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": "Bearer \u00fc"},
    ):
        code, result, answer = ask(f"{closed_url}/api/v1/runs", headers=headers)
        assert code == 401
        assert answer["www-authenticate"] == "Bearer"
        assert TOKEN not in str(result)
    assert ask(f"{closed_url}/api/v1/runs", headers={"Authorization": f"Bearer {TOKEN}"})[0] == 200
    assert ask(f"{closed_url}/api/v1/openapi.json")[0] == 401
    assert ask(f"{closed_url}/api/v1/health")[0] == 200
    assert ask(f"{closed_url}/")[0] == 200


def test_the_client_brings_the_token(closed_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client takes the token as an argument or from the environment."""
    assert Client(closed_url, token=TOKEN).list_runs() == ()
    monkeypatch.setenv("JUDGE_EVAL_SERVER_TOKEN", TOKEN)
    assert Client(closed_url).list_runs() == ()
    monkeypatch.setenv("JUDGE_EVAL_SERVER_TOKEN", "other")
    with pytest.raises(RunError, match="token"):
        Client(closed_url).list_runs()


def test_another_address_needs_a_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Listening for others without a token is a usage error, before anything is bound."""
    for host in ("0.0.0.0", "::", "192.0.2.1", "example.org"):
        with pytest.raises(ConfigError, match="JUDGE_EVAL_SERVER_TOKEN"):
            ServerSettings(tmp_path, host=host)
        assert TOKEN not in repr(ServerSettings(tmp_path, host=host, token=TOKEN))
    monkeypatch.delenv("JUDGE_EVAL_SERVER_TOKEN", raising=False)
    result = CliRunner().invoke(app, ["serve", "--out", str(tmp_path), "--host", "0.0.0.0"])
    assert result.exit_code == 2
    assert "needs a token" in result.output


def test_a_folder_that_cannot_be_written_is_named_at_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mounted folder of somebody else shows its runs; that nothing can be kept in it is said before a submission."""
    monkeypatch.setattr("judge_eval.server.process.serve", lambda *_, ready: ready("http://127.0.0.1:1"))
    arguments = ["serve", "--out", str(tmp_path)]
    assert "cannot be written" not in CliRunner().invoke(app, arguments).stderr
    monkeypatch.setattr("os.access", lambda *_: False)
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0
    assert "cannot be written: its runs are shown, but no label" in result.stderr


def test_loopback_is_told_from_other_addresses() -> None:
    """127.0.0.0/8, ::1 and localhost are this machine's own; names that look like them are not."""
    assert all(map(is_loopback, ("127.0.0.1", "127.9.9.9", "::1", "localhost")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "10.0.0.1", "localhost.evil", "127.0.0.1.evil", "")))


def test_a_wildcard_address_answers_addresses_and_named_hosts(tmp_path: Path) -> None:
    """Bound to all addresses, the server answers under any address and the names it was told."""
    guard = Guard(lambda *_: None, ServerSettings(tmp_path, host="0.0.0.0", token=TOKEN, allowed_hosts=("box.lan",)))  # type: ignore[arg-type,return-value]
    for host, known in (("10.0.0.5:80", True), ("Box.Lan", True), ("[fe80::1]", True), ("evil.example", False)):
        assert (guard._refusal("/", {b"host": host.encode()}) is None) is known


def test_pages_come_with_a_strict_policy(open_url: str) -> None:
    """Every answer forbids foreign content, framing and sniffing, refusals included."""
    for path in ("/", "/runs/x", "/compare", "/docs", "/static/app.js", "/api/v1/runs", "/api/v1/none"):
        for headers in ({}, {"Host": "evil.example"}):
            _, _, result = ask(f"{open_url}{path}", headers=headers)
            policy = result["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert result["x-content-type-options"] == "nosniff"
            assert result["x-frame-options"] == "DENY"
            assert "access-control-allow-origin" not in result


def test_a_request_without_host_is_refused(open_url: str) -> None:
    """A request that names no host at all is refused with a 4xx."""
    connection = http.client.HTTPConnection(open_url.removeprefix("http://"), timeout=10)
    connection.putrequest("GET", "/", skip_host=True)
    connection.endheaders()
    assert connection.getresponse().status == 400
    connection.close()
