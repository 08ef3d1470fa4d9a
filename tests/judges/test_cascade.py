"""The plan of a cascade: what the cheap judge is sure of stands, the strong one is asked about the rest."""

from __future__ import annotations

import json
from typing import Any

import pytest

from judge_eval.errors import CallError, ConfigError
from judge_eval.judges import Pointwise
from judge_eval.judges.cascade import Cascade
from judge_eval.judges.decision import Decision
from judge_eval.judges.judge import as_begun
from judge_eval.schema import NoVerdict, Verdict
from judge_eval.wire import Completion, Reply, Request
from tests.support.asking_decisions import sure
from tests.support.driving import drive, trace_of

CHEAP, STRONG = Decision(), Pointwise("support/binary")


def written(relevant: bool) -> Completion:
    """Make the reply of a model that writes."""
    fields = {"evidence": "", "reason": "said so", "instruction_in_chunk": False, "verdict": relevant}
    return Completion(json.dumps(fields))


def replying(probability: dict[str, float], strong: dict[str, bool]) -> Any:
    """Answer both judges by the text of the chunk."""

    def reply(request: Request) -> Reply:
        texts = [passage.text for passage in request.passages]
        if request.route == "cheap":
            return sure(*(probability[text] for text in texts))
        assert request.route == "strong"
        (text,) = texts
        return written(strong[text])

    return reply


def test_the_strong_judge_is_asked_about_what_the_cheap_one_is_not_sure_of() -> None:
    """.80 keeps .80 and .20 (which is .80 for the other side), and no less; each says who gave it."""
    shares = {"a": 0.8, "b": 0.79, "c": 0.2, "d": 0.21}
    cascade = Cascade(CHEAP, STRONG, 0.8)
    judgment, rounds = drive(cascade, trace_of(*"abcd"), replying(shares, {"b": False, "d": False}))
    assert [[r.route for r in round_] for round_ in rounds] == [["cheap"], ["strong"] * 2]
    values = [(o.grade, o.stage, o.reason) for o in judgment.outcomes if o.kind == "verdict"]
    assert values == [(1, "cheap", None), (0, "strong", "said so"), (0, "cheap", None), (0, "strong", "said so")]
    assert judgment.votes == {"cheap": (1, 1, 0, 0), "strong": (None, 0, None, 0)}
    assert len(judgment.calls) == 3


@pytest.mark.parametrize(("threshold", "asked"), [(None, "abcd"), (1.0, "bcd"), (0.5, "")])
def test_thresholds(threshold: float | None, asked: str) -> None:
    """None sends everything to the strong judge; 1.00 keeps what is certain; .50 keeps all."""
    shares = {"a": 1.0, "b": 0.99, "c": 0.01, "d": 0.5}
    _, rounds = drive(
        Cascade(CHEAP, STRONG, threshold), trace_of(*"abcd"), replying(shares, dict.fromkeys("abcd", False))
    )
    assert "".join(r.passages[0].text for round_ in rounds[1:] for r in round_) == asked


def test_positives_can_be_explained() -> None:
    """Then every relevant verdict of the cheap judge goes to the strong one, whose verdict stands."""
    cascade = Cascade(CHEAP, STRONG, 0.6, explain_positives=True)
    judgment, rounds = drive(cascade, trace_of("a", "b"), replying({"a": 0.99, "b": 0.01}, {"a": False}))
    assert [r.passages[0].text for r in rounds[1]] == ["a"]
    assert [o.stage for o in judgment.outcomes if isinstance(o, Verdict)] == ["strong", "cheap"]


def test_a_chunk_without_a_cheap_verdict_goes_on() -> None:
    """A failed cheap call costs money, not verdicts; a failed strong one is no verdict."""

    def reply(request: Request) -> Reply:
        if request.route == "cheap":
            return CallError("gone")
        return written(False) if request.passages[0].text == "a" else CallError("gone too")

    judgment, _ = drive(Cascade(CHEAP, STRONG, 0.5), trace_of("a", "b"), reply)
    first, second = judgment.outcomes
    assert isinstance(first, Verdict)
    assert first.stage == "strong"
    assert isinstance(second, NoVerdict)
    assert second.detail == "gone too"


def test_known_verdicts_are_not_asked_again() -> None:
    """Of either stage, as a run that is resumed has them."""
    known = {
        "c1": Verdict(chunk_id="c1", grade=1, relevant=True, stage="cheap", confidence=0.9),
        "c2": Verdict(chunk_id="c2", grade=0, relevant=False, reason="r", stage="strong"),
    }
    cascade = Cascade(CHEAP, STRONG, 0.8)
    judgment, rounds = drive(cascade, trace_of("a", "b", "c"), replying({"c": 0.95}, {}), known)
    assert [[p.text for p in r.passages] for round_ in rounds for r in round_] == [["c"]]
    assert judgment.outcomes[:2] == (known["c1"], known["c2"])
    assert judgment.votes == {"cheap": (None, None, 1), "strong": (None, None, None)}


def test_what_a_cascade_says_of_itself() -> None:
    """Both judges, their routes and the threshold; a resumed run keeps the prompts it began with."""
    cascade = Cascade(CHEAP, STRONG, 0.75)
    answers = cascade.describe()
    assert (answers["mode"], answers["threshold"], answers["cheap"]["mode"]) == ("cascade", 0.75, "decision")
    assert (answers["cheap"]["route"], answers["strong"]["route"]) == ("cheap", "strong")
    assert cascade.needs == ("reference",)
    assert as_begun(cascade, answers) == cascade


def test_what_no_cascade_can_be_made_of() -> None:
    """A threshold off the grid and judges on two scales."""
    with pytest.raises(ConfigError, match=r"one of \.50"):
        Cascade(CHEAP, STRONG, 0.755)
    with pytest.raises(ConfigError, match="one scale"):
        Cascade(Decision("support/decision-graded"), STRONG, 0.8)
