"""How well scores separate relevant chunks, and the difference between two judges."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge_eval.stats import auc, auc_difference

CHUNKS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.booleans(), st.integers(0, 9)), min_size=1)


@given(CHUNKS)
def test_it_counts_pairs(chunks: list[tuple[int, int, bool, int]]) -> None:
    """The AUC is the share of pairs in order, ties half; the difference is that of two; each lies in its interval."""
    first, second, labels, traces = (list(column) for column in zip(*chunks, strict=True))
    pairs = [
        (a, b) for a, y in zip(first, labels, strict=True) if y for b, z in zip(first, labels, strict=True) if not z
    ]
    figure = auc(first, labels, traces)
    assert figure.traces == len(set(traces))
    if not pairs:
        assert (figure.value, figure.interval) == (None, None)
        return
    assert figure.value == pytest.approx(sum((a > b) + (a == b) / 2 for a, b in pairs) / len(pairs))
    difference = auc_difference(first, second, labels, traces)
    assert difference.value == pytest.approx(figure.value - (auc(second, labels, traces).value or 0.0))
    for each in (figure, difference):
        assert (each.interval is None) == (len(set(traces)) < 2)
        assert each.interval is None or each.interval.low - 1e-9 <= (each.value or 0.0) <= each.interval.high + 1e-9


def test_the_error_is_that_of_delong() -> None:
    """With a chunk a cluster it is the published one, computed here from the matrix of pairs."""
    rng = np.random.default_rng(4)
    y = rng.random(80) < 0.4
    x, other = rng.normal(size=80) + y, rng.normal(size=80) + 0.5 * y
    kernels = [(v[y][:, None] > v[~y][None, :]) * 1.0 for v in (x, other)]
    rows, columns = (np.array([kernel.mean(axis=axis) for kernel in kernels]) for axis in (1, 0))
    covariance = np.cov(rows) / y.sum() + np.cov(columns) / (~y).sum()
    error = np.sqrt(covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1])
    figure = auc_difference(x, other, y, range(80))
    assert figure.interval is not None
    half = (figure.interval.high - figure.interval.low) / 2
    assert half == pytest.approx(1.9905 * error, rel=0.02)  # t with 79 degrees; G / (G - 1) in place of two


def test_perfect_judges_have_a_width() -> None:
    """Where no pair is wrong, or both judges say the same, the interval is not a point."""
    y, traces = [1, 0] * 20, [k // 2 for k in range(40)]
    perfect = auc(y, y, traces)
    assert perfect.interval is not None
    assert perfect.interval.low < 0.95
    same = auc_difference(y, y, y, traces)
    assert (same.value, same.interval is not None and same.interval.low < 0 < same.interval.high) == (0, True)


@pytest.mark.slow
def test_it_covers() -> None:
    """With 30 traces of 2 to 5 chunks about 95 of 100 intervals hold the true difference."""
    rng = np.random.default_rng(3)

    def draw(traces: int, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        y = np.zeros((traces, size), dtype=bool)
        y[:, 0] = True
        shared, own = rng.normal(size=(traces, 1)), rng.normal(size=(2, traces, size))
        first, second = (own[k] + 0.5 * shared + (1.0, 1.4)[k] * y for k in (0, 1))
        return first.ravel(), second.ravel(), y.ravel(), np.repeat(np.arange(traces), size)

    for size in (2, 5):
        first, second, y, traces = draw(20_000, size)
        true = auc_difference(first, second, y, traces).value
        held = 0
        for _ in range(400):
            figure = auc_difference(*(each for each in draw(30, size)))
            assert figure.interval is not None
            held += true in figure.interval
        assert 0.92 <= held / 400 <= 0.99


@pytest.mark.parametrize("labels", [[1, 2], [1]])
def test_odd_input_is_refused(labels: list[int]) -> None:
    """Labels are 0 and 1, one a score."""
    with pytest.raises(ValueError, match=r"verdicts|paired"):
        auc([0.1, 0.2], labels, "ab")
    with pytest.raises(ValueError, match="paired"):
        auc_difference([0.1, 0.2], [0.1], [0, 1], "ab")
