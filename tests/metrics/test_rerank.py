from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge_eval.errors import MetricError
from judge_eval.metrics import mmr

RELEVANCE = [0.8, 0.5, 0.4]
SIMILARITY = [[1.0, 0.3, 0.4], [0.3, 1.0, 0.5], [0.4, 0.5, 1.0]]


def test_maximum_is_over_the_selected_only() -> None:
    """The textbook case orders N1, N2, N4; taking unselected documents too would give N1, N4, N2."""
    assert mmr(RELEVANCE, similarity=SIMILARITY, lambda_=0.5).tolist() == [0, 1, 2]


def test_lambda_trades_relevance_for_diversity() -> None:
    """At 1 relevance alone orders; at a low lambda the copy of the first comes last."""
    relevance, copies = [0.9, 0.8, 0.1], [[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    assert mmr(relevance, similarity=copies, lambda_=1).tolist() == [0, 1, 2]
    assert mmr(relevance, similarity=copies, lambda_=0.3).tolist() == [0, 2, 1]
    assert mmr(relevance, similarity=copies, lambda_=0.3, k=2).tolist() == [0, 2]


def test_embeddings_are_compared_by_cosine() -> None:
    """Length plays no part, and a zero vector is like nothing."""
    vectors = [[3.0, 0.0], [1e200, 0.0], [0.0, 1e-200], [0.0, 0.0]]
    cosine = [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]]
    relevance = [0.9, 0.8, 0.3, 0.2]
    expected = mmr(relevance, similarity=cosine, lambda_=0.5).tolist()
    assert mmr(relevance, embeddings=vectors, lambda_=0.5).tolist() == expected == [0, 2, 3, 1]


@given(st.integers(0, 8), st.floats(0, 1), st.integers(0, 10), st.integers(0, 2**32 - 1))
def test_equals_the_definition(n: int, lambda_: float, k: int, seed: int) -> None:
    """Each step takes the argmax of the definition, written out plainly; no document twice."""
    rng = np.random.default_rng(seed)
    relevance, alike = rng.normal(size=n), rng.normal(size=(n, n))
    order: list[int] = []
    while len(order) < min(k, n):
        rest = [d for d in range(n) if d not in order]
        worth = [
            lambda_ * relevance[d] - (1 - lambda_) * max((alike[d, chosen] for chosen in order), default=0.0)
            for d in rest
        ]
        order.append(rest[int(np.argmax(worth))])
    assert mmr(relevance, similarity=alike.reshape(n, n), lambda_=lambda_, k=k).tolist() == order


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "either similarity or embeddings"),
        ({"similarity": SIMILARITY, "embeddings": SIMILARITY}, "either similarity or embeddings"),
        ({"similarity": [[1.0, 0.3], [0.3, 1.0]]}, r"shape \(2, 2\); 3 relevances need \(3, 3\)"),
        ({"similarity": [1.0, 2.0, 3.0]}, "has 1 dimension"),
        ({"embeddings": [[1.0], [2.0]]}, "embeddings has 2 rows; there are 3 relevances"),
        ({"embeddings": [[1.0], [2.0, 3.0], [1.0]]}, "all rows of one length"),
        ({"similarity": [[np.nan] * 3] * 3}, "NaN"),
        ({"similarity": SIMILARITY, "lambda_": 1.5}, "got 1.5"),
        ({"similarity": SIMILARITY, "k": -1}, "k is -1"),
    ],
)
def test_wrong_input_is_named(arguments: dict[str, Any], message: str) -> None:
    """Shapes, ranges and numbers that do not fit are refused with what would."""
    with pytest.raises(MetricError, match=message):
        mmr(RELEVANCE, **arguments)
