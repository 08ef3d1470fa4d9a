"""Evidence where one judge of two never quotes: what is counted, what is refused, what a threshold moves."""

from __future__ import annotations

from pathlib import Path

import pytest

from judge_eval import Evaluator
from judge_eval.errors import ConfigError
from judge_eval.eval_run import EvalRun
from judge_eval.export.text import as_markdown
from judge_eval.importing import import_verdicts
from judge_eval.judges import Cascade, Decision, Member, Panel, Pointwise
from judge_eval.llm.fake.fake_backend import FakeBackend
from judge_eval.runs.scoring.rescore import rescore
from judge_eval.schema import Scale
from judge_eval.views.run_remarks import remarks_of
from tests.support.deciding import cascaded, decided
from tests.support.serving import rows

SURE = {"verdict": True, "confidence": 0.97}


def lying(threshold: float | None, *, cheap: object = SURE, out: Path | None = None) -> EvalRun:
    """Judge by a cascade whose strong judge calls everything relevant with an invented quote."""
    judge = Cascade(Decision(), Pointwise(), threshold)
    strong = FakeBackend.table({}, default={"verdict": True, "evidence": "It was never written anywhere."})
    models = {"cheap": FakeBackend.table({}, default=cheap), "strong": strong}
    with Evaluator(models, judge=judge, cache=False) as evaluator:
        return evaluator.evaluate(rows()[:4], out=out)


def test_who_never_quotes_owes_no_quote() -> None:
    """A decision model's relevant verdicts are never without evidence, judged or scored again."""
    run = decided(rows())
    assert any(o.relevant for result in run.results for o in result.outcomes if o.kind == "verdict")
    assert run.manifest.tally.unsupported == 0
    assert rescore(run, ["AP@3"]).manifest.tally.unsupported == 0
    assert "quote" not in as_markdown(run)


def test_of_a_cascade_the_strong_verdicts_are_counted() -> None:
    """Invented quotes of the strong judge count, kept verdicts of the cheap one do not."""
    chunks = sum(len(row["chunks"]) for row in rows()[:4])
    kept, asked = lying(0.9), lying(None)
    assert kept.manifest.tally.stages == {"cheap": chunks}
    assert kept.manifest.tally.unsupported == 0
    assert asked.manifest.tally.stages == {"strong": chunks}
    assert asked.manifest.tally.unsupported == chunks
    assert f"{chunks} relevant verdicts rest on no quote found" in remarks_of(asked.manifest)[0].text
    again = rescore(asked, ["AP@3"]).manifest.tally
    assert (again.unsupported, again.stages) == (chunks, {"strong": chunks})


def test_imported_verdicts_owe_no_quote_when_scored_again(tmp_path: Path) -> None:
    """Who was never asked for a quote is not said to have left it out, by another metric either."""
    grades = {(row["id"], chunk["id"]): 1 for row in rows()[:2] for chunk in row["chunks"]}
    run = import_verdicts(grades, rows()[:2], metrics=["AP@5"])
    assert run.manifest.tally.unsupported == 0
    assert rescore(run, ["AP@3"]).manifest.tally.unsupported == 0


def test_a_panel_takes_the_words_of_who_gives_reasons() -> None:
    """Of members that say the same, the one with a reason and a quote speaks; votes and means are of both."""
    members = [Member("model", Decision(), "a"), Member("chat", Pointwise(), "b")]
    with Evaluator({"a": "fake/overlap", "b": "fake/overlap"}, judge=Panel(members), cache=False) as evaluator:
        run = evaluator.evaluate(rows()[:3])
    for result in run.results:
        assert set(result.votes) == {"model", "chat"}
        for place, outcome in enumerate(result.outcomes):
            assert outcome.kind == "verdict"
            assert result.votes["model"][place] is not None
            assert (outcome.reason is None) == (result.votes["chat"][place] != outcome.grade)


def test_required_evidence_is_refused_where_it_cannot_be_kept() -> None:
    """Required of the strong judge alone, kept relevant verdicts would break the promise: an error."""
    required = Pointwise(evidence="required")
    with pytest.raises(ConfigError, match="would have no quote; send them to the strong one"):
        Cascade(Decision(), required, 0.9)
    with pytest.raises(ConfigError, match="cannot be kept"):
        Cascade(Pointwise(evidence="flag"), required, 0.9)
    Cascade(Pointwise(evidence="required"), required, 0.9)
    Cascade(Decision(), required, 0.9, explain_positives=True)
    Cascade(Decision(), Pointwise(), 0.9)


def test_required_evidence_is_kept_where_positives_are_explained() -> None:
    """Every relevant verdict has a quote that was found; the cheap judge keeps irrelevant ones alone."""
    judge = Cascade(Decision(), Pointwise(evidence="required"), 0.9, explain_positives=True)
    models = {"cheap": "fake/overlap", "strong": "fake/overlap"}
    with Evaluator(models, judge=judge, cache=False) as evaluator:
        run = evaluator.evaluate(rows())
    verdicts = [o for result in run.results for o in result.outcomes if o.kind == "verdict"]
    assert all(verdict.evidence_found for verdict in verdicts if verdict.relevant)
    assert {verdict.relevant for verdict in verdicts if verdict.stage == "cheap"} == {False}


def test_a_lower_threshold_asks_evidence_of_kept_verdicts() -> None:
    """Where evidence is required, a kept verdict that another threshold makes relevant is none any more."""
    judge = Cascade(Decision("support/decision-graded"), Pointwise("support/graded", evidence="required"), 0.5, True)
    models = {"cheap": "fake/overlap", "strong": "fake/overlap"}
    with Evaluator(models, judge=judge, cache=False) as evaluator:
        run = evaluator.evaluate(rows())
    low = [
        o
        for result in run.results
        for o in result.outcomes
        if o.kind == "verdict" and o.stage == "cheap" and o.grade == 1
    ]
    assert low
    again = rescore(run, ["AP@5"], relevant=1)
    moved = {o.chunk_id: o for result in again.results for o in result.outcomes}
    assert {moved[o.chunk_id].kind for o in low} == {"no_verdict"}
    assert again.manifest.tally.stages.get("cheap", 0) == run.manifest.tally.stages["cheap"] - len(low)
    assert Scale.parse(again.manifest.judge["scale"]).relevant == 1


def test_a_resumed_cascade_counts_each_verdict_once(tmp_path: Path) -> None:
    """The counts of stages are those of the results, also where a sitting goes on or a run is read again."""
    run = cascaded(rows()[:8], tmp_path, cache=tmp_path / "cache")
    again = EvalRun.load(run.folder)
    assert again.manifest.tally.stages == run.manifest.tally.stages
    assert sum(again.manifest.tally.stages.values()) == again.manifest.tally.verdicts
