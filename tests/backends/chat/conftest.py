"""What the tests of the chat client share."""

from typing import Literal

import pytest


@pytest.fixture(params=["httpx", "aiohttp"])
def transport(request: pytest.FixtureRequest) -> Literal["httpx", "aiohttp"]:
    """Both transports; the second needs an extra."""
    if request.param == "aiohttp":
        pytest.importorskip("aiohttp")
    return request.param  # type: ignore[no-any-return]
