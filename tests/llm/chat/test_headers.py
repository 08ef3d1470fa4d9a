"""Durations, dates and quotas in headers."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from judge_eval.llm.http.failures import duration, rate_signal, retry_after
from judge_eval.llm.limit import Quota, RateSignal

NOON = datetime(2026, 11, 20, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1s", 1),
        ("6m0s", 360),
        ("250ms", 0.25),
        ("1h2m3s", 3723),
        ("2m59.56s", 179.56),
        ("1.5", 1.5),
        ("1d", 86400),
        *((text, None) for text in ("", None, "soon", "1s later", "-3", "nan", "inf")),
    ],
)
def test_duration(text: str | None, seconds: float | None) -> None:
    """Durations are read as servers write them, and nothing else is."""
    assert duration(text) == (seconds if seconds is None else pytest.approx(seconds))


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": "2.5", "x-ratelimit-reset-requests": "9s"}, 2.5),
        ({"retry-after": "Fri, 20 Nov 2026 12:00:30 GMT"}, 30),
        ({"retry-after": "Fri, 20 Nov 2026 11:00:00 GMT"}, 0),
        ({"retry-after": "soon"}, None),
        ({"x-ratelimit-reset-requests": "1s", "x-ratelimit-reset-tokens": "6m0s"}, 360),
        (
            {
                "x-ratelimit-reset-requests": "1s",
                "x-ratelimit-remaining-requests": "0",
                "x-ratelimit-reset-tokens": "6m0s",
                "x-ratelimit-remaining-tokens": "5000",
            },
            1,
        ),
        ({"x-ratelimit-reset-requests": "87600h", "x-ratelimit-remaining-requests": "0"}, None),
        ({"x-ratelimit-reset-requests": "87600h", "x-ratelimit-reset-tokens": "3s"}, 3),
        ({}, None),
        ({"retry-after-ms": "nan", "retry-after": "inf"}, None),
    ],
)
def test_retry_after(headers: dict[str, str], seconds: float | None) -> None:
    """Milliseconds go before seconds or a date, and these before the largest reset of what is used up."""
    assert retry_after(headers, NOON) == seconds


def test_rate_signal() -> None:
    """Advertised limits are read where they are whole."""
    assert rate_signal({}) is None
    headers = {
        "x-ratelimit-limit-requests": "500",
        "x-ratelimit-remaining-requests": "600",
        "x-ratelimit-limit-tokens": "0",
        "x-ratelimit-remaining-tokens": "0",
    }
    assert rate_signal(headers) == RateSignal(Quota(500, 500, None), None)
    headers["x-ratelimit-reset-requests"] = "87600h"
    assert rate_signal(headers) == RateSignal(None, None)
