"""A database that is there and does not answer, as one that was stopped."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from urllib.parse import urlsplit, urlunsplit

import pytest

from judge_eval.errors import StoreError
from judge_eval.llm.cache.postgres import PostgresStore
from tests.support.stalling import Stalling, stalling

pytestmark = pytest.mark.foreign
KEY = b"k" * 32


@pytest.fixture
def proxy(url: str) -> Iterator[tuple[Stalling, str]]:
    """A proxy to the database, and the cache's URL through it."""
    with closing(PostgresStore(url)) as store:
        store.create()
    parts = urlsplit(url)
    assert parts.hostname is not None
    with stalling(parts.hostname, parts.port or 5432) as between:
        user = parts.netloc.rpartition("@")[0]
        yield between, urlunsplit(parts._replace(netloc=f"{user}@127.0.0.1:{between.port}"))


def test_a_silent_database_is_left_in_time(proxy: tuple[Stalling, str]) -> None:
    """A statement that gets no answer is an error that says so once the time is over; a later one works."""
    between, url = proxy
    with closing(PostgresStore(url, timeout=1.0)) as store:
        store.put_many([(KEY, b"value")])
        between.moving.clear()
        begun = time.monotonic()
        with pytest.raises(StoreError, match="has not answered for"):
            store.get_many([KEY])
        assert time.monotonic() - begun < 10
        between.moving.set()
        assert store.get_many([KEY]) == [b"value"]
