"""33 LLM judges of TREC DL 2023 against NIST's labels: their biases.

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


def main() -> None:
    """Print the table of biases."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    print("| judge | share relevant − people's | finds | rejects | a richer query | others say relevant |")
    print(*biases(parser.parse_args().folder), sep="\n")


if __name__ == "__main__":
    main()
