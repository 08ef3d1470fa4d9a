"""What holds for the adapters: nobody's settings, no telemetry, nothing sent but to this machine."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

# The tools read these when they are imported. None of them may report on these tests.
os.environ |= {
    "RAGAS_DO_NOT_TRACK": "true",
    "DEEPEVAL_TELEMETRY_OPT_OUT": "1",
    "DEEPEVAL_DISABLE_DOTENV": "1",
    "LANGCHAIN_TRACING_V2": "false",
}


@pytest.fixture(autouse=True)
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Work in a folder of the test's own, without settings, and see that nothing left this machine."""
    for name in ("JUDGE_EVAL_MODEL", "JUDGE_EVAL_SERVER", "JUDGE_EVAL_SERVER_TOKEN", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    connect, abroad = socket.socket.connect, list[Any]()

    def local(self: socket.socket, address: Any) -> None:
        if self.family != socket.AF_UNIX and address[0] not in ("127.0.0.1", "::1", "localhost"):
            abroad.append(address)
            raise OSError(f"a test reached out to {address}")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", local)
    yield
    assert not abroad
