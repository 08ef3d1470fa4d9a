"""Runs over the same documents in different cuts, judged by a table of quotes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from judge_eval import EvalRun, Evaluator, FakeBackend, Trace
from judge_eval.quotes import folded_words

Part: TypeAlias = tuple[str, Any]
"""A chunk's text, and its verdict: of a claims judge quotes by claim, of a binary one a quote or None; or an error."""

MANUAL = (
    "The oven needs descaling. Do this every month.",
    "Brandt ovens must be descaled every 40 hours of use, says the manual.",
    "Use citric acid only. Never use vinegar in the tank.",
)
SMALL: Sequence[Part] = (
    (MANUAL[0], {}),
    (MANUAL[1], {"1": "descaled every 40 hours of use"}),
    (MANUAL[2], {"2": "Use citric acid only"}),
)
GLUED: Sequence[Part] = (
    (" ".join(MANUAL), {"1": "must be descaled every 40 hours of use", "2": "citric acid only. Never use vinegar"}),
)
SHIFTED: Sequence[Part] = (
    ("Never use vinegar in the tank. The pump is under the tray.", {}),
    ("Do this every month. Brandt ovens must be descaled", {}),
    ("every 40 hours of use, says the manual. Use citric acid only.", {"2": "Use citric acid only."}),
)


def run_of(lists: Mapping[str, Sequence[Part]], claims: Mapping[str, Sequence[str]] | None, **settings: Any) -> EvalRun:
    """Judge a list a trace; by claims if each trace has some, else binary."""
    table: dict[Any, Any] = {}
    traces = []
    for name, parts in lists.items():
        chunks = [{"id": f"{name}-{place}", "text": text} for place, (text, _) in enumerate(parts)]
        fields: dict[str, Any] = {"id": name, "query": f"question {name}", "reference": "ref", "chunks": chunks}
        if claims is not None:
            texts = enumerate(claims[name], 1)
            fields["claims"] = [{"id": str(number), "text": f"{text} of {name}"} for number, text in texts]
        traces.append(Trace.parse(fields))
        for chunk, (_, said) in zip(chunks, parts, strict=True):
            table[name, chunk["id"]] = _answer(said, claims is not None)
    keep = {key: settings.pop(key) for key in ("out", "label") if key in settings}
    names = ["AP@3", "ClaimRecall@3"] if claims is not None else ["AP@3", "HitRate@3"]
    settings = {"metrics": names, "cache": False, **settings}
    if claims is not None:
        settings["mode"] = "claims"
    with Evaluator(FakeBackend.table(table), **settings) as evaluator:
        return evaluator.evaluate(traces, **keep)


def _answer(said: Any, by_claims: bool) -> Any:
    if isinstance(said, Exception):
        return said
    if by_claims:
        full = {int(number): quote if isinstance(quote, tuple) else ("full", quote) for number, quote in said.items()}
        return {"claims": full}
    return {"verdict": said is not None, "evidence": said or ""}


def cut_runs(folder: Path, *names: str, **settings: Any) -> tuple[list[EvalRun], dict[str, Any]]:
    """Judge the cuts of the conformance data by their gold spans; and return the expected values."""
    document = (folder / "document.txt").read_text(encoding="utf-8")
    questions = json.loads((folder / "questions.json").read_text())
    cuts = json.loads((folder / "cuts.json").read_text())
    runs = []
    for name in names:
        lists: dict[str, list[Part]] = {}
        for number, row in enumerate(cuts[name]["lists"]):
            spans = [cuts[name]["cuts"][place] for place in row]
            lists[f"q{number}"] = [_by_gold(document, questions[number]["gold"], *span) for span in spans]
        claims = {f"q{number}": [f"span {k}" for k in range(len(q["gold"]))] for number, q in enumerate(questions)}
        runs.append(run_of(lists, claims, label=name, **settings))
    return runs, json.loads((folder / "expected.json").read_text())


def _by_gold(document: str, gold: Sequence[tuple[int, int]], start: int, end: int) -> Part:
    """Say which gold spans a chunk holds to 80% of their words, with quotes of at most 40 words."""
    found = {}
    for number, (first, last) in enumerate(gold, 1):
        inside = document[max(start, first) : min(end, last)]
        if min(end, last) > max(start, first) and len(folded_words(inside)) >= 0.8 * len(
            folded_words(document[first:last])
        ):
            found[str(number)] = _beginning(inside, 40)
    return document[start:end], found


def _beginning(text: str, most: int) -> str:
    while len(folded_words(text)) > most:
        text = text[:-1]
    return text
