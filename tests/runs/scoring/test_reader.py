from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from judge_eval import Completion, EvalRun, Evaluator, FakeBackend, Request, Trace
from judge_eval.errors import DataError
from judge_eval.runs.scoring.rescore import rescore
from tests.support.command import Shell
from tests.support.doubting import sure_reply

ANSWERS = {"It lasts 24 months.": 0.9, "It lasts 12 months.": 0.8, "Lunch is at noon.": 0.1}
"""With which probability the reader answers from each text."""
TRACE = Trace(
    id="q",
    query="How long does it last?",
    reference="It lasts 24 months.",
    chunks=[{"id": text, "text": text} for text in ANSWERS],
)


def udcg(*moves: float) -> float:
    """Return UDCG by hand, of what each chunk adds."""
    return 1 / (1 + math.exp(-sum(moves) / len(moves)))


def reader_run(failing: str = "", *, prompt: str = "reader/binary", tells: bool = True) -> EvalRun:
    """Ask a reader that fails on one text, and may tell no probabilities."""

    def answer(request: Request) -> Completion:
        text = request.passages[0].text
        if text == failing:
            return Completion("", finish="refusal")
        reply = sure_reply(request, ANSWERS[text])
        return reply if tells else Completion(reply.text)

    with Evaluator(FakeBackend(answer), prompt=prompt, metrics=["P@3"], cache=False) as evaluator:
        return evaluator.evaluate([TRACE])


@pytest.fixture
def judged() -> EvalRun:
    """Judge the same chunks: the first is relevant."""
    backend = FakeBackend.table({"It lasts 24 months.": 1}, default=0)
    with Evaluator(backend, metrics=["P@3"], cache=False) as evaluator:
        return evaluator.evaluate([TRACE])


def test_a_reader_is_asked_by_log_probabilities(judged: EvalRun) -> None:
    """UDCG takes relevance from the judge, and from the reader's verdict token how likely it is to answer."""
    scored = rescore(judged, ["UDCG", "P@3"], reader=reader_run())
    assert scored["UDCG"] == pytest.approx(udcg(0.9, -0.333 * 0.8, -0.333 * 0.1), abs=1e-9)
    assert scored["P@3"] == judged["P@3"]


def test_a_reader_that_failed_leaves_bounds(judged: EvalRun) -> None:
    """A failed call is no probability: the trace has no value, and its bounds are what the reader could say."""
    (result,) = rescore(judged, ["UDCG", "P@3"], reader=reader_run("It lasts 12 months.")).results
    low, high = result.bounds["UDCG"]
    assert result.scores == {"UDCG": None, "P@3": pytest.approx(1 / 3)}
    assert (low, high) == pytest.approx((udcg(0.9, -0.333, -0.0333), udcg(0.9, 0, -0.0333)), abs=1e-9)
    (result,) = rescore(judged, ["UDCG"], reader=reader_run("It lasts 24 months.")).results
    ends = udcg(0, -0.333 * 0.8, -0.0333), udcg(1, -0.333 * 0.8, -0.0333)
    assert result.bounds["UDCG"] == pytest.approx(ends, abs=1e-9)


@pytest.mark.parametrize(
    ("reader", "words"), [({"prompt": "support/binary"}, "asked by support/binary"), ({"tells": False}, "probability")]
)
def test_a_run_that_is_no_reader_is_refused(judged: EvalRun, reader: dict[str, object], words: str) -> None:
    """A run of another prompt, or without probabilities, cannot say when a reader abstains."""
    with pytest.raises(DataError, match=words):
        rescore(judged, ["UDCG"], reader=reader_run(**reader))  # type: ignore[arg-type]


def test_score_takes_a_reader_and_show_says_what_misleads(tmp_path: Path) -> None:
    """The whole way on the command line, with a decision model as reader; grades are shown with their meaning."""
    (tmp_path / "data.jsonl").write_text(json.dumps(TRACE.model_dump(mode="json", exclude_defaults=True)) + "\n")
    common = ("run", "data.jsonl", "--model", "fake/overlap", "--cache", "none")
    shell = Shell(tmp_path)
    shell(*common, "--prompt", "reader/binary", "--mode", "decision", "--label", "reader")
    shell(*common, "--prompt", "support/harm", "--metrics", "Harm@3", "--label", "main")
    done = shell("score", "label:main", "--metrics", "UDCG", "--reader", "label:reader", "--json")
    assert 0.4 < json.loads(done.out)["aggregates"]["UDCG"]["mean"] < 0.74, done.err
    shown = shell("show", "label:main", "q").out
    assert "not relevant (grade 0: misleads to a wrong answer)" in shown
