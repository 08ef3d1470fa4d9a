"""Driving inquiries as far as answers are at hand, to find what has to be asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice

from judge_eval.backends.storing.cached import Cached
from judge_eval.batch.answers import Answers
from judge_eval.batch.cheap import Cheap
from judge_eval.engine import BLOCK
from judge_eval.errors import CallError
from judge_eval.judges.base import Inquiry, Judge, Wave
from judge_eval.schema import Trace
from judge_eval.wire import Completion, Reply, Request

_TO_COME = CallError("the answer is to come")
"""Stands for an answer that is not there yet; what the plan asks on the strength of it is not open."""


def open_requests(
    judge: Judge, traces: Iterable[Trace], answer: Callable[[Sequence[Request]], Sequence[Reply | None]]
) -> Iterator[Request]:
    """Yield the requests that nothing at hand answers, wave after wave.

    Where a wave is not answered in full, the plan is led on with the answers there are, and what it asks
    about their chunks is open too: a repair need not wait for the answers about other chunks.

    Args:
        judge: The plan.
        traces: What to judge; a block at a time is held in memory.
        answer: Answers what it can of many requests, in their order; None where a call is needed.
    """
    rest = iter(traces)
    while block := list(islice(rest, BLOCK)):
        going: list[tuple[Inquiry, Wave, frozenset[str]]] = []
        for trace in block:
            inquiry = judge.inquire(trace, {})
            if (wave := next(inquiry, None)) is not None:
                going.append((inquiry, wave, frozenset()))
        while going:
            replies = iter(answer([request for _, wave, _ in going for request in wave]))
            following = []
            for inquiry, wave, waiting in going:
                answers = list(islice(replies, len(wave)))
                missing = [request for request, reply in zip(wave, answers, strict=True) if reply is None]
                yield from (request for request in missing if waiting.isdisjoint(request.chunk_ids))
                out = waiting.union(*(request.chunk_ids for request in missing))
                with suppress(StopIteration):
                    wave = inquiry.send([_TO_COME if reply is None else reply for reply in answers])
                    following.append((inquiry, wave, out))
            going = following


class AtHand:
    """Answers from the cache and from a batch's replies; an accepted reply goes into the cache on the way.

    Args:
        cached: The cache.
        answers: The replies.
        cheap: Who answers the requests of a cascade's cheap judge; None where there is none.
    """

    def __init__(self, cached: Cached, answers: Answers, cheap: Cheap | None = None) -> None:
        self._cached, self._answers, self._cheap = cached, answers, cheap
        self.imported = 0
        """Replies that were written into the cache."""
        self.rejected = 0
        """Replies from which no verdict could be read."""

    def __call__(self, requests: Sequence[Request]) -> list[Reply | None]:
        """Answer what is at hand, in the order of the requests."""
        if self._cheap is None:
            return self._at_hand(requests)
        route = self._cheap.route
        first = iter(self._cheap([request for request in requests if request.route == route]))
        rest = iter(self._at_hand([request for request in requests if request.route != route]))
        return [next(first if request.route == route else rest) for request in requests]

    def _at_hand(self, requests: Sequence[Request]) -> list[Reply | None]:
        replies: list[Reply | None] = list(self._cached.peek(requests))
        rows: dict[bytes, bytes] = {}
        for place, request in enumerate(requests):
            if replies[place] is not None or (key := self._cached.key(request)) is None:
                continue
            replies[place] = reply = self._answers.find(key)
            if isinstance(reply, Completion):
                if (row := self._row(request, reply)) is None:
                    self.rejected += 1
                else:
                    rows.update([row])
        if rows:
            # Before anything further is asked on the strength of it.
            self._cached.store.put_many(list(rows.items()))
            self.imported += len(rows)
        return replies

    def _row(self, request: Request, completion: Completion) -> tuple[bytes, bytes] | None:
        """Return what the cache would store for a completion; None where it would refuse to."""
        if request.accepts is not None and not request.accepts(completion):
            return None
        root = request
        while root.origin is not None:
            root = root.origin
        key = self._cached.key(root)
        return None if key is None else (key, completion.encode())
