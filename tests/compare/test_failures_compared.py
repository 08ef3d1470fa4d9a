"""Comparisons and gates of runs in which verdicts failed."""

import numpy as np
import pytest

from judge_eval.compare.compare import compare
from judge_eval.compare.gate import check_drops, check_gates, gate_limits
from judge_eval.compare.options import Gates
from judge_eval.errors import RefusedError
from judge_eval.eval_run import EvalRun
from judge_eval.pages.figures import metric_data
from judge_eval.stats import compare_paired
from judge_eval.views.gate_sentences import check_sentence
from judge_eval.views.run import metrics_table
from tests.support.verdicts import judged, traces_of

N = 60
NAMES = [f"t{k:02d}" for k in range(N)]
TEXTS = dict.fromkeys(NAMES, "abc")


def run_of(hits: int, failed: int) -> EvalRun:
    """Return a run with relevant chunks in the first traces; of the others some have a failed verdict."""
    grades: dict[tuple[str, str], object] = {(name, "a"): 1 for name in NAMES[:hits]}
    grades |= {(name, "b"): RefusedError("no") for name in NAMES[N - failed :]}
    return judged(traces_of(TEXTS), grades, metrics=["HitRate@3", "AP@3"])


def test_traces_that_drop_out_do_not_make_runs_the_same() -> None:
    """The candidate lost no hit that is known, but its failed verdicts could be hits: that is unclear."""
    result = compare(run_of(40, 0), run_of(40, 15))["HitRate@3"]
    assert (result.n, result.n_open, result.wins, result.losses) == (N, 15, 0, 0)
    assert result.finding == "unclear"
    assert result.interval is not None
    assert result.interval[1] > 0.2
    assert result.method == "Imbens-Manski score"


def test_failures_never_help_a_gate_to_pass() -> None:
    """Hits of the baseline that the candidate fails on are open; the limit is undecided, not kept."""
    grades = {(name, "a"): 1 if k < 30 else RefusedError("no") for k, name in enumerate(NAMES)}
    before = judged(traces_of(TEXTS), {(name, "a"): 1 for name in NAMES[:50]}, metrics=["HitRate@3"])
    after = judged(traces_of(TEXTS), grades, metrics=["HitRate@3"])
    (check,) = check_drops(compare(before, after), gate_limits(Gates(max_drop=("HitRate@3=0.2",))))
    assert check.outcome == "undecided"
    assert "failed verdicts leave 30 of 60 traces open" in check_sentence(check)


def test_all_pairs_count_every_trace() -> None:
    """Three runs: the differences of all pairs are those of the means, open traces included."""
    runs = [run_of(40, 0), run_of(40, 15), run_of(30, 5)]
    result = compare(*runs)
    for pair in (p for p in result.pairs if p.metric == "HitRate@3"):
        means = [runs[k].aggregate("HitRate@3").mean or 0.0 for k in (pair.first, pair.second)]
        assert pair.difference == pytest.approx(means[1] - means[0])
        assert result.of is not None


@pytest.mark.parametrize("clustered", [False, True])
def test_bounds_cover_every_completion(clustered: bool) -> None:
    """The bounds and the interval contain those means that any filling of the open values gives."""
    rng = np.random.default_rng(4)
    a, b = rng.random(40), rng.random(40)
    low, high = np.where(rng.random(40) < 0.2, 0.0, b), np.where(rng.random(40) < 0.2, 1.0, b)
    ids = np.repeat(np.arange(8), 5).tolist() if clustered else None
    result = compare_paired(a, b, ends=((a, a), (low, high)), clusters=ids, limits=(0.0, 1.0))
    assert result.interval is not None
    for filled in (low, high, b):
        alone = compare_paired(a, filled, clusters=ids, limits=(0.0, 1.0))
        assert result.interval.low <= alone.difference <= result.interval.high
        assert result.lower is not None
        assert alone.lower is not None
        assert result.lower <= alone.lower + 1e-12
        assert (result.upper or 0) >= (alone.upper or 0) - 1e-12
    same = compare_paired(a, b, ends=((a, a), (b, b)), clusters=ids, limits=(0.0, 1.0))
    plain = compare_paired(a, b, clusters=ids, limits=(0.0, 1.0))
    assert (same.interval, same.n_open) == (plain.interval, 0)


def test_a_gate_gives_no_mean_that_the_summary_withholds() -> None:
    """With many failed verdicts the summary shows bounds: so does the gate's line, and no mean beside them."""
    traces = traces_of({f"t{k}": "abc" for k in range(20)})
    grades = {(f"t{k}", "a"): RefusedError("no") if k < 8 else 1 for k in range(20)}
    run = judged(traces, grades, metrics=["AP@3"])
    aggregate = run.aggregate("AP@3")
    assert aggregate.headline == "bounds"
    assert aggregate.bounds is not None
    assert aggregate.mean is not None
    shown = "{:.4f} to {:.4f}".format(*aggregate.bounds)
    for limit in (0.1, 0.9, 0.99):
        (check,) = check_gates([run], Gates(fail_under=(f"AP@3={limit}",)))
        assert f"AP@3 is {shown}" in check_sentence(check)
        assert f"{aggregate.mean:.4f}" not in check_sentence(check)
        assert check.value is None
    table = metrics_table(run.manifest.aggregates)
    assert 20 in table.rows[0]
    card = metric_data("AP@3", aggregate, None)
    assert card["n"] + card["n_expected"] == 20
    assert card["notes"][0]["text"] == "8 traces with failed verdicts, by expected value"
