"""What a backend is: one async method, a public identity, and nothing secret."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, runtime_checkable

from judge_eval.digest import digest_parts
from judge_eval.wire import Completion, Request


@dataclass(frozen=True)
class Identity:
    """Who answers: everything about a backend that could change a completion, and nothing secret.

    Two backends with equal identities may share a cache.
    """

    provider: str
    model: str
    base_url: str = ""
    params: tuple[tuple[str, str], ...] = ()
    """Name and canonical JSON of each parameter sent (temperature, seed, reasoning effort, ...), sorted."""

    @cached_property
    def digest(self) -> bytes:
        """32 bytes over all fields."""
        flat = [text for pair in self.params for text in pair]
        return digest_parts([self.provider, self.model, self.base_url, *flat])


@runtime_checkable
class Backend(Protocol):
    """Whoever completes requests: one async method.

    Cache, retry, limit, budget, recording and replaying are backends around a backend.
    """

    @property
    def identity(self) -> Identity | None:
        """Who answers; None where answers must not be stored (a scripted function, for instance)."""
        ...

    async def complete(self, request: Request) -> Completion:
        """Answer one request.

        Raises:
            CallError: This call brought no completion; others may.
            FatalCallError: No call can succeed.
        """
        ...

    async def aclose(self) -> None:
        """Give back connections and files; safe to call twice."""
        ...


@runtime_checkable
class Peeking(Protocol):
    """A backend that can answer some requests at once, without waiting for anyone."""

    def peek(self, requests: Sequence[Request]) -> list[Completion | None]:
        """Answer what is at hand, in the order of the requests; None where a call is needed."""
        ...


def peek(backend: Backend, requests: Sequence[Request]) -> list[Completion | None]:
    """Answer what any backend has at hand; None for all requests where it is not `Peeking`."""
    return backend.peek(requests) if isinstance(backend, Peeking) else [None] * len(requests)


def parts_requests(backend: Backend) -> bool:
    """Tell whether a request that is too large for a backend may be parted: it says so by this name."""
    return bool(getattr(backend, "parts_requests", False))


class Wrapper:
    """A backend around a backend: everything goes through, but for what a subclass changes.

    Args:
        inner: Whom to ask.
    """

    def __init__(self, inner: Backend) -> None:
        self.inner = inner

    @property
    def identity(self) -> Identity | None:
        """Who answers: the backend inside."""
        return self.inner.identity

    @property
    def parts_requests(self) -> bool:
        """Whether a request that is too large for the backend inside may be parted."""
        return parts_requests(self.inner)

    async def complete(self, request: Request) -> Completion:
        """Ask the backend inside.

        Raises:
            CallError: This call brought no completion; others may.
            FatalCallError: No call can succeed.
        """
        return await self.inner.complete(request)

    async def aclose(self) -> None:
        """Close the backend inside."""
        await self.inner.aclose()


_STARTED: ContextVar[Callable[[], None] | None] = ContextVar("judge_eval_started", default=None)


@contextmanager
def when_started(tell: Callable[[], None]) -> Iterator[None]:
    """Have `tell` called by `has_started` for each call that is begun within the block."""
    token = _STARTED.set(tell)
    try:
        yield
    finally:
        _STARTED.reset(token)


def has_started() -> None:
    """Say that the call under way was let through: from now on it waits for nobody but the server."""
    tell = _STARTED.get()
    if tell is not None:
        tell()
