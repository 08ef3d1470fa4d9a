"""The order in which trec_eval reads a run."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from judge_eval.errors import MetricError


def trec_order(scores: Mapping[str, float], query: str = "") -> list[str]:
    """Put documents in trec_eval's order: score (as a 32-bit float) descending, then id descending.

    Raises:
        MetricError: A score is not a number.
    """
    documents = sorted(scores, reverse=True)
    values = np.array([scores[document] for document in documents], dtype=np.float64)
    if np.isnan(values).any():
        document = documents[int(np.flatnonzero(np.isnan(values))[0])]
        raise MetricError(f"query {query}: the score of document {document} is not a number")
    with np.errstate(over="ignore"):
        order = np.argsort(-values.astype(np.float32), kind="stable")
    return [documents[int(i)] for i in order]


def trec_grades(
    judged: Mapping[str, int], scores: Mapping[str, float], query: str, unjudged: int, outside: int
) -> list[int]:
    """Return the grades of a query's documents in trec_eval's order.

    Args:
        judged: Document id to grade; a negative grade becomes `unjudged`.
        scores: Document id to score.
        query: The query's id, for the message.
        unjudged: What stands for a document in the pool that nobody graded.
        outside: What stands for one that is not in the pool.

    Raises:
        MetricError: A score is not a number.
    """
    return [max(judged[each], unjudged) if each in judged else outside for each in trec_order(scores, query)]
