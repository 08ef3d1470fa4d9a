import json
import logging
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge_eval.batch.pending import storable_cache
from judge_eval.errors import ConfigError, StoreError
from judge_eval.llm.cache.postgres import Connections, PostgresStore, read_database_url
from judge_eval.llm.stack import open_store
from tests.support.application import CliRunner, app

pytestmark = pytest.mark.foreign

NASTY = (
    "p?Secret9", "p#Secret9", "p/Secret9", "p@Secret9", "12/Secret9", "12/34@Secret9", "Secret9 p",
    "p%zzSecret9", "p[Secret9", "p]Secret9", ":Secret9", "::Secret9", "p&Secret9=1", "p+Secret9",
    "p://Secret9", "Secret9\\p",
    "p%40Secret9", "Secret9,p", "p?x=1&Secret9@y", "Ünıcode-Secret9",
)  # fmt: skip
FORMS = (
    "postgresql://me:{}@127.0.0.1:1/name",
    "postgresql://127.0.0.1:1/name?password={}",
    "postgresql://127.0.0.1:1/name?user=me&sslpassword={}&connect_timeout=1",
    "postgresql://me:{}@127.0.0.1:1/name?password=",
    "POSTGRESQL://me:{}@127.0.0.1:1/name",
    "postgresql+psycopg://me:{}@127.0.0.1:1/name",
    "postgresql:/me:{}@127.0.0.1:1/name",
    "mysql://me:{}@127.0.0.1:1/name",
)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """One trace."""
    path = tmp_path / "data.jsonl"
    path.write_text(json.dumps({"query": "q?", "reference": "r", "chunks": ["one"]}) + "\n")
    return path


@pytest.mark.parametrize("form", FORMS)
def test_no_password_is_shown_or_written(
    form: str, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """However a URL is written, no verb, message, log or file holds anything of its password."""
    # An unreachable database is told at once.
    tries = Connections.__init__
    monkeypatch.setattr(Connections, "__init__", lambda made, url, timeout, **more: tries(made, url, 0.0, **more))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-1234567890")
    monkeypatch.chdir(tmp_path)
    caplog.set_level(logging.DEBUG)
    messages = []
    for number, password in enumerate(NASTY):
        verbs = [["cache", "path"]]
        if form == FORMS[number % len(FORMS)] or (form == FORMS[0] and number < 3):
            verbs += [["cache", "info"], ["cache", "init"], ["doctor", "--model", "fake/overlap"]]
            verbs += [["batch", "export", str(data), "--out", f"batch{number}", "--model", "openai/m"]]
            verbs += [["run", str(data), "--out", "runs", "--model", "fake/overlap", "-q"]]
        for verb in verbs:
            done = CliRunner().invoke(app, [*verb, "--cache", form.format(password)])
            assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
            messages.append(done.output)
    written = [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")]
    written += [path.read_text(errors="replace") for path in tmp_path.rglob("*") if path.is_file()]
    for text in (*messages, *written, caplog.text):
        assert "secret9" not in text.lower()


def test_a_url_of_two_readings_is_refused() -> None:
    """Where the driver and the general rules for URLs differ, the URL is refused before it is used."""
    for password in ("p?w", "p#w", "p/w", "p@w", "12/34", "a b", "p%zz"):
        with pytest.raises(ConfigError) as caught:
            read_database_url(f"postgresql://me:{password}@host:5432/name")
        assert password not in str(caught.value)
        assert "%2F for /" in str(caught.value)
    with pytest.raises(ConfigError):
        read_database_url("postgresql://host/name?password=a@b")
    with pytest.raises(ConfigError, match=r"folder.*postgresql"):
        open_store("mysql://me:passw0rd@host/name")


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=20))
def test_an_escaped_password_reaches_the_driver_and_nobody_else(password: str) -> None:
    """Any password can be given escaped; the driver gets it whole, the location holds nothing of it."""
    url = f"postgresql://me:{quote(password, safe='')}@host:5432/name"
    address = read_database_url(url)
    assert psycopg.conninfo.conninfo_to_dict(url)["password"] == password
    assert password in address.secrets
    assert address.location == "postgresql://host:5432/name"
    assert storable_cache(url) is None
    assert repr(address) == "DatabaseAddress(location='postgresql://host:5432/name')"


def test_hosts_ports_and_sockets_are_shown() -> None:
    """Several hosts, an IPv6 address and a socket's folder are read as the driver reads them."""
    for url, shown in {
        "postgresql://me@one:1,two:2/name": "postgresql://one:1,two:2/name",
        "postgresql://me:p%2Fw@[::1]:5/name": "postgresql://[::1]:5/name",
        "postgresql:///name?host=/run/db": "postgresql:///run/db/name",
        "postgres://": "postgresql://localhost",
    }.items():
        assert read_database_url(url).location == shown


def test_the_servers_words_hold_no_password() -> None:
    """What the driver says of a failed connection is told without any password, decoded or not."""
    for url, password in (
        ("postgresql://me:h%40st@h%40st.invalid/x", "h@st"),
        ("postgresql://me:invalid@h.invalid/x", "invalid"),
    ):
        store = PostgresStore(url, timeout=0.0)
        with pytest.raises(StoreError) as caught:
            store.get_many([b"k" * 32])
        assert password not in str(caught.value).removeprefix(store.location)
