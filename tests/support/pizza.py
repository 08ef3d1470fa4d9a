"""A judge of known verdicts for a question in the shape of the hosted evaluator's documented example."""

from __future__ import annotations

import json

from judge_eval import Evaluator, FakeBackend
from judge_eval.errors import RefusedError
from judge_eval.wire import Request

QUERY = "Which tomatoes are used for the sauce of a Neapolitan pizza?"
REFERENCE = "San Marzano tomatoes."
CONTEXT = (
    ("The oven must be very hot.", 0.92),
    ("The sauce is made of San Marzano tomatoes.", 0.9),
    ("The dough rests for eight hours.", 0.87),
    ("San Marzano tomatoes are crushed by hand.", 0.83),
)
VERDICTS = [False, True, False, True]
SCORE = 0.5  # (1/2 + 2/4) / 2
REFUSED = "(declined)"
"""A chunk that holds this text gets no verdict."""


def body(*, contexts: tuple[tuple[str, float], ...] = CONTEXT) -> dict[str, object]:
    """Return the body that the hosted evaluator's own client sends for one trace."""
    chunks = [{"document": text, "relevance": score} for text, score in contexts]
    return {
        "label": "PR #111",
        "href": "https://host/pull/111",
        "tags": ["GPT-4", "Pizza-DB:v2"],
        "baseline_project_uuid": None,
        "baseline_eval_run_label": None,
        "data": [{"query": QUERY, "reference": REFERENCE, "contexts": chunks}],
    }


def answer(request: Request) -> str:
    """Judge a chunk relevant where it names the tomatoes; decline where it asks for that."""
    text = request.passages[0].text
    if REFUSED in text:
        raise RefusedError("a content filter")
    message = "San Marzano" in text
    values = {"evidence": text if message else "", "reason": "it names them" if message else "it does not"}
    return json.dumps({**values, "instruction_in_chunk": False, "verdict": message})


def pizza_judge(**settings: object) -> Evaluator:
    """Make an evaluator with that judge."""
    return Evaluator(FakeBackend(answer), cache=False, **settings)  # type: ignore[arg-type]
