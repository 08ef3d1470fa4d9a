"""Labels of single chunks: which metrics use them, and what they are worth."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from judge_eval import EvalRun
from judge_eval.data.labels import Labels, read_labels
from judge_eval.errors import DataError, RefusedError
from judge_eval.study.correct import correct
from judge_eval.views.correction import explain_mean
from tests.support.notes import note_sentences
from tests.support.verdicts import judged, traces_of

NAMES = [f"t{k:03d}" for k in range(200)]
RNG = np.random.default_rng(7)
TRUTH = {(n, c): int(RNG.random() < 0.4) for n in NAMES for c in "abcde"}
JUDGE = {key: int(g if RNG.random() < 0.85 else 1 - g) for key, g in TRUTH.items()}
METRICS = ["P@5", "DCG@5", "AP@5", "RR@5", "HitRate@5", "NDCG@5"]


@pytest.fixture(scope="module")
def run() -> EvalRun:
    """A run of a judge that is wrong in 15%."""
    return judged(traces_of(dict.fromkeys(NAMES, "abcde")), JUDGE, metrics=METRICS)


def some(count: int, seed: int = 0) -> Labels:
    """Label so many chunks, drawn from all."""
    keys = sorted(TRUTH)
    drawn = np.random.default_rng(seed).choice(len(keys), count, replace=False)
    return Labels({keys[k]: TRUTH[keys[k]] for k in drawn}, sources=("people",))


def test_two_labels_a_trace_are_used(run: EvalRun) -> None:
    """36 labels on 18 traces are no longer "0 traces labelled in full": the metrics that can use them do."""
    rng = np.random.default_rng(1)
    picked = [(n, c) for n in rng.choice(NAMES, 18, replace=False) for c in rng.choice(list("abcde"), 2, False)]
    result = correct(run, Labels({(str(n), str(c)): TRUTH[str(n), str(c)] for n, c in picked}))
    assert set(result.means) == {"P@5", "DCG@5", "AP@5", "RR@5"}
    for mean in result.means.values():
        assert (mean.chunks, mean.n_labelled, mean.n_unlabelled) == (36, 18, 182)
        assert mean.interval is not None
        assert "of 36 chunks in 18 traces" in explain_mean(mean)[0]
    refused = [note for note in note_sentences(result.notes) if "do not help HitRate@5, label whole traces" in note]
    assert refused
    with pytest.raises(DataError, match="do not help HitRate@5, label whole traces"):
        correct(run, Labels({(str(n), str(c)): 1 for n, c in picked}), ["HitRate@5"])


def test_the_truth_is_found(run: EvalRun) -> None:
    """400 labelled chunks give an interval that holds the mean under all labels, and the judge adds to it."""
    result = correct(run, some(400))
    rows = np.array([[TRUTH[n, c] for c in "abcde"] for n in NAMES])
    hits = rows.cumsum(axis=1)
    truth = {
        "P@5": rows.mean(),
        "DCG@5": (rows / np.log2(np.arange(2, 7))).sum(axis=1).mean(),
        "AP@5": ((hits / np.arange(1, 6) * rows).sum(axis=1) / np.maximum(hits[:, -1], 1)).mean(),
        "RR@5": (rows / np.arange(1, 6)).max(axis=1).mean(),
    }
    for name, value in truth.items():
        mean = result.means[name]
        assert mean.interval is not None
        assert mean.interval[0] <= value <= mean.interval[1]
        assert abs(mean.value - value) < 0.06 * value
    assert (result.means["P@5"].effective_n or 0) > 400


def test_a_chance_for_each_chunk_is_read_and_weighted(run: EvalRun, tmp_path: Path) -> None:
    """Relevant verdicts that are labelled four times as often bias nothing, if the file says so of all."""
    rng = np.random.default_rng(3)
    chances = {key: 0.8 if JUDGE[key] else 0.2 for key in TRUTH}
    drawn = [key for key in TRUTH if rng.random() < chances[key]]
    path = tmp_path / "labels.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["trace_id", "chunk_id", "label", "chunk_probability"])
        writer.writerows([trace, chunk, TRUTH[trace, chunk], chances[trace, chunk]] for trace, chunk in drawn)
    labels = read_labels(path)
    mean = correct(run, labels, ["P@5"]).means["P@5"]
    truth = np.mean(list(TRUTH.values()))
    assert abs(mean.value - truth) < 0.03
    assert abs(mean.labels_only - truth) < 0.06
    labels.chunk_chances.popitem()
    with pytest.raises(DataError, match=f"{len(drawn) - 1} of {len(drawn)} labelled chunks have"):
        correct(run, labels, ["P@5"])


def test_a_rank_without_a_label_is_refused(run: EvalRun) -> None:
    """Of what nobody labelled nothing is known; a smaller cutoff is estimated."""
    top = Labels({key: grade for key, grade in TRUTH.items() if key[0] < "t050" and key[1] in "ab"})
    with pytest.raises(DataError, match="no chunk at rank 3 is labelled"):
        correct(run, top, ["P@5"])
    small = judged(traces_of(dict.fromkeys(NAMES, "abcde")), JUDGE, metrics=["P@2"])
    assert correct(small, top, ["P@2"]).means["P@2"].chunks == 100


def test_failed_verdicts_leave_no_trace_out() -> None:
    """A failed verdict is one more thing a judge can say: failing on relevant chunks biases nothing."""
    rng = np.random.default_rng(5)
    table = {key: RefusedError("no") if TRUTH[key] and rng.random() < 0.3 else JUDGE[key] for key in TRUTH}
    failing = judged(traces_of(dict.fromkeys(NAMES, "abcde")), table, metrics=["P@5"])
    mean = correct(failing, some(500), ["P@5"]).means["P@5"]
    assert mean.n_labelled + mean.n_unlabelled == 200
    assert abs(mean.value - np.mean(list(TRUTH.values()))) < 0.03
