from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from tests.support.command import FIXTURES, judge_eval
from tests.support.golden import check_golden as assert_golden


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the runs of two judges on the fixtures."""
    folder = tmp_path_factory.mktemp("people")
    data = FIXTURES / "docs_qa.jsonl"
    for label, model in (("words", "fake/overlap"), ("odd", "fake/hash")):
        done = judge_eval(folder, "run", data, "-m", model, "--label", label, "-q", "-k", "AP@5,P@5")
        assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.slow
def test_agreement_with_the_labels_of_the_dataset(folder: Path) -> None:
    """Two sentences and six figures; with --all every figure, the table of grades, the traces."""
    done = judge_eval(folder, "agree", "label:words")
    assert done.returncode == 0, done.stderr
    assert_golden("trust_agree.txt", done.stdout)
    done = judge_eval(folder, "agree", "label:words", "--all")
    assert done.returncode == 0, done.stderr
    assert_golden("trust_agree_all.txt", done.stdout)


def test_agreement_with_a_file_and_with_another_judge(folder: Path) -> None:
    """A second argument that is a file holds labels, else it is a run."""
    rows = [json.loads(line) for line in (FIXTURES / "docs_qa.jsonl").read_text().splitlines()]
    lines = [f"{row['id']} 0 {c['id']} {c['label']}" for row in rows for c in row["chunks"]]
    (folder / "human.qrels").write_text("\n".join(lines))
    by_file = json.loads(judge_eval(folder, "agree", "label:words", "human.qrels", "--json").stdout)
    by_data = json.loads(judge_eval(folder, "agree", "label:words", "--json").stdout)
    assert by_file["figures"] == by_data["figures"]
    other = json.loads(judge_eval(folder, "agree", "label:words", "label:odd", "--json").stdout)
    assert other["labels"] == "odd"
    assert abs(other["figures"]["kappa"]["value"]) < 0.3


def test_systems_are_ranked(folder: Path) -> None:
    """Rankings over several runs, by the judge and by labels."""
    done = judge_eval(folder, "agree", "label:words", "label:odd", "--systems", "--metrics", "P@5")
    assert done.returncode == 0, done.stderr
    assert "2 systems on" in done.stdout
    assert "tau_b" in done.stdout


def test_sample_label_correct(folder: Path) -> None:
    """The whole way: a blind sample, labels filled in by people, means corrected with a warning."""
    done = judge_eval(folder, "sample", "label:words", "-n", "20", "-o", "todo.csv")
    assert done.returncode == 0, done.stderr
    with (folder / "todo.csv").open(newline="", encoding="utf-8-sig") as file:
        rows = list(csv.DictReader(file))
    assert {row["label"] for row in rows} == {""}
    truth = {
        (row["id"], c["id"]): c["label"]
        for row in map(json.loads, (FIXTURES / "docs_qa.jsonl").read_text().splitlines())
        for c in row["chunks"]
    }
    with (folder / "done.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows({**r, "label": truth[r["trace_id"], r["chunk_id"]]} for r in rows)
    result = judge_eval(folder, "correct", "label:words", "--labels", "done.csv")
    assert result.returncode == 0, result.stderr
    assert "warning: only" not in result.stdout  # the interval holds from 20 labels on
    assert "And about the share of relevant chunks:" in result.stdout
    assert_golden("trust_correct.txt", result.stdout)
    document = json.loads(judge_eval(folder, "correct", "label:words", "--labels", "done.csv", "--json").stdout)
    ap = document["means"]["AP@5"]
    assert ap["interval"][0] < ap["value"] < ap["interval"][1]
    assert (ap["n_labelled"], document["rate"] is not None) == (20, True)
    again = judge_eval(folder, "sample", "label:words", "-n", "30", "--without", "done.csv", "-o", "more.csv")
    assert again.returncode == 2
    assert "17 traces of this run can be labelled" in again.stderr


@pytest.mark.slow
def test_calibrate_reads_as_it_should(tmp_path: Path) -> None:
    """Threshold, held-out figures and the map of grades, word for word."""
    data = FIXTURES / "docs_qa_graded.jsonl"
    done = judge_eval(tmp_path, "run", data, "-m", "fake/overlap", "--prompt", "support/graded", "--label", "g", "-q")
    assert done.returncode == 0, done.stderr
    result = judge_eval(tmp_path, "calibrate", "label:g")
    assert result.returncode == 0, result.stderr
    assert_golden("trust_calibrate.txt", result.stdout)


def test_a_run_without_labels_says_what_to_do(tmp_path: Path) -> None:
    """No labels in the dataset and no file: exit code 2, with advice."""
    (tmp_path / "d.jsonl").write_text(json.dumps({"query": "q", "reference": "r", "chunks": ["c"]}))
    judge_eval(tmp_path, "run", "d.jsonl", "-m", "fake/overlap", "-q")
    done = judge_eval(tmp_path, "agree", "latest")
    assert done.returncode == 2
    assert "name a file of labels" in done.stderr
