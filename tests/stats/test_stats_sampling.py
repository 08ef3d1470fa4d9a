import numpy as np
import pytest

from judge_eval.stats import Sample, simple_random_sample, stratified_sample


def test_simple_random_sample() -> None:
    """The asked number of different traces is chosen, by seed, all with the same chance."""
    result = simple_random_sample(40, 12, seed=3)
    assert len(set(result.chosen)) == 12
    assert list(result.chosen) == sorted(result.chosen)
    assert set(result.probabilities) == {12 / 40}
    assert result.weights == pytest.approx((40 / 12,) * 12)
    assert result == simple_random_sample(40, 12, seed=3)
    assert result != simple_random_sample(40, 12, seed=4)


@pytest.mark.slow
def test_every_trace_is_chosen_as_often_as_it_is_said() -> None:
    """Over many seeds each trace comes up with the chance that the sample states."""
    strata = ["a"] * 20 + ["b"] * 5 + ["c"] * 75
    hits = np.zeros(100)
    for seed in range(2000):
        sample = stratified_sample(strata, 15, seed=seed)
        hits[list(sample.chosen)] += 1
    stated = np.array(sample.probabilities)
    assert hits / 2000 == pytest.approx(stated, abs=5 * np.sqrt(0.25 / 2000))
    assert np.sum(stated) == pytest.approx(15)


def counts(strata: list[str], sample: Sample) -> dict[str, int]:
    """How many of each stratum were chosen."""
    names, number = np.unique([strata[k] for k in sample.chosen], return_counts=True)
    return dict(zip(names.tolist(), number.tolist(), strict=True))


def test_allocations() -> None:
    """Equal shares go as far as the strata last, proportional ones keep their sizes; two of each at least."""
    strata = ["a"] * 90 + ["b"] * 27 + ["c"] * 3
    assert counts(strata, stratified_sample(strata, 30)) == {"a": 14, "b": 13, "c": 3}
    proportional = stratified_sample(strata, 40, allocation="proportional")
    assert counts(strata, proportional) == {"a": 29, "b": 9, "c": 2}
    assert counts(strata, stratified_sample(strata, 3)) == {"a": 1, "b": 1, "c": 1}
    assert counts(strata, stratified_sample(strata, 120)) == {"a": 90, "b": 27, "c": 3}
    assert set(stratified_sample(strata, 120).probabilities) == {1.0}


def test_sizes_are_checked() -> None:
    """No trace, more than there are, fewer than strata, or an unknown allocation are refused."""
    with pytest.raises(ValueError, match="size: 0"):
        simple_random_sample(10, 0)
    with pytest.raises(ValueError, match="size: 11"):
        simple_random_sample(10, 11)
    with pytest.raises(ValueError, match="size: 1"):
        simple_random_sample(0, 1)
    with pytest.raises(ValueError, match="one a stratum"):
        stratified_sample(["a", "b", "c"], 2)
    with pytest.raises(ValueError, match="allocation"):
        stratified_sample(["a", "b"], 2, allocation="optimal")  # type: ignore[arg-type]
