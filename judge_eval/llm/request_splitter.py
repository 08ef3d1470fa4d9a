"""Splits requests that are declined whole, and joins the answers."""

import asyncio

from judge_eval.errors import CallError, FilteredError, RefusedError, RequestTooLargeError
from judge_eval.llm.backend import Backend, Wrapper
from judge_eval.wire import Completion, DecisionAnswer, Request, joined

_MOST_DECLINED = 8  # after so many declined requests about one passage, the server declines them all


class RequestSplitter(Wrapper):
    """A backend that asks a request in halves if it is too large, or if a part of it is declined.

    The halves go to `parts`, the cache around this backend if there is one: so each answer is kept, and a
    kill between them loses nothing. A size that was too large is split at once from then on. A declined
    part of one question is the refusal of that question alone. After eight declined single questions and
    no answer, requests are not split any more.
    """

    def __init__(self, inner: Backend) -> None:
        super().__init__(inner)
        self.parts: Backend = self
        """The backend that is asked the halves."""
        self._too_large: list[tuple[int, int]] = []
        self._answered, self._declined = False, 0

    async def complete(self, request: Request) -> Completion:
        """Answer one request, whole or in halves."""
        if not (_is_divisible(request) and self._is_too_large(request)):
            try:
                completion = await self.inner.complete(request)
            except RefusedError as error:
                if not self._may_split(request, error):
                    raise
            else:
                self._answered = True
                return completion
        replies = await asyncio.gather(*map(self._part, request.halves()), return_exceptions=True)
        completions: list[Completion] = []
        for reply in replies:  # raised after both have come, so that a paid answer is kept
            if isinstance(reply, BaseException):
                raise reply
            completions.append(reply)
        return joined(*completions)

    def _may_split(self, request: Request, error: RefusedError) -> bool:
        if error.why == "unparsable":  # it was answered, and perhaps billed
            return False
        divisible = _is_divisible(request)
        if isinstance(error, RequestTooLargeError):
            if divisible and not self._is_too_large(request):
                count, length = size = _size(request)
                others = [(many, long) for many, long in self._too_large if many < count or long < length]
                self._too_large = [*others, size]
            return divisible
        if not divisible:
            self._declined += 1
            return False
        return isinstance(error, FilteredError) or self._answered or self._declined < _MOST_DECLINED

    async def _part(self, part: Request) -> Completion:
        """Ask a part; a failure becomes the answer to each of its questions."""
        try:
            return await self.parts.complete(part)
        except CallError as error:
            answer = DecisionAnswer((), error.why, error.detail)
        return Completion("", answers=(answer,) * len(part.passages))

    def _is_too_large(self, request: Request) -> bool:
        count, length = _size(request)
        return any(count >= many and length >= long for many, long in self._too_large)


def _is_divisible(request: Request) -> bool:
    """Whether halves of a request ask the same: not if it asks about all passages together."""
    return len(request.passages) > 1 and not request.claims


def _size(request: Request) -> tuple[int, int]:
    return len(request.passages), sum(len(passage.text) for passage in request.passages)
