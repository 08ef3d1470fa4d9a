import dataclasses
import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from judge_eval.confidence import CONFIDENCE_GRID, is_sure
from judge_eval.stats import CascadeFit, cascade_cost, errors_allowed, fit_cascade, fit_cascade_to_people, traces_needed
from judge_eval.stats.intervals import exact_upper
from tests.support.examples import examples

ITEM = st.tuples(st.integers(40, 100) | st.sampled_from([57, 58, 100]), *[st.booleans()] * 3)
"""Hundredths of confidence, then what the cheap judge, the strong one and people say."""


@st.composite
def samples(draw: st.DrawFn) -> list[tuple[int, bool, bool, bool]]:
    """Items of which the judges mostly agree, so that thresholds pass."""
    items = draw(st.lists(ITEM, min_size=0, max_size=25))
    agreed = draw(st.lists(st.integers(40, 100), max_size=60))
    return items + [(hundredth, True, True, True) for hundredth in agreed]


def columns(items: list[tuple[int, bool, bool, bool]]) -> tuple[list[float], list[bool], list[bool], list[bool]]:
    """The items as arguments."""
    confidence, cheap, strong, people = ([item[k] for item in items] for k in range(4))
    return [hundredth / 100 for hundredth in confidence], cheap, strong, people


def items_of(*groups: tuple[int, int, bool, bool, bool]) -> list[tuple[int, bool, bool, bool]]:
    """So many items of each kind."""
    return [kind for many, *kind in groups for _ in range(many)]  # type: ignore[misc]


def to_strong(items: list[tuple[int, bool, bool, bool]], **options: float) -> CascadeFit:
    """Fit with the strong judge as the target."""
    confidence, cheap, strong, _ = columns(items)
    return fit_cascade(confidence, cheap, strong, **options)


def to_people(items: list[tuple[int, bool, bool, bool]], **options: float) -> CascadeFit:
    """Fit with people as the target."""
    return fit_cascade_to_people(*columns(items), **options)


def test_traces_needed() -> None:
    """The counts that are stated everywhere, at 5% and 95%."""
    assert [traces_needed(k) for k in range(6)] == [59, 93, 124, 153, 181, 208]


@pytest.mark.parametrize(("alpha", "level"), [(0.05, 0.95), (0.1, 0.95), (0.02, 0.9), (0.5, 0.5), (0.9, 0.99)])
def test_errors_allowed_by_the_definition(alpha: float, level: float) -> None:
    """The largest k with P(Binomial(n, alpha) <= k) <= 1 - level, found by trying every k with scipy."""
    for n in [*range(70), 93, 100, 123, 124, 200, 300, 1000]:
        tails = scipy.stats.binom.cdf(np.arange(n + 1), n, alpha)
        passing = np.flatnonzero(tails <= (1 - level) * (1 + 1e-9))
        assert errors_allowed(n, alpha=alpha, level=level) == (int(passing[-1]) if passing.size else None)


@examples(100, derandomize=True)
@given(st.integers(0, 40), st.floats(0.01, 0.6), st.floats(0.5, 0.999))
def test_traces_needed_are_the_fewest(errors: int, alpha: float, level: float) -> None:
    """With so many traces as many errors are allowed, with one less they are not."""
    n = traces_needed(errors, alpha=alpha, level=level)
    allowed, before = (errors_allowed(each, alpha=alpha, level=level) for each in (n, n - 1))
    assert allowed is not None
    assert allowed >= errors
    assert before is None or before < errors


