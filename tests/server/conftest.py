"""A folder of runs that is only read, and a server of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from judge_eval.server.server_settings import ServerSettings
from tests.support.serving import judge, rows, serving


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a folder with two runs that is only read."""
    root = tmp_path_factory.mktemp("served")
    judge(rows(), root, label="main", tags=["prod", "nightly"], cache=root / ".cache")
    turned = [{**row, "chunks": row["chunks"][::-1]} if i % 3 == 0 else row for i, row in enumerate(rows())]
    judge(turned, root, label="PR #1", tags=["pr"], cache=root / ".cache")
    return root


@pytest.fixture(scope="module")
def url(folder: Path):
    """Serve the folder."""
    with serving(ServerSettings(folder, thresholds={"AP@5": 0.55}, cache=folder / ".cache")) as address:
        yield f"{address}/api/v1"
