"""Several people label the same chunks: what they agree on, where they are split, and what becomes of that."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from judge_eval import EvalRun
from judge_eval.data.labels import Labels, read_labels
from judge_eval.errors import DataError
from judge_eval.runs.folder.labels import Label, add_label
from judge_eval.schema import Scale
from judge_eval.stats import alpha_interval
from judge_eval.study.agree import agree
from judge_eval.study.bias import bias_report
from judge_eval.study.calibrate import calibrate
from judge_eval.study.correct import correct
from judge_eval.study.matching import labels_of
from judge_eval.study.systems import rank_systems
from judge_eval.views.agreement import rankings_view
from judge_eval.views.probe import bias_view
from tests.support.application import CliRunner, app
from tests.support.notes import note_sentences
from tests.support.scales import SCALES
from tests.support.verdicts import judged, traces_of

GRADED = SCALES["0-3"]
NAMES = [f"t{k:03d}" for k in range(60)]
RNG = np.random.default_rng(3)
TRUTH = {(n, c): int(RNG.choice([0, 1, 2, 3])) for n in NAMES for c in "abcde"}
JUDGE = {key: int(g if RNG.random() < 0.8 else RNG.choice([0, 1, 2, 3])) for key, g in TRUTH.items()}
METRICS = ["AP@5", "P@5"]


@pytest.fixture
def run(tmp_path: Path) -> EvalRun:
    """A run of a graded judge that is wrong in a part."""
    return judged(
        traces_of(dict.fromkeys(NAMES, "abcde")), JUDGE, prompt="support/graded", metrics=METRICS, out=tmp_path / "runs"
    )


def written(folder: Path, *people: Callable[[int], int], count: int = 30) -> Path:
    """Write the labels that people give to the first traces, from the true grades."""
    path = folder / "labels.csv"
    lines = [
        f"{trace},{chunk},{person(grade)},person {number}"
        for number, person in enumerate(people)
        for (trace, chunk), grade in TRUTH.items()
        if trace < NAMES[count]
    ]
    path.write_text("\n".join(["trace_id,chunk_id,label,by", *lines]) + "\n")
    return path


def stricter(grade: int) -> int:
    """A 3 is a 2 and a 1 is a 0 to this person, who finds the same chunks relevant."""
    return grade - grade % 2


def alone(run: EvalRun, folder: Path, person: Callable[[int], int]) -> float:
    """Return the corrected AP by one person."""
    return correct(run, labels_of(run, written(folder, person))).means["AP@5"].value


def test_people_who_differ_by_a_grade_agree_on_relevance(run: EvalRun, tmp_path: Path) -> None:
    """Two people who find the same chunks relevant give the mean that each gives alone, though their grades differ."""
    each = {alone(run, tmp_path, person) for person in (int, stricter)}
    labels = labels_of(run, written(tmp_path, int, stricter))
    assert labels.ties == {}
    assert len(labels) == 150
    mean = correct(run, labels).means["AP@5"]
    assert {mean.value} == each


def test_four_against_five_is_a_four(tmp_path: Path) -> None:
    """On a scale of 1 to 5 two people who differ by a grade everywhere have the lower grade."""
    path = tmp_path / "labels.csv"
    rows = [f"t{k},c,{4 + person},{person}" for k in range(9) for person in (0, 1)]
    path.write_text("\n".join(["trace_id,chunk_id,label,by", *rows]) + "\n")
    assert set(read_labels(path, scale=Scale(minimum=1, maximum=5, relevant=4)).grades.values()) == {4}
    with pytest.raises(DataError, match=r"people are split on each of its 9 chunks"):
        read_labels(path, scale=Scale(minimum=1, maximum=5, relevant=5))


def split(grade: int) -> int:
    """This person finds no chunk relevant to whom the true grade is only just that."""
    return 1 if grade == 2 else grade


def test_split_chunks_count_once_as_irrelevant_and_once_as_relevant(run: EvalRun, tmp_path: Path) -> None:
    """The interval holds what each person alone gives, and the value lies between them."""
    strict = correct(run, labels_of(run, written(tmp_path, split)))
    kind = correct(run, labels_of(run, written(tmp_path, int)))
    labels = labels_of(run, written(tmp_path, int, split))
    assert set(labels.ties.values()) == {(1, 2)}
    both = correct(run, labels)
    for name in METRICS:
        ends, mean = (strict.means[name], kind.means[name]), both.means[name]
        assert mean.value == pytest.approx((ends[0].value + ends[1].value) / 2)
        assert mean.interval is not None
        for end in ends:
            assert end.interval is not None
            assert mean.interval.low <= end.interval.low < end.interval.high <= mean.interval.high
    assert both.rate is not None
    assert note_sentences(both.notes)[0].startswith(
        f"people are split on {len(labels.ties)} chunks, which count once as irrelevant"
    )
    with pytest.raises(DataError, match="needs one label of each"):
        correct(run, labels, sequential=True)


def test_split_chunks_are_counted_wherever_they_are_left_out(run: EvalRun, tmp_path: Path) -> None:
    """Agreement, calibration, biases and rankings of systems say how many chunks people are split on."""
    labels = labels_of(run, written(tmp_path, int, split))
    note = f"{len(labels.ties)} chunks left out: as many people find them relevant as not"
    assert note in " ".join(note_sentences(agree(run, labels).notes))
    assert note in " ".join(note_sentences(calibrate(run, labels).notes))
    report = bias_report(run, labels)
    assert report.ties == len(labels.ties)
    assert note in str(bias_view(report))
    rankings = rank_systems([run, run], labels, "P@5")
    assert rankings.ties == len(labels.ties)
    assert note in str(rankings_view(rankings))


def test_labels_of_the_page_are_settled_alike(run: EvalRun, tmp_path: Path) -> None:
    """What people gave on the page of a run is settled by its threshold, for the page, a sheet and every command."""
    assert run.folder is not None
    for chunk, grades in {"a": (3, 2), "b": (2, 1)}.items():
        for by, grade in zip(("Anna", "Ben"), grades, strict=True):
            add_label(run.folder, Label(trace_id="t000", chunk_id=chunk, label=grade, by=by))
    page = labels_of(run)
    assert (page.grades, page.ties) == ({("t000", "a"): 2}, {("t000", "b"): (1, 2)})
    sheet = tmp_path / "sheet.csv"
    sheet.write_text("trace_id,chunk_id,label\nt000,a,\nt000,b,\nt000,c,1\n")
    labels = labels_of(run, sheet)
    assert (labels.ties, labels.grades["t000", "a"]) == (page.ties, 2)
    assert set(labels.people) == {"Anna", "Ben"}
    assert labels_of(run, sheet, 3).ties == {("t000", "a"): (2, 3)}
    result = agree(run, None)
    assert result.n == 1
    assert "1 chunk left out: as many people" in " ".join(note_sentences(result.notes))


@pytest.mark.slow
def test_agree_shows_pairs_and_alpha_of_people(run: EvalRun, tmp_path: Path) -> None:
    """The text has the kappa of each two people, and the alpha of all with its interval."""
    path = written(tmp_path, int, stricter, split)
    shown = CliRunner().invoke(app, ["agree", run.id[:8], str(path), "--out", str(tmp_path / "runs")]).stdout
    assert len(re.findall(r"person \d and person \d: kappa [\d.]+ \[", shown)) == 3
    labels = read_labels(path, scale=GRADED)
    keys = sorted(labels.people["person 0"])
    alpha = alpha_interval([[mine[key] for key in keys] for mine in labels.people.values()], [k[0] for k in keys])
    assert agree(run, labels).people_alpha == alpha
    assert f"all people together: Krippendorff's alpha (ordinal) {alpha.text} on 150 chunks" in shown


def test_a_chunk_on_which_people_are_split_is_not_drawn_again(run: EvalRun, tmp_path: Path) -> None:
    """`sample --without` leaves a trace out whose only label is a tie."""
    people = {"Anna": {("t000", "a"): 1}, "Ben": {("t000", "a"): 2}}
    sheet, out = tmp_path / "labels.csv", tmp_path / "more.jsonl"
    rows = [f"{t},{c},{grade},{by}" for by, mine in people.items() for (t, c), grade in mine.items()]
    sheet.write_text("\n".join(["trace_id,chunk_id,label,by", *rows, "t001,a,3,Anna"]) + "\n")
    words = ["sample", run.id[:8], "--out", str(tmp_path / "runs"), "--without", str(sheet), "-o", str(out)]
    assert CliRunner().invoke(app, [*words, "-n", "58"]).exit_code == 0
    assert '"id": "t000"' not in out.read_text()


def test_labels_made_in_python_settle_by_a_threshold() -> None:
    """`agree_on` gives a label to each chunk that people agree on."""
    labels = Labels(people={"a": {("t", "x"): 3, ("t", "y"): 0}, "b": {("t", "x"): 2, ("t", "y"): 3}})
    labels.agree_on(2)
    assert (labels.grades, labels.ties) == ({("t", "x"): 2}, {("t", "y"): (0, 3)})
