"""The settings of a server: address, access and limits."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from judge_eval.errors import ConfigError
from judge_eval.settings import Range, check, setting
from judge_eval.spelling import option
from judge_eval.study.people import LabelSample
from judge_eval.trust import is_loopback

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
DRAIN_SECONDS = 2.0
"""Seconds for which the rest of a body that is too large is read before the answer."""
BODY_SECONDS = 300.0
"""Seconds in which the body of a request must be whole."""
BODY_GRACE = 10.0
"""Seconds before a body must have come at the least rate."""
LEAST_RATE = 16 * 2**10
"""Bytes a second at which a body must come, on the average."""
READING = 300
"""Bodies that are not whole; past them the slowest is dropped."""
BODIES = 4
"""Requests with traces or a run that are read at the same time, and how many of the largest size are held."""
REQUESTS = 200
"""Requests with whole bodies that are answered at the same time; others get a 503 with Retry-After."""
WAIT_SECONDS = 30.0
"""The longest that a request may wait for a run's end."""
WAITING = 100
"""Requests that wait for a run's end at the same time; further ones are answered at once."""


_setting = partial(setting, panel="Limits", env=True, file=True)


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """What one request, and all runs together, may take; all are >= 1."""

    body: int = _setting(
        64 * 2**20,
        "Megabytes of a request.",
        metavar="MB",
        name="max_body",
        type=int,
        unit=2**20,
        range=Range(0.001, 100_000, whole=False),
    )
    """Bytes of a request."""
    traces: int = _setting(10_000, "Traces of a submission.", name="max_traces", range=Range(1, 10**9))
    chunks: int = _setting(200, "Chunks of a trace that is submitted.", name="max_chunks", range=Range(1, 1_000_000))
    queued: int = _setting(20, "Submitted runs that wait.", name="max_queued", range=Range(1, 1_000_000))
    """Submitted runs that wait or are judged, in the whole folder."""
    at_once: int = _setting(1, "Submitted runs judged at once.", name="max_runs", range=Range(1, 1_000))
    """Submitted runs judged at the same time by this server."""

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """Where a server listens."""

    host: str = setting(
        "127.0.0.1",
        "The address to listen on; any but this machine's own needs JUDGE_EVAL_SERVER_TOKEN, of at least "
        "16 characters.",
        env=True,
        common=True,
    )
    port: int = setting(PORT, "0 takes a free one.", range=Range(0, 65_535), env=True, common=True)
    allowed_hosts: tuple[str, ...] = setting(
        (),
        "Another name people reach the server under; repeatable.",
        flags=("--allow-host",),
        type=list[str] | None,
        read=tuple,
    )
    """Names, besides the address itself, under which people reach the server."""

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True, slots=True)
class ServerSettings(Serving):
    """How a server is set up: one whose address is open to others needs a token."""

    root: Path
    """The folder of runs."""
    token: str | None = field(default=None, repr=False, kw_only=True)
    """What a request must bring as `Authorization: Bearer ...`; never logged."""
    cache: str | Path | None = field(default=None, kw_only=True)
    """Where raw replies are looked up."""
    limits: ServerLimits = field(default=ServerLimits(), kw_only=True)
    thresholds: Mapping[str, float] = field(default_factory=dict, kw_only=True)
    """By metric: the least mean that passes; the greatest if less is better."""
    sample: LabelSample | None = field(default=None, kw_only=True)
    """A random sample to label, whose order the page of its run follows."""
    floor: str | None = field(default=None, kw_only=True)
    """The model that any judge must beat, which calls no server."""

    def __post_init__(self) -> None:
        check(self)
        if not self.token and not is_loopback(self.host):
            raise ConfigError(
                f"{self.host} can be reached from other machines, so it needs a token: set {TOKEN} to a "
                f"long random text, or serve only this machine ({option('host', '127.0.0.1')})"
            )
        if self.token and len(self.token) < TOKEN_LENGTH:
            raise ConfigError(
                f"{TOKEN} has fewer than {TOKEN_LENGTH} characters and can be guessed: set it to a long "
                "random text, such as `openssl rand -hex 32` prints"
            )
