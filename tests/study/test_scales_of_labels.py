"""People's labels meet the verdicts on the judge's scale."""

from __future__ import annotations

from pathlib import Path

import pytest

from judge_eval.data.labels import Labels, read_labels
from judge_eval.errors import DataError
from judge_eval.schema import BINARY, Scale
from judge_eval.study.agree import agree, agree_all
from judge_eval.study.calibrate import calibrate
from judge_eval.study.matching import label_scale
from judge_eval.study.sample import scale_words
from judge_eval.study.systems import JudgedRun, metric_both_ways
from tests.support.scales import FIVE, ONE_TO_FIVE, drawn, labels_in


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
