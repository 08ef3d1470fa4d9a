"""Parts requests that are declined whole, and puts the answers together again."""

from __future__ import annotations

import asyncio

from judge_eval.backends.base import Backend, Wrapper
from judge_eval.errors import CallError, FilteredError, RefusedError, RequestTooLargeError
from judge_eval.wire import Completion, DecisionAnswer, Request, joined

_VAIN = 8
"""So many requests about one passage, all declined, say that the server declines them all."""


class Parted(Wrapper):
    """A backend that asks a request in halves where it is too large, or where a part of it is declined.

    The halves are asked of `parts`, the cache around this backend where there is one: so each is kept when
    it is answered, and a kill between them loses nothing. What was too large once is parted at once
    afterwards. A part of one question that is declined is that question's refusal; the others stand. A
    server that has answered nothing and declined eight questions one by one is not asked in halves any more.

    Args:
        inner: Whom to ask.
    """

    def __init__(self, inner: Backend) -> None:
        super().__init__(inner)
        self.parts: Backend = self
        """Whom the halves are asked of."""
        self._too_large: list[tuple[int, int]] = []
        self._answered, self._in_vain = False, 0

    async def complete(self, request: Request) -> Completion:
        """Answer one request, whole or in halves.

        Raises:
            CallError: The call brought no completion.
            FatalCallError: No call can succeed.
        """
        many = _has_parts(request)
        if not (many and self._is_too_large(request)):
            try:
                completion = await self.inner.complete(request)
            except RefusedError as error:
                if not self._note(request, error):
                    raise
            else:
                self._answered = True
                return completion
        replies = await asyncio.gather(*map(self._part, request.halves()), return_exceptions=True)
        answered: list[Completion] = []
        for reply in replies:  # both have come: what one of them was paid for is kept
            if isinstance(reply, BaseException):
                raise reply
            answered.append(reply)
        return joined(*answered)

    def _note(self, request: Request, error: RefusedError) -> bool:
        """Learn from a request that was declined, and tell whether halves of it may pass."""
        many = _has_parts(request)
        if isinstance(error, RequestTooLargeError):
            if many and not self._is_too_large(request):
                self._learn(_size(request))
            return many
        if many:
            filtered = isinstance(error, FilteredError)
            return filtered or self._answered or self._in_vain < _VAIN
        self._in_vain += 1
        return False

    async def _part(self, part: Request) -> Completion:
        """Ask a part; what fails is told as the answer to each of its questions."""
        try:
            return await self.parts.complete(part)
        except CallError as error:
            answer = DecisionAnswer((), error.why, error.detail)
        return Completion("", answers=(answer,) * len(part.passages))

    def _learn(self, size: tuple[int, int]) -> None:
        count, length = size
        kept = [(many, long) for many, long in self._too_large if many < count or long < length]
        self._too_large = [*kept, size]

    def _is_too_large(self, request: Request) -> bool:
        count, length = _size(request)
        return any(count >= many and length >= long for many, long in self._too_large)


def _has_parts(request: Request) -> bool:
    """Tell whether halves of a request ask what it asks: not where it asks about all passages together."""
    return len(request.passages) > 1 and not request.claims


def _size(request: Request) -> tuple[int, int]:
    return len(request.passages), sum(len(passage.text) for passage in request.passages)
