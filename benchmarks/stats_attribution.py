"""How often intervals of retrieval's and the judge's part cover the true parts (a part of `stats_calibration`)."""

from __future__ import annotations

import csv
import gzip
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.lines import Line
from judge_eval.compare.attribution import attributions
from judge_eval.compare.changes import Moved
from judge_eval.compare.pairing import pair_traces
from judge_eval.compare.record import Attribution, Difference
from judge_eval.metrics import GradeTable, parse_metric
from judge_eval.runs.columns.packed import Columns
from judge_eval.runs.scoring.aggregate import FilledColumn
from judge_eval.schema import BINARY

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

DEPTH = 10
FLIPS = {"no flips": (0, 0), "1% one way": (0, 0.01), "2% one way": (0, 0.02), "5% one way": (0, 0.05),
         "10% one way": (0, 0.1), "2% both ways": (0.02, 0.02), "10% both ways": (0.1, 0.1)}  # fmt: skip
"""Chances that judge B calls an irrelevant chunk relevant, and a relevant one irrelevant."""
PAIRS = (
    ("TREMA-4prompts", "willia-umbrela1"),
    ("NISTRetrieval-instruct0", "Olz-gpt4o"),
    ("h2oloo-fewself", "NISTRetrieval-reason0"),
    ("TREMA-sumdecompose", "Olz-multiprompt"),
    ("prophet-setting2", "willia-umbrela2"),
    ("TREMA-rubric0", "RMITIR-GPT4o"),
)
"""Judges of `llmjudge` that disagree on 4% to 32% of the passages."""


@dataclass(frozen=True)
class TwoRuns:
    """Lists of two retrievers over the same traces: which chunks, and what both judges say of each."""

    lists: tuple[Ints, Ints]
    """Numbers of chunks, shape (traces, depth); the same number in both is the same chunk."""
    verdicts: tuple[Ints, Ints]
    """By judge, of every chunk of each trace: shape (traces, chunks)."""

    def grades(self, retriever: int, judge: int) -> Ints:
        """Return the grades of a retriever's lists by a judge, shape (traces, depth)."""
        return np.take_along_axis(self.verdicts[judge], self.lists[retriever], axis=1)


def draw(rng: np.random.Generator, traces: int, overlap: float, flips: tuple[float, float]) -> TwoRuns:
    """Draw lists whose chunks are shared with a chance, by judges that disagree with fixed chances."""
    chance = rng.beta(1.2, 2.0, (traces, 1)) * np.linspace(1.1, 0.6, DEPTH)
    chances = np.concatenate([chance, np.clip(chance - 0.05, 0, 1)], axis=1)
    first = (rng.random(chances.shape) < chances).astype(np.int64)
    up, down = flips
    flipped = rng.random(chances.shape) < np.where(first == 1, down, up)
    places = np.tile(np.arange(DEPTH), (traces, 1))
    other = np.where(rng.random(places.shape) < overlap, places, places + DEPTH)
    order = np.argsort(np.arange(DEPTH) + rng.normal(0, 1.0, places.shape), axis=1)
    return TwoRuns((places, np.take_along_axis(other, order, axis=1)), (first, np.where(flipped, 1 - first, first)))


def columns_of_lists(lists: Ints, grades: Ints, metric: str) -> Columns:
    """Make the columns of a run, scored by one metric."""
    n, depth = lists.shape
    numbers, none = np.arange(n, dtype=np.uint64), np.zeros(0, dtype=np.uint64)
    flat = grades.reshape(-1).astype(np.int8)
    starts = np.arange(n + 1) * depth
    scores = parse_metric(metric).compute(GradeTable(flat, starts, maximum=1))
    passages = (numbers[:, None] * np.uint64(10_000) + lists.astype(np.uint64)).reshape(-1)
    return Columns(
        metrics=(metric,), ids=np.column_stack([numbers, numbers]), questions=numbers, clusters=np.zeros(n, np.uint64),
        scores=scores[:, None], starts=starts, chunk_ids=none, passages=passages, grades=flat,
        labels=np.full(len(flat), -1, dtype=np.int8), probabilities=np.zeros(0),
    )  # fmt: skip


def split(runs: TwoRuns, metric: str) -> Attribution:
    """Split the difference of two runs, each judged by its own judge."""
    made = [columns_of_lists(runs.lists[k], runs.grades(k, k), metric) for k in (0, 1)]
    pairing = pair_traces(*made)
    filled = [FilledColumn(each.scores, each.scores, each.scores) for each in made]
    moved = Moved(pairing, np.zeros(len(pairing), dtype=np.int8), None, (0,), filled[0], filled[1])
    means = [float(each.scores.mean()) for each in made]
    difference = Difference(
        metric=metric, candidate=1, n=len(pairing), baseline_mean=means[0], candidate_mean=means[1],
        difference=means[1] - means[0], p=1.0, p_holm=1.0, wins=0, ties=0, losses=0,
    )  # fmt: skip
    (result,) = attributions(moved, (), (BINARY, BINARY), "a to b", [difference])
    return result


