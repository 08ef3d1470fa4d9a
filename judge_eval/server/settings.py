"""What a server is told: where, for whom, within which limits."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from judge_eval.errors import ConfigError
from judge_eval.metrics import parse_metric
from judge_eval.ranges import check_ranges

TOKEN = "JUDGE_EVAL_SERVER_TOKEN"  # noqa: S105  the variable's name
"""The environment variable that holds the bearer token."""
SERVER = "JUDGE_EVAL_SERVER"
"""The environment variable that names the server to talk to, by its address."""
PORT = 8642


TOKEN_LENGTH = 16
"""Characters that a token has at least: a shorter one can be guessed."""
SMALL_BODY = 256 * 2**10
"""Bytes of a request that brings neither traces nor a run."""
RECORD = 64 * 2**20
"""Characters of one trace, or of one result, in a request; of brackets and commas a 32nd of them."""
UPLOADED = 100_000
"""Results of an uploaded run."""
READ_SECONDS = 60.0
"""Seconds in which what a request brought is read and checked, once it is here."""
PIECE_SECONDS = 30.0
"""Seconds between two pieces of a request's body."""
BODIES = 4
"""Requests with traces or a run that are held in memory at the same time; others wait to be read."""
REQUESTS = 200
"""Requests that are answered at the same time; others are told to come again."""
WAIT_SECONDS = 30.0
"""The longest that a request may wait for a run's end."""
WAITING = 100
"""Requests that wait for a run's end at the same time; further ones are answered at once."""


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """What one request, and all runs together, may take; all are >= 1.

    Raises:
        ConfigError: A number is out of its range.
    """

    body: int = 64 * 2**20
    """Bytes of a request."""
    traces: int = 10_000
    """Traces of a submission."""
    chunks: int = 200
    """Chunks of a trace that is submitted."""
    queued: int = 20
    """Submitted runs that wait or are judged, in the whole folder."""
    at_once: int = 1
    """Submitted runs judged at the same time by this server."""

    def __post_init__(self) -> None:
        check_ranges({f"max_{name}": getattr(self, name) for name in ("traces", "chunks", "queued")})
        check_ranges({"max_runs": self.at_once, "max_body": max(1, self.body >> 20)})


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """How a server is set up.

    Raises:
        ConfigError: The address is open to others and there is no token, or the token is short.
    """

    root: Path
    """The folder of runs."""
    host: str = "127.0.0.1"
    port: int = PORT
    token: str | None = field(default=None, repr=False)
    """What a request must bring as `Authorization: Bearer ...`; never logged."""
    allowed_hosts: tuple[str, ...] = ()
    """Names, besides the address itself, under which people reach the server."""
    thresholds: Mapping[str, float] = field(default_factory=dict)
    """By metric: the least mean that passes."""
    cache: str | Path | None = None
    """Where raw replies are looked up."""
    limits: ServerLimits = ServerLimits()

    def __post_init__(self) -> None:
        check_ranges({"port": self.port})
        if not self.token and not is_loopback(self.host):
            raise ConfigError(
                f"{self.host} can be reached by others, so the server needs a token: set {TOKEN} to a long "
                "random text, or leave --host at 127.0.0.1"
            )
        if self.token and len(self.token) < TOKEN_LENGTH:
            raise ConfigError(
                f"{TOKEN} has fewer than {TOKEN_LENGTH} characters and can be guessed: set it to a long "
                "random text, such as `openssl rand -hex 32` prints"
            )


def is_loopback(host: str) -> bool:
    """Tell whether an address can be reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def read_thresholds(given: Sequence[str]) -> dict[str, float]:
    """Read `AP@5>=0.8` (or `AP@5=0.8`) into metrics and the means that just pass.

    Of a metric of which less is better, `Conflict@5<=0.1` gives the greatest one.

    Raises:
        ConfigError: It does not read so, names no metric, or has the sign of the other kind.
    """
    thresholds: dict[str, float] = {}
    for text in given:
        parts = re.fullmatch(r"(.+?)\s*(>=|<=|=)\s*(\d*\.?\d+)", text.strip())
        if parts is None:
            raise ConfigError(f"threshold {text!r}: write METRIC>=NUMBER, such as AP@5>=0.8")
        metric = parse_metric(parts.group(1))
        fewer, (sign, number) = metric.spec.less_is_better, parts.group(2, 3)
        if sign not in ("=", right := "<=" if fewer else ">="):
            raise ConfigError(
                f"threshold {text!r}: {metric} is the better the {'less' if fewer else 'more'} it is; "
                f"write {metric}{right}{number}"
            )
        thresholds[str(metric)] = float(number)
    return thresholds
