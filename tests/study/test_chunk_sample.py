"""Single chunks drawn for labels: their chances, the file, and the estimate that follows."""

from __future__ import annotations

import csv
import io
import json
from itertools import pairwise, permutations
from pathlib import Path

import numpy as np
import pytest

from judge_eval import EvalRun
from judge_eval.data.labels import Labels
from judge_eval.errors import DataError, RefusedError
from judge_eval.runs.folder.labels import Label, add_label
from judge_eval.stats.chunk_correction import ChunkLabels, chunk_mean
from judge_eval.stats.sampling import unequal_sample
from judge_eval.study.correct import correct
from judge_eval.study.matching import labels_of
from judge_eval.study.sample import blind_csv, blind_jsonl, choose_chunks
from tests.support.command import Shell
from tests.support.notes import note_sentences
from tests.support.verdicts import judged, traces_of

NAMES = [f"t{k:03d}" for k in range(120)]
RNG = np.random.default_rng(17)
TRUTH = {(n, c): int(RNG.random() < 0.4) for n in NAMES for c in "abcde"}
JUDGE = {key: int(g if RNG.random() < 0.85 else 1 - g) for key, g in TRUTH.items()}


@pytest.fixture(scope="module")
def run() -> EvalRun:
    """A run of a judge that is wrong in 15%."""
    return judged(traces_of(dict.fromkeys(NAMES, "abcde")), JUDGE, metrics=["P@5", "AP@5", "RR@5"])


@pytest.mark.slow
@pytest.mark.parametrize("shares", [[1, 1, 1, 1, 1, 1], [5, 1, 1, 2, 0.5, 9], [1, 2, 3, 1, 1, 2]])
def test_chances_are_exact_and_the_estimate_is_unbiased(monkeypatch: pytest.MonkeyPatch, shares: list[float]) -> None:
    """Over all samples that can be drawn each chance is the stated one, and the mean estimate is the truth.

    All samples: every order of the list, and every start between two of the points where the choice changes.
    """
    label, guess = np.array([1.0, 0, 1, 1, 0, 0]), np.array([0.9, 0.1, 0.2, 0.7, 0.6, 0.3])
    trace = np.repeat(np.arange(3), 2)
    base = np.bincount(trace, weights=guess / 2)
    wanted = np.array(unequal_sample(shares, 3).probabilities)
    assert wanted.sum() == pytest.approx(3)
    often, mean, weight = np.zeros(6), 0.0, 0.0

    class Start:
        def permutation(self, _: int) -> np.ndarray:
            return np.array(order)

        def random(self) -> float:
            return float(start)

    monkeypatch.setattr("judge_eval.stats.sampling.np.random.default_rng", lambda _: Start())
    for order in permutations(range(6)):
        edges = np.unique(np.round([0, 1, *(np.cumsum(wanted[list(order)]) % 1)], 12))
        for low, high in pairwise(edges):
            start, share = (low + high) / 2, high - low
            picked = np.array(unequal_sample(shares, 3).chosen)
            assert len(set(picked)) == 3
            often[picked] += share
            terms = 0.5 * (label - guess)[picked] / wanted[picked]
            made = float((base + np.bincount(trace[picked], weights=terms, minlength=3)).mean())
            if np.unique(trace[picked]).size == 3:
                effect = np.full(3, 0.5)
                labels = ChunkLabels(trace[picked], effect, label[picked], guess[picked], 1 / wanted[picked])
                assert chunk_mean(base, labels).value == pytest.approx(made)
            mean, weight = mean + share * made, weight + share
    assert often / weight == pytest.approx(wanted)
    assert mean / weight == pytest.approx(label.mean())


def test_a_directed_choice_prefers_what_moves_the_metric(run: EvalRun) -> None:
    """Every chunk keeps a fifth of an equal chance; the first ranks move RR most."""
    equal = choose_chunks(run, 100, seed=1)
    assert {chance for pick in equal for chance in (pick.chunks or {}).values()} == {100 / 600}
    directed = choose_chunks(run, 100, metric="RR@5", seed=1)
    chances = {(p.result.trace_id, c): x for p in directed for c, x in (p.chunks or {}).items()}
    assert len(chances) == 100
    assert min(chances.values()) >= 0.2 * 100 / 600
    means = [np.mean([x for (_, c), x in chances.items() if c == chunk]) for chunk in "ae"]
    assert means[0] > 2 * means[1]
    for metric in ("P@5", "HitRate@5", "NDCG@5"):
        with pytest.raises(DataError, match="can be directed at AP or RR"):
            choose_chunks(run, 10, metric=metric)
    with pytest.raises(DataError, match="601 chunks were requested; 600 chunks"):
        choose_chunks(run, 601)


@pytest.mark.parametrize("metric", [None, "AP@5"])
@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_the_file_goes_through_labelling_to_the_mean(
    tmp_path: Path, run: EvalRun, metric: str | None, form: str
) -> None:
    """The filled file is read with its chances as it is, and the interval holds the truth."""
    picked = choose_chunks(run, 300, metric=metric, seed=4)
    path = tmp_path / f"labels.{form}"
    if form == "csv":
        rows = list(csv.DictReader(io.StringIO(blind_csv(picked))))
        for row in rows:
            row["label"] = str(TRUTH[row["trace_id"], row["chunk_id"]])
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
    else:
        lines = [json.loads(line) for line in blind_jsonl(picked, run).splitlines()]
        for line in lines:
            assert "probability" not in line["metadata"]["sample"]
            for chunk in line["chunks"]:
                assert chunk.keys() == {"id", "text", "chunk_probability", "label"}
                chunk["label"] = TRUTH[line["id"], chunk["id"]]
        path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    labels = labels_of(run, path)
    assert len(labels) == len(labels.chunk_chances) == 300
    assert labels.chances == {}
    result = correct(run, labels)
    truth = np.mean(list(TRUTH.values()))
    mean = result.means["P@5"]
    assert mean.chunks == 300
    assert mean.interval is not None
    assert mean.interval[0] <= truth <= mean.interval[1]
    assert set(result.means) == {"P@5", "AP@5", "RR@5"}


