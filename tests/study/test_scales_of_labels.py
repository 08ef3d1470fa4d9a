"""People's labels meet the verdicts on the judge's scale."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from judge_eval import EvalRun, Evaluator
from judge_eval.data.labels import Labels, read_labels
from judge_eval.errors import DataError
from judge_eval.pages.page import PageSettings, page_named
from judge_eval.schema import BINARY, Scale
from judge_eval.study.agree import agree, agree_all
from judge_eval.study.calibrate import calibrate
from judge_eval.study.matching import label_scale, labels_of
from judge_eval.study.sample import scale_words
from judge_eval.study.systems import JudgedRun, metric_both_ways
from tests.support.application import CliRunner, app
from tests.support.notes import note_sentences
from tests.support.scales import FIVE, ONE_TO_FIVE, SCALES, drawn, judge_on, labels_in, traces


@FIVE
def test_agreement_is_a_table_of_the_scale(scale: Scale, tmp_path: Path) -> None:
    """Verdicts and a label file meet on the judge's scale: its grades, its threshold, every pair counted."""
    run, people = drawn(tmp_path, scale), labels_in(drawn(tmp_path, scale, seed=1))
    file = tmp_path / "labels.csv"
    lines = [f"{trace},{chunk},{grade}" for (trace, chunk), grade in people.grades.items()]
    file.write_text("\n".join(["trace_id,chunk_id,label", *lines]) + "\n")
    labels = read_labels(file)
    assert labels.grades == people.grades
    result = agree(run, labels)
    assert (result.grades, result.relevant, result.notes) == (tuple(scale.grades), scale.relevant, ())
    mine = labels_in(run).grades
    for row, judge in zip(result.confusion, scale.grades, strict=True):
        for count, human in zip(row, scale.grades, strict=True):
            assert count == sum(mine[key] == judge and people.grades[key] == human for key in mine)
    assert f"kappa_ge{scale.maximum}" in result.figures
    assert f"kappa_ge{scale.minimum}" not in result.figures
    assert agree(run, labels_in(run)).figures["kappa"].value == pytest.approx(1)
    assert agree_all([run], labels)["alpha_ordinal"].value is not None
    ours, theirs = metric_both_ways(JudgedRun.of(run), labels, "NDCG@5")
    assert ours != theirs
    assert theirs == metric_both_ways(JudgedRun.of(run), labels, "NDCG@5", scale.relevant)[1]


@FIVE
def test_calibration_chooses_among_the_grades(scale: Scale, tmp_path: Path) -> None:
    """The threshold is a grade above the lowest, and the map has an entry for each grade."""
    run = drawn(tmp_path, scale)
    chosen = calibrate(run, labels_in(run))
    assert list(chosen.relevance) == list(map(str, scale.grades))
    assert chosen.threshold.grade in scale.grades[1:] if hasattr(chosen.threshold, "grade") else chosen.threshold
    assert chosen.current == scale.relevant
    assert chosen.relevance[str(scale.minimum)] < chosen.relevance[str(scale.maximum)]


def test_labels_of_another_scale_are_made_binary(tmp_path: Path) -> None:
    """Labels 0 and 1, or with a 0 on the scale 1-5, are not the judge's grades; only a 1 could be either."""
    run = drawn(tmp_path, ONE_TO_FIVE)
    keys = list(labels_in(run).grades)
    binary = Labels({key: place % 2 for place, key in enumerate(keys)}, sources=("people",))
    result = agree(run, binary)
    assert result.grades == (0, 1)
    assert note_sentences(result.notes) == ("the judge's grades were converted to binary: relevant from 4",)
    wider = Labels({key: place % 6 for place, key in enumerate(keys)}, sources=("people",))
    assert note_sentences(agree(run, wider).notes)[1] == "the labels were converted to binary: relevant from 2"
    ones = Labels(dict.fromkeys(keys, 1), sources=("people",))
    with pytest.raises(DataError, match=r"every label is 1, which is the lowest grade .* 1-5"):
        agree(run, ones)
    assert label_scale(ones, ONE_TO_FIVE, 1) == BINARY
    assert label_scale(Labels({("a", "b"): 2}), ONE_TO_FIVE, 3).relevant == 3


