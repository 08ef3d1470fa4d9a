"""Digests: one stable SHA-256 for everything that could change a verdict."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any


def canonical_json(value: Any) -> str:
    """Write a JSON value in its one canonical spelling: sorted keys, no spaces, no NaN.

    Raises:
        ValueError: The value holds NaN or an infinity.
        TypeError: The value is not JSON.
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest_json(value: Any) -> str:
    """Digest a JSON value.

    Returns:
        64 hexadecimal digits: the SHA-256 of `canonical_json(value)` in UTF-8.
    """
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def digest_parts(parts: Iterable[str | bytes]) -> bytes:
    """Digest a sequence of texts so that no two different sequences collide by joining.

    Each part is preceded by its length in bytes, so `("ab", "c")` and `("a", "bc")` differ. This is
    about four times as fast as a digest of canonical JSON, and is what cache keys are made of.

    Returns:
        The 32 bytes of the SHA-256.
    """
    joined = []
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        joined.append(b"%d:" % len(data))
        joined.append(data)
    return hashlib.sha256(b"".join(joined)).digest()


def short(digest: str) -> str:
    """Return the first 12 digits of a digest, for people."""
    return digest[:12]
