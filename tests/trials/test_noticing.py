"""Whether an injection was noticed, where the judge can report one and where it cannot."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from judge_eval import Evaluator
from judge_eval.judges import Cascade, Decision, Pointwise
from judge_eval.llm.fake.fake_backend import FakeBackend
from judge_eval.trials import Prober
from tests.support.command import FIXTURES, judge_eval
from tests.support.deciding import MODELS
from tests.support.serving import rows

DATA = FIXTURES / "docs_qa.jsonl"


def test_a_decision_model_can_report_nothing() -> None:
    """How often it noticed is not known, and never 0."""
    with Evaluator("fake/overlap", mode="decision", cache=False) as evaluator:
        result = Prober(evaluator, ["injection"]).probe(rows()[:8])["injection"]
    assert result.n > 0
    assert result.noticed is None
    assert result.noticing == 0


def test_of_a_cascade_only_those_count_that_could_report() -> None:
    """Cases that the cheap judge kept are in no count of what was noticed."""
    with Evaluator(MODELS, judge=Cascade(Decision(), Pointwise(), 0.9), cache=False) as evaluator:
        result = Prober(evaluator, ["injection"]).probe(rows())["injection"]
    assert result.noticed is not None
    assert result.noticing is not None
    assert 0 < result.noticed <= result.noticing < result.n


def test_a_cascade_that_never_asks_the_strong_judge_can_report_nothing() -> None:
    """Where everything is kept, nothing says whether it was noticed."""
    models = {"cheap": FakeBackend.table({}, default=0), "strong": "fake/overlap"}
    with Evaluator(models, judge=Cascade(Decision(), Pointwise(), 0.5), cache=False) as evaluator:
        result = Prober(evaluator, ["injection"]).probe(rows()[:8])["injection"]
    assert (result.noticed, result.noticing) == (None, 0)


@pytest.mark.slow
def test_the_command_says_what_it_cannot_tell(tmp_path: Path) -> None:
    """The report reads "cannot be told", its JSON null; a chat judge's line is as before."""
    given = (DATA, "-m", "fake/overlap", "--only", "injection", "--limit", "8")
    done = judge_eval(tmp_path, "probe", *given, "--mode", "decision")
    assert "; not known whether one was noticed (the judge does not report it)" in done.stdout
    assert "noticed in" not in done.stdout
    assert (
        json.loads(judge_eval(tmp_path, "probe", *given, "--mode", "decision", "--json").stdout)["results"][0][
            "noticed"
        ]
        is None
    )
    chat = judge_eval(tmp_path, "probe", *given)
    assert "; noticed in 8 of 8" in chat.stdout
