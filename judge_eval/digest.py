"""Digests: one stable SHA-256 for everything that could change a verdict."""

import hashlib
import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from pydantic_core import to_json


def canonical_json(value: Any) -> str:
    """Write a JSON value in its one canonical spelling: sorted keys, no spaces, no NaN (`ValueError`)."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def compact_json(value: Any) -> bytes:
    """Write JSON in the fewest bytes, other scripts as they are; no NaN (`ValueError`)."""
    with suppress(ValueError):  # a lone surrogate has no UTF-8, but JSON can spell it
        written = to_json(value)  # in a quarter of the time that `json.dumps` takes
        if b"NaN" not in written and b"Infinity" not in written:
            return written
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()


def texts_json(value: Any) -> bytes:
    """Write JSON without numbers as `compact_json` does, sparing the search for NaN, which takes longer."""
    with suppress(ValueError):
        return to_json(value)
    return compact_json(value)


def digest_json(value: Any) -> str:
    """Digest a JSON value: the SHA-256 of its `canonical_json` in UTF-8, 64 hexadecimal digits."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def digest_parts(parts: Sequence[str]) -> bytes:
    """Digest texts to 32 bytes (SHA-256), so that no two different sequences collide by joining."""
    # The lengths of all parts go ahead of the joined texts, so `("ab", "c")` and `("a", "bc")` differ. This
    # costs a fraction of a digest of canonical JSON, and is what cache keys are made of.
    if len(parts) == 2:  # title and text of a chunk, by the million: in two thirds of the time
        first, second = parts
        text = f"{len(first)},{len(second)}:{first}{second}"
    else:
        text = f"{','.join(map(str, map(len, parts)))}:{''.join(parts)}"
    return hashlib.sha256(text.encode()).digest()


def with_history(digest: bytes, history: Sequence[Any]) -> bytes:
    """Extend a digest of 32 bytes by the turns of a conversation; without one it stays as it is."""
    if not history:
        return digest
    return digest_parts([digest.hex(), "history", *(text for turn in history for text in (turn.role, turn.content))])


def short(digest: str) -> str:
    """Return the first 12 digits of a digest, for people."""
    return digest[:12]
