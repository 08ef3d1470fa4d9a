"""What exports say of verdicts that have no reason, and of those of a cascade."""

from __future__ import annotations

import csv
import html
import io
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from judge_eval import EvalRun, Evaluator
from judge_eval.export.ci_reports import junit, pull_request_comment
from judge_eval.export.formats import write_as
from judge_eval.export.inspect_log import inspect_log
from judge_eval.export.mlflow import params_of, tags_of
from judge_eval.export.phoenix import annotated
from judge_eval.export.tables import table_of
from judge_eval.export.text import as_json, as_markdown, csv_lines, labelled_lines
from judge_eval.judges import Cascade, Decision, Pointwise
from judge_eval.runs.scoring.rescore import rescore
from judge_eval.schema import NO_REASON
from judge_eval.views.run_remarks import remarks_of
from tests.support.deciding import MODELS, RESTS, cascaded, decided
from tests.support.golden import check_golden
from tests.support.serving import rows


@pytest.fixture(scope="module")
def runs() -> dict[str, EvalRun]:
    """Judge the same traces by a decision model, and by a cascade."""
    return {"decision": decided(rows()[:6]), "cascade": cascaded(rows()[:6])}


def verdicts(run: EvalRun) -> list[Any]:
    """Return all verdicts of a run, in order."""
    return [outcome for result in run.results for outcome in result.outcomes if outcome.kind == "verdict"]


def cheap(run: EvalRun) -> list[Any]:
    """Return the verdicts of a decision model."""
    return [verdict for verdict in verdicts(run) if verdict.stage != "strong"]


def test_a_cascade_has_verdicts_of_both(runs: dict[str, EvalRun]) -> None:
    """The fixtures bring verdicts of both stages, so that what follows is about both."""
    assert {verdict.stage for verdict in verdicts(runs["cascade"])} == {"cheap", "strong"}
    assert {verdict.reason for verdict in verdicts(runs["decision"])} == {None}


@pytest.mark.parametrize("name", ["decision", "cascade"])
def test_a_spreadsheet_reads_as_agreed(runs: dict[str, EvalRun], name: str) -> None:
    """CSV says that there is no reason in words, and has columns for probability and stage."""
    text = "".join(csv_lines(runs[name]))
    check_golden(f"export/{name}.csv", text)
    for row, verdict in zip(csv.DictReader(io.StringIO(text)), verdicts(runs[name]), strict=True):
        assert row["reason"] == (NO_REASON if verdict.reason is None else verdict.reason)
        assert row["evidence"] == (verdict.evidence or "")
        assert row["stage"] == (verdict.stage or "")
        assert row["confidence"] == ("" if verdict.confidence is None else str(verdict.confidence))


@pytest.mark.parametrize("name", ["decision", "cascade"])
def test_data_say_null(runs: dict[str, EvalRun], name: str) -> None:
    """JSON, JSON Lines and the rows of tables hold null for reason and quote, never a stand-in."""
    run = runs[name]
    values = [item for result in json.loads(as_json(run))["results"] for item in result["outcomes"]]
    lines = [json.loads(line) for line in labelled_lines(run)]
    noted = [chunk["metadata"]["judge_eval"] for line in lines for chunk in line["chunks"]]
    for match in (values, noted, list(table_of(run, "verdicts")[1])):
        for row, verdict in zip(match, verdicts(run), strict=True):
            for key in ("reason", "evidence", "evidence_found", "confidence", "stage"):
                assert row[key] == getattr(verdict, key), key


@pytest.mark.parametrize("name", ["decision", "cascade"])
def test_parquet_and_frames_keep_the_nulls(runs: dict[str, EvalRun], name: str, tmp_path: Path) -> None:
    """A column of nothing but nulls keeps its type, and stages are a column."""
    parquet = pytest.importorskip("pyarrow.parquet")
    run = runs[name]
    write_as(run, tmp_path / "run.parquet")
    table = parquet.read_table(tmp_path / "run.parquet")
    assert str(table.schema.field("reason").type) == str(table.schema.field("stage").type) == "string"
    expected = [verdict.reason for verdict in verdicts(run)]
    assert table.column("reason").to_pylist() == expected
    assert table.column("stage").to_pylist() == [verdict.stage for verdict in verdicts(run)]
    pandas = pytest.importorskip("pandas")
    frame = run.verdicts_frame()
    assert [None if pandas.isna(item) else item for item in frame["reason"]] == expected
    assert list(frame["stage"].dropna().unique()) == [] if name == "decision" else ["strong", "cheap"]
    lists = run.to_pandas()["reasons"]
    assert [reason for row in lists for reason in row] == expected
    pytest.importorskip("polars")
    assert run.verdicts_frame("polars")["reason"].to_list() == expected
    assert [item for row in run.to_polars()["reasons"].to_list() for item in row] == expected