@examples(300, derandomize=True)
@given(samples(), st.sampled_from([0.05, 0.1, 0.2, 0.4]), st.sampled_from(["strong", "people"]))
def test_a_fit_is_what_its_definition_says(
    items: list[tuple[int, bool, bool, bool]], alpha: float, target: str
) -> None:
    """Item by item and threshold by threshold, from escalating all to .50, up to the first that fails."""
    fit = (to_strong if target == "strong" else to_people)(items, alpha=alpha)
    truths = [item[2 if target == "strong" else 3] for item in items]

    def answers(least: int) -> list[bool]:
        return [item[1] if item[0] >= least else item[2] for item in items]

    def errors(least: int) -> int:
        return sum(answer != truth for answer, truth in zip(answers(least), truths, strict=True))

    passed = None
    for least in range(101, 49, -1):
        tail = scipy.stats.binom.cdf(errors(least), len(items), alpha) if items else 1.0
        if tail > 0.05 * (1 + 1e-9):
            break
        passed = least
    assert fit.threshold == (None if passed in (None, 101) else passed / 100)
    assert fit.holds == (target == "strong" or passed is not None)
    least = 101 if passed is None else passed
    assert fit.errors == errors(least) == fit.wrongly_relevant + fit.wrongly_irrelevant
    pairs = list(zip(answers(least), truths, strict=True))
    assert fit.wrongly_relevant == pairs.count((True, False))
    assert fit.kept == sum(item[0] >= least for item in items)
    assert [(point.threshold, point.errors, point.kept) for point in fit.curve] == [
        (threshold, errors(k), sum(item[0] >= k for item in items)) for k, threshold in enumerate(CONFIDENCE_GRID, 50)
    ]
    wrong = sum(item[0] >= least and item[1] != truth for item, truth in zip(items, truths, strict=True))
    assert fit.kept_risk.value == (wrong / fit.kept if fit.kept else None)
    assert fit.bound is None or fit.bound <= alpha * (1 + 1e-9)
    if target == "people" and fit.threshold is not None:
        assert fit.over_strong is not None
        assert fit.over_strong.value == pytest.approx((errors(least) - errors(101)) / len(items))
        assert fit.over_strong.value in fit.over_strong.interval


@examples(100, derandomize=True)
@given(samples())
def test_people_who_say_what_the_strong_judge_says(items: list[tuple[int, bool, bool, bool]]) -> None:
    """Then both targets are one, and so are their thresholds, counts and curves."""
    same = [(confidence, cheap, strong, strong) for confidence, cheap, strong, _ in items]
    first, other = to_strong(same, alpha=0.2), to_people(same, alpha=0.2)
    for name in ("threshold", "errors", "kept", "kept_risk", "curve", "cheap_alone", "allowed"):
        assert getattr(first, name) == getattr(other, name), name


@examples(100, derandomize=True)
@given(samples(), st.randoms(use_true_random=False))
def test_order_does_not_matter(items: list[tuple[int, bool, bool, bool]], random: object) -> None:
    """The same items in another order give the same fit."""
    turned = list(items)
    random.shuffle(turned)  # type: ignore[attr-defined]
    assert to_people(turned, alpha=0.3) == to_people(items, alpha=0.3)


@pytest.mark.parametrize("k", [50, 57, 58, 99, 100])
def test_ties_at_a_threshold(k: int) -> None:
    """Verdicts exactly at a threshold are kept by it, however their confidence was computed."""
    right, wrong = items_of((70, k, True, True, True)), items_of((4, k - 1, True, False, False))
    confidence, cheap, strong, _ = columns(right + wrong)
    fit = fit_cascade(confidence, cheap, strong)
    assert fit == fit_cascade([1 - (1 - each) for each in confidence], cheap, strong)
    assert fit.threshold == k / 100
    assert fit.kept == 70 == sum(is_sure(each, fit.threshold) for each in confidence)


def test_too_few_traces_prove_nothing() -> None:
    """With 58 traces no threshold is given, though all agree, and the fit says how many are needed."""
    few, enough = (to_strong(items_of((n, 100, True, True, True))) for n in (58, 59))
    assert (few.threshold, few.allowed, few.needed, few.kept) == (None, None, 59, 0)
    assert (enough.threshold, enough.allowed, enough.coverage) == (0.5, 0, 1.0)
    labelled = to_people(items_of((58, 100, True, True, True)))
    assert (labelled.threshold, labelled.holds, labelled.bound) == (None, False, None)


