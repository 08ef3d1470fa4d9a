"""Estimates from a sample of a pool against full judging of TREC collections: bias, order of systems, coverage.

    python -m benchmarks.pool_sampling FOLDER [--draws 200] [--shares .1,.2,.3,.5] [--listed]

FOLDER holds `dl19`, `dl20` or `covid-r1`, each with runs (`*.run.gz`) and judgments (`qrels*`). The pool is all that
was judged (`--listed`: of that what one of the systems lists); the first ranks of each system are judged in full, as
`run --pool-budget` does. Kendall's tau of n systems moves in steps of 4 / (n (n - 1)): .133 for the six of dl19 and
dl20, .026 for the 13 of covid-r1. For coverage, questions are drawn with replacement, each with a sample of its own,
and the interval must hold the mean of all questions. The bars are those at 30%.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from judge_eval.data.collection import read_qrels, read_run
from judge_eval.metrics.table import trec_order
from judge_eval.stats import mean_interval
from judge_eval.stats.pool_sampling import SampledPool, draw_strata, drawn_surely
from judge_eval.stats.rank_correlation import kendall_tau_b

K = 10
METRICS = (f"P@{K}", f"Recall@{K}", "AP", f"NDCG@{K}")
LEAST = {"dl19": 2, "dl20": 2, "covid-r1": 1}
MOST_SYSTEMS = 12


class Topic(NamedTuple):
    """A question: which of its pool is relevant, the lists as places in the pool, and where each chunk stands."""

    hits: NDArray[np.int64]
    lists: list[NDArray[np.int64]]
    likely: NDArray[np.float64]
    best: NDArray[np.int64]


class Outcome(NamedTuple):
    """What the draws of one collection gave for one metric."""

    collection: str
    share: float
    metric: str
    judged: float
    bias: float
    """The largest of any system, in absolute value."""
    tau: float
    coverage: float
    half_width: float


def topics_of(folder: Path, listed: bool = False) -> list[Topic]:
    """Read a collection."""
    qrels = read_qrels(next(folder.glob("qrels*")))
    paths = sorted(folder.rglob("*.run.gz"))
    runs = [read_run(path) for path in paths[:: max(1, len(paths) // MOST_SYSTEMS)]]
    topics = []
    for topic, judged in qrels.items():
        ranked = [trec_order(run.get(topic, {})) for run in runs]
        there = {document for each in ranked for document in each} if listed else judged.keys()
        topics.append(_topic({d: g for d, g in judged.items() if d in there}, ranked, LEAST[folder.name]))
    return topics


def _topic(judged: dict[str, int], ranked: list[list[str]], least: int) -> Topic:
    at = {document: place for place, document in enumerate(judged)}
    lists = [np.array([at.get(document, -1) for document in each]) for each in ranked]
    likely, best = np.zeros(len(at)), np.full(len(at), 10**6)
    for places in lists:
        result = places >= 0
        ranks = np.flatnonzero(result) + 1
        likely[places[result]] += 1 / (60 + ranks)
        best[places[result]] = np.minimum(best[places[result]], ranks)
    return Topic(np.array([grade >= least for grade in judged.values()], dtype=np.int64), lists, likely, best)


def _estimates(topic: Topic, share: float, seed: int) -> tuple[NDArray[np.float64], int]:
    size, numbers = round(share * len(topic.hits)), np.random.default_rng(seed).random(len(topic.hits))
    drawn, strata = draw_strata(topic.likely, drawn_surely(topic.best, size, K), size, numbers)
    pool = SampledPool(np.where(drawn, topic.hits, -1), strata)
    rows = [[made[name].value for name in METRICS] for made in (pool.estimates(each, K) for each in topic.lists)]
    return np.array(rows), int(drawn.sum())


def simulate(folder: Path, share: float, draws: int, listed: bool = False) -> Iterator[Outcome]:
    """Yield what a share gives, by metric."""
    topics = topics_of(folder, listed)
    truth = np.array([_estimates(topic, 1.0, 0)[0] for topic in topics]).mean(axis=0)
    sums, taus, judged = np.zeros(truth.shape), np.zeros(len(METRICS)), 0
    held, widths = np.zeros(truth.shape), np.zeros(truth.shape)
    for draw in range(draws):
        made = [_estimates(topic, share, 1000 * draw + place) for place, topic in enumerate(topics)]
        means = np.array([rows for rows, _ in made]).mean(axis=0)
        sums += means
        judged += sum(count for _, count in made)
        taus += [kendall_tau_b(means[:, column], truth[:, column]) or 0.0 for column in range(len(METRICS))]
        picked = np.random.default_rng(draw).integers(0, len(topics), len(topics))
        again = [_estimates(topics[at], share, 10**6 + 1000 * draw + place)[0] for place, at in enumerate(picked)]
        for cell in np.ndindex(*truth.shape):
            values = np.array(again)[:, *cell]
            interval = mean_interval(values, limits=(min(0.0, values.min()), max(1.0, values.max()))).interval
            if interval is not None:
                held[cell] += truth[cell] in interval
                widths[cell] += (interval.high - interval.low) / 2
    size = sum(len(topic.hits) for topic in topics) * draws
    for column, name in enumerate(METRICS):
        bias = float(np.abs(sums[:, column] / draws - truth[:, column]).max())
        cells = (float(each[:, column].mean() / draws) for each in (held, widths))
        yield Outcome(folder.name, share, name, judged / size, bias, float(taus[column] / draws), *cells)


def main() -> None:
    """Print a row for each collection, share and metric."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--shares", default=".1,.2,.3,.5")
    parser.add_argument("--listed", action="store_true")
    options = parser.parse_args()
    print("collection  share  metric     judged   bias     tau    coverage  half width")
    for name in LEAST:
        for share in map(float, options.shares.split(",") if (options.folder / name).is_dir() else ()):
            for o in simulate(options.folder / name, share, options.draws, options.listed):
                print(
                    f"{o.collection:10}  {o.share:5.0%}  {o.metric:9}  {o.judged:6.3f}  {o.bias:.4f}  {o.tau:6.3f}  "
                    f"{o.coverage:8.3f}  {o.half_width:.4f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
