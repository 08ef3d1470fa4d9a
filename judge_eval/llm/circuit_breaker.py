"""Ends a run that had answers when equal failures in a row show that no call can succeed any more."""

import asyncio
from collections.abc import Sequence
from time import monotonic

from judge_eval.errors import DeniedError, FatalCallError, RefusedError
from judge_eval.llm.backend import Backend, Wrapper, peek
from judge_eval.wire import Completion, Request

TRACES = 5
"""From how many different traces equal fatal answers in a row end a run."""
REFUSALS = 20
"""How many equal refusals in a row, from as many traces, end a run."""
_PATIENCE = 10.0  # seconds to wait for calls in flight before a run without answers ends
_POLL = 0.01


class CircuitBreaker(Wrapper):
    """A backend in which one odd answer costs one request.

    Before the first answer a `DeniedError` ends the run, unless a call that is in flight brings an answer.
    Afterwards it fails its call alone: a firewall may dislike one chunk, or an objection may quote it. Equal
    ones in a row, from `TRACES` traces and without an answer between them, end the run; so do
    `REFUSALS` equal refusals. Answers from a cache show that the server has answered before.
    """

    def __init__(self, inner: Backend) -> None:
        super().__init__(inner)
        self.answered = False
        """Whether the model has answered, in this run or before."""
        self._cause = ""
        self._failures: list[DeniedError | RefusedError] = []
        self._traces: set[str] = set()
        self._in_flight: set[object] = set()
        self._doubts = 0

    def peek(self, requests: Sequence[Request]) -> list[Completion | None]:
        """Answer what is at hand with the backend inside."""
        completions = peek(self.inner, requests)
        self.answered = self.answered or any(completion is not None for completion in completions)
        return completions

    async def complete(self, request: Request) -> Completion:
        """Answer one request."""
        while self._doubts and not self.answered:  # noqa: ASYNC110  two event loops may share this
            await asyncio.sleep(_POLL)
        call = object()
        self._in_flight.add(call)
        try:
            completion = await self.inner.complete(request)
        except (DeniedError, RefusedError) as error:
            denied = isinstance(error, DeniedError)
            if denied and not self.answered and not await self._answered_without(call):
                raise
            if self._confirms(error, request.trace_id, 1 if denied else REFUSALS):
                raise FatalCallError(
                    f"{error} (the last {len(self._failures)} calls, of {len(self._traces)} traces, "
                    "failed in the same way)",
                    error.cause,
                ) from None
            if denied:
                raise RefusedError(str(error)) from None
            raise
        else:
            self.answered, self._cause = True, ""
            return completion
        finally:
            self._in_flight.discard(call)

    async def _answered_without(self, call: object) -> bool:
        """Wait for the calls in flight; return whether one of them brought an answer."""
        self._in_flight.discard(call)
        others, until = set(self._in_flight), monotonic() + _PATIENCE
        self._doubts += 1
        try:
            while not self.answered and others & self._in_flight and monotonic() < until:  # noqa: ASYNC110
                await asyncio.sleep(_POLL)
        finally:
            self._doubts -= 1
        return self.answered

    def _confirms(self, error: DeniedError | RefusedError, trace: str, least: int) -> bool:
        """Take in a failure; return whether it and equal ones in a row end the run."""
        if not error.cause:
            return False
        if error.cause != self._cause:
            self._cause, self._failures, self._traces = error.cause, [], set()
        if error not in self._failures:  # requests that share a call share its error
            self._failures.append(error)
            self._traces.add(trace)
        return len(self._failures) >= least and len(self._traces) >= TRACES
