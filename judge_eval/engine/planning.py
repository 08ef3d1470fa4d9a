"""What a run would ask, found without asking."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

from judge_eval.backends.base import Backend, peek
from judge_eval.engine.items import BLOCK, Item
from judge_eval.judges.base import Judge
from judge_eval.wire import Completion, Request


@dataclass(slots=True)
class Plan:
    """What a run would ask, found without asking."""

    traces: int = 0
    chunks: int = 0
    calls: int = 0
    """Requests of the first wave that are not at hand; repairs come on top."""
    splits: int = 0
    """How many of them split a reference into claims; the others then follow from an estimate of those."""
    hits: int = 0
    input_tokens: int = 0
    """Estimated as a quarter of the characters."""
    output_tokens: int = 0
    """The most that the calls may bring."""
    passages: int = 0
    """Passages in the calls."""
    listwise: bool = False
    """Whether a call is about several passages."""
    answers: int = 0
    """Answers that are at hand, where their tokens are known."""
    answered_passages: int = 0
    """Passages that those judged."""
    answered_tokens: int = 0
    """Output tokens that those took."""


def plan(judge: Judge, backend: Backend, source: Iterator[Item]) -> Plan:
    """Count what judging the source would take, without a call."""
    total = Plan()
    while items := list(islice(source, BLOCK)):
        requests: list[Request] = []
        for item in items:
            total.traces += 1
            total.chunks += len(item.trace.chunks)
            requests += _first_waves(judge, backend, item)
        answers = peek(backend, requests)
        seen: set[tuple[str, bytes]] = set()
        for request, answer in zip(requests, answers, strict=True):
            asked = (request.route, request.digest)
            if answer is not None or asked in seen:
                total.hits += 1
                if answer is not None and answer.usage.output_tokens:
                    total.answers += 1
                    total.answered_passages += len(request.passages)
                    total.answered_tokens += answer.usage.output_tokens
                continue
            seen.add(asked)
            total.calls += 1
            total.splits += not request.passages
            total.input_tokens += sum(len(message.content) for message in request.messages) // 4
            total.output_tokens += request.max_tokens
            total.passages += len(request.passages)
            total.listwise = total.listwise or request.form.listwise
    return total


def _first_waves(judge: Judge, backend: Backend, item: Item) -> list[Request]:
    """Return what a trace's first wave asks; where that splits its reference, what the next one asks too.

    Where the claims are not at hand the judge imagines some (`imagined_split`).
    """
    inquiry = judge.inquire(item.asked, item.known)
    imagine: Callable[[Request], Completion] | None = getattr(judge, "imagined_split", None)
    requests: list[Request] = []
    try:
        wave = next(inquiry)
        while imagine is not None and not wave[0].passages:
            requests += wave
            answers = peek(backend, wave)
            wave = inquiry.send([a or imagine(r) for a, r in zip(answers, wave, strict=True)])
    except StopIteration:
        return requests
    return [*requests, *wave]
