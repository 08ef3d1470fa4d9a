"""One document in five cuts, with gold spans: what was measured elsewhere."""

from __future__ import annotations

import json
import re
from itertools import combinations
from pathlib import Path

import pytest

from judge_eval import Trace, import_verdicts
from judge_eval.compare.changes import pair_traces
from judge_eval.compare.compare import compare
from judge_eval.runs.columns.cuts import cuts_between
from judge_eval.runs.columns.verdict_table import verdict_table
from tests.support.cuts import cut_runs

CUTS = ("fixed200", "fixed400", "fixed800", "sentences", "overlap400")


@pytest.mark.slow
def test_each_cut_alone_has_the_expected_recall(conformance_data: Path) -> None:
    """AP@5, ClaimRecall@5 and ClaimRecall within 300, 700 and 1,000 words, of 76 questions."""
    names = ["AP@5", "ClaimRecall@5", *(f"ClaimRecall@{b}w" for b in (300, 700, 1000))]
    runs, expected = cut_runs(conformance_data / "chunking", *CUTS, metrics=names)
    for run in runs:
        wanted = expected["runs"][run.label]
        values = [wanted["AP@5"], wanted["ClaimRecall@5"], *wanted["ClaimRecall alone"].values()]
        assert [run[name] for name in names] == pytest.approx(values, abs=1e-6), run.label


@pytest.mark.slow
def test_pairs_of_cuts_have_the_expected_differences(conformance_data: Path) -> None:
    """With the evidence of both: means, differences, errors, common budget and share of recut chunks."""
    runs, expected = cut_runs(conformance_data / "chunking", *CUTS)
    by_label = {run.label: run for run in runs}
    for pair, wanted in expected["pairs"].items():
        before, after = (by_label[name] for name in pair.split(" > "))
        result = compare(before, after, metrics=[*(f"ClaimRecall@{b}w" for b in (300, 700, 1000)), "AP@5"])
        for budget in (300, 700, 1000):
            d = result[f"ClaimRecall@{budget}w"]
            values = [d.baseline_mean, d.candidate_mean, d.difference, d.standard_error]
            assert values == pytest.approx(wanted[str(budget)], abs=1e-5), (pair, budget)
        (cuts,) = result.cuts
        assert (cuts.budget, cuts.differ, cuts.recut, cuts.same) == (
            wanted["common budget"], wanted["differ"], wanted["cuts"]["recut"], wanted["cuts"]["same"],
        )  # fmt: skip
        assert cuts.median_words == tuple(wanted["cuts"]["words"])
        repeated = [expected["runs"][run.label]["repeated"] for run in (before, after)]
        assert cuts.repeated == pytest.approx(repeated, abs=1e-6)


@pytest.mark.slow
def test_five_cuts_are_ordered_as_their_gold_spans_order_them(conformance_data: Path) -> None:
    """Each shown difference of two of them has the sign of the gold words that a reader gets; AP@5 has not.

    The truth is read from the document by offsets: the share of the words of a question's spans within so many words.
    """
    folder = conformance_data / "chunking"
    runs, _ = cut_runs(folder, *CUTS, metrics=["AP@5"])
    truths = {f"ClaimRecall@{budget}w": gold_words_read(folder, budget) for budget in (300, 700, 1000)}
    shown = 0
    for before, after in combinations(runs, 2):
        for d in compare(before, after, metrics=[*truths]).differences:
            if d.clear:
                shown += 1
                truth = truths[d.metric]
                assert (d.difference > 0) == (truth[after.label] > truth[before.label]), (before.label, after.label)
    assert shown >= 10
    by_chunks, truth = {run.label: run["AP@5"] for run in runs}, truths["ClaimRecall@300w"]
    assert (
        max(by_chunks, key=lambda name: by_chunks[name] or 0) == min(truth, key=lambda name: truth[name]) == "fixed800"
    )


def gold_words_read(folder: Path, budget: int) -> dict[str | None, float]:
    """The mean share of the gold words of a question that a list shows within so many words, by cut."""
    document = (folder / "document.txt").read_text(encoding="utf-8")
    questions = json.loads((folder / "questions.json").read_text())
    means: dict[str | None, float] = {}
    for name, cut in json.loads((folder / "cuts.json").read_text()).items():
        shares = []
        for question, row in zip(questions, cut["lists"], strict=True):
            wanted = {at for span in question["gold"] for at in word_starts(document, *span)}
            read = [at for place in row for at in word_starts(document, *cut["cuts"][place])][:budget]
            shares.append(len(wanted & {*read}) / len(wanted))
        means[name] = sum(shares) / len(shares)
    return means


def word_starts(document: str, start: int, end: int) -> list[int]:
    """Where the words of a stretch begin."""
    return [start + word.start() for word in re.finditer(r"\w+", document[start:end])]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["hotpotqa/distractor.jsonl", "clapnq/answerable.jsonl"])
def test_one_cut_under_other_rankings_raises_no_alarm(conformance_data: Path, name: str) -> None:
    """Lists of the same passages in three rankings, cut at 3 or 5: the lengths differ, the cut does not."""
    rows = [json.loads(line) for line in (conformance_data / name).read_text(encoding="utf-8").splitlines()]
    shares = []
    for depth in (3, 5):
        tables = []
        for order in (lambda c: 0, lambda c: len(c["text"]), lambda c: c["text"][::-1]):
            traces = []
            for row in rows:
                chunks = sorted(row["chunks"], key=order)[:depth]
                traces.append(Trace.parse({"query": row["query"], "reference": "r", "id": row["id"], "chunks": chunks}))
            run = import_verdicts({}, traces, metrics=["AP@3"])
            tables.append((run, verdict_table(run)))
        for (one, first), (other, second) in combinations(tables, 2):
            pairing = pair_traces(first, second)
            cuts = cuts_between((one, other), (first, second), pairing.a, pairing.b)
            assert not cuts.differ
            shares.append(cuts.share or 0.0)
    assert max(shares) <= 0.05
