"""What a server and its client tell of verdicts without reasons, and of a cascade."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from judge_eval import Evaluator, Trace
from judge_eval.integrations.lynxius import ContextPrecision, LynxiusClient
from judge_eval.judges import Cascade, Decision, Pointwise
from judge_eval.schema import NO_REASON
from judge_eval.server.rest_client import Client
from judge_eval.server.server_settings import ServerSettings
from tests.support.deciding import MODELS, cascaded, decided
from tests.support.serving import ask, rows, serving


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve a run of a decision model and one of a cascade, with a judge that is a cascade."""
    root = tmp_path_factory.mktemp("stages")
    decided(rows()[:4], root, label="decision", cache=root / ".cache")
    cascaded(rows()[:4], root, label="cascade", cache=root / ".cache")
    judge = Cascade(Decision(), Pointwise(), 0.9)
    settings = ServerSettings(root, cache=root / ".cache")
    with Evaluator(MODELS, judge=judge, cache=root / ".cache") as evaluator, serving(settings, evaluator) as url:
        yield url


def test_results_hold_null_and_the_stage(served: str) -> None:
    """Records of REST have null for reason and quote, and say which stage gave each verdict."""
    outcome = ask(f"{served}/api/v1/runs/label:decision/results?limit=10")[1]["results"]
    verdicts = [item for result in outcome for item in result["outcomes"]]
    assert {(item["reason"], item["evidence"], item["stage"]) for item in verdicts} == {(None, None, None)}
    assert all(0 <= item["confidence"] <= 1 for item in verdicts)
    outcome = ask(f"{served}/api/v1/runs/label:cascade/results?limit=10")[1]["results"]
    verdicts = [item for result in outcome for item in result["outcomes"]]
    assert {item["stage"] for item in verdicts} == {"cheap", "strong"}
    assert {item["reason"] is None for item in verdicts if item["stage"] == "cheap"} == {True}
    assert {item["reason"] is None for item in verdicts if item["stage"] == "strong"} == {False}


@pytest.mark.slow
def test_the_document_says_what_may_be_null(served: str) -> None:
    """The schema of a verdict allows null for reason and quote, and names the stages."""
    document = ask(f"{served}/api/v1/openapi.json")[1]
    values = [schema for name, schema in document["components"]["schemas"].items() if name.startswith("Verdict")]
    assert values
    for schema in values:
        fields = schema["properties"]
        assert {"type": "null"} in fields["reason"]["anyOf"]
        assert {"type": "null"} in fields["evidence"]["anyOf"]
        assert {"type": "string", "enum": ["cheap", "strong"]} in fields["stage"]["anyOf"]


def test_a_page_shows_stages_questions_and_answers(served: str) -> None:
    """A trace's page has both calls with what was asked; the run's head counts the stages."""
    page = ask(f"{served}/api/v1/runs/label:cascade/trace?trace_id=docs-001")[1]["trace"]
    first = page["chunks"][0]
    assert first["stage"] == "strong"
    assert [call["route"] for call in first["calls"]] == ["cheap", "strong"]
    assert [asked["answer"][:5] for asked in first["calls"][0]["questions"]] == ["true "] * 5
    kept = [card for card in page["chunks"] if card["stage"] == "cheap"]
    assert {(card["reason"], card["no_reason"], card["evidence"]) for card in kept} == {(None, NO_REASON, None)}
    blind = ask(f"{served}/api/v1/runs/label:cascade/trace?trace_id=docs-001&blind=true")[1]["trace"]
    assert all(card["hidden"] for card in blind["chunks"])  # labels of the dataset are not those of who looks
    assert not {"stage", "confidence", "calls"} & {name for card in blind["chunks"] for name in card}
    head = ask(f"{served}/api/v1/runs/label:cascade/page")[1]["head"]
    assert set(head["stages"]) == {"cheap", "strong"}
    assert head["cascade"][1].startswith("the threshold was named, not fitted: nothing bounds")
    assert ask(f"{served}/api/v1/runs/label:decision/page")[1]["head"]["cascade"] == []
    listed = {run["label"]: run for run in ask(f"{served}/api/v1/runs")[1]["runs"]}
    assert listed["cascade"]["prompt"] == "a cascade (support/decision@1 first, support/binary@2 below 0.90)"
    assert listed["cascade"]["model"] == "fake/overlap-1, fake/overlap-1"


def test_a_client_gets_the_same_records(served: str) -> None:
    """A run judged by a server's cascade comes back with stages and nulls as they are."""
    client = Client(served)
    submitted = client.evaluate(traces=[Trace.parse(row) for row in rows()[:3]], label="asked")
    run = client.get_eval_run(submitted.uuid, wait=60)
    verdicts = [o for result in run.results for o in result.outcomes if o.kind == "verdict"]
    assert {verdict.stage for verdict in verdicts} == {"cheap", "strong"}
    assert run.manifest.tally.stages == {
        stage: sum(verdict.stage == stage for verdict in verdicts) for stage in ("cheap", "strong")
    }


def test_the_hosted_evaluator_s_booleans_are_verdicts(tmp_path: Path) -> None:
    """A decision model's verdicts are true or false there, and a trace has its score."""
    with Evaluator("fake/overlap", mode="decision", metrics=["AP"], cache=False) as evaluator:
        client = LynxiusClient(evaluator=evaluator, out=tmp_path)
        precision = ContextPrecision(label="decided")
        for row in rows()[:2]:
            texts = [chunk["text"] for chunk in row["chunks"]]
            precision.add_trace(query=row["query"], reference=row["reference"], context=texts)
        outcome = client.get_eval_run(client.evaluate(precision))
    assert outcome["status"] == "SUCCESS"
    for result in outcome["results"]:
        assert {type(item) for item in result["verdicts"]} == {bool}
        assert 0 <= result["score"] <= 1
