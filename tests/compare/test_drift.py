"""Two runs of one judge on the same chunks."""

from __future__ import annotations

import pytest

from benchmarks.stats_drift import drift_alarms
from judge_eval.compare.drift import measure_drift
from judge_eval.errors import RefusedError, RunError
from judge_eval.views.drift import drift_view
from judge_eval.views.markdown import markdown_of
from tests.support.verdicts import judged, traces_of

NAMES = [f"t{k:02d}" for k in range(20)]
TRACES = traces_of(dict.fromkeys(NAMES, "abc"))
RELEVANT = {(name, "a"): 1 for name in NAMES}
GONE = dict.fromkeys(list(RELEVANT)[:8], 0)


def test_the_same_verdicts_are_no_drift() -> None:
    """Without a flip p is 1, and no mean differs."""
    found = measure_drift(judged(TRACES, RELEVANT), judged(TRACES, RELEVANT))
    assert (found.chunks, found.replies, found.became_relevant, found.became_irrelevant, found.p) == (60, 60, 0, 0, 1)
    assert [d.difference for d in found.comparison.differences] == [0, 0, 0]
    assert markdown_of(drift_view(found)).startswith("no drift seen: of 60 verdicts 0 became relevant and 0 irrelevant")


def test_one_sided_flips_are_drift() -> None:
    """Eight flips one way of eight are the exact McNemar test, and the view says what they do to the means."""
    found = measure_drift(judged(TRACES, RELEVANT), judged(TRACES, {**RELEVANT, **GONE}))
    assert (found.became_relevant, found.became_irrelevant, found.leaning) == (0, 8, 8)
    assert found.p == pytest.approx(2 / 2**8)
    assert found.comparison["P@3"].difference == pytest.approx(-8 / 60)
    text = markdown_of(drift_view(found))
    assert text.startswith("**drifted: of 60 verdicts 0 became relevant and 8 irrelevant**")
    assert "P@3" in text
    assert "no drift seen" in markdown_of(drift_view(found, alpha=0.001))


def test_a_reply_for_several_chunks_is_one_unit() -> None:
    """Listwise, the three flips of each of two replies are two units, not six: no drift is seen."""
    every = {(name, chunk): 1 for name in NAMES[:2] for chunk in "abc"}
    runs = [judged(TRACES, grades, mode="listwise") for grades in ({}, every)]
    found = measure_drift(*runs)
    assert (found.replies, found.leaning, found.became_relevant) == (20, 2, 6)
    assert found.p == pytest.approx(0.5)
    single = measure_drift(*(judged(TRACES, grades) for grades in ({}, every)))
    assert single.p == pytest.approx(2 / 2**6)


def test_failed_verdicts_are_no_flips() -> None:
    """A chunk without a verdict in one run is counted apart."""
    failed = {("t00", "a"): RefusedError("no")}
    found = measure_drift(judged(TRACES, RELEVANT), judged(TRACES, {**RELEVANT, **failed}))
    assert (found.chunks, found.failed, found.became_irrelevant) == (59, 1, 0)


def test_other_chunks_are_refused() -> None:
    """Runs of other lists are not compared verdict by verdict."""
    with pytest.raises(RunError, match="differ in trace 't00'"):
        measure_drift(judged(TRACES, {}), judged(traces_of(dict.fromkeys(NAMES, "abd")), {}))
    with pytest.raises(RunError, match="numbers of traces"):
        measure_drift(judged(TRACES, {}), judged(TRACES[1:], {}))


@pytest.mark.parametrize("size", [1, 5])
def test_a_judge_that_did_not_change_raises_few_alarms(size: int) -> None:
    """Pointwise or in lists, with replies that err as a whole, at most .05 of 400 repeats are called drift."""
    (line,) = drift_alarms(400, size=size, noise=0.05, mood=0.1)
    assert line.rate <= 0.05
