"""Judging small traces by a server of decision models."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from judge_eval import EvalRun, Evaluator, Options
from judge_eval.judges.decision import Decision
from judge_eval.llm.cassettes import Replay
from judge_eval.llm.http.decisions import Decisions
from judge_eval.prompts import DecisionForm, DecisionLayout, load_form
from judge_eval.schema import NoVerdict, Outcome, Trace
from judge_eval.wire import Completion, DecisionAnswer, Passage, Request
from tests.support.decision_server import DecisionServer

BINARY_PROMPT, GRADED_PROMPT = "support/decision", "support/decision-graded"
PROMPTS = (BINARY_PROMPT, GRADED_PROMPT)
TEXTS = ("San Marzano tomatoes.", "Basil is green.", "Crushed by hand.", "An oven of stone.")
ROW: dict[str, Any] = {"id": "t", "query": "Which tomatoes?", "reference": "San Marzano."}


def row(*texts: str, **more: Any) -> dict[str, Any]:
    """Make a trace whose chunks `c1`, `c2`, ... hold these texts."""
    return {**ROW, "chunks": list(texts or TEXTS), **more}


def form(prompt: str = BINARY_PROMPT, layout: DecisionLayout = "question") -> DecisionForm:
    """Load a prompt for decision models."""
    loaded = load_form(prompt)
    assert isinstance(loaded, DecisionForm)
    return DecisionForm(loaded.prompt, layout)


def request(*texts: str, prompt: str = BINARY_PROMPT, layout: DecisionLayout = "question") -> Request:
    """Make the request that a judge makes of a trace with such chunks."""
    judge = Decision(form(prompt, layout))
    (made,) = next(judge.plan(Trace.parse(row(*texts))))
    return made


def asked_of_backend(server: DecisionServer, **more: Any) -> Decisions:
    """Make the backend that asks a server."""
    params = {"dialect": server.dialect, **more.pop("params", {})}
    return Decisions("m", base_url=server.url, params=params, **more)


def options_for(server: DecisionServer, **more: Any) -> Options:
    """Say how a server is called."""
    params = {"dialect": server.dialect, **more.pop("params", {})}
    return Options(base_url=server.url, params=params, **{"attempts": 2, **more})


def judged(
    server: DecisionServer,
    *rows: dict[str, Any],
    prompt: str = BINARY_PROMPT,
    layout: DecisionLayout = "question",
    cache: Path | None = None,
    most: int = 100,
    **options: Any,
) -> EvalRun:
    """Judge traces by a server."""
    judge = Decision(form(prompt, layout), most=most)
    called = options_for(server, **options)
    with Evaluator("decisions/m", judge=judge, cache=cache or False, options=called) as evaluator:
        return evaluator.evaluate(list(rows or (row(),)))


def outcomes(run: EvalRun) -> list[Outcome]:
    """Return all outcomes of a run, in order."""
    return [outcome for result in run.results for outcome in result.outcomes]


def whys(run: EvalRun) -> list[str | None]:
    """Say of each outcome why there is no verdict, None where there is one."""
    return [item.why if isinstance(item, NoVerdict) else None for item in outcomes(run)]


def confidences(run: EvalRun) -> list[float | None]:
    """Return of each outcome the probability that the chunk is relevant, None where there is no verdict."""
    return [None if isinstance(item, NoVerdict) else item.confidence for item in outcomes(run)]


def replayed(tape: Path, *rows: dict[str, Any], prompt: str = BINARY_PROMPT) -> EvalRun:
    """Judge traces by a cassette."""
    judge = Decision(form(prompt))
    with Evaluator(Replay(tape), judge=judge, cache=False) as evaluator:
        return evaluator.evaluate(list(rows or (row(),)))


def complete_all(backend: Decisions, requests: Sequence[Request]) -> list[Completion | BaseException]:
    """Make calls one after the other, and close the backend."""

    async def go() -> list[Completion | BaseException]:
        collected: list[Completion | BaseException] = []
        try:
            for item in requests:
                collected += await asyncio.gather(backend.complete(item), return_exceptions=True)
            return collected
        finally:
            await backend.aclose()

    return asyncio.run(go())


def sure(*shares: float) -> Completion:
    """Make a completion that answers statements."""
    return Completion("", answers=tuple(DecisionAnswer((round(1 - item, 12), item)) for item in shares))


def passages(*texts: str) -> tuple[Passage, ...]:
    """Make passages without titles."""
    return tuple(map(Passage, texts))
