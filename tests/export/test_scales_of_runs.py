"""Reports, exports and imports keep the scale of a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from judge_eval import EvalRun, Evaluator
from judge_eval.errors import ConfigError, DataError
from judge_eval.export.trec import qrels_lines
from judge_eval.importing import import_verdicts, read_scale
from judge_eval.schema import BINARY, GRADED, Scale
from tests.support.blocks_of_pages import blocks_of, data_of
from tests.support.reports import run_report
from tests.support.scales import FIVE, ONE_TO_FIVE, SCALES, check_run, judge_on, labels_in, names, traces


@pytest.mark.slow
@FIVE
def test_a_report_shows_the_grades(scale: Scale, tmp_path: Path) -> None:
    """The page knows the scale, and each rank its grade: one sign a rank, in a table of all grades."""
    labels = {(f"q{n}", f"c{n % 6}"): scale.grades[n % len(scale.grades)] for n in range(40)}
    judge = judge_on(tmp_path, "pointwise", scale)
    with Evaluator("fake/hash", judge=judge, metrics=["AP@5"], cache=False) as evaluator:
        run = evaluator.evaluate(traces(40, labels))
    text = run_report(run)
    data, cards = data_of(text), blocks_of(text)
    assert Scale.parse(data["head"]["scale"]).words == scale.words
    assert data["agreement"]["categories"] == list(scale.grades)
    assert sum(map(sum, data["agreement"]["matrix"])) == 40
    graded = labels_in(run).grades
    signs = {0: ".", 1: "1", 10: "X"} | {grade: str(grade) for grade in range(2, 10)}
    if scale.relevant == 1:
        signs[1] = "+"
    for row, card in zip(data["rows"], cards, strict=True):
        own = [graded[card["id"], chunk["id"]] for chunk in card["chunks"]]
        assert [chunk["grade"] for chunk in card["chunks"]] == own
        assert row["strip"] == "".join(signs[grade] for grade in own)


@FIVE
def test_verdicts_go_out_and_come_back(scale: Scale, tmp_path: Path) -> None:
    """A run's folder is read back as it was; qrels hold the grades and are imported on the scale."""
    judge = judge_on(tmp_path, "pointwise", scale)
    with Evaluator("fake/hash", judge=judge, metrics=names(scale), cache=False) as evaluator:
        run = evaluator.evaluate(traces(), out=tmp_path / "runs")
    assert run.folder is not None
    assert list(EvalRun.load(run.folder).results) == list(run.results)
    again = import_verdicts(run.folder, traces(), metrics=names(scale))
    check_run(again, scale)
    assert again.aggregates == run.aggregates
    qrels = tmp_path / "qrels.txt"
    qrels.write_text("".join(qrels_lines(run)))
    read = import_verdicts(qrels, traces(), scale=scale.span, relevant=scale.relevant, metrics=names(scale))
    check_run(read, scale)
    assert [r.scores for r in read.results] == [r.scores for r in run.results]
    with pytest.raises(DataError, match="off the scale"):
        import_verdicts({("q0", "c0"): scale.maximum + 1}, traces(), scale=scale)
    if scale.minimum:
        with pytest.raises(DataError, match="the grade 0, which is off the scale 1-5"):
            import_verdicts({("q0", "c0"): 0}, traces(), scale=scale)


@pytest.mark.parametrize(
    ("text", "relevant", "expected"),
    [(None, None, BINARY), ("graded", None, GRADED), ("0-1", None, BINARY), ("1-5", 4, ONE_TO_FIVE),
     ("0-10", 6, SCALES["0-10"]), ("0-3", 2, GRADED)],
)  # fmt: skip
def test_a_scale_is_written_by_its_ends(text: str | None, relevant: int | None, expected: Scale) -> None:
    """`--scale 1-5 --relevant 4` is the scale of a prompt file with these grades."""
    assert read_scale(text, relevant).words == expected.words


@pytest.mark.parametrize("text", ["5-1", "0-11", "1-1", "-1-3", "many", "0-"])
def test_ends_that_are_none_are_refused(text: str) -> None:
    """The message says how a scale is written."""
    with pytest.raises(ConfigError, match=r"such as 1-5, up to 10"):
        read_scale(text, 1)
