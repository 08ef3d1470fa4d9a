"""People's labels meet the verdicts on the judge's scale."""

from __future__ import annotations

from pathlib import Path

import pytest

from judge_eval import Evaluator
from judge_eval.data.labels import Labels, read_labels
from judge_eval.errors import DataError
from judge_eval.schema import BINARY, Scale
from judge_eval.study.agree import agree, agree_all
from judge_eval.study.calibrate import calibrate
from judge_eval.study.matching import label_scale, labels_of
from judge_eval.study.sample import scale_words
from judge_eval.study.systems import JudgedRun, metric_both_ways
from tests.support.application import CliRunner, app
from tests.support.scales import FIVE, ONE_TO_FIVE, SCALES, drawn, labels_in, traces


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
    assert result.notes == ("the judge's grades were converted to binary: relevant from 4",)
    wider = Labels({key: place % 6 for place, key in enumerate(keys)}, sources=("people",))
    assert agree(run, wider).notes[1] == "the labels were converted to binary: relevant from 2"
    ones = Labels(dict.fromkeys(keys, 1), sources=("people",))
    with pytest.raises(DataError, match=r"every label is 1, which is the lowest grade .* 1-5"):
        agree(run, ones)
    assert label_scale(ones, ONE_TO_FIVE, 1) == BINARY
    assert label_scale(Labels({("a", "b"): 2}), ONE_TO_FIVE, 3).relevant == 3


@FIVE
def test_people_are_told_the_scale(scale: Scale) -> None:
    """A sheet to fill in names the ends of the scale."""
    words = scale_words(scale)
    assert words.startswith("1 relevant" if scale.binary else f"{scale.minimum} (not at all) to {scale.maximum} ")


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


@pytest.mark.parametrize("command", ["agree", "calibrate", "correct"])
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
    again = CliRunner().invoke(app, [*words, "--label-relevant", "5"])
    assert "labels.csv:3" not in again.output
