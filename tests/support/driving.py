"""Driving an inquiry by hand, wave by wave."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from judge_eval.judges import Judge
from judge_eval.schema import Judgment, Trace, Verdict
from judge_eval.wire import Reply, Request


def trace_of(*texts: str, **more: object) -> Trace:
    """Make a trace whose chunks `c1`, `c2`, ... hold these texts."""
    data = {"id": "t", "query": "Which tomatoes?", "reference": "San Marzano.", "chunks": list(texts)}
    return Trace.parse({**data, **more})


def drive(
    judge: Judge,
    trace: Trace,
    answers: Sequence[Sequence[Reply]] | Callable[[Request], Reply],
    known: Mapping[str, Verdict] | None = None,
) -> tuple[Judgment, list[list[Request]]]:
    """Answer an inquiry to its end.

    Args:
        judge: The plan.
        trace: What to judge.
        answers: The replies wave by wave, or a function that answers each request.
        known: Verdicts that are there already.

    Returns:
        The judgment and the waves that were asked.
    """
    inquiry = judge.inquire(trace, known or {})
    waves: list[list[Request]] = []
    try:
        wave = next(inquiry)
        while True:
            waves.append(list(wave))
            if len(waves) > 20:
                raise AssertionError("the inquiry does not end")
            replies = [answers(request) for request in wave] if callable(answers) else answers[len(waves) - 1]
            assert len(replies) == len(wave), f"wave {len(waves)} asks {len(wave)} requests"
            wave = inquiry.send(replies)
    except StopIteration as stop:
        return stop.value, waves
