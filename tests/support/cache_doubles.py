"""Test doubles for the cache: a form of one's choice, a backend that counts, a store that fails."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from judge_eval.digest import digest_parts
from judge_eval.errors import StoreError
from judge_eval.llm.backend import Identity
from judge_eval.llm.cache.store import KeyClaim, Store, StoreInfo
from judge_eval.schema import BINARY, Scale
from judge_eval.wire import Completion, Message, Passage, Request, Usage


@dataclass(frozen=True)
class PlainForm:
    """A form whose digest is that of its texts."""

    system: str = "Judge."
    contract: str = "verdict"
    listwise: bool = False
    scale: Scale = BINARY
    schema: Mapping[str, Any] = field(default_factory=dict, hash=False)
    schema_name: str = "verdict"

    @property
    def digest(self) -> bytes:
        return digest_parts((self.system, self.contract))

    def render(self, request: Request) -> tuple[Message, ...]:
        return (Message("system", self.system), Message("user", request.query))


FORM = PlainForm()
IDENTITY = Identity("openai", "model-a", "http://127.0.0.1:1/v1", (("temperature", "0"),))


def ask(query: str = "why?", text: str = "because", **more: Any) -> Request:
    """Make a request about one passage."""
    more = {"form": FORM, "max_tokens": 100, "trace_id": "t1", "chunk_ids": ("c1",), **more}
    return Request(query=query, passages=(Passage(text),), **more)


def readable(completion: Completion) -> bool:
    """Accept what says yes or no."""
    return completion.text.startswith(("yes", "no"))


def take_lease(store: Store, key: bytes) -> bool:
    """Lease a key, whether or not it has a row."""
    return store.claim_many([key], replacing=True)[0].leased


class Counting:
    """A backend that answers with a function of the request and remembers what it was asked."""

    def __init__(
        self,
        answer: Callable[[Request], str] = lambda request: f"yes {request.query}",
        *,
        identity: Identity | None = IDENTITY,
        wait: float = 0.0,
    ) -> None:
        self.answer, self.identity, self.wait = answer, identity, wait
        self.asked: list[Request] = []
        self.closed = 0

    async def complete(self, request: Request) -> Completion:
        self.asked.append(request)
        await asyncio.sleep(self.wait)
        return Completion(self.answer(request), usage=Usage(10, 2), model="model-a-2026")

    async def aclose(self) -> None:
        self.closed += 1


class Held(Counting):
    """A backend that answers when it is told to."""

    def __init__(self, answer: Callable[[Request], str] = lambda _: "yes, slow") -> None:
        super().__init__(answer)
        self.called, self.may_answer = asyncio.Event(), asyncio.Event()

    async def complete(self, request: Request) -> Completion:
        self.asked.append(request)
        self.called.set()
        await self.may_answer.wait()
        return Completion(self.answer(request))


class MemoryStore:
    """A store in memory that can be told to fail, and that knows every put; it grants every lease."""

    remote = False

    def __init__(self, *, read_only: bool = False) -> None:
        self.rows: dict[bytes, bytes] = {}
        self.puts: list[list[bytes]] = []
        self.corrupt = 0
        self.read_only = read_only
        self.broken = False

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return [self.rows.get(key) for key in keys]

    def claim_many(self, keys: Sequence[bytes], *, replacing: bool = False) -> list[KeyClaim]:
        return [KeyClaim(self.rows.get(key), replacing or key not in self.rows) for key in keys]

    def put_many(self, items: Sequence[tuple[bytes, bytes]], *, wait: bool = True, claimed: bool = False) -> int:
        if self.broken:
            raise StoreError("no space left for the cache")
        self.puts.append([key for key, _ in items])
        self.rows.update(items)
        return 0

    def release_many(self, keys: Sequence[bytes]) -> None:
        pass

    def info(self) -> StoreInfo:
        return StoreInfo("memory", len(self.rows), 0, self.read_only)

    def close(self) -> None:
        pass
