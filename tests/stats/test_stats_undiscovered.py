from __future__ import annotations

import pytest

from judge_eval.stats.undiscovered import chao1


def test_equals_scikit_bios_chao1() -> None:
    """scikit-bio's `chao1_ci` gives 36.4286 [31.51, 57.30] for 30 found, 10 once, 6 twice."""
    estimate = chao1(30, 10, 6)
    assert estimate.value == pytest.approx(36.4286, abs=5e-5)
    assert estimate.interval is not None
    assert (estimate.interval.low, estimate.interval.high) == pytest.approx((31.51, 57.30), abs=5e-3)


def test_nothing_found_once_leaves_nothing_to_find() -> None:
    """Without singletons the bound is what was found, and has no interval of zero width."""
    estimate = chao1(9, 0, 3)
    assert (estimate.value, estimate.interval) == (9, None)


@pytest.mark.parametrize("counts", [(3, 3, 0), (3, 2, 2), (3, -1, 1)])
def test_counts_that_bound_nothing_are_refused(counts: tuple[int, int, int]) -> None:
    """Nothing found twice, or counts that do not fit, give an error and no number."""
    with pytest.raises(ValueError, match=r"twice|counts"):
        chao1(*counts)
