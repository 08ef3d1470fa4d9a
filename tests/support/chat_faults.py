"""What goes wrong with calls of a chat server on loopback, how often, and its rate limit."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass


@dataclass
class Faults:
    """How often calls go wrong: shares of calls, drawn from seed, body and number of the attempt.

    The marks of the fences do not count: each process has a secret of its own that they follow from.
    """

    rate_429: float = 0.0
    rate_500: float = 0.0
    rate_503: float = 0.0
    rate_reset: float = 0.0
    rate_hang: float = 0.0
    rate_malformed: float = 0.0
    rate_broken_body: float = 0.0
    rate_refusal: float = 0.0
    rate_length: float = 0.0
    retry_after: float | None = 0.05
    fail_texts: tuple[str, ...] = ()
    """A call whose body contains one of these always gets HTTP 500."""
    seed: int = 0

    def draw(self, body: bytes, attempt: int) -> str | None:
        """Say what goes wrong with this attempt, None where nothing does."""
        if any(text.encode() in body for text in self.fail_texts):
            return "500"
        plain = re.sub(rb" \d{9}>", b">", body)
        key = hashlib.sha256(b"%d,%d," % (self.seed, attempt) + plain).digest()
        point = int.from_bytes(key[:8]) / 2**64
        for name in ("429", "500", "503", "reset", "hang", "malformed", "broken_body", "refusal", "length"):
            point -= getattr(self, f"rate_{name}")
            if point < 0:
                return name
        return None


@dataclass
class Bucket:
    """A bucket of requests that fills at `rpm` a minute, as rate limited servers keep it."""

    rpm: float
    burst: float
    level: float = 0.0
    at: float = 0.0
    advertise: bool = True

    def take(self, now: float) -> tuple[bool, dict[str, str]]:
        """Take one request at a time in seconds; say whether it was there, and the headers."""
        self.level = min(self.burst, self.level + (now - self.at) * self.rpm / 60)
        self.at = now
        granted = self.level >= 1
        if granted:
            self.level -= 1
        headers: dict[str, str] = {}
        if self.advertise:
            reset = (self.burst - self.level) * 60 / self.rpm
            headers = {
                "x-ratelimit-limit-requests": f"{self.rpm:.0f}",
                "x-ratelimit-remaining-requests": f"{int(self.level)}",
                "x-ratelimit-reset-requests": f"{reset * 1000:.0f}ms",
            }
        if not granted:
            headers["retry-after-ms"] = f"{max(1.0, (1 - self.level) * 60_000 / self.rpm):.0f}"
        return granted, headers
