"""llama.cpp's server with a real model, for the tests that need nothing special of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.llama import Llama
from tests.support.real_runs import RealRuns

STEADY = {"penalty_repeat": 1.3, "temp": 0.0}
"""How the small model does not loop in strings."""


@pytest.fixture
def real(tmp_path: Path) -> RealRuns:
    """A folder with 6 short chunks to judge."""
    return RealRuns(tmp_path)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Llama]:
    """A server with 2 slots of 1,024 tokens."""
    with Llama(tmp_path_factory.mktemp("llama"), STEADY, n_parallel=2, n_ctx=2048) as started:
        yield started
