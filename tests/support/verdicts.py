"""Runs with known verdicts, and lists of traces to make them of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from judge_eval import EvalRun, Evaluator, FakeBackend, Trace

Grades = Mapping[str, Sequence[int | Exception | None]]


def traces_of(texts: Mapping[str, Sequence[str]], **more: Mapping[str, Any]) -> list[Trace]:
    """Make a trace of each list of texts; a chunk's id is its text, `more` adds fields by trace."""
    return [
        Trace.parse(
            {
                "id": name,
                "query": f"question {name}",
                "reference": f"reference {name}",
                "chunks": [{"id": text, "text": f"the text {text} of {name}"} for text in row],
                **more.get(name, {}),
            }
        )
        for name, row in texts.items()
    ]


def judged(
    traces: Sequence[Trace], grade: Mapping[tuple[str, str], Any] | Mapping[str, Any], default: Any = 0, **settings: Any
) -> EvalRun:
    """Judge traces by a table of chunks; what is not in it gets the default."""
    keep = {name: settings.pop(name) for name in ("out", "label", "href", "tags") if name in settings}
    settings = {"metrics": ["AP@3", "P@3", "RR"], "cache": False, **settings}
    with Evaluator(FakeBackend.table(dict(grade), default=default), **settings) as evaluator:
        return evaluator.evaluate(list(traces), **keep)
