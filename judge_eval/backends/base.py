"""What a backend is: one async method, a public identity, and nothing secret."""

from __future__ import annotations

from collections.abc import Sequence
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