@FIVE
def test_people_are_told_the_scale(scale: Scale) -> None:
    """A sheet to fill in names the ends of the scale, or each level if the scale describes them."""
    words = scale_words(scale)
    assert words.startswith("1 relevant" if scale.binary else f"{scale.minimum} (lowest) to {scale.maximum} ")
    described = scale.replace(levels=tuple(f"level {grade}" for grade in scale.grades))
    assert scale_words(described).startswith(f"{scale.minimum}: level {scale.minimum}; ")
    assert f"{scale.maximum}: level {scale.maximum}; relevant from {scale.relevant};" in scale_words(described)


def test_a_sheet_of_a_scale_of_ones_own_describes_each_level(tmp_path: Path) -> None:
    """`sample` prints the levels, and writes them in the table and in JSON Lines."""
    with Evaluator("fake/hash", judge=judge_on(tmp_path, "pointwise", ONE_TO_FIVE), cache=False) as evaluator:
        run = evaluator.evaluate(traces(6), out=tmp_path / "runs")
    for suffix in ("csv", "jsonl"):
        file = tmp_path / f"sheet.{suffix}"
        done = CliRunner().invoke(
            app, ["sample", run.id[:8], "-n", "2", "-o", str(file), "--out", str(tmp_path / "runs")]
        )
        for text in (done.stderr, file.read_text()):
            assert "1: supports 1 of 5 parts; 2: supports 2 of 5 parts" in text
            assert "relevant from 4" in text


def test_a_label_above_the_scale_of_the_judge_is_refused_with_its_line(tmp_path: Path) -> None:
    """A 7 on the scale 0-3 is a slip: file and line are named. A threshold says that labels have their own scale."""
    run = drawn(tmp_path, SCALES["0-3"])
    keys = list(labels_in(run).grades)
    file = tmp_path / "labels.csv"
    lines = [f"{trace},{chunk},{7 if place == 4 else place % 4}" for place, (trace, chunk) in enumerate(keys)]
    file.write_text("\n".join(["trace_id,chunk_id,label", *lines]) + "\n")
    with pytest.raises(DataError, match=r"labels\.csv:6: label: .* labelled 7, but the judge's scale ends at 3"):
        labels_of(run, file)
    assert labels_of(run, file, 2).grades[keys[4]] == 7
    assert labels_of(drawn(tmp_path, SCALES["0-1"]), file).grades[keys[4]] == 7


def test_a_label_of_the_dataset_above_the_scale_is_told_and_refused(tmp_path: Path) -> None:
    """A 7 on the scale 0-3: the run remarks on it with its line; figures of agreement need the least relevant label."""
    rows = [{"id": f"t{k}", "query": "q", "reference": "r", "chunks": [
        {"id": "a", "text": f"one {k}", "label": 7 if k == 4 else k % 4}, {"id": "b", "text": f"two {k}", "label": 0},
    ]} for k in range(12)]  # fmt: skip
    file, out = tmp_path / "data.jsonl", str(tmp_path / "runs")
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")

    def call(*arguments: str) -> str:
        return CliRunner().invoke(app, [*arguments]).output

    told = "a label is above the judge's scale, which ends at 3; if the labels have a scale of their own, `agree` needs"
    graded = ("--prompt", "support/graded")
    run = call("run", str(file), "--model", "fake/hash", *graded, "--out", out, "--cache", str(tmp_path / "cache"))
    for text in (run, call("validate", str(file), *graded)):
        assert told in " ".join(text.split()), text
        assert "(1 record on line 5)" in " ".join(text.split())
    fault = "chunk 'a' of trace 't4' is labelled 7, but the judge's scale ends at 3"
    for command in ("agree", "calibrate", "correct"):
        text = call(
            command, "latest", "--out", out, *(("-o", str(tmp_path / "c.json")) if command == "calibrate" else ())
        )
        assert fault in " ".join(text.split()), text
    assert "the labels were converted to binary: relevant from 2" in call(
        "agree", "latest", "--out", out, "--label-relevant", "2"
    )
    (folder,) = (tmp_path / "runs").glob("2*")
    page = page_named("run").make([EvalRun.load(folder)], PageSettings())
    assert page.data["agreement"]["said"]["trust"].startswith(fault)
    assert "above the judge's scale" not in call("validate", str(file))


