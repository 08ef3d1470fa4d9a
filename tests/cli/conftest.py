from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command import Shell
from tests.support.desk import Desk


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Desk:
    """A new user's empty folder, in this process."""
    return Desk.at(tmp_path, monkeypatch, capsys)


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """A folder to run commands in."""
    return Shell(tmp_path)
