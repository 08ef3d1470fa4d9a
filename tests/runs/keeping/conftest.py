"""Where the tests of keeping runs elsewhere keep them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.object_storage import storage
from tests.support.ports import quiet_port


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    """A server that speaks S3, in a process of its own, with an empty bucket; its address."""
    port = quiet_port()
    server = storage(port)
    yield f"http://127.0.0.1:{port}"
    server.kill()
    server.wait()