def test_where_no_threshold_passes_all_is_escalated() -> None:
    """A judge that errs where it is surest is never kept: the fit says so, and that its risk is none."""
    fit = to_strong(items_of((97, 60, True, True, True), (2, 100, True, False, False), (1, 100, False, True, True)))
    assert (fit.threshold, fit.kept, fit.errors, fit.bound, fit.holds) == (None, 0, 0, 0.0, True)
    assert fit.kept_risk.value is None
    assert fit.curve[-1].errors == 3


def test_the_strictest_is_not_taken_where_even_it_fails() -> None:
    """Where the strong judge alone errs too often, nothing holds, though each threshold would do better."""
    items = items_of((90, 100, True, True, True), (10, 60, True, False, True))
    fit = to_people(items)
    assert [point.errors for point in fit.curve[:12]] == [0] * 11 + [10]
    assert (fit.threshold, fit.holds, fit.bound, fit.over_strong) == (None, False, None, None)
    assert fit.strong_alone is not None
    assert (fit.errors, fit.strong_alone.value) == (10, 0.1)


def test_what_passes_beyond_a_failure_is_not_taken() -> None:
    """Errors that rise and fall again: the fixed sequence stops where they first rise."""
    items = items_of(
        (60, 100, True, True, True),
        (20, 90, True, True, True),
        (2, 80, True, False, False),
        (2, 70, True, False, True),
        (16, 60, True, True, True),
    )
    fit = to_people(items, alpha=0.08)
    assert fit.allowed == 3
    assert (fit.threshold, fit.errors) == (0.81, 2)
    errors = [point.errors for point in fit.curve]
    assert (errors[0], max(errors)) == (2, 4)


def test_both_directions_of_error_are_told_apart() -> None:
    """Cheap yes against strong no is one kind, the reverse the other; both count alike for the threshold."""
    fit = to_strong(items_of((300, 95, True, True, True), (3, 95, True, False, False), (2, 95, False, True, True)))
    assert (fit.wrongly_relevant, fit.wrongly_irrelevant, fit.errors) == (3, 2, 5)
    assert fit.cheap_alone.value == pytest.approx(5 / 305)


def test_a_chunk_without_a_cheap_verdict_is_escalated() -> None:
    """It has no confidence, counts in n, is never kept, and is no error of the cheap judge."""
    fit = fit_cascade([None] * 5 + [0.9] * 95, [0] * 100, [1] * 5 + [0] * 95)
    assert (fit.n, fit.kept, fit.errors, fit.threshold) == (100, 95, 0, 0.5)
    assert (fit.cheap_alone.n, fit.cheap_alone.value) == (95, 0.0)


def chance_of_breaking(n: int, first: float, second: float, bound: str) -> float:
    """The exact chance that the true risk is above the bound, with two groups of equal verdicts.

    Up to confidence 1.00 the risk is `first`, up to .90 it is `second`, at .50 it is far above alpha.
    """
    broken = 0.0
    for strict in range(15):
        for more in range(15):
            chance = scipy.stats.binom.pmf(strict, n, first) * scipy.stats.binom.pmf(
                more, n - strict, (second - first) / (1 - first)
            )
            fit = to_strong(
                items_of(
                    (strict, 100, True, False, False),
                    (more, 90, True, False, False),
                    (30, 50, True, False, False),
                    (n - strict - more - 30, 50, True, True, True),
                )
            )
            risk = first if fit.threshold is None or fit.threshold > 0.9 else second
            result = fit.bound if bound == "told" else exact_upper(fit.errors, n)
            assert result is not None
            broken += float(chance) if fit.threshold is not None and risk > result else 0.0
    return broken


def test_the_bound_is_true_of_a_chosen_threshold() -> None:
    """Clopper and Pearson's bound for the errors seen breaks too often once they chose the threshold."""
    first, second = 0.0297, 0.0468
    assert first > exact_upper(0, 100)
    assert chance_of_breaking(100, first, second, "seen") > 0.06
    assert chance_of_breaking(100, first, second, "told") <= 0.05


