"""33 LLM judges of TREC DL 2023 against NIST's labels: their biases, and the best panel of three, held out.

Run with `python -m benchmarks.llmjudge FOLDER`; the folder holds `labels_wide.tsv.gz` (LLMJudge benchmark).
"""

from __future__ import annotations

import argparse
import csv
import gzip
from itertools import combinations
from pathlib import Path

import numpy as np
import numpy.typing as npt

from judge_eval.stats import mean_interval
from judge_eval.stats.logistic import fit_logistic, sigmoid
from judge_eval.stats.probabilities import losses
from judge_eval.stats.stacking import effective_votes, stack_judges
from judge_eval.study.bias import estimate_biases

RELEVANT = 2
Floats = npt.NDArray[np.float64]


def read(folder: Path) -> tuple[list[str], Floats, Floats, npt.NDArray[np.int64]]:
    """Return the judges, whether each calls each passage relevant, the people's grades, and the query's code."""
    with gzip.open(folder / "labels_wide.tsv.gz", "rt", encoding="utf-8") as file:
        rows = list(csv.reader(file, delimiter="\t"))
    names = rows[0][3:]
    grades = np.array([[float(cell) if cell else np.nan for cell in row[2:]] for row in rows[1:]])
    votes = np.where(np.isnan(grades[:, 1:]), np.nan, grades[:, 1:] >= RELEVANT)
    return names, votes, grades[:, 0], np.unique([row[0] for row in rows[1:]], return_inverse=True)[1].astype(np.int64)


def biases(folder: Path) -> list[str]:
    """Return rows of a table: leniency, errors, and what the query and the other judges do at equal label."""
    names, votes, human, queries = read(folder)
    truth = (human >= RELEVANT).astype(float)
    share = np.bincount(queries, weights=truth) / np.bincount(queries)
    consensus = np.nanmean(votes, axis=1)
    out = []
    for place, name in enumerate(names):
        there = ~np.isnan(votes[:, place])
        vote, label, codes = votes[there, place], truth[there], queries[there]
        lenient = mean_interval(vote - label, clusters=codes.tolist(), limits=(-1.0, 1.0))
        others = (consensus * len(names) - np.nan_to_num(votes[:, place])) / (len(names) - 1)
        features = {"rich query": share[codes], "grade of the others": others[there]}
        values = {b.feature: b for b in estimate_biases(vote, human[there], features, codes)}
        cells = [f"{b.effect:+.2f} ({b.verdict})" for b in (values[name] for name in features)]
        errors = f"{vote[label > 0].mean():.2f} | {1 - vote[label < 1].mean():.2f}"
        out.append(f"| {name} | {lenient} | {errors} | {' | '.join(cells)} |")
    return out


def best_panels(folder: Path, seed: int = 0) -> list[str]:
    """Choose three judges on half of the queries; say what they, the best judge and all are worth on the other half."""
    names, votes, human, queries = read(folder)
    truth = (human >= RELEVANT).astype(float)
    p = np.where(np.isnan(votes), 0.5, np.where(votes > 0, 0.995, 0.005))
    z = np.log(p / (1 - p))
    half = np.random.default_rng(seed).permutation(int(queries.max()) + 1)[: (int(queries.max()) + 1) // 2]
    train = np.isin(queries, half)

    def fitted(members: tuple[int, ...]) -> tuple[Floats, float]:
        design = np.column_stack([np.ones(len(z)), z[:, members]])
        line = fit_logistic(design[train], truth[train], penalty=np.append(1e-9, np.ones(len(members))))
        made = sigmoid(design @ line)
        return made, float(losses(made[train], truth[train]).mean())

    out = []
    for size in (1, 3, len(names)):
        choices = combinations(range(len(names)), size)
        members = min(choices, key=lambda each: fitted(each)[1])
        made, test = fitted(members)[0], ~train
        loss = mean_interval(losses(made[test], truth[test]), clusters=queries[test].tolist())
        right = float(((made[test] >= 0.5) == (truth[test] > 0)).mean())
        vote = float(((np.nanmean(votes[test][:, members], axis=1) > 0.5) == (truth[test] > 0)).mean())
        who = ", ".join(names[k] for k in members) if size < len(names) else "all"
        worth = effective_votes(votes[:, members], truth)
        out.append(f"| {size}: {who} | {loss} | {right:.3f} | {vote:.3f} | {worth:.1f} |")
    return out


def main() -> None:
    """Print both tables, and what stacking all judges gives, cross-fitted over queries."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    print("| judge | share relevant − people's | finds | rejects | a richer query | others say relevant |")
    print(*biases(folder), sep="\n")
    print("| panel, chosen on half of the queries | log loss on the others | accuracy, stacked | vote | worth |")
    print(*best_panels(folder), sep="\n")
    _, votes, human, queries = read(folder)
    stack = stack_judges(votes, human >= RELEVANT, queries.tolist())
    print(
        f"all 33, cross-fitted: log loss {stack.stacked.log_loss}, by vote {stack.vote.log_loss}, less by {stack.gain}"
    )
    print(f"Brier {stack.stacked.brier}, by vote {stack.vote.brier}; ECE {stack.stacked.ece}, by vote {stack.vote.ece}")
    print(f"worth {stack.effective_votes:.1f} independent judges")


if __name__ == "__main__":
    main()
