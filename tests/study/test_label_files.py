"""The file of labels of a run, and of labels that are added to it: on the scale, finite and dated."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from judge_eval import EvalRun
from judge_eval.runs.folder.labels import Label, add_label, people_labels
from tests.support.application import CliRunner, app
from tests.support.verdicts import judged, traces_of


@pytest.fixture
def run(tmp_path: Path) -> EvalRun:
    """A run of a graded judge, 0 to 3."""
    lists = {f"t{k}": "abc" for k in range(4)}
    table = {(name, chunk): k for name in lists for k, chunk in enumerate("abc")}
    return judged(traces_of(lists), table, prompt="support/graded", out=tmp_path / "runs")


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("label", "7", "labels.jsonl:2: label 7 is not on the run's scale 0-3"),
        ("label", "NaN", "labels.jsonl:2: not a label"),
        ("label", "1e999", "labels.jsonl:2: not a label"),
        ("given", '"2026-01-01T00:00:00"', "labels.jsonl:2: not a label"),
        ("given", '"soon"', "labels.jsonl:2: not a label"),
    ],
)
def test_a_label_of_a_run_is_on_its_scale_and_dated(
    run: EvalRun, tmp_path: Path, field: str, value: str, words: str
) -> None:
    """A line that somebody wrote by hand, off the scale or without a time zone, is named with its line."""
    assert run.folder is not None
    for chunk in "ab":
        add_label(run.folder, Label(trace_id="t0", chunk_id=chunk, label=1, by="Anna"))
    path = run.folder / "labels.jsonl"
    first, second = path.read_text().splitlines()
    fields = {name: json.dumps(each) for name, each in json.loads(second).items()} | {field: value}
    odd = "{" + ", ".join(f"{json.dumps(name)}: {each}" for name, each in fields.items()) + "}"
    path.write_text(f"{first}\n{odd}\n")
    shown = {}
    for verb in (("agree", run.id[:8]), ("runs", "verify", run.id[:8])):
        done = CliRunner().invoke(app, [*verb, "--out", str(tmp_path / "runs")])
        assert done.exit_code != 0
        shown[verb[0]] = done.output.replace("\n", " ")
    assert words in shown["agree"]
    assert words.partition(": ")[2] in shown["runs"]


def test_labels_that_are_added_keep_their_date(run: EvalRun, tmp_path: Path) -> None:
    """`runs labels --add` keeps when and how a label was given, and refuses a date without a time zone."""
    assert run.folder is not None
    moment = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
    add_label(run.folder, Label(trace_id="t0", chunk_id="a", label=2, by="Anna", blind=True, given=moment))
    (run.folder / "labels.jsonl").rename(tmp_path / "kept.jsonl")

    def add(*rows: dict[str, Any]) -> Any:
        (tmp_path / "kept.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        words = ["runs", "labels", run.id[:8], "--out", str(tmp_path / "runs"), "--add", str(tmp_path / "kept.jsonl")]
        return CliRunner().invoke(app, words)

    row = json.loads((tmp_path / "kept.jsonl").read_text())
    assert add(row).exit_code == 0
    ((label,),) = people_labels(run.folder).values()
    assert (label.given, label.blind, label.by) == (moment, True, "Anna")
    refused = add(row, {**row, "chunk_id": "b", "given": "2026-01-02"})
    assert refused.exit_code == 2
    assert "kept.jsonl:2: given" in refused.output
    assert len(people_labels(run.folder)) == 1


@pytest.mark.parametrize("alpha", ["nan", "0", "1.5", "inf"])
def test_the_level_of_drift_is_a_probability(run: EvalRun, tmp_path: Path, alpha: str) -> None:
    """A level that is not one would never or always find drift; it is refused before the first call."""
    words = ["drift", run.id[:8], "--out", str(tmp_path / "runs"), "--model", "fake/hash", "--alpha", alpha]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2
    assert "alpha" in done.output
