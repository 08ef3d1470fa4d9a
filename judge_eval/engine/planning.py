"""What a run would ask, found without asking."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from judge_eval.backends.base import Backend, peek
from judge_eval.engine.items import BLOCK, Item
from judge_eval.judges.base import Judge
from judge_eval.wire import Request


@dataclass(slots=True)
class Plan:
    """What a run would ask, found without asking."""

    traces: int = 0
    chunks: int = 0
    calls: int = 0
    """Requests of the first wave that are not at hand; repairs come on top."""
    hits: int = 0
    input_tokens: int = 0
    """Estimated as a quarter of the characters."""
    output_tokens: int = 0
    """The most that the calls may bring."""


def plan(judge: Judge, backend: Backend, source: Iterator[Item]) -> Plan:
    """Count what judging the source would take, without a call."""
    total = Plan()
    while items := list(islice(source, BLOCK)):
        requests: list[Request] = []
        for item in items:
            total.traces += 1
            total.chunks += len(item.trace.chunks)
            requests += next(judge.inquire(item.trace, item.known), ())
        answers = peek(backend, requests)
        seen: set[tuple[str, bytes]] = set()
        for request, answer in zip(requests, answers, strict=True):
            asked = (request.route, request.digest)
            if answer is not None or asked in seen:
                total.hits += 1
                continue
            seen.add(asked)
            total.calls += 1
            total.input_tokens += sum(len(message.content) for message in request.messages) // 4
            total.output_tokens += request.max_tokens
    return total
