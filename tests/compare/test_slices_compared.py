"""Slices of a comparison: tested as the whole is, the same traces once, the greatest loss first."""

from __future__ import annotations

import numpy as np
import pytest

from judge_eval.compare.compare import MOST_VALUES, WORST, compare
from judge_eval.pages.compared import ComparedRuns
from judge_eval.pages.rows import Table
from judge_eval.runs.folder.run import Run
from judge_eval.views.comparison import comparison_view
from judge_eval.views.markdown import markdown_of
from tests.support.verdicts import judged, traces_of


def two_runs(tags: list[list[str]], lost: set[int], metadata: list[dict[str, str]] | None = None) -> tuple[Run, Run]:
    """Two runs of one relevant chunk a trace; the second finds nothing in the traces `lost`."""
    names = [f"t{k:03d}" for k in range(len(tags))]
    more = {n: {"tags": tags[k], "metadata": (metadata or [{}] * len(tags))[k]} for k, n in enumerate(names)}
    traces = traces_of(dict.fromkeys(names, "abc"), **more)
    after = {(n, "a"): 1 for k, n in enumerate(names) if k not in lost}
    return judged(traces, {"a": 1}, label="main"), judged(traces, after, label="candidate")


@pytest.mark.slow
def test_a_small_slice_that_died_is_named_among_many() -> None:
    """15 of 15 questions of a tag fall from 1 to 0: that is shown beside 60 other slices, and needs no 20 traces."""
    tags = [["ids"] if k < 15 else [f"s{k % 60}"] for k in range(315)]
    result = compare(*two_runs(tags, set(range(15))), metrics=["AP@3", "NDCG@3"], by=["tag"])
    shown = {(f.figure, f.name): f for f in result.slices if f.verdict == "differs"}
    assert shown.keys() == {("AP@3", "ids"), ("NDCG@3", "ids")}
    assert shown["AP@3", "ids"].p is not None
    assert shown["AP@3", "ids"].p < 0.05
    assert (shown["AP@3", "ids"].wins, shown["AP@3", "ids"].losses) == (0, 15)


@pytest.mark.slow
def test_a_great_slice_that_fell_is_shown_among_hundreds_of_figures() -> None:
    """250 traces that lose .23 on average are not hidden by the correction for 400 and more figures."""
    tags = [["lang:en"] if k < 250 else [f"s{k % 205}"] for k in range(660)]
    result = compare(*two_runs(tags, set(range(57))), metrics=["AP@3", "NDCG@3"], by=["tag"])
    assert len(result.slices) > 400
    assert {f.name for f in result.slices if f.verdict == "differs"} == {"lang:en"}


@pytest.mark.slow
def test_an_interval_without_zero_is_never_no_difference() -> None:
    """Where only the correction keeps a slice from being shown, it is said so."""
    tags = [[f"s{k % 30}"] for k in range(300)]
    result = compare(*two_runs(tags, set(range(0, 240, 30))), metrics=["AP@3"], by=["tag"])
    worst = result.slices[0]
    assert (worst.name, worst.n, worst.losses) == ("s0", 10, 8)
    assert worst.interval is not None
    assert worst.interval[1] < 0
    assert worst.verdict == "not confirmed"
    for f in result.slices:
        assert f.verdict != "no difference seen" or f.interval is None or f.interval[0] <= 0 <= f.interval[1]
    text = markdown_of(comparison_view(result, traces=1, claims=1))
    assert "not shown after correction for 30 figures" in text


def test_the_same_traces_are_tested_once() -> None:
    """A tag `lang:en` and the language `en` are one slice with two names; a slice of all traces is the total."""
    tags = [["all", "lang:en" if k % 2 else "lang:de"] for k in range(60)]
    result = compare(*two_runs(tags, set(range(1, 60, 2))), metrics=["AP@3"], by=["tag", "language"])
    assert [(f.by, f.name, f.same) for f in result.slices] == [
        ("tag", "lang:en", ("language en",)),
        ("tag", "lang:de", ("language de",)),
    ]
    assert "lang:en (= language en)" in markdown_of(comparison_view(result, traces=1, claims=1))


@pytest.mark.slow
@pytest.mark.parametrize("asked", [False, True])
def test_a_kind_of_many_values_is_summed_up_unless_it_is_asked_for(asked: bool) -> None:
    """A page shows of 40 sources the five whose traces lost most in sum, untested; `--by source` tests them all."""
    metadata = [{"source": f"https://a.example/{k % 40}", "language": "de" if k % 3 else "en"} for k in range(200)]
    runs = two_runs([[]] * 200, {k for k in range(200) if k % 40 < 7 and k // 40 <= k % 40}, metadata)
    page = ComparedRuns(*map(Table, runs)).slices(["source"] if asked else [])
    assert page.count("https://a.example/") == (40 if asked else WORST) * 3  # three metrics
    assert ("not tested" in page) is not asked
    assert MOST_VALUES < 40
    assert page.index("https://a.example/6<") < page.index("https://a.example/3<")


def test_slices_stand_by_loss_the_main_metric_first() -> None:
    """Each metric has a table of its own, the main one first; in it the slice that lost most comes first."""
    rng = np.random.default_rng(0)
    tags = [[f"s{k % 4}"] for k in range(120)]
    lost = {k for k in range(120) if rng.random() < (0.0, 0.5, 0.2, 0.8)[k % 4]}
    result = compare(*two_runs(tags, lost), metrics=["P@3", "AP@3"], by=["tag"])
    assert [f.figure for f in result.slices] == ["AP@3"] * 4 + ["P@3"] * 4
    assert [f.name for f in result.slices] == ["s3", "s1", "s2", "s0"] * 2
