import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge_eval.confidence import CONFIDENCE_GRID, hundredths, is_sure, side_confidence


def single(number: float) -> float:
    """The number as it comes back from single precision."""
    return float(struct.unpack("f", struct.pack("f", number))[0])


def test_the_grid_is_what_two_decimals_say() -> None:
    """Fifty-one thresholds, each the very number that its two decimals are read to."""
    assert [f"{threshold!r:0<4}" for threshold in CONFIDENCE_GRID] == [f"{k / 100:.2f}" for k in range(50, 101)]


def test_two_decimals_are_never_on_the_wrong_side() -> None:
    """Two decimals, their complement, sums of such, and single precision are all k hundredths."""
    for k in range(101):
        p = float(f"{k / 100:.2f}")
        assert hundredths(p) == k
        assert hundredths(1 - (100 - k) / 100) == k
        assert hundredths(single(p)) == k
        assert all(hundredths(part / 100 + (k - part) / 100) == k for part in range(k + 1))
        assert hundredths(math.fsum([0.01] * k)) == hundredths(sum([0.01] * k)) == k


def test_a_confidence_at_the_threshold_is_kept() -> None:
    """Kept is confidence >= threshold in hundredths: at it yes, clearly below it no."""
    for threshold in CONFIDENCE_GRID:
        k = round(100 * threshold)
        assert is_sure(threshold, threshold)
        assert is_sure(1 - (100 - k) / 100, threshold)
        assert not is_sure(threshold - 0.00001, threshold)
        assert not is_sure((k - 1) / 100, threshold)


def test_what_has_no_confidence_or_no_threshold_escalates() -> None:
    """Without a confidence nothing is kept, without a threshold neither; below .50 no threshold keeps it."""
    assert not is_sure(None, 0.5)
    assert not is_sure(1.0, None)
    assert not is_sure(0.49, 0.5)


@given(st.floats(0, 1))
def test_the_side_of_a_probability(p: float) -> None:
    """A yes-or-no question takes the likelier side; a graded verdict may take the other one."""
    assert side_confidence(p) == max(p, 1 - p) >= 0.5
    assert side_confidence(p, relevant=True) == p
    assert side_confidence(p, relevant=False) == 1 - p


@given(st.floats(0, 1), st.floats(0, 1))
def test_hundredths_never_fall(a: float, b: float) -> None:
    """A higher confidence has no fewer hundredths, and hundredths are the confidence's to a hundredth."""
    assert (hundredths(a) <= hundredths(b)) == (a <= b) or hundredths(a) == hundredths(b)
    assert hundredths(a) / 100 - 2e-6 <= a < hundredths(a) / 100 + 0.01


def test_what_is_no_probability_is_refused() -> None:
    """Not a number, and what lies beyond 0 and 1 by more than rounding, is an error and no confidence."""
    assert hundredths(1 + 1e-9) == 100
    for bad in (math.nan, -0.01, 1.01, math.inf):
        with pytest.raises(ValueError, match="between 0 and 1"):
            hundredths(bad)
        with pytest.raises(ValueError, match="between 0 and 1"):
            side_confidence(bad)
    for bad in (0.49, 0.505, 1.01, math.nan):
        with pytest.raises(ValueError, match="is not one of"):
            is_sure(0.9, bad)
