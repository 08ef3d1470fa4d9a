"""Scripted backends, traces in number, and engines that are run to their end."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from judge_eval.engine import Engine, Item, Judged
from judge_eval.judges import Pointwise
from judge_eval.llm.backend import Identity
from judge_eval.wire import Completion, Request
from tests.support.replies import one
from tests.support.runs import traces

JUDGE = Pointwise("support/binary")


NO = one(False)


class Scripted:
    """A backend that is an async function and notes who was asked."""

    identity: Identity | None = None

    def __init__(self, answer: Callable[[Request], Any] | None = None) -> None:
        self.answer = answer
        self.asked: list[str] = []

    async def complete(self, request: Request) -> Completion:
        """Answer with what the function returns or raises."""
        self.asked += request.chunk_ids
        return NO if self.answer is None else await self.answer(request)

    async def aclose(self) -> None:
        """Do nothing."""


class AtHand(Scripted):
    """A backend that has the answers for some chunks at hand."""

    def peek(self, requests: Sequence[Request]) -> list[Completion | None]:
        """Answer the chunks whose id ends with `a`."""
        return [NO if request.chunk_ids[0].endswith("a") else None for request in requests]


def items(count: int, chunks: int = 2) -> Iterator[Item]:
    """Yield numbered traces."""
    for position, trace in enumerate(traces(count, chunks)):
        yield Item(position, trace)


async def collect(backend: Scripted, source: Any, **settings: Any) -> list[Judged]:
    """Run an engine to its end."""
    collected: list[Judged] = []
    await gather(Engine(JUDGE, backend, linger=0, **settings), source, collected)
    return collected


async def gather(engine: Engine, source: Any, found: list[Judged]) -> None:
    """Run an engine to its end and keep what it hands on even where it fails."""
    async with engine:
        async for block in engine.results(source):
            found += block