def test_costs() -> None:
    """Cheap for all and strong for what is escalated; the cascade pays where that is less than strong."""
    fit = to_strong(items_of((60, 95, True, True, True), (40, 55, True, False, False)))
    assert fit.coverage == 0.6
    cost = cascade_cost(fit, 0.001, 0.01)
    assert cost.cascade == pytest.approx(5.0)
    assert (cost.choice, cost.break_even) == ("cascade", pytest.approx(0.1))


def test_a_plain_judge_that_is_cheaper_or_as_good() -> None:
    """The strong judge where a cascade saves nothing; the cheap one where nothing is escalated."""
    some = to_strong(items_of((60, 95, True, True, True), (40, 55, True, False, False)))
    dear = cascade_cost(some, 0.007, 0.01)
    assert (dear.choice, dear.cascade, dear.break_even) == ("strong", pytest.approx(11.0), pytest.approx(0.7))
    assert cascade_cost(some, 0.006, 0.01).choice == "strong"
    over = cascade_cost(some, 0.02, 0.01)
    assert (over.choice, over.break_even) == ("strong", None)
    none = to_strong(items_of((50, 95, True, True, True)))
    assert cascade_cost(none, 0.0, 0.01).choice == "strong"
    every = to_strong(items_of((100, 95, True, True, True)))
    best = cascade_cost(every, 0.001, 0.01)
    assert (best.choice, best.cascade) == ("cheap", pytest.approx(1.0))
    assert cascade_cost(every, 0.02, 0.01).choice == "strong"
    assert cascade_cost(every, 0.0, 0.0).choice == "strong"


@pytest.mark.parametrize("bad", [-0.1, math.nan, math.inf])
def test_an_unknown_cost_is_no_cost(bad: float) -> None:
    """What is no cost is refused, and never taken for 0."""
    fit = to_strong(items_of((60, 95, True, True, True)))
    with pytest.raises(ValueError, match=r"strong: the cost .* 0 or more"):
        cascade_cost(fit, 0.1, bad)
    with pytest.raises(ValueError, match=r"cheap: the cost .* 0 or more"):
        cascade_cost(fit, bad, 0.1)


def test_what_is_refused() -> None:
    """Values and options out of their range, and columns that do not pair, are errors that say which."""
    for confidence, cheap, strong, match in (
        ([0.9], [1, 1], [1, 1], "confidence has 1 values, cheap 2, strong 2"),
        ([0.9, 0.9], [1, 1], [1], "strong 1"),
        ([1.2], [1], [1], "confidence"),
        ([math.nan], [1], [1], "confidence"),
        ([0.9], [2], [1], "cheap: only 0 and 1"),
        ([0.9], [1], [0.5], "strong: only 0 and 1"),
        ([0.9], [1], [None], "strong"),
    ):
        with pytest.raises(ValueError, match=match):
            fit_cascade(confidence, cheap, strong)
    with pytest.raises(ValueError, match="people has 2 values, strong has 1"):
        fit_cascade_to_people([0.9], [1], [1], [1, 0])
    for alpha, level in ((0.0, 0.95), (1.0, 0.95), (0.05, 0.0), (0.05, 1.0), (math.nan, 0.95)):
        with pytest.raises(ValueError, match="between 0 and 1"):
            fit_cascade([0.9], [1], [1], alpha=alpha, level=level)
    with pytest.raises(ValueError, match="negative"):
        traces_needed(-1)


def test_arrays_and_lists_give_the_same() -> None:
    """NumPy's booleans and floats serve as well as lists."""
    items = items_of((80, 95, True, True, True), (20, 55, True, False, False))
    confidence, cheap, strong, _ = columns(items)
    assert fit_cascade(np.array(confidence), np.array(cheap), np.array(strong)) == to_strong(items)
    assert dataclasses.asdict(to_strong(items))["threshold"] == 0.56
