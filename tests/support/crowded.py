"""Runs that crowd a page: many traces, many chunks, and words that never end."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from judge_eval import EvalRun
from tests.support.serving import scripted

WORD = "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft" * 3
"""A word of 240 letters."""


def crowd(traces: int = 500, chunks: int = 30, *, turned: int = 0) -> list[dict[str, Any]]:
    """Make traces of many chunks; of some of them id, question, tag, title or text is one long word.

    Args:
        traces: How many.
        chunks: Of each.
        turned: By how many places the chunks of every third trace are turned.
    """
    made = []
    for i in range(traces):
        values = [
            {
                "id": f"c{i}-{j}" if (i, j) != (2, 1) else WORD,
                "title": WORD if (i, j) == (1, 0) else None,
                "text": WORD if (i, j) == (1, 1) else f"Passage {j} about matter {i}, and what came of it.",
                "score": 1 - j / chunks,
                "label": (i * 31 + j * 17) % 5 // 4 if i % 2 else None,
            }
            for j in range(chunks)
        ]
        if turned and i % 3 == 0:
            values = values[turned:] + values[:turned]
        made.append(
            {
                "id": WORD if i == 3 else f"question-{i:03d}",
                "query": WORD if i == 1 else f"What became of matter {i}, and who saw to it in the end?",
                "reference": f"It was settled in the year {1900 + i % 100}.",
                "tags": [WORD] if i == 2 else ["late" if i % 2 else "early", "all of them"],
                "chunks": values,
            }
        )
    return made


def crowded_runs(root: Path | None, traces: int = 500, chunks: int = 30) -> list[EvalRun]:
    """Judge such traces three times; every few verdicts differ, and in the last some fail."""
    messages: list[tuple[int, dict[str, Any]]] = [
        (0, {"label": "main", "tags": ["prod", "nightly build", WORD], "href": "https://example.org/1"}),
        (3, {"label": WORD, "tags": ["pr"]}),
        (7, {"label": "PR 7: fetch twice as many and rank them again", "tags": ["pr", "prod"]}),
    ]
    made = []
    for run, (turned, named) in enumerate(messages):
        rnd = random.Random(run)

        def answer(text: str, rnd: random.Random = rnd, run: int = run) -> Any:
            if run == 2 and rnd.random() < 0.002:
                return "no JSON at all"
            relevant = sum(map(ord, text)) % 7 < 2 if rnd.random() < 0.9 else rnd.random() < 0.5
            return {"evidence": text[:30], "reason": "It says so.", "verdict": relevant}

        made.append(scripted(crowd(traces, chunks, turned=turned), root, answer, name="crowd", **named))
    return made