def test_a_label_below_the_scale_of_the_judge_is_refused_with_its_line(tmp_path: Path) -> None:
    """A 0 among grades of 1 to 5 is a slip; labels that are all 0 or 1 are binary."""
    run = drawn(tmp_path, ONE_TO_FIVE)
    keys = list(labels_in(run).grades)
    file = tmp_path / "labels.csv"

    def write(grades: Sequence[int]) -> None:
        lines = [f"{trace},{chunk},{grade}" for (trace, chunk), grade in zip(keys, grades, strict=False)]
        file.write_text("\n".join(["trace_id,chunk_id,label", *lines]) + "\n")

    write([1, 0, 3, 0])
    with pytest.raises(DataError, match=r"labels\.csv:3: label: .* labelled 0, but the judge's scale begins at 1"):
        labels_of(run, file)
    assert labels_of(run, file, 2).grades[keys[1]] == 0
    write([1, 0, 1, 0])
    assert labels_of(run, file).grades[keys[1]] == 0


def test_a_label_of_qrels_that_is_off_the_scale_is_refused_with_its_line(tmp_path: Path) -> None:
    """Qrels have lines too; a negative grade means that nobody judged."""
    run = drawn(tmp_path, SCALES["0-3"])
    keys = list(labels_in(run).grades)
    grades = (3, -1, 4)
    lines = [f"{trace} 0 {chunk} {grade}" for (trace, chunk), grade in zip(keys, grades, strict=False)]
    file = tmp_path / "labels.qrels"
    file.write_text("\n".join(["# a comment", *lines]) + "\n")
    with pytest.raises(DataError, match=r"labels\.qrels:4: label: .* labelled 4, but the judge's scale ends at 3"):
        labels_of(run, file)
    assert labels_of(run, file, 2).unjudged == 1


@pytest.mark.parametrize("command", ["agree", "calibrate", "correct", "bias"])
def test_commands_refuse_a_label_above_the_scale(tmp_path: Path, command: str) -> None:
    """Each command that takes labels names file and line, and takes them with `--label-relevant`."""
    file, out = tmp_path / "labels.csv", tmp_path / "runs"
    with Evaluator("fake/hash", prompt="support/graded", cache=False) as evaluator:
        run = evaluator.evaluate(traces(6), out=out)
    keys = [(result.trace_id, chunk.id) for result in run.results[:4] for chunk in result.trace.chunks]
    lines = [f"{trace},{chunk},{7 if place % 3 else 0}" for place, (trace, chunk) in enumerate(keys)]
    file.write_text("\n".join(["trace_id,chunk_id,label", *lines]) + "\n")
    words = [command, run.id[:8], "--labels", str(file), "--out", str(out)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2
    assert "labels.csv:3: label" in done.output
    if command != "bias":
        again = CliRunner().invoke(app, [*words, "--label-relevant", "5"])
        assert "labels.csv:3" not in again.output


def test_a_plan_and_a_cascade_refuse_a_label_above_the_scale(tmp_path: Path) -> None:
    """`sample --without` and `cascade fit --labels` name file and line as well."""
    file, out, data = tmp_path / "labels.csv", tmp_path / "runs", tmp_path / "traces.jsonl"
    asked = traces(30)
    data.write_text("".join(trace.model_dump_json(exclude_none=True) + "\n" for trace in asked))
    file.write_text("trace_id,chunk_id,label\nq0,c0,3\nq0,c1,7\n")
    with Evaluator("fake/hash", prompt="support/graded", cache=False) as evaluator:
        run = evaluator.evaluate(asked, out=out)
    sampled = ["sample", run.id[:8], "--without", str(file), "-o", str(tmp_path / "more.csv")]
    fitted = ["cascade", "fit", str(data), "--cascade", "fake/hash", "--strong-model", "fake/overlap"]
    fitted += ["--prompt", "support/graded", "--target", "labels", "--labels", str(file)]
    for words in (sampled, fitted):
        done = CliRunner().invoke(app, [*words, "--out", str(out)])
        assert done.exit_code == 2, done.output
        assert "labels.csv:3: label" in done.output
