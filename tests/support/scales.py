"""Scales of five widths, prompt files on each, and metrics of their grades written out."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from judge_eval import EvalRun, Evaluator, Options, Trace
from judge_eval.data.labels import Labels
from judge_eval.judges.judge import Judge, make_judge
from judge_eval.runs.scoring.rescore import scale_of
from judge_eval.schema import Scale
from tests.support.forking import ROOT

SCALES = {
    "0-1": Scale(),
    "0-3": Scale(maximum=3, relevant=2),
    "0-4": Scale(maximum=4, relevant=3),
    "1-5": Scale(minimum=1, maximum=5, relevant=4),
    "0-10": Scale(maximum=10, relevant=6),
}
SHIPPED = {
    "pointwise": "support/graded",
    "listwise": "listwise/support/graded",
    "decision": "support/decision-graded",
    "claims": "claims/support",
    "claims-list": "claims/support-list",
    "claims-decision": "claims/decision",
}
FIVE = pytest.mark.parametrize("scale", SCALES.values(), ids=SCALES)
ONE_TO_FIVE = SCALES["1-5"]
WOODS = ("beech wood", "oak", "gas", "coal", "peat", "straw")


def levels_of(scale: Scale) -> str:
    """Write a scale as the table of a prompt file."""
    lines = [f'{grade} = "supports {grade} of {scale.maximum} parts"' for grade in scale.grades]
    return "\n".join(["[scale]", f"relevant = {scale.relevant}", "[scale.levels]", *lines]) + "\n"


def prompt_file(folder: Path, mode: str, scale: Scale) -> Path:
    """Write a prompt on a scale of its own: a shipped one with other levels."""
    text = (ROOT / "prompts" / f"{SHIPPED[mode]}.toml").read_text()
    text = re.sub(r'^scale = "\w+"\n', "", text, flags=re.MULTILINE)
    text = text.partition("\n[[levels]]")[0]
    text = re.sub(r"(?m)^- \d: .*\n", "", text).replace('"grade": 0|1|2|3}', "$decided}")
    decided = '"verdict": $grades' if scale.binary else '"grade": $grades'
    text = text.replace("$decided", decided).replace("Torn between two", "$levels\nTorn between two")
    path = folder / f"{mode}-{scale.span}.toml"
    path.write_text(f"{text}\n{levels_of(scale)}")
    return path


def dcg(gains: Sequence[float]) -> float:
    """Add up gains over the logarithm of their rank."""
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, 1))


def by_hand(grades: Sequence[int], scale: Scale, k: int) -> dict[str, float]:
    """Return metrics of one list by their definitions; a grade gains what it is above the lowest."""
    relevant = [grade >= scale.relevant for grade in grades]
    gains = [grade - scale.minimum for grade in grades]
    hits = [sum(relevant[: rank + 1]) / (rank + 1) for rank in range(len(grades[:k])) if relevant[rank]]
    first = next((rank for rank, hit in enumerate(relevant[:k], 1) if hit), 0)
    stop, err = 1.0, 0.0
    for rank, gain in enumerate(gains[:k], 1):
        chance = (2.0**gain - 1) / 2.0 ** (scale.maximum - scale.minimum)
        err += stop * chance / rank
        stop *= 1 - chance
    exponential = [2.0**gain - 1 for gain in gains]
    best, steep = dcg(sorted(gains, reverse=True)[:k]), dcg(sorted(exponential, reverse=True)[:k])
    top = f"P(rel={scale.maximum})@{k}"
    return {
        f"AP@{k}": sum(hits) / len(hits) if hits else 0.0,
        f"RR@{k}": 1 / first if first else 0.0,
        f"P@{k}": sum(relevant[:k]) / min(k, len(grades)),
        top: sum(grade == scale.maximum for grade in grades[:k]) / min(k, len(grades)),
        f"DCG@{k}": dcg(gains[:k]),
        f"NDCG@{k}": dcg(gains[:k]) / best if best else 0.0,
        f"NDCG(gain=exp)@{k}": dcg(exponential[:k]) / steep if steep else 0.0,
        f"ERR@{k}": err,
    }


def traces(count: int = 6, labels: Mapping[tuple[str, str], int] = {}) -> list[Trace]:
    """Traces of six chunks, whose reference makes two claims."""
    return [
        Trace.parse(
            {
                "id": f"q{number}",
                "query": f"How is oven {number} lit?",
                "reference": f"Oven {number} burns beech wood. Oven {number} has a clay floor.",
                "claims": [
                    {"id": "a", "text": f"Oven {number} burns beech wood."},
                    {"id": "b", "text": f"Oven {number} has a clay floor."},
                ],
                "chunks": [
                    {
                        "id": f"c{rank}",
                        "text": f"Oven {number} burns {wood} on a clay floor {rank}.",
                        "label": labels.get((f"q{number}", f"c{rank}")),
                    }
                    for rank, wood in enumerate(WOODS)
                ],
            }
        )
        for number in range(count)
    ]


def names(scale: Scale) -> list[str]:
    """The metrics that are written out by hand."""
    return list(by_hand([scale.maximum], scale, 5))


def judge_on(folder: Path, mode: str, scale: Scale) -> Judge:
    """Make a judge by a prompt file on a scale of its own."""
    return make_judge(prompt_file(folder, mode, scale), mode)


def judged(judge: Judge, scale: Scale, model: Any = "fake/hash") -> EvalRun:
    """Judge the traces, with metrics over relevance, grades and gains."""
    with Evaluator(model, judge=judge, metrics=names(scale), cache=False) as evaluator:
        return evaluator.evaluate(traces())


def drawn(folder: Path, scale: Scale, seed: int = 0) -> EvalRun:
    """Judge forty traces by a pointwise judge that draws its grades."""
    judge = judge_on(folder, "pointwise", scale)
    how = Options(params={"seed": seed})
    with Evaluator("fake/hash", judge=judge, metrics=names(scale), cache=False, options=how) as evaluator:
        return evaluator.evaluate(traces(40))


def labels_in(run: EvalRun) -> Labels:
    """Return a run's grades as labels."""
    graded = {(r.trace_id, o.chunk_id): o.grade for r in run.results for o in r.outcomes if o.kind == "verdict"}
    return Labels(graded, sources=("people",))


def check_run(run: EvalRun, scale: Scale) -> None:
    """Check every verdict against the scale, and every score against the metric written out by hand."""
    assert scale_of(run).words == scale.words
    for result in run.results:
        grades = [outcome.grade for outcome in result.outcomes if outcome.kind == "verdict"]
        assert len(grades) == len(result.outcomes)
        assert set(grades) <= set(scale.grades)
        for outcome in result.outcomes:
            assert outcome.kind == "verdict"
            assert outcome.relevant == (outcome.grade >= scale.relevant)
            if outcome.grade_probabilities is not None:
                assert len(outcome.grade_probabilities) == len(scale.grades)
        expected = by_hand(grades, scale, 5)
        assert result.scores == {name: pytest.approx(expected[name]) for name in names(scale)}
