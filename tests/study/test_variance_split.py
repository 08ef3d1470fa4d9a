from __future__ import annotations

import json

import numpy as np
import pytest

from judge_eval import EvalRun, Evaluator, FakeBackend
from judge_eval.study.members import variance_split
from judge_eval.views.run import member_sections, variance_sentence
from judge_eval.wire import Request
from tests.support.verdicts import traces_of

NAMES = [f"t{k:02d}" for k in range(40)]


def repeated(noise: float, samples: int = 4, **settings: object) -> EvalRun:
    """A judge that is asked several times and turns its verdict with a chance, drawn from the request."""

    def answer(request: Request) -> str:
        text = str(request.messages)
        usual = "text a of" in text or ("text b of" in text and text.count("0") % 2 == 0)
        turned = int.from_bytes(request.digest[:4], "big") / 2**32 < noise
        return json.dumps({"evidence": "", "reason": "", "instruction_in_chunk": False, "verdict": usual != turned})

    lists = {name: "abcd" if k % 2 else "cdab" for k, name in enumerate(NAMES)}
    with Evaluator(FakeBackend(answer), repeat=samples, metrics=["AP@4", "P@2"], cache=False, **settings) as evaluator:
        return evaluator.evaluate(traces_of(lists))


def test_the_split_is_that_of_the_analysis_of_variance() -> None:
    """The shares follow from the mean squares of a least-squares fit of traces and samples."""
    run = repeated(0.2)
    split = variance_split(run, "P@2")
    assert split is not None
    threes = [[r.votes[f"sample {k}"][:2] for k in range(1, 5)] for r in run.results]
    values = np.array([[np.mean([g == 1 for g in sample]) for sample in row] for row in threes])
    n, k = values.shape
    trace, sample = np.repeat(np.eye(n), k, axis=0), np.tile(np.eye(k), (n, 1))

    def squares(*parts: np.ndarray) -> float:
        design = np.concatenate([np.ones((n * k, 1)), *parts], axis=1)
        fitted = design @ np.linalg.lstsq(design, values.ravel(), rcond=None)[0]
        return float(((values.ravel() - fitted) ** 2).sum())

    alone, by_trace, both = squares(), squares(trace), squares(trace, sample)
    by_sample = squares(sample)
    rest = both / ((n - 1) * (k - 1))
    traces = max(0.0, ((alone - by_trace) / (n - 1) - rest) / k) / n
    judge = max(0.0, ((alone - by_sample) / (k - 1) - rest) / n)
    total = traces + judge + rest / n
    assert (split.by_traces, split.by_judge, split.residual) == pytest.approx(
        (traces / total, judge / total, rest / n / total), abs=1e-9
    )
    assert (split.traces, split.samples) == (n, k)


@pytest.mark.slow
def test_it_says_what_helps() -> None:
    """A judge without noise leaves only traces; a very noisy one is helped by more samples too."""
    steady, noisy = variance_split(repeated(0.0)), variance_split(repeated(0.45))
    assert steady is not None
    assert noisy is not None
    assert (steady.by_traces, steady.by_judge, steady.residual) == pytest.approx((1.0, 0.0, 0.0), abs=1e-12)
    assert variance_sentence(steady).endswith(
        "100% traces, 0% judge, 0% residual: more traces help, more samples hardly do"
    )
    assert noisy.by_traces < 0.5
    assert "more samples help" in variance_sentence(noisy)
    (section,) = member_sections(repeated(0.1))
    assert "the variance of the mean AP@4 over 40 traces is" in str(section.blocks[-1])


def test_what_cannot_be_split_is_not() -> None:
    """Judges of unlike prompts are no samples, and a judge that is asked once has none."""
    assert variance_split(repeated(0.1, samples=1)) is None
    assert variance_split(repeated(0.1), "Recall@2") is None
