"""Spreads calls over servers of one model, except those that are down."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic
from weakref import WeakKeyDictionary

from judge_eval.errors import ConfigError, TransientError
from judge_eval.llm.backend import Backend, Identity, states
from judge_eval.llm.limit import PATIENCE
from judge_eval.wire import Completion, Request


@dataclass(slots=True)
class _Server:
    backend: Backend
    in_flight: int = 0
    failures: int = 0
    """How many calls in a row did not reach it."""
    not_before: float = 0.0
    """When it may be tried again."""


class LoadBalancer:
    """A backend that asks whichever of several servers has the fewest calls in flight.

    A server that cannot be reached is left out for `rest` seconds, each time twice as long, up to `longest`,
    then tried with one call. A call that did not reach its server goes to another one at once; one that may
    have been executed fails. At most `most` calls are in flight over all servers.

    All serve the same model with the same parameters, so the fleet has the identity of its first server:
    stored answers remain valid when servers are added or replaced behind it.
    """

    def __init__(
        self,
        backends: Sequence[Backend],
        *,
        rest: float = 1.0,
        longest: float = 60.0,
        most: int | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        judges = {
            (i.provider, i.model, i.params) if (i := backend.identity) is not None else None for backend in backends
        }
        if len(judges) > 1:
            raise ConfigError("the servers of a fleet must serve the same model with the same parameters")
        self._servers = [_Server(backend) for backend in backends]
        self._rest, self._longest, self._clock, self._most = rest, longest, clock, most
        self._rooms: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()

    @property
    def identity(self) -> Identity | None:
        """The identity of the first server."""
        return self._servers[0].backend.identity

    @property
    def splits_requests(self) -> bool:
        """Whether a request that is too large for its servers may be split."""
        return states(self._servers[0].backend, "splits_requests")

    @property
    def is_local(self) -> bool:
        """Whether one of the servers runs on this machine."""
        return any(states(server.backend, "is_local") for server in self._servers)

    @property
    def in_flight(self) -> list[int]:
        """How many calls each server is working on, in the order given."""
        return [server.in_flight for server in self._servers]

    async def complete(self, request: Request) -> Completion:
        """Ask the server with the fewest calls in flight; raises `CallError` if none can be reached."""
        if self._most is None:
            return await self._ask(request)
        loop = asyncio.get_running_loop()
        async with self._rooms.setdefault(loop, asyncio.Semaphore(self._most)):
            return await self._ask(request)

    async def aclose(self) -> None:
        """Close every server's backend."""
        await asyncio.gather(*(server.backend.aclose() for server in self._servers))

    async def _ask(self, request: Request) -> Completion:
        tried: list[_Server] = []
        while True:
            server = self._choose(tried)
            tried.append(server)
            server.in_flight += 1
            try:
                completion = await server.backend.complete(request)
            except TransientError as error:
                is_away = (error.retry_after or 0.0) > PATIENCE
                if is_away or error.kind in ("connection", "loading", "timeout"):
                    self._leave_out(server)
                is_away = is_away or error.kind in ("connection", "loading")
                if not error.sent and is_away and len(tried) < len(self._servers):
                    continue
                raise
            finally:
                server.in_flight -= 1
            server.failures, server.not_before = 0, 0.0
            return completion

    def _choose(self, tried: Sequence[_Server]) -> _Server:
        now = self._clock()
        left = [server for server in self._servers if server not in tried]
        # A server that failed is tried by a single call at a time.
        ready = [each for each in left if each.not_before <= now and not (each.failures and each.in_flight)]
        if ready:
            return min(ready, key=lambda server: server.in_flight)
        return min(left, key=lambda server: server.not_before)

    def _leave_out(self, server: _Server) -> None:
        if self._clock() >= server.not_before:  # calls that failed together count once
            server.failures += 1
            pause = min(self._rest * 2.0 ** (server.failures - 1), self._longest)
            server.not_before = self._clock() + pause
