"""What a chat server's headers say about when and how much to ask."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from judge_eval.backends.around.quota import Quota, RateSignal

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_LIMITED = "x-ratelimit-limit-requests"
_REMAINING = "x-ratelimit-remaining-requests"
_LONGEST = 100  # characters of a header that says a time or a number
_MOST = 1e9  # of anything: seconds, requests, tokens


def duration(text: str | None) -> float | None:
    """Read `"1s"`, `"6m0s"`, `"250ms"`, `"1.5"` as seconds; None where it is none of these."""
    if not text or len(text) > _LONGEST:
        return None
    text = text.strip().lower()
    number = _number(text)
    if number is not None:
        return number
    parts = _PART.findall(text)
    if not parts or "".join(value + unit for value, unit in parts) != text:
        return None
    seconds = sum(float(value) * _UNITS[unit] for value, unit in parts)
    return seconds if seconds < _MOST else None


def retry_after(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Say how many seconds the server asks to wait.

    `retry-after-ms` goes before `Retry-After` (seconds or an HTTP date), and this before the largest
    `x-ratelimit-reset-*` of what is used up.

    Args:
        headers: The reply's headers; names in any case if the mapping folds them.
        now: The time a date is compared with, else the clock's.

    Returns:
        Seconds >= 0; None where the server does not say.
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    asked = headers.get("retry-after")
    if asked is not None and len(asked) <= _LONGEST:
        seconds = _number(asked)
        if seconds is not None:
            return seconds
        try:
            date = parsedate_to_datetime(asked)
            date = date if date.tzinfo else date.replace(tzinfo=UTC)
            seconds = max(0.0, (date - (now or datetime.now(UTC))).total_seconds())
            return seconds if seconds < _MOST else None
        except (ArithmeticError, LookupError, TypeError, ValueError):
            return None
    resets = [
        (reset, _number(headers.get(f"x-ratelimit-remaining-{what}")))
        for what in ("requests", "tokens")
        if (reset := duration(headers.get(f"x-ratelimit-reset-{what}"))) is not None
    ]
    used_up = [reset for reset, remaining in resets if remaining == 0]
    return max(used_up or [reset for reset, _ in resets], default=None)


def rate_signal(headers: Mapping[str, str]) -> RateSignal | None:
    """Read the advertised limits; None where there are none."""
    if _LIMITED not in headers and _REMAINING not in headers:
        return None
    return RateSignal(_quota(headers, "requests"), _quota(headers, "tokens"))


def _quota(headers: Mapping[str, str], what: str) -> Quota | None:
    limit = _number(headers.get(f"x-ratelimit-limit-{what}"))
    remaining = _number(headers.get(f"x-ratelimit-remaining-{what}"))
    if limit is None or limit < 1 or remaining is None:
        return None
    return Quota(limit, min(remaining, limit), duration(headers.get(f"x-ratelimit-reset-{what}")))


def _number(text: str | None) -> float | None:
    """Read a finite number >= 0."""
    try:
        value = float(text) if text is not None and len(text) <= _LONGEST else -1.0
    except ValueError:
        return None
    return value if 0 <= value < _MOST else None
