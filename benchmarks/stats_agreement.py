"""How often intervals of agreement cover, for few traces and good judges, and means by two annotators.

Both are a part of `stats_calibration`; alone it shows what two annotators make of a corrected mean.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import tempfile
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.lines import Line
from judge_eval import Evaluator, FakeBackend, Trace
from judge_eval.stats import agreement, agreement_of
from judge_eval.study.correct import Corrected, correct
from judge_eval.study.matching import labels_of

Floats = npt.NDArray[np.float64]

PREVALENCE = 0.1
JUDGES = ((0.99, 0.99), (0.9, 0.6), (0.6, 0.95), (0.8, 0.95))
"""Sensitivity and specificity."""
VALUES = np.array([0.0, 1.0])
FIGURES = (
    *("kappa", "alpha_nominal", "ac1", "accuracy", "bias"),
    *("precision_ge1", "recall_ge1", "specificity_ge1", "auc_ge1"),
)


def drawn_tables(rng: np.random.Generator, traces: int, chunks: int, judge: tuple[float, float]) -> Floats:
    """Return the counts of (judge, label) in each trace, shape (traces, 2, 2)."""
    return rng.multinomial(chunks, cells(judge).ravel(), size=traces).reshape(-1, 2, 2).astype(np.float64)


def cells(judge: tuple[float, float]) -> Floats:
    """Return the chance of each pair of verdict and label, shape (2, 2)."""
    hit, pass_ = judge
    p = PREVALENCE
    return np.array([[(1 - p) * pass_, p * (1 - hit)], [(1 - p) * (1 - pass_), p * hit]])


def agreement_coverage(
    simulations: int,
    seed: int = 7,
    traces: tuple[int, ...] = (20, 50, 100),
    judges: tuple[tuple[float, float], ...] = JUDGES,
) -> list[Line]:
    """How often does each interval hold the truth, and how many have no width?"""
    rng = np.random.default_rng(seed)
    lines = []
    narrow = made = 0
    for judge in judges:
        many = np.stack([cells(judge) * 1e9] * 2)
        exact = agreement_of(many, VALUES, replicates=100)
        truth = {name: exact[name].value or 0.0 for name in FIGURES}
        for chunks in (1, 5):
            for n in traces:
                covered = dict.fromkeys(FIGURES, 0)
                defined = dict.fromkeys(FIGURES, 0)
                for k in range(simulations):
                    result = agreement_of(drawn_tables(rng, n, chunks, judge), VALUES, replicates=500, seed=k)
                    for name in FIGURES:
                        interval = result[name].interval
                        if interval is not None:
                            defined[name] += 1
                            covered[name] += interval.low - 1e-9 <= truth[name] <= interval.high + 1e-9
                            narrow += interval.high - interval.low < 1e-9
                made += sum(defined.values())
                where = f"{judge[0]:g}/{judge[1]:g}, {chunks} chunks, {n} traces"
                lines += [
                    Line(f"{name}, {where}", covered[name] / defined[name], defined[name], 0.93, 1.0)
                    for name in FIGURES
                ]
    return [*lines, Line("intervals of agreement without width", narrow / made, made, 0.0, 0.0)]


SHARES = {
    "accuracy": agreement.ACCURACY,
    "precision": agreement.PRECISION,
    "recall": agreement.RECALL,
    "specificity": agreement.SPECIFICITY,
}


def share_coverage(
    simulations: int, seed: int = 7, judges: tuple[tuple[float, float], ...] = JUDGES, sizes: tuple[int, ...] = (1, 5)
) -> list[Line]:
    """How often do the intervals of shares hold the truth? They resample nothing, so more draws are cheap."""
    lines = []
    for judge, chunks, n in itertools.product(judges, sizes, (20, 50, 100)):
        rng = np.random.default_rng((seed, n, chunks, int(judge[0] * 100)))
        for name, share in SHARES.items():
            truth, covered, defined = float(share(cells(judge) * 1e6)), 0, 0
            for _ in range(simulations):
                tables = drawn_tables(rng, n, chunks, judge)
                if np.isfinite(share(tables.sum(axis=0))):
                    low, high = share.bounds(tables, 0.95)
                    covered, defined = covered + (low - 1e-9 <= truth <= high + 1e-9), defined + 1
            where = f"{judge[0]:g}/{judge[1]:g}, {chunks} chunks, {n} traces"
            lines.append(Line(f"coverage, {name}, {where}", covered / defined, defined, 0.93, 1.0))
    return lines


def corrected_by(seed: int, split: float, people: tuple[int, ...], apart: float = 0.8) -> tuple[Corrected, float]:
    """Correct AP@5 of a graded judge by two annotators of 60 of 200 traces; return also the mean of all true labels.

    Args:
        seed: Of the data.
        split: How often the second finds a chunk irrelevant that is only just relevant to the first.
        people: Who labels: 0 and 1, or one of them.
        apart: How often the second gives a 2 where the first gives a 3.
    """
    rng = np.random.default_rng(seed)
    truth = rng.choice(4, size=(200, 5), p=(0.45, 0.25, 0.15, 0.15))
    said = np.where(rng.random(truth.shape) < 0.8, truth, rng.choice(4, size=truth.shape))
    lower = (rng.random(truth.shape) < apart) & (truth == 3)
    no = (rng.random(truth.shape) < split) & (truth == 2)
    each = (truth, truth - (lower | no))
    traces = [
        Trace.parse(
            {
                "id": f"t{row}",
                "query": f"question {row}",
                "reference": f"answer {row}",
                "chunks": [{"id": f"c{k}", "text": f"text {row} {k}"} for k in range(5)],
            }
        )
        for row in range(200)
    ]
    table = {(f"t{row}", f"c{k}"): int(said[row, k]) for row in range(200) for k in range(5)}
    how = {"prompt": "support/graded", "metrics": ["AP@5"], "cache": False}
    with Evaluator(FakeBackend.table(table), **how) as evaluator:
        run = evaluator.evaluate(traces)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "labels.csv"
        with path.open("w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["trace_id", "chunk_id", "label", "by"])
            for person, row, k in itertools.product(people, range(60), range(5)):
                rows.writerow([f"t{row}", f"c{k}", int(each[person][row, k]), f"person {person}"])
        mean = correct(run, labels_of(run, path), ["AP@5"]).means["AP@5"]
    relevant = np.mean([grades >= 2 for grades in each], axis=0)
    values = [_expected_ap(row) for row in relevant]
    return mean, float(np.mean(values))


def _expected_ap(chances: Floats) -> float:
    """Return the mean AP over every outcome of chunks that are relevant by chance, 0, .5 or 1."""
    total = 0.0
    for sides in itertools.product(*[{0, 1} if p == 0.5 else {int(p)} for p in chances]):
        hits = np.array(sides)
        total += (hits * hits.cumsum() / np.arange(1, 6)).sum() / max(1, hits.sum())
    return total / 2 ** int((chances == 0.5).sum())


def annotated_means(simulations: int, seed: int = 7, splits: tuple[float, ...] = (0.0, 0.3, 1.0)) -> list[Line]:
    """How often does the interval hold the mean by two annotators, whose grades differ in part?"""
    lines = []
    for split in splits:
        held = sum(
            mean.interval is not None and mean.interval.low <= truth <= mean.interval.high
            for mean, truth in (corrected_by(seed + k, split, (0, 1)) for k in range(simulations))
        )
        where = f"two annotators, split on {split:.0%} of the grades 2"
        lines.append(Line(f"coverage, corrected AP@5, {where}", held / simulations, simulations, 0.93, 1.0))
    return lines


def main() -> None:
    """Print what two annotators make of one corrected mean, and how often its interval holds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--simulations", type=int, default=200)
    args = parser.parse_args()
    for split in (0.0, 1.0):
        for who, people in {"first person": (0,), "second person": (1,), "both": (0, 1)}.items():
            mean, truth = corrected_by(7, split, people)
            print(f"AP@5, split on {split:.0%}: {who:<14} {mean.value:.4f} {mean.interval}  (all labels {truth:.4f})")
    for line in annotated_means(args.simulations):
        print(line, flush=True)


if __name__ == "__main__":
    main()
