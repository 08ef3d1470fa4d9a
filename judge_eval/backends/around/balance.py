"""Spreads calls over a fleet of servers of one model, passing over those that are down."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic
from weakref import WeakKeyDictionary

from judge_eval.backends.base import Backend, Identity, parts_requests
from judge_eval.errors import ConfigError, TransientError
from judge_eval.wire import Completion, Request


@dataclass(slots=True)
class _Server:
    backend: Backend
    in_flight: int = 0
    failures: int = 0
    """How many calls in a row found nobody there."""
    not_before: float = 0.0
    """When it may be tried again."""


class Balanced:
    """A backend that asks whichever of several servers has the fewest calls in flight.

    A server that cannot be reached is left out for a while, each time twice as long, then tried with one
    call. A call that did not reach its server goes to another one at once; one that may have been done
    fails, and whoever repeats it decides.

    The fleet goes by the identity of its first server: by naming them together the user says that all of
    them serve the same model alike. So answers stay at hand when servers are added or replaced behind it.

    Args:
        backends: One for each server, at least one, all of the same model and parameters.
        rest: Seconds a server is left out at first.
        longest: The most seconds it is left out.
        most: The most calls in flight over all servers; None leaves it to their own limits.
        clock: Tells the time in seconds.

    Raises:
        ConfigError: There is no server, or they differ in more than their addresses.
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
        if not backends:
            raise ConfigError("a fleet needs at least one server")
        judges = {
            (i.provider, i.model, i.params) if (i := backend.identity) is not None else None
            for backend in backends
        }
        if len(judges) > 1:
            raise ConfigError("the servers of a fleet must serve the same model with the same parameters")
        self._servers = [_Server(backend) for backend in backends]
        self._rest, self._longest, self._clock, self._most = rest, longest, clock, most
        self._rooms: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()

    @property
    def identity(self) -> Identity | None:
        """That of the first server, whoever answers."""
        return self._servers[0].backend.identity

    @property
    def parts_requests(self) -> bool:
        """Whether a request that is too large for its servers may be parted."""
        return parts_requests(self._servers[0].backend)

    @property
    def in_flight(self) -> list[int]:
        """How many calls each server is working on, in the order given."""
        return [server.in_flight for server in self._servers]

    async def complete(self, request: Request) -> Completion:
        """Ask the server with the least to do.

        Raises:
            CallError: The call brought no completion, or no server could be reached.
            FatalCallError: No call can succeed.
        """
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
                if error.kind in ("connection", "timeout"):
                    self._leave_out(server)
                if not error.sent and error.kind == "connection" and len(tried) < len(self._servers):
                    continue
                raise
            finally:
                server.in_flight -= 1
            server.failures, server.not_before = 0, 0.0
            return completion

    def _choose(self, tried: Sequence[_Server]) -> _Server:
        """Return the server with the fewest calls in flight; those that are left out come last."""
        now = self._clock()
        left = [server for server in self._servers if server not in tried]
        there = [
            # One that failed is tried by a single call at a time.
            server
            for server in left
            if server.not_before <= now and not (server.failures and server.in_flight)
        ]
        if there:
            return min(there, key=lambda server: server.in_flight)
        return min(left, key=lambda server: server.not_before)

    def _leave_out(self, server: _Server) -> None:
        if self._clock() >= server.not_before:  # calls that failed together count once
            server.failures += 1
            pause = min(self._rest * 2.0 ** (server.failures - 1), self._longest)
            server.not_before = self._clock() + pause
