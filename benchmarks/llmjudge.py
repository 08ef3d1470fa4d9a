"""33 LLM judges of TREC DL 2023 against NIST's labels: their biases, and the best panel of three, held out.

Run with `python -m benchmarks.llmjudge FOLDER`; the folder holds `labels_wide.tsv.gz` (LLMJudge benchmark).
"""

from __future__ import annotations

import argparse
import csv
import gzip
from pathlib import Path

import numpy as np
import numpy.typing as npt

from judge_eval.stats import mean_interval
from judge_eval.stats.stacking import best_panel, effective_votes, stack_judges
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


def best_panels(folder: Path, costs: dict[str, float], within: float | None) -> list[str]:
    """Return rows of a table: the best panel of up to 1, 2 and 3 judges, measured on queries that did not choose it."""
    names, votes, human, queries = read(folder)
    prices = [costs.get(name, 1.0) for name in names]
    out = []
    for size in (1, 2, 3):
        best = best_panel(votes, human >= RELEVANT, queries.tolist(), size=size, costs=prices, within=within)
        who, of = ", ".join(names[k] for k in best.members), f"{best.cost:g} of {sum(prices):g}"
        worth = effective_votes(votes[:, best.members], (human >= RELEVANT).astype(float))
        figures = " | ".join(map(str, (best.log_loss, best.behind, best.right)))
        out.append(f"| {size}: {who} | {of} | {figures} | {best.agreed} of 5 | {worth:.1f} |")
    return out


def main() -> None:
    """Print both tables, and what stacking all judges gives, cross-fitted over queries."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cost", action="append", default=[], metavar="JUDGE=PRICE", help="the others cost 1")
    parser.add_argument("--within", type=float, help="the most that a panel may cost")
    options = parser.parse_args()
    folder, costs = options.folder, {text.rpartition("=")[0]: float(text.rpartition("=")[2]) for text in options.cost}
    print("| judge | share relevant − people's | finds | rejects | a richer query | others say relevant |")
    print(*biases(folder), sep="\n")
    what = "stated costs, 1 where none is stated" if costs else "number of members"
    print(
        f"| best panel by {what} | cost | log loss, held out | greater than of all | right | the same choice | worth |"
    )
    print(*best_panels(folder, costs, options.within), sep="\n")
    _, votes, human, queries = read(folder)
    stack = stack_judges(votes, human >= RELEVANT, queries.tolist())
    print(
        f"all 33, cross-fitted: log loss {stack.stacked.log_loss}, by vote {stack.vote.log_loss}, less by {stack.gain}"
    )
    print(f"Brier {stack.stacked.brier}, by vote {stack.vote.brier}; ECE {stack.stacked.ece}, by vote {stack.vote.ece}")
    print(f"worth {stack.effective_votes:.1f} independent judges")


if __name__ == "__main__":
    main()
