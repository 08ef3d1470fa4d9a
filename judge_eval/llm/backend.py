"""What a backend is: one async method, a public identity, and nothing secret."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NoReturn, Protocol, runtime_checkable

from judge_eval.digest import canonical_json, digest_parts
from judge_eval.errors import MissError
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
    """Name and canonical JSON of each parameter sent (temperature, seed, reasoning effort, ...), sorted.

    Numbers without a fraction are written as whole numbers: `0.0` is `0`.
    """
    variant: str = ""
    """A digest of the base URL's query, which may choose a deployment or hold a key; "" without a query."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "params", tuple((name, _plain_numbers(text)) for name, text in self.params))
        object.__setattr__(self, "base_url", one_slash(self.base_url))

    @cached_property
    def digest(self) -> bytes:
        """32 bytes over all fields."""
        flat = [text for pair in self.params for text in pair]
        more = [self.variant] if self.variant else []
        return digest_parts([self.provider, self.model, self.base_url, *flat, *more])


def one_slash(url: str) -> str:
    """Write one slash for each run of them in a URL's path."""
    scheme, mark, rest = url.partition("://")
    return scheme + mark + re.sub("/{2,}", "/", rest)


def _plain_numbers(text: str) -> str:
    """Write the numbers without a fraction in a JSON text as whole numbers."""
    if "." not in text and "e" not in text.lower():
        return text
    try:
        value = json.loads(text)
        plain = canonical_json(_whole(value))
        return plain if plain != canonical_json(value) else text
    except (RecursionError, ValueError):
        return text


def _whole(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if isinstance(value, list):
        return [_whole(item) for item in value]
    return {name: _whole(item) for name, item in value.items()} if isinstance(value, dict) else value


@runtime_checkable
class Backend(Protocol):
    """What completes requests: one async method.

    Cache, retry, limit, budget, recording and replaying are backends around a backend.
    """

    @property
    def identity(self) -> Identity | None:
        """Who answers; None if answers must not be stored (those of a scripted function, for instance)."""

    async def complete(self, request: Request) -> Completion:
        """Answer one request.

        Raises:
            CallError: This call brought no completion; others may.
            FatalCallError: No call can succeed.
        """

    async def aclose(self) -> None:
        """Give back connections and files; safe to call twice."""


def peek(backend: Backend, requests: Sequence[Request]) -> list[Completion | None]:
    """Answer what any backend has at hand; None for all requests if it has no `peek`."""
    method = getattr(backend, "peek", None)  # the check of a protocol takes 20 times as long
    completions: list[Completion | None] = [None] * len(requests) if method is None else method(requests)
    return completions


def _stated(backend: Backend, name: str) -> Any:
    """Return an attribute of a backend that may lack it, or of the one that it is wrapped around."""
    while isinstance(backend, Wrapper):
        backend = backend.inner
    return getattr(backend, name, 0)


def states(backend: Backend, name: Literal["splits_requests", "calls_nobody", "is_local", "has_few_slots"]) -> bool:
    """Whether a backend says this of itself, by an attribute of the name that is true.

    A request that is too large for it may be split; it answers by itself, without limits and prices; its server runs
    on this machine, or may answer few calls at a time.
    """
    return bool(_stated(backend, name))


def caches_prompt_from(backend: Backend) -> tuple[int, int]:
    """Tokens from which some model, and every model, caches a prompt's fixed part that is marked; 0 if it never is."""
    return _stated(backend, "caches_prompt_from") or (0, 0)


def is_outdated(backend: Backend, stored: Completion) -> bool:
    """Whether an answer was made without a parameter, such as the temperature, that the server is known to take."""
    takes = _stated(backend, "takes_more") if stored.dropped else None
    return bool(takes(stored.dropped)) if callable(takes) else False


class Wrapper:
    """A backend around a backend, which passes on everything; `complete` raises as `Backend.complete`."""

    def __init__(self, inner: Backend) -> None:
        self.inner = inner

    @property
    def identity(self) -> Identity | None:
        """Who answers: the backend inside."""
        return self.inner.identity

    async def complete(self, request: Request) -> Completion:
        """Ask the backend inside."""
        return await self.inner.complete(request)

    async def aclose(self) -> None:
        """Close the backend inside."""
        await self.inner.aclose()


class Unavailable:
    """A backend that never answers: answers of `identity` come only from `where`, and `why` says why."""

    def __init__(self, identity: Identity | None, where: str, why: str) -> None:
        self.identity = identity
        self._where, self._why = where, why

    async def complete(self, request: Request) -> NoReturn:
        """Raise `MissError`, always."""
        raise MissError(self._where, request.trace_id, request.chunk_ids, self._why)

    async def aclose(self) -> None:
        """Nothing is open."""
