"""Re-ranking for diversity."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from judge_eval.errors import MetricError


def mmr(
    relevance: ArrayLike,
    *,
    similarity: ArrayLike | None = None,
    embeddings: ArrayLike | None = None,
    lambda_: float = 0.5,
    k: int | None = None,
) -> NDArray[np.int64]:
    """Order documents by maximal marginal relevance (Carbonell & Goldstein 1998).

    Each step takes, of those not yet selected, the document with the highest lambda * relevance(d) -
    (1 - lambda) * max over the already selected d' of similarity(d, d'); the maximum over none is 0. Of
    equals the first in the given order is taken.

    Args:
        relevance: Shape (n,); each document's similarity to the query.
        similarity: Shape (n, n); the documents' similarity to one another.
        embeddings: Shape (n, dimensions), in place of `similarity`; their cosine is used (0 for a zero one).
        lambda_: In [0, 1]; 1 orders by relevance alone.
        k: How many to select, >= 0; None selects all.

    Returns:
        int64, shape (min(k, n),): positions into `relevance`, best first.

    Raises:
        MetricError: The shapes do not fit, a number is not finite, or `lambda_` or `k` is out of range.
    """
    scores = _finite("relevance", relevance, 1)
    n = len(scores)
    if not 0 <= lambda_ <= 1:
        raise MetricError(f"lambda_ must be between 0 and 1, got {lambda_}")
    if k is not None and k < 0:
        raise MetricError(f"k is {k}; it is at least 0")
    if (similarity is None) == (embeddings is None):
        raise MetricError("give either similarity or embeddings")
    if similarity is not None:
        alike = _finite("similarity", similarity, 2)
        if alike.shape != (n, n):
            raise MetricError(f"similarity has shape {alike.shape}; {n} relevances need ({n}, {n})")
    else:
        vectors = _finite("embeddings", embeddings, 2)
        if len(vectors) != n:
            raise MetricError(f"embeddings has {len(vectors)} rows; there are {n} relevances")
        # Scaled first, so that very large and very small vectors keep a finite length.
        largest = np.abs(vectors).max(axis=1, keepdims=True, initial=0)
        vectors = np.divide(vectors, largest, out=np.zeros_like(vectors), where=largest > 0)
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        vectors = np.divide(vectors, norms, out=np.zeros_like(vectors), where=norms > 0)
        alike = vectors @ vectors.T
    size = n if k is None else min(k, n)
    order = np.empty(size, dtype=np.int64)
    gone = np.zeros(n, dtype=bool)
    nearest = np.zeros(n)
    for step in range(size):
        worth = lambda_ * scores - (1 - lambda_) * nearest
        worth[gone] = -np.inf
        best = int(worth.argmax())
        order[step] = best
        gone[best] = True
        nearest = alike[:, best].copy() if step == 0 else np.maximum(nearest, alike[:, best])
    return order


def _finite(name: str, values: ArrayLike | None, dimensions: int) -> NDArray[np.float64]:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise MetricError(f"{name} must be numbers in {dimensions} dimension(s), all rows of one length") from None
    if array.size == 0 and dimensions == 2 and array.ndim == 1:
        array = array.reshape(0, 0)
    if array.ndim != dimensions:
        raise MetricError(f"{name} has {array.ndim} dimension(s); it needs {dimensions}")
    if not np.isfinite(array).all():
        raise MetricError(f"{name} holds NaN or an infinity")
    return array