def test_failed_verdicts_can_be_drawn_and_ranks_that_cannot_are_refused() -> None:
    """Chunks are drawn down to the deepest cutoff; a metric that reads further is refused, not biased."""
    table = {key: RefusedError("no") if key[1] == "a" else value for key, value in JUDGE.items()}
    made = judged(traces_of(dict.fromkeys(NAMES, "abcde")), table, metrics=["P@2"])
    picked = choose_chunks(made, 240)
    assert {c for pick in picked for c in pick.chunks or ()} == {"a", "b"}
    chances = {(p.result.trace_id, c): x for p in picked for c, x in (p.chunks or {}).items()}
    labels = Labels({key: TRUTH[key] for key in chances}, chunk_chances=chances, sources=("people",))
    truth = np.mean([TRUTH[n, c] for n in NAMES for c in "ab"])
    assert correct(made, labels, ["P@2"]).means["P@2"].value == pytest.approx(truth)
    with pytest.raises(DataError, match="no chunk at rank 3 is labelled"):
        correct(made, labels, ["P@3"])


@pytest.mark.slow
def test_labels_given_on_the_page_take_the_chances_of_the_file(tmp_path: Path) -> None:
    """The command writes the file, people label on the run's page, and `correct` puts both together."""
    shell = Shell(tmp_path)
    (tmp_path / "data.jsonl").write_text(
        "".join(
            json.dumps({"id": f"q{n}", "query": "oak", "reference": "oak", "chunks": ["oak", "elm", "oak elm", "ash"]})
            + "\n"
            for n in range(30)
        )
    )
    done = shell("run", "data.jsonl", "--model", "fake/overlap", "--metrics", "P@4,AP@4")
    assert done.code == 0, done.err
    drawn = shell("sample", "latest", "--chunks", "-n", "60", "--metric", "AP@4", "-o", "to_label.jsonl")
    assert drawn.code == 0, drawn.err
    assert "with 60 chunks to label" in drawn.err
    assert "correct" in drawn.err
    folder = next((tmp_path / "runs").glob("*/manifest.json")).parent
    empty = shell("correct", "latest", "--labels", "to_label.jsonl")
    assert empty.code == 2
    lines = [json.loads(line) for line in (tmp_path / "to_label.jsonl").read_text().splitlines()]
    for line in lines:
        for chunk in line["chunks"]:
            add_label(folder, Label(trace_id=line["id"], chunk_id=chunk["id"], label="oak" in chunk["text"]))
    result = shell("correct", "latest", "--labels", "to_label.jsonl", "--json")
    assert result.code == 0, result.err
    means = json.loads(result.out)["means"]
    assert means["P@4"]["chunks"] == means["AP@4"]["chunks"] == 60
    assert means["P@4"]["value"] == pytest.approx(0.5, abs=0.1)
    for wrong in (("--by", "grade", "--chunks"), ("--metric", "AP@4")):
        assert shell("sample", "latest", *wrong).code == 2


@pytest.mark.slow
def test_chunks_stand_in_a_random_order_and_a_part_of_them_corrects_too(run: EvalRun) -> None:
    """Traces of a sample are shuffled; labels of the first half correct without bias, and a note counts the rest."""
    picks = choose_chunks(run, 150, seed=3)
    names = [pick.result.trace_id for pick in picks]
    assert names != sorted(names)
    values = []
    for seed in range(30):
        picks, labels = choose_chunks(run, 150, seed=seed), Labels(sources=("half",))
        for place, pick in enumerate(picks):
            for chunk in pick.to_label(seed):
                key = pick.result.trace_id, chunk.id
                labels.chunk_chances[key] = pick.chance(chunk)
                if place < len(picks) / 2:
                    labels.grades[key] = TRUTH[key]
        corrected = correct(run, labels, ["P@5"])
        assert any("of 150 chunks of the sample have no label" in note for note in note_sentences(corrected.notes))
        values.append(corrected.means["P@5"].value)
    assert np.mean(values) == pytest.approx(np.mean(list(TRUTH.values())), abs=0.012)


def test_labels_directed_by_the_judge_are_worth_no_number_without_it(run: EvalRun) -> None:
    """How many labels without a judge they are worth is said of an equal choice alone: a directed one needs a judge."""
    worth = []
    for metric in (None, "AP@5"):
        labels = Labels(sources=("people",))
        for pick in choose_chunks(run, 150, metric=metric, seed=1):
            for chunk in pick.to_label(1):
                key = pick.result.trace_id, chunk.id
                labels.chunk_chances[key], labels.grades[key] = pick.chance(chunk), TRUTH[key]
        mean = correct(run, labels, ["AP@5"]).means["AP@5"]
        assert mean.interval is not None
        worth.append(mean.effective_n)
    assert worth[0] is not None
    assert worth[1] is None
