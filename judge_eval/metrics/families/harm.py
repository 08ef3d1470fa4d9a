"""Metrics of chunks that mislead the reader."""

import math

import numpy as np

from judge_eval.errors import MetricError
from judge_eval.metrics.families.relevance import depth, divide
from judge_eval.metrics.ragged import ranks_of
from judge_eval.metrics.spec import rag
from judge_eval.metrics.table import GradeTable, Values
from judge_eval.spelling import option

IRRELEVANT_WEIGHT = -0.333
"""The weight of an irrelevant passage, as in the stored values of the authors (not -1/3)."""


def harm(table: GradeTable, k: int | None = None) -> Values:
    """Return the share of the first `k` chunks that mislead: those of grade 0 on a scale of 3 (0 to 2)."""
    if table.maximum != 2:
        raise MetricError(
            "Harm needs a judge by claims, or a scale of 3 grades whose lowest says that a chunk misleads, as the "
            "prompt support/harm has"
        )
    counts = np.zeros(len(table))
    for rows, grid in table.blocks(k):
        counts[rows] = (grid == 0).sum(axis=0)
    return divide(counts, depth(table, k))


def udcg(table: GradeTable, k: int | None = None) -> Values:
    """Return UDCG (arXiv 2510.21440): what passages do to a reader that may abstain, without a discount by rank."""
    # A passage without a probability of abstention adds nothing and counts in n.
    if table.abstains is None:
        raise MetricError(
            "UDCG needs the reader's probability to abstain with each chunk alone; give chunks metadata.no_res_prob, "
            f"or ask a reader by the prompt reader/binary, and score with its run ({option('reader', 'RUN')})"
        )
    rows = np.repeat(np.arange(len(table)), table.lengths)
    relevant = table.grades >= table.relevant
    abstains = table.abstains
    if table.abstains_relevant is not None:
        abstains = np.where(relevant, table.abstains_relevant, abstains)
    moves = np.where(relevant, 1.0, IRRELEVANT_WEIGHT) * (1 - abstains)
    moves = np.where(ranks_of(table.offsets) < (k or len(rows)), moves, 0.0)
    means = divide(np.bincount(rows, np.nan_to_num(moves), len(table)).astype(np.float64), depth(table, k))
    return np.where(table.lengths > 0, 1 / (1 + np.exp(-means)), 0.0)


SPECS = (
    rag(
        "Harm",
        (),
        harm,
        "chunks within the top K that mislead (grade 0 of a scale of 3, as that of the prompt support/harm) / "
        "min(K, retrieved): the less the better; 0 for an empty list. Of a judge by claims it is Conflict@K",
        reads="monotone",
        less_is_better=True,
        by_claims="Conflict",
    ),
    rag(
        "UDCG",
        (),
        udcg,
        "sigmoid((1/n) * sum over ranks i <= K of w_i * (1 - a_i)), w_i = 1 for a relevant chunk, else -0.333, "
        "a_i = the reader's probability to abstain with the chunk alone (metadata.no_res_prob), n = min(K, "
        "retrieved); 0 for an empty list (arXiv 2510.21440)",
        reads="monotone",
        limits=(0.0, 1 / (1 + math.exp(-1))),
        reader=True,
    ),
)
