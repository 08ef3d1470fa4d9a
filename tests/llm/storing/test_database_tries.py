"""What is tried again if a database cannot be reached, and what is not."""

from __future__ import annotations

from typing import Any

import pytest

from judge_eval.errors import StoreError
from judge_eval.llm.cache import postgres
from judge_eval.llm.stack import open_store
from tests.support.application import app
from tests.support.ports import quiet_port

pytest.importorskip("psycopg")


@pytest.fixture
def tries(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Each attempt to connect."""
    seen: list[str] = []
    connect = postgres.Connections._connect

    def counted(self: Any) -> Any:
        seen.append(self.location)
        return connect(self)

    monkeypatch.setattr(postgres.Connections, "_connect", counted)
    return seen


@pytest.mark.parametrize(
    ("address", "fault"),
    [("127.0.0.1:5432/x?sslmode=bogus", "invalid sslmode value"), ("127.0.0.1:99999/x", "invalid port number")],
)
def test_what_no_retry_mends_is_tried_once(tries: list[str], address: str, fault: str) -> None:
    """An address that is none fails at the first attempt, whatever the time to go on trying."""
    store = open_store(f"postgresql://someone@{address}")
    with pytest.raises(StoreError, match=fault):
        store.get_many([bytes(32)])
    assert len(tries) == 1


def test_a_database_that_refuses_is_not_waited_for_beyond_the_time(tries: list[str]) -> None:
    """A try that would begin after the time is not waited for; within the time it is tried again."""
    store = open_store(f"postgresql://someone@127.0.0.1:{quiet_port()}/x", timeout=0.3)
    with pytest.raises(StoreError, match="refused"):
        store.get_many([bytes(32)])
    assert 2 <= len(tries) <= 4


@pytest.mark.slow
def test_doctor_waits_for_a_database_for_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """`doctor` opens the database with a short time to go on trying, and names what is wrong."""
    from tests.support.application import CliRunner

    waited: list[float] = []
    make = postgres.PostgresStore.__init__

    def noted(self: Any, url: str, **options: float) -> None:
        waited.append(options["timeout"])
        make(self, url, **options)

    monkeypatch.setattr(postgres.PostgresStore, "__init__", noted)
    place = f"postgresql://someone@127.0.0.1:{quiet_port()}/x"
    result = CliRunner().invoke(app, ["doctor", "--model", "fake/overlap", "--cache", place])
    assert result.exit_code == 2
    assert "refused" in result.output
    assert waited
    assert max(waited) <= 3
