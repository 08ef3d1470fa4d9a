from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest

from judge_eval import EvalRun
from judge_eval.data.labels import Labels, read_labels
from judge_eval.errors import DataError, RefusedError
from judge_eval.stats import ppi_mean
from judge_eval.study.correct import correct
from judge_eval.study.sample import blind_csv, blind_jsonl, choose_traces
from judge_eval.study.systems import rank_systems
from judge_eval.views.note_sentences import note_sentence
from tests.support.notes import note_sentences
from tests.support.verdicts import judged, traces_of

NAMES = [f"t{k:03d}" for k in range(120)]
TEXTS = dict.fromkeys(NAMES, "abcde")


def truth_and_judge(seed: int) -> tuple[dict[tuple[str, str], int], dict[tuple[str, str], int]]:
    """Draw labels, and a judge that calls one irrelevant chunk in three relevant."""
    rng = np.random.default_rng(seed)
    truth = {(n, c): int(rng.random() < 0.35) for n in NAMES for c in "abcde"}
    return truth, {key: int(g or rng.random() < 0.33) for key, g in truth.items()}


TRUTH, JUDGE = truth_and_judge(0)


@pytest.fixture(scope="module")
def run() -> EvalRun:
    """A run of a lenient judge."""
    return judged(traces_of(TEXTS), JUDGE, metrics=["P@5", "AP@5"])


def filled(rows: str) -> str:
    """Fill in a blind JSON Lines file with the truth."""
    out = []
    for line in rows.splitlines():
        row = json.loads(line)
        for chunk in row["chunks"]:
            chunk["label"] = TRUTH[row["id"], chunk["id"]]
        out.append(json.dumps(row))
    return "\n".join(out)


def test_any_metric_is_corrected_by_ppi(run: EvalRun, tmp_path: Path) -> None:
    """The corrected mean is PPI++ on per-trace values, and repairs what the judge alone gets wrong."""
    chosen = choose_traces(run, 60, seed=3)
    (tmp_path / "l.jsonl").write_text(filled(blind_jsonl(chosen, run)))
    result = correct(run, read_labels(tmp_path / "l.jsonl"))
    names = [item.result.trace_id for item in chosen]
    human = [np.mean([TRUTH[n, c] for c in "abcde"]) for n in names]
    scores = {r.trace_id: r.scores["P@5"] or 0.0 for r in run.results}
    others = [s for n, s in scores.items() if n not in names]
    expected = ppi_mean(human, [scores[n] for n in names], others, limits=(0.0, 1.0))
    p = result.means["P@5"]
    assert p.value == pytest.approx(expected.value)
    assert p.interval == pytest.approx((expected.interval.low, expected.interval.high))
    real = np.mean(list(TRUTH.values()))
    assert p.interval[0] <= real <= p.interval[1]
    assert p.judge_only > p.interval[1]
    assert (p.n_labelled, p.n_unlabelled, len(p.warnings)) == (60, 60, 0)
    assert result.means["AP@5"].metric == "AP@5"
    assert result.rate is not None
    assert result.rate.sensitivity == 1.0


def test_few_labels_are_warned_of(run: EvalRun) -> None:
    """Under 20 labelled traces the correction says so."""
    some = Labels({key: grade for key, grade in TRUTH.items() if key[0] < "t012"})
    assert "only 12 labelled traces" in note_sentence(correct(run, some).means["P@5"].warnings[0])


def test_a_stratified_sample_is_weighted(run: EvalRun, tmp_path: Path) -> None:
    """Unequal chances stand in the exported file, and the correction weights by them."""
    graded = judged(traces_of(TEXTS), {k: g for k, g in JUDGE.items() if k[0] > "t100"}, metrics=["P@5"])
    chosen = choose_traces(graded, 60, by="grade", seed=1)
    assert len({item.probability for item in chosen}) == 2
    (tmp_path / "l.jsonl").write_text(filled(blind_jsonl(chosen, graded)))
    labels = read_labels(tmp_path / "l.jsonl")
    result = correct(graded, labels)
    assert result.means["P@5"].method == "PPI++ weighted gaffke"
    weights = [1 / labels.chances[item.result.trace_id] for item in chosen]
    values = [np.mean([TRUTH[item.result.trace_id, c] for c in "abcde"]) for item in chosen]
    assert result.means["P@5"].labels_only == pytest.approx(np.average(values, weights=weights))
    assert result.rate is None


