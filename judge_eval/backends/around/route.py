"""Several backends behind one: each request goes where its route says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from judge_eval.backends.base import Backend, peek
from judge_eval.errors import ConfigError, advise
from judge_eval.wire import Completion, Request


class Routed:
    """Sends each request to the backend that its `route` names.

    It stands outermost, around whole stacks: each backend brings its own cache, whose keys hold that
    backend's identity, so that no member of a panel is ever answered for by another. It has no identity of
    its own, hence a cache wrapped around it by mistake stores nothing.

    Args:
        backends: By route.

    Raises:
        ConfigError: There is none.
    """

    identity = None

    def __init__(self, backends: Mapping[str, Backend]) -> None:
        if not backends:
            raise ConfigError("a panel of models needs at least one model")
        self.backends = dict(backends)

    def peek(self, requests: Sequence[Request]) -> list[Completion | None]:
        """Answer what is at hand with any of the backends, in the order of the requests."""
        completions: list[Completion | None] = [None] * len(requests)
        places: dict[str, list[int]] = {}
        for place, request in enumerate(requests):
            places.setdefault(request.route, []).append(place)
        for route, there in places.items():
            answers = peek(self._of(route), [requests[k] for k in there])
            for place, answer in zip(there, answers, strict=True):
                completions[place] = answer
        return completions

    async def complete(self, request: Request) -> Completion:
        """Answer one request by the backend it is routed to.

        Raises:
            ConfigError: There is no such backend.
            CallError: This call brought no completion.
            FatalCallError: No call to that backend can succeed.
        """
        return await self._of(request.route).complete(request)

    async def aclose(self) -> None:
        """Close all of them, each whatever befalls the others; the first error is raised."""
        errors: list[Exception] = []
        for backend in self.backends.values():
            try:
                await backend.aclose()
            except Exception as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def _of(self, route: str) -> Backend:
        backend = self.backends.get(route)
        if backend is None:
            raise ConfigError(f"no model for the route {route!r}; {advise(route, sorted(self.backends))}")
        return backend