def true_parts(runs: TwoRuns, metric: str) -> tuple[float, float]:
    """Return retrieval's and the judge's part of the difference with all verdicts of both judges known."""
    means = [
        [float(columns_of_lists(runs.lists[r], runs.grades(r, j), metric).scores.mean()) for j in (0, 1)]
        for r in (0, 1)
    ]
    retrieval = (means[1][0] - means[0][0] + means[1][1] - means[0][1]) / 2
    return retrieval, means[1][1] - means[0][0] - retrieval


def parts_coverage(
    simulations: int,
    seed: int = 71,
    flips: str = "2% one way",
    overlaps: tuple[float, ...] = (0.5, 0.8, 1.0),
    sizes: tuple[int, ...] = (30, 100, 300),
) -> list[Line]:
    """Seeded flips: how often do the intervals cover the true parts?"""
    rng = np.random.default_rng(seed)
    lines = []
    for overlap in overlaps:
        truth = true_parts(draw(rng, 200_000, overlap, FLIPS[flips]), "AP@5")
        for n in sizes:
            made = [split(draw(rng, n, overlap, FLIPS[flips]), "AP@5") for _ in range(simulations)]
            lines += _lines(f"{overlap:.0%} shared, n={n}, {flips}", made, truth, 0.92)
    return lines


def _lines(label: str, made: list[Attribution], truth: tuple[float, float], bar: float) -> list[Line]:
    lines = []
    for part, true in (("retrieval", truth[0]), ("judge", truth[1])):
        values = [getattr(each, part) for each in made]
        inside = [p.interval is not None and p.interval[0] - 1e-9 <= true <= p.interval[1] + 1e-9 for p in values]
        lines.append(Line(f"{part}, {label}", float(np.mean(inside)), len(made), bar, 1.0))
        bias = float(np.mean([p.value for p in values])) - true
        lines.append(Line(f"bias of {part}, {label}", bias, len(made), -0.02, 0.02))
    return lines


def real_parts_coverage(
    simulations: int,
    seed: int = 72,
    pairs: tuple[int, ...] = (0,),
    sizes: tuple[int, ...] = (30, 100, 300),
    noise: float = 0.6,
) -> list[Line]:
    """Pairs of real judges of the same passages: coverage and bias; nothing without the conformance data."""
    named = os.environ.get("JUDGE_EVAL_CONFORMANCE_DATA")
    folder = (Path(named) if named else Path(__file__).parents[2] / "shared" / "data") / "llmjudge"
    if not folder.is_dir():
        return []
    with gzip.open(folder / "labels_wide.tsv.gz", "rt", encoding="utf-8") as file:
        head, *rows = csv.reader(file, delimiter="\t")
    queries = np.unique([row[0] for row in rows], return_inverse=True)[1]
    grades = np.array([row[2:] for row in rows], dtype=np.int64)
    by_name = {name: grades[:, k] for k, name in enumerate(head[2:])}
    rng = np.random.default_rng(seed)
    lines = []
    for first, second in (PAIRS[k] for k in pairs):
        verdicts = [(by_name[name] >= 2).astype(np.int64) for name in (first, second)]
        apart = float((verdicts[0] != verdicts[1]).mean())
        big = _real(rng, 20_000, queries, grades[:, 0], verdicts, noise)
        shared = np.mean([np.isin(a, b).mean() for a, b in zip(big.lists[0][:500], big.lists[1][:500], strict=True)])
        truth = true_parts(big, "AP@5")
        for n in sizes:
            made = [split(_real(rng, n, queries, grades[:, 0], verdicts, noise), "AP@5") for _ in range(simulations)]
            lines += _lines(f"{first} to {second} ({apart:.0%} apart), {shared:.0%} shared, n={n}", made, truth, 0.91)
    return lines


def _real(
    rng: np.random.Generator, traces: int, queries: Ints, human: Ints, verdicts: list[Ints], noise: float
) -> TwoRuns:
    """Draw traces of a query and 40 of its passages; both retrievers rank by the human grade and their own noise."""
    by_query = [np.flatnonzero(queries == q) for q in range(int(queries.max()) + 1)]
    picked = np.stack([rng.choice(by_query[q], 40, replace=False) for q in rng.integers(len(by_query), size=traces)])
    common = human[picked] + rng.normal(0, 1.0, picked.shape)
    ranks = [np.argsort(-(common + rng.normal(0, noise, picked.shape)), axis=1)[:, :DEPTH] for _ in range(2)]
    return TwoRuns((ranks[0], ranks[1]), (verdicts[0][picked], verdicts[1][picked]))