@pytest.mark.parametrize("write", ["jsonl", "csv"])
def test_the_export_is_blind(run: EvalRun, write: str) -> None:
    """No verdict, reason, score or rank is in the file, every chunk is once, and labels are empty."""
    chosen = choose_traces(run, 10, seed=2)
    text = blind_csv(chosen) if write == "csv" else blind_jsonl(chosen, run)
    assert not any(word in text for word in ("verdict", "grade", "reason", "evidence", "score", "From the"))
    if write == "csv":
        rows = list(csv.DictReader(io.StringIO(text)))
        assert {row["label"] for row in rows} == {""}
        order = [row["chunk_id"] for row in rows]
    else:
        chunks = [chunk for line in text.splitlines() for chunk in json.loads(line)["chunks"]]
        assert {chunk["label"] for chunk in chunks} == {None}
        order = [chunk["id"] for chunk in chunks]
    assert sorted(order) == sorted("abcde" * 10)
    assert order != list("abcde" * 10)


def test_csv_comes_back_as_it_went(run: EvalRun, tmp_path: Path) -> None:
    """A CSV whose labels were filled in is read with its chances."""
    chosen = choose_traces(run, 5)
    rows = list(csv.DictReader(io.StringIO(blind_csv(chosen))))
    with (tmp_path / "l.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows({**row, "label": TRUTH[row["trace_id"], row["chunk_id"]]} for row in rows)
    labels = read_labels(tmp_path / "l.csv")
    assert len(labels) == 25
    assert set(labels.chances.values()) == {5 / 120}


def test_choosing_is_seeded_and_passes_over_what_cannot_be_used() -> None:
    """Equal seeds choose equally; labelled traces and those with failed verdicts are not chosen."""
    made = judged(traces_of(TEXTS), {**JUDGE, ("t000", "a"): RefusedError("no")})
    ids = [[item.result.trace_id for item in choose_traces(made, 20, seed=s)] for s in (1, 1, 2)]
    assert ids[0] == ids[1] != ids[2]
    everyone = choose_traces(made, 118, without=["t001"])
    assert {"t000", "t001"}.isdisjoint(item.result.trace_id for item in everyone)
    with pytest.raises(DataError, match="118 traces of this run can be labelled"):
        choose_traces(made, 119, without=["t001"])


def test_too_few_or_too_many_labels_are_refused(run: EvalRun) -> None:
    """One labelled trace is too few, and with all labelled there is nothing to correct."""
    first = Labels({key: grade for key, grade in TRUTH.items() if key[0] == "t000"})
    for labels in (first, Labels(dict(TRUTH))):
        with pytest.raises(DataError, match="labelled in full"):
            correct(run, labels)


def test_partly_labelled_traces_are_noted() -> None:
    """NDCG takes whole traces alone, and a note says how many others there are; P uses their chunks."""
    run = judged(traces_of(TEXTS), JUDGE, metrics=["P@5", "NDCG@5"])
    some = {key: grade for key, grade in TRUTH.items() if key[0] < "t060" and key != ("t000", "a")}
    result = correct(run, Labels(some))
    assert (result.means["NDCG@5"].n_labelled, result.means["NDCG@5"].chunks) == (59, 0)
    assert (result.means["P@5"].n_labelled, result.means["P@5"].chunks) == (60, 299)
    (note,) = note_sentences(result.notes)
    assert "NDCG@5: 1 traces are only partly labelled and count as unlabelled" in note


def test_failed_verdicts_do_not_select_what_is_corrected() -> None:
    """Refusals at random leave every trace in the correction and in a ranking, by its expected value."""
    rng = np.random.default_rng(5)
    failed = {key: RefusedError("no") if rng.random() < 0.06 else grade for key, grade in JUDGE.items()}
    whole, run = (judged(traces_of(TEXTS), grades, metrics=["RR"]) for grades in (JUDGE, failed))
    labels = Labels({key: label for key, label in TRUTH.items() if key[0] < NAMES[60]})
    result, plain = (correct(each, labels).means["RR"] for each in (run, whole))
    assert (result.n_labelled, result.n_unlabelled) == (60, 60)
    assert result.judge_only == pytest.approx(plain.judge_only, abs=0.02)
    mean = run.aggregate("RR").mean
    assert result.judge_only == pytest.approx(mean)
    assert "expected one" in " ".join(note_sentences(correct(run, labels).notes))
    assert rank_systems([whole, run], labels, "RR").traces == 60
