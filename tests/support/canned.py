"""Replies that a server on loopback is told to send, or not to send."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

REPLIES = Path(__file__).parents[2] / "fixtures" / "replies"


@dataclass(frozen=True)
class Canned:
    """One reply, or the lack of one."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    """A JSON value, or text or bytes sent as they are; None for the usual completion."""
    delay: float = 0.0
    """Seconds before it is sent, beside the server's latency."""
    fate: str = "send"
    """`send`, `reset` (the connection is reset after the request was read) or `hang` (no answer)."""
    paid: tuple[str, ...] = ()
    """What is paid for once it is sent."""


def reply(name: str, **changes: Any) -> Canned:
    """Read a recorded reply of `fixtures/replies`, with some of its fields changed."""
    data = json.loads((REPLIES / f"{name}.json").read_text(encoding="utf-8"))
    data.pop("about", None)
    return Canned(**{**data, **changes})


def error(
    status: int, message: str = "no", *, code: str | None = None, param: str | None = None, **headers: str
) -> Canned:
    """Make an error as OpenAI spells it; header names are given with underscores."""
    body = {"error": {"message": message, "type": "error", "param": param, "code": code}}
    return Canned(status, {name.replace("_", "-"): value for name, value in headers.items()}, body)
