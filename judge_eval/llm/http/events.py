"""Reads a reply that a server streams as events although it was asked not to."""

from collections.abc import Iterator, Mapping
from typing import Any

from judge_eval.foreign import read_json, within

_DONE = b"[DONE]"
_JOINED = ("content", "refusal", "reasoning", "reasoning_content")
"""Texts of a message that come in pieces."""


def is_event_stream(headers: Mapping[str, str]) -> bool:
    """Whether a reply comes as events."""
    return "text/event-stream" in (headers.get("content-type") or "").lower()


def is_done(tail: bytes) -> bool:
    """Whether a stream says at this end that nothing follows; some servers then leave the connection open."""
    return tail.rstrip().endswith(_DONE)


def read_events(content: bytes) -> dict[str, Any] | None:
    """Put the events of a reply together as the reply without streaming; None if there is none.

    The first event that holds an error stands for the reply, and so does the last one of Responses. If the stream ends
    before the reply does, its end is `length`, so that what is there counts if it can be read and is called cut if it
    cannot.
    """
    made: dict[str, Any] = {}
    texts: dict[str, list[str]] = {}
    tokens: list[Any] = []
    finish, seen = None, False
    for data in _data_of(content):
        try:
            event = read_json(data)
        except ValueError:
            continue
        if not isinstance(event, dict):
            continue
        if event.get("error"):
            return event
        response = event.get("response")
        if within(response, "status") in ("completed", "incomplete", "failed"):
            return response
        made |= {name: event[name] for name in ("model", "usage") if event.get(name)}
        if within(event, "choices", 0, "index") not in (None, 0):
            continue
        choice = within(event, "choices", 0)
        piece = within(choice, "delta" if within(choice, "delta") is not None else "message")
        seen = seen or isinstance(choice, dict)
        for name in _JOINED:
            if isinstance(text := within(piece, name), str):
                texts.setdefault(name, []).append(text)
        if isinstance(more := within(choice, "logprobs", "content"), list):
            tokens += more
        finish = within(choice, "finish_reason") or finish
    if not seen:
        return None
    finish = finish or ("stop" if is_done(content) else "length")
    message = {name: "".join(pieces) for name, pieces in texts.items()}
    logprobs = {"content": tokens} if tokens else None
    return {**made, "choices": [{"message": message, "finish_reason": finish, "logprobs": logprobs}]}


def _data_of(content: bytes) -> Iterator[bytes]:
    """Yield the data of each event; the lines of one event are joined."""
    lines: list[bytes] = []
    for line in (*content.removeprefix(b"\xef\xbb\xbf").splitlines(), b""):
        if line.startswith(b"data:"):
            lines.append(line[5:].removeprefix(b" "))
        elif not line and lines:
            yield b"\n".join(lines)
            lines = []
