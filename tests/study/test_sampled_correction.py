"""People's labels on a part of a run that judged a sample of its chunks."""

from __future__ import annotations

import numpy as np
import pytest

from judge_eval import EvalRun, Evaluator, FakeBackend, Trace
from judge_eval.data.labels import Labels
from judge_eval.errors import DataError
from judge_eval.pools.sampling import sample_pool, sample_report
from judge_eval.study.correct import correct

K, DEEP = 12, 24
RNG = np.random.default_rng(3)
TRUTH = {
    (f"t{n}", f"t{n}c{rank}"): int(RNG.random() < 0.6 * np.exp(-rank / 12)) for n in range(40) for rank in range(DEEP)
}
JUDGE = {chunk: bool(grade) != (RNG.random() < 0.2) for (_, chunk), grade in TRUTH.items()}
TRACES = [
    Trace(
        id=f"t{n}",
        query=f"Question {n}?",
        reference="An answer.",
        chunks=[{"id": f"t{n}c{rank}", "text": f"Text {rank} of {n}."} for rank in range(DEEP)],
    )
    for n in range(40)
]


def part(seed: int, share: float = 0.25) -> EvalRun:
    """Judge a part of the chunks, with a judge that is wrong in a fifth."""
    with Evaluator(FakeBackend.table(JUDGE), metrics=[f"P@{K}", f"DCG@{K}", f"AP@{K}"], cache=False) as evaluator:
        sample = sample_pool(TRACES, share, k=K, seed=seed)
        return evaluator.with_judge(sample.judge(evaluator.judge)).evaluate(sample.traces)


def some(seed: int) -> Labels:
    """Label 30% of all chunks, judged or not."""
    rng = np.random.default_rng(seed)
    return Labels({key: grade for key, grade in TRUTH.items() if rng.random() < 0.3}, sources=("people",))


def test_labels_correct_the_judge_and_the_sample() -> None:
    """On average over draws P is what people would say of all chunks, not what the judge says; intervals hold it."""
    truth = np.mean([[TRUTH[f"t{n}", f"t{n}c{rank}"] for rank in range(K)] for n in range(40)])
    judged = np.mean([[JUDGE[f"t{n}c{rank}"] for rank in range(K)] for n in range(40)])
    assert abs(judged - truth) > 0.03
    values, alone, held = [], [], 0
    for seed in range(12):
        run = part(seed)
        mean = correct(run, some(seed), [f"P@{K}"]).means[f"P@{K}"]
        values.append(mean.value)
        alone.append(mean.judge_only)
        report = sample_report(run)
        assert report is not None
        assert mean.judge_only == pytest.approx(report.figures[f"P@{K}"].value)
        assert mean.interval is not None
        held += mean.interval[0] <= truth <= mean.interval[1]
    error = np.std(values) / np.sqrt(len(values))
    assert abs(np.mean(values) - truth) < 3 * error
    assert abs(np.mean(alone) - judged) < 3 * np.std(alone) / np.sqrt(len(alone))
    assert held >= 10


def test_metrics_that_are_no_sums_are_refused() -> None:
    """AP of a sample is a ratio: labels of single chunks do not correct it, which is said."""
    with pytest.raises(DataError, match="correct P and DCG alone"):
        correct(part(0), some(0), [f"AP@{K}"])


@pytest.mark.parametrize(("cutoff", "share", "known"), [(K, 0.9, True), (K, 0.3, False), (3, 0.3, True)])
def test_a_sum_of_few_drawn_chunks_has_no_interval(cutoff: int, share: float, known: bool) -> None:
    """P of a question with fewer than 18 chunks drawn by chance has none, unless all that it reads was judged."""
    report = sample_report(part(0, share), cutoff)
    assert report is not None
    assert (report.figures[f"P@{cutoff}"].interval is not None) == known
    assert (report.figures[f"DCG@{cutoff}"].interval is not None) == known
