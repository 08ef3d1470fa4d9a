"""A disk store for each test."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from pathlib import Path

import pytest

from judge_eval.llm.cache.disk import DiskStore
from tests.support.planting import KEY, OTHER
from tests.support.postgres import schema_of_its_own, using_server


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DiskStore]:
    """A store in a folder that does not exist yet."""
    made = DiskStore(tmp_path / "cache")
    yield made
    made.close()


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    """A path that exists only once planted code ran."""
    return tmp_path / "canary"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A cache with two rows, closed in order."""
    store = DiskStore(tmp_path / "cache")
    store.put_many([(KEY, b"honest"), (OTHER, b"other")])
    store.close()
    return store.folder


@pytest.fixture
def victim(tmp_path: Path) -> Iterator[Path]:
    """A file outside the cache that must neither be read nor deleted."""
    path = tmp_path / "victim"
    path.write_bytes(b"secret")
    yield path
    assert path.read_bytes() == b"secret"


@pytest.fixture
def url() -> Iterator[str]:
    """A schema of its own in the test database; skipped where there is none."""
    with using_server(fcntl.LOCK_SH), schema_of_its_own() as address:
        yield address
