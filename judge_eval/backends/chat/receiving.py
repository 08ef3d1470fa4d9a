"""Reads the body of an HTTP reply within bounds."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from contextlib import aclosing
from typing import Any, NamedTuple

from judge_eval.errors import CallError, TransientError

ASKED_CODING = "gzip"
"""The one content coding that is asked for and read: its output can be bounded while it is made."""
MOST_BYTES = 16_000_000
"""How much of a reply is read, compressed or not; a verdict takes a few thousand bytes."""


class Received(NamedTuple):
    """An HTTP reply, read whole."""

    status: int
    headers: Mapping[str, str]
    content: bytes


async def receive(response: Any, most: int, place: str) -> Received:
    """Read a streamed response of the SDK's HTTP client, and give its connection back.

    Args:
        response: The response, its body not yet read.
        most: The most bytes of the body, > 0, as they come and as they are unpacked.
        place: The server's address, for messages.

    Raises:
        CallError: The body is larger, or in a coding that was not asked for.
        TransientError: It is not what its coding says.
        Exception: What the HTTP library raises where the reply breaks off.
    """
    try:
        packed = is_packed(response.headers, place)
        parts, size = [], 0
        async with aclosing(response.aiter_raw()) as stream:
            async for part in stream:
                size += len(part)
                if size > most:
                    raise too_large(most, place)
                parts.append(part)
    finally:
        await response.aclose()
    content = parts[0] if len(parts) == 1 else b"".join(parts)
    if packed and content:
        content = unpack(content, most, place)
    return Received(response.status_code, response.headers, content)


def unpack(content: bytes, most: int, place: str) -> bytes:
    """Unpack gzip.

    Raises:
        CallError: It unpacks to more than `most` bytes.
        TransientError: It is no gzip, or torn off.
    """
    reader = zlib.decompressobj(wbits=31)
    try:
        text = reader.decompress(content, most + 1)
    except zlib.error:
        text = b""
    if len(text) > most:
        raise too_large(most, place)
    if not reader.eof:
        raise TransientError(f"{place} sent a reply that is not the gzip it is said to be", kind="body")
    return text


def is_packed(headers: Mapping[str, str], place: str) -> bool:
    """Tell whether a body must be unpacked.

    Raises:
        CallError: It cannot be: its coding is none that was asked for.
    """
    codings = headers.get("content-encoding")
    if not codings:
        return False
    names = [name for part in codings.split(",") if (name := part.strip().lower()) not in ("", "identity")]
    if not names:
        return False
    if names not in (["gzip"], ["x-gzip"]):
        shown = ", ".join(names)[:60].encode("ascii", "replace").decode()
        raise CallError(
            f"{place} sent a reply in the content coding {shown!r}; only gzip was asked for and is read",
            why="unparsable",
        )
    return True


def too_large(most: int, place: str) -> CallError:
    """Make the error of a reply of which not all is read."""
    return CallError(
        f"the reply of {place} is larger than {most:,} bytes, the most that is read of one (`max_reply`)",
        why="unparsable",
    )
