"""Driving a plan by hand, round by round."""

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
    """Answer a plan to its end.

    Args:
        judge: The plan.
        trace: What to judge.
        answers: The replies round by round, or a function that answers each request.
        known: Verdicts that are there already.

    Returns:
        The judgment and the rounds that were asked.
    """
    plan = judge.plan(trace, known or {})
    rounds: list[list[Request]] = []
    try:
        round_ = next(plan)
        while True:
            rounds.append(list(round_))
            if len(rounds) > 20:
                raise AssertionError("the plan does not end")
            replies = [answers(request) for request in round_] if callable(answers) else answers[len(rounds) - 1]
            assert len(replies) == len(round_), f"round {len(rounds)} asks {len(round_)} requests"
            round_ = plan.send(replies)
    except StopIteration as stop:
        return stop.value, rounds
