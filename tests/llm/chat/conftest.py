"""What the tests of the chat client share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.chat_server import ChatServer


@pytest.fixture
def key(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The module's key, and no setting of the machine's own."""
    monkeypatch.setenv("OPENAI_API_KEY", getattr(request.module, "KEY", "sk-test-0123456789abcdef"))
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


@pytest.fixture
def chat(key: None) -> Iterator[ChatServer]:
    """A server, and the module's key for it."""
    with ChatServer() as server:
        yield server