@pytest.mark.parametrize("name", ["decision", "cascade"])
def test_what_people_read_says_it(runs: dict[str, EvalRun], name: str) -> None:
    """Inspect, Phoenix and notebooks say that there is no reason, the probability, and the stage."""
    run = runs[name]
    log = json.loads(inspect_log(run))
    words = "\n".join(sample["output"]["choices"][0]["message"]["content"] for sample in log["samples"])
    assert words.count(NO_REASON) == len([v for v in verdicts(run) if v.reason is None]) > 0
    first = next(verdict for verdict in cheap(run) if verdict.confidence is not None)
    assert f"probability of relevance {first.confidence:.2f}" in words
    assert ("cheap judge)" in words and "strong judge)" in words) is (name == "cascade")
    notes = []
    for result in run.results:
        trace = result.trace.model_copy(update={"metadata": {"span_id": "ab" * 8}})
        notes += annotated(result.model_copy(update={"trace": trace}), run.id)
    for note, verdict in zip(notes, verdicts(run), strict=True):
        assert note["result"].get("explanation", "") == verdict.explanation
        assert note["metadata"].get("stage") == verdict.stage
        assert note["metadata"].get("confidence") == verdict.confidence
    html = "".join(result._repr_html_() for result in run.results)
    assert NO_REASON in html
    assert "None" not in html
    assert ("(grade 0, probability of relevance 0.08, cheap judge)" in html) is (name == "cascade")


def test_summaries_count_the_stages(runs: dict[str, EvalRun]) -> None:
    """Markdown, comments, notebooks and MLflow's description say how many verdicts each stage gave."""
    run, alone = runs["cascade"], runs["decision"]
    counts = {stage: sum(v.stage == stage for v in verdicts(run)) for stage in ("cheap", "strong")}
    assert run.manifest.tally.stages == counts
    total, strong = sum(counts.values()), counts["strong"]
    result = (
        f"cascade: {counts['cheap']} verdicts by the cheap judge, {strong} of {total} chunks "
        f"({strong / total:.1%}) escalated"
    )
    for text in (as_markdown(run), pull_request_comment(run, None, []), run._repr_html_()):
        assert result in text
    assert "a cascade (support/decision@1 first, support/binary@2 below 0.90)" in tags_of(run)["judge_eval.judged"]
    assert params_of(run)["judge_eval.judge.cheap.mode"] == "decision"
    assert alone.manifest.tally.stages == {}
    assert "escalated" not in as_markdown(alone) + alone._repr_html_()
    assert "panel" not in as_markdown(run)


BOUND = (
    "on data like the 200 traces it was fitted on, the answer for a random chunk of a random trace is other "
    "than the strong judge's in at most 4.321% (95% sure; cascade file abababababab)"
)
NAMED = "the threshold was named, not fitted: nothing bounds how often the cheap judge errs"
ESCALATED = "everything is escalated: no threshold is known to keep the risk within its limit"


@pytest.mark.parametrize(
    ("told", "settings"),
    [(BOUND, {"rests": RESTS}), (NAMED, {}), (ESCALATED, {"threshold": None})],
    ids=["fitted", "named", "escalated"],
)
def test_every_summary_says_what_the_threshold_rests_on(told: str, settings: dict[str, Any]) -> None:
    """Markdown, comment, notebook, Inspect and JUnit say the bound, or that nothing is promised."""
    run = cascaded(rows()[:6], label="cascade", **settings)
    text = as_markdown(run)
    if "rests" in settings:
        check_golden("export/cascade_fitted.md", text)
    assert text.count(told) == 1
    assert sum(item in text for item in (BOUND, NAMED, ESCALATED)) == 1
    assert told in pull_request_comment(run, None, [])
    assert told in html.unescape(run._repr_html_())
    assert told in json.loads(inspect_log(run))["eval"]["metadata"]["cascade"]
    result = ElementTree.fromstring(junit([], remarks_of(run.manifest))).findall(".//property")
    assert [item.get("value") for item in result][-1] == told
    assert run.manifest.tally.verdicts == 30


def test_a_bound_is_not_said_of_another_threshold_of_grades() -> None:
    """Scored as relevant from another grade than was fitted, the run no longer has the bound."""
    with Evaluator(
        MODELS,
        judge=Cascade(Decision("support/decision-graded"), Pointwise("support/graded"), 0.9, guarantee=RESTS),
        cache=False,
    ) as evaluator:
        run = evaluator.evaluate(rows()[:6])
    assert BOUND in as_markdown(run)
    assert BOUND in as_markdown(rescore(run, ["AP@5"], relevant=2))
    other = as_markdown(rescore(run, ["AP@5"], relevant=3))
    assert BOUND not in other
    assert "fitted to what is relevant from grade 2; scored as relevant from 3, nothing bounds how" in other


@pytest.mark.parametrize("format", ["trec-run", "trec-qrels", "markdown", "inspect", "jsonl", "json"])
@pytest.mark.parametrize("name", ["decision", "cascade"])
def test_no_format_writes_none(runs: dict[str, EvalRun], name: str, format: str, tmp_path: Path) -> None:
    """Every format is written, and none writes Python's word for nothing."""
    path = tmp_path / "out.json"
    write_as(runs[name], path, format)
    assert "None" not in path.read_text(encoding="utf-8")
