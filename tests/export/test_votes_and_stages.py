"""The votes of panels and the stages of cascades in tables."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from judge_eval import EvalRun, Evaluator, Member, Panel, Pointwise
from judge_eval.export.tables import table_of, write_parquet
from judge_eval.export.text import csv_lines
from tests.support.asking_decisions import row
from tests.support.deciding import cascaded

PANEL = Panel([Member("first", Pointwise(), "a"), Member("zweite", Pointwise(), "b")])


@pytest.fixture(scope="module")
def panel() -> EvalRun:
    """A run of a panel whose members disagree."""
    with Evaluator({"a": "fake/overlap", "b": "fake/inverted"}, judge=PANEL, cache=False) as evaluator:
        return evaluator.evaluate([row()])


def test_tables_of_verdicts_hold_the_votes(panel: EvalRun, tmp_path: Path) -> None:
    """CSV, Parquet and frames say what each member graded a chunk, as JSON."""
    votes = panel.results[0].votes
    wanted = [{name: grades[k] for name, grades in votes.items()} for k in range(4)]
    assert wanted[0] == {"first": 1, "zweite": 0}
    lines = list(csv.DictReader(io.StringIO("".join(csv_lines(panel)))))
    assert [json.loads(line["votes"]) for line in lines] == wanted
    assert [json.loads(each["votes"]) for each in table_of(panel, "verdicts")[1]] == wanted
    parquet = pytest.importorskip("pyarrow.parquet")
    write_parquet(panel, tmp_path / "v.parquet")
    assert [json.loads(text) for text in parquet.read_table(tmp_path / "v.parquet")["votes"].to_pylist()] == wanted
    with Evaluator("fake/overlap", cache=False) as evaluator:
        alone = evaluator.evaluate([row()])
    assert {each["votes"] for each in table_of(alone, "verdicts")[1]} == {None}


def test_tables_of_verdicts_hold_the_stages(tmp_path: Path) -> None:
    """The Parquet table of a cascade's verdicts says which judge gave each."""
    parquet = pytest.importorskip("pyarrow.parquet")
    run = cascaded([row()], tmp_path)
    write_parquet(run, tmp_path / "v.parquet")
    stages = [outcome.stage for outcome in run.results[0].outcomes]
    assert parquet.read_table(tmp_path / "v.parquet")["stage"].to_pylist() == stages
    assert set(stages) >= {"cheap"}
