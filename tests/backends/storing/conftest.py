"""A disk store for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from judge_eval.backends.storing.disk import DiskStore


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DiskStore]:
    """A store in a folder that does not exist yet."""
    made = DiskStore(tmp_path / "cache")
    yield made
    made.close()
