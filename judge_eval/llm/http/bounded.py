"""Reads the bytes of a reply within bounds."""

import zlib
from collections.abc import AsyncIterable, Mapping
from typing import NamedTuple

from judge_eval.errors import CallError, RefusedError, TransientError
from judge_eval.llm.http.events import is_done, is_event_stream

ASKED_CODING = "gzip"
"""The one content coding that is requested and read: its output can be bounded."""
_TAIL = 32  # bytes that show the end of a stream


class Received(NamedTuple):
    """An HTTP reply, read whole."""

    status: int
    headers: Mapping[str, str]
    content: bytes


async def read_whole(
    parts: AsyncIterable[bytes], headers: Mapping[str, str], most: int, place: str, *, paid: bool
) -> bytes:
    """Read a body of at most so many bytes, packed and unpacked; raises `CallError` above.

    A stream of events ends with its last event. `paid`: an unreadable reply must not be asked for again.
    """
    packed = is_packed(headers, place)
    streams = is_event_stream(headers) and not packed
    kept, size, tail = [], 0, b""
    async for part in parts:
        size += len(part)
        if size > most:
            raise too_large(most, place)
        kept.append(part)
        if streams and is_done(tail := (tail + part)[-_TAIL:]):
            break
    content = kept[0] if len(kept) == 1 else b"".join(kept)
    if not packed or not content:
        return content
    try:
        return unpack(content, most, place)
    except TransientError as error:
        if paid:
            raise unreadable(error.detail) from None
        raise


def unreadable(what: str, cause: str = "") -> RefusedError:
    """Make the error of a reply to an answered request that holds no answer: the request is not sent again."""
    return RefusedError(what, why="unparsable", cause=cause)


def unpack(content: bytes, most: int, place: str) -> bytes:
    """Unpack gzip; raises `CallError` above `most` bytes, and `TransientError` if it is invalid."""
    reader = zlib.decompressobj(wbits=31)
    try:
        text = reader.decompress(content, most + 1)
    except zlib.error:
        text = b""
    if len(text) > most:
        raise too_large(most, place)
    if not reader.eof:
        raise TransientError(f"{place} sent a reply that is labelled gzip and is not", kind="body")
    return text


def is_packed(headers: Mapping[str, str], place: str) -> bool:
    """Whether a body must be unpacked; raises `CallError` for a coding that was not requested."""
    codings = headers.get("content-encoding") or ""
    names = [name for part in codings.split(",") if (name := part.strip().lower()) not in ("", "identity")]
    if names and names not in (["gzip"], ["x-gzip"]):
        shown = ", ".join(names)[:60].encode("ascii", "replace").decode()
        raise CallError(
            f"{place} sent a reply in the content coding {shown!r}; only gzip was asked for and is read",
            why="unparsable",
        )
    return bool(names)


def too_large(most: int, place: str) -> CallError:
    """Make the error of a reply that is too large."""
    return CallError(
        f"the reply of {place} is larger than {most:,} bytes, the most that is read of one (`max_reply`)",
        why="unparsable",
    )
