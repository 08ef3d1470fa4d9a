import json
import pickle
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from judge_eval.errors import ConfigError
from judge_eval.llm.cache.disk import DiskStore
from judge_eval.llm.cache.postgres import PostgresStore
from judge_eval.llm.cache.store import KEY_VARIABLE, Sealer
from judge_eval.wire import Completion
from tests.support.application import CliRunner, app
from tests.support.chat_server import ChatServer

SECRET = "correct-horse-battery-staple"
OTHER = "another-key-of-many-letters"
KEY, MORE = b"k" * 32, b"m" * 32
VALUE = Completion("yes").encode()


@pytest.fixture(params=["disk", pytest.param("postgres", marks=pytest.mark.foreign)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A cache's place: a folder, or a database with its table."""
    if request.param == "disk":
        return str(tmp_path / "cache")
    url: str = request.getfixturevalue("url")
    with closing(PostgresStore(url)) as store:
        store.create()
    return url


def open_at(place: str) -> DiskStore | PostgresStore:
    """Open the cache at a place, with the key that the environment holds."""
    return PostgresStore(place) if place.startswith("postgresql") else DiskStore(place)


@pytest.fixture
def _no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(KEY_VARIABLE, raising=False)


@pytest.mark.usefixtures("_no_key")
def test_rows_under_another_seal_are_misses(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a key only rows of that key are answers; others are refused and counted."""
    with closing(open_at(place)) as plain:
        plain.put_many([(KEY, VALUE), (MORE, VALUE)])
    monkeypatch.setenv(KEY_VARIABLE, SECRET)
    with closing(open_at(place)) as keyed:
        assert keyed.get_many([KEY, MORE]) == [None, None]
        assert keyed.get_many([KEY, MORE]) == [None, None]
        assert keyed.corrupt == 2, "each row counts once, however often it is looked at"
        keyed.put_many([(KEY, VALUE)])
        assert keyed.get_many([KEY]) == [VALUE]
    for change in (OTHER, ""):
        monkeypatch.setenv(KEY_VARIABLE, change)
        with closing(open_at(place)) as other:
            assert other.get_many([KEY]) == [None]
            assert other.corrupt == 1


@pytest.mark.usefixtures("_no_key")
def test_a_row_sealed_by_hand_without_the_key_is_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever may write the table but has no key cannot plant a verdict; without a key anybody could."""
    folder = tmp_path / "cache"
    with closing(DiskStore(folder)) as store:
        store.put_many([(KEY, VALUE)])
    planted = Completion("planted").encode()
    with closing(sqlite3.connect(folder / "cache.db")) as con:
        con.execute("UPDATE Cache SET value = ?", (Sealer().seal(KEY, planted),))
        con.commit()
    assert DiskStore(folder).get_many([KEY]) == [planted]
    monkeypatch.setenv(KEY_VARIABLE, SECRET)
    assert DiskStore(folder).get_many([KEY]) == [None]


@pytest.mark.usefixtures("_no_key")
def test_the_key_is_written_nowhere_and_must_be_the_same_everywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No file, message or pickle holds the key; a store opened elsewhere under another key is refused."""
    monkeypatch.setenv(KEY_VARIABLE, SECRET)
    data = tmp_path / "data.jsonl"
    data.write_text(json.dumps({"query": "q?", "reference": "r", "chunks": ["one"]}) + "\n")
    with ChatServer() as server:
        for _ in range(2):
            done = CliRunner().invoke(
                app,
                ["run", str(data), "--model", "openai/m", "--base-url", server.url,
                 "--cache", str(tmp_path / "cache"), "--out", str(tmp_path / "runs")],
            )  # fmt: skip
            assert done.exit_code == 0, done.output
        assert len(server.calls) == server.counts["paid"] == len({json.dumps(call) for call in server.calls})
    output = done.output + CliRunner().invoke(app, ["doctor", "--model", "fake/overlap"]).output
    sent = pickle.dumps(DiskStore(tmp_path / "cache"))
    texts = [output.encode(), sent, *(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())]
    assert not any(SECRET.encode() in text for text in texts)
    assert pickle.loads(sent).folder == tmp_path / "cache"
    monkeypatch.setenv(KEY_VARIABLE, OTHER)
    with pytest.raises(ConfigError, match=KEY_VARIABLE):
        pickle.loads(sent)
    monkeypatch.setenv(KEY_VARIABLE, "short")
    with pytest.raises(ConfigError, match="characters") as caught:
        DiskStore(tmp_path)
    assert "short" not in str(caught.value).replace("shorter", "")
