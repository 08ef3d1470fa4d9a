"""Failed verdicts and means: no trace enters or leaves a mean because of what its verdicts say."""

from __future__ import annotations

import numpy as np
import pytest

from judge_eval import Evaluator, FakeBackend, Trace
from judge_eval.compare.gate import Limit, check_under
from judge_eval.compare.options import Gates
from judge_eval.eval_run import EvalRun
from judge_eval.runs.columns.verdict_table import verdict_table
from judge_eval.runs.scoring.aggregate import FilledColumn, opened
from judge_eval.runs.scoring.rescore import rescore
from judge_eval.views.run_remarks import remarks_of
from judge_eval.wire import Completion
from tests.support.claims import claimed, run_by_claims

METRICS = ["HitRate@5", "RR@5", "AP@5", "P@5", "NDCG@5"]
CHUNKS = 5
REFUSED = Completion("", "refusal")


def traces(n: int, **more: list[list[str]]) -> list[Trace]:
    """Return traces of five chunks; `tags` has those of each."""
    tags = more.get("tags", [[]] * n)
    return [
        Trace.parse(
            {
                "id": f"t{k}",
                "query": f"question {k}",
                "reference": "r",
                "tags": tags[k],
                "chunks": [{"id": f"c{j}", "text": f"text {k} {j}"} for j in range(CHUNKS)],
            }
        )
        for k in range(n)
    ]


def run_of(relevant: np.ndarray, failed: np.ndarray, **more: list[list[str]]) -> EvalRun:
    """Judge traces; verdicts that are to fail are refused."""
    table = {
        (f"t{k}", f"c{j}"): REFUSED if failed[k, j] else int(relevant[k, j])
        for k in range(len(relevant))
        for j in range(CHUNKS)
    }
    with Evaluator(FakeBackend.table(table), metrics=METRICS, cache=False) as evaluator:
        return evaluator.evaluate(traces(len(relevant), **more))


def drawn(n: int, share: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return relevance of clustered chunks, and which verdicts fail at random."""
    rng = np.random.default_rng(seed)
    return rng.random((n, CHUNKS)) < rng.beta(2, 6, (n, 1)), rng.random((n, CHUNKS)) < share


def test_hits_do_not_survive_where_misses_drop_out() -> None:
    """With 4% of refusals the mean is that of all verdicts; the mean of the settled traces is far above."""
    relevant, failed = drawn(300, 0.04)
    run = run_of(relevant, failed)
    truth = relevant.any(axis=1).mean()
    a = run.aggregate("HitRate@5")
    settled = [r.scores["HitRate@5"] for r in run.results if r.scores["HitRate@5"] is not None]
    assert a.mean == pytest.approx(truth, abs=0.02)
    assert np.mean(settled) > truth + 0.03
    assert (a.n, a.n_failed, a.n_expected) == (len(settled), 300 - len(settled), 300 - len(settled))
    assert a.method == "Imbens-Manski wilson"


@pytest.mark.parametrize("share", [0.02, 0.2])
def test_every_headline_is_within_its_bounds_and_its_interval(share: float) -> None:
    """Of the run and of each tag; scored again it is the same."""
    relevant, failed = drawn(60, share)
    run = run_of(relevant, failed, tags=[["odd"] if k % 2 else ["even", f"t{k % 3}"] for k in range(60)])
    for name in METRICS:
        a = run.aggregate(name)
        assert a.bounds is not None
        assert a.interval is not None
        assert a.mean is not None
        assert a.interval[0] <= a.bounds[0] <= a.mean <= a.bounds[1] <= a.interval[1]
        assert a.headline == ("mean" if share < 0.05 else "bounds")
        assert a.shown == (f"{a.mean:.4f}" if share < 0.05 else "{:.4f} to {:.4f}".format(*a.bounds))
        assert sum(t.n + t.n_failed for tag, t in a.tags.items() if tag in ("odd", "even")) == 60
    assert rescore(run, METRICS).aggregates == run.aggregates


def test_failures_never_help_a_gate_to_pass() -> None:
    """With more failures no limit passes that the verdicts, had they come, could break."""
    relevant, failed = drawn(60, 0.1)
    a = run_of(relevant, failed).aggregate("HitRate@5")
    assert a.bounds is not None
    limit = Limit.parse("fail-under", f"HitRate@5={(a.bounds[0] + (a.mean or 0)) / 2:.4f}")
    (check,) = check_under(run_of(relevant, failed), [limit], undecided="fail")
    assert (check.outcome, check.passed) == ("undecided", False)
    assert Gates().undecided == "warn"


def test_tags_and_lengths_in_which_failures_concentrate_are_named() -> None:
    """Refusals of one topic are named with their counts and with what judges them again; none without."""
    relevant, failed = drawn(80, 0.0)
    tags = [["medicine"] if k < 20 else ["other"] for k in range(80)]
    assert run_of(relevant, failed, tags=tags).manifest.concentrations == ()
    failed[:12, 0] = True
    failed[40, 2] = True
    run = run_of(relevant, failed, tags=tags)
    first = run.manifest.concentrations[0]
    assert (first.kind, first.name, first.failed, first.traces) == ("tag", "medicine", 12, 20)
    assert (first.others_failed, first.others) == (1, 60)
    assert first.p < 1e-6
    result = next(remark.text for remark in remarks_of(run.manifest) if remark.about == "concentrated")
    assert "tagged medicine have failed verdicts (12 of 20, others 1 of 60)" in result
    assert f"resumes run {run.id[:8]} and judges only failed verdicts again" in result


def test_long_chunks_that_fail_are_named() -> None:
    """The quarter of the traces with the longest chunks."""
    long = [Trace.parse({**t.model_dump(), "chunks": [{"id": "c0", "text": "x" * (10 + k)}]}) for k, t in
            enumerate(traces(40))]  # fmt: skip
    table = {(f"t{k}", "c0"): REFUSED if k >= 32 else 1 for k in range(40)}
    with Evaluator(FakeBackend.table(table), metrics=["P@5"], cache=False) as evaluator:
        run = evaluator.evaluate(long)
    (only,) = run.manifest.concentrations
    assert (only.kind, only.name, only.failed, only.traces) == ("length", "40 to 49", 8, 10)


def test_bounds_without_width_are_the_value() -> None:
    """An open trace whose bounds are equal counts with them, though no expected value is known."""
    column = FilledColumn.of([0.2, np.nan, np.nan], [0.2, 0.5, 0.0], [0.2, 0.5, 0.0])
    assert column.value.tolist() == [0.2, 0.5, 0.0]


def test_what_fills_an_open_trace_is_the_same_in_means_and_in_slices() -> None:
    """A trace whose claims nobody knows has no ClaimRecall, and still counts as complete for other metrics."""
    run = run_by_claims(
        [
            claimed("a", {"c1": "+..", "c2": ".+."}),
            claimed("b", {"c1": "+..", "c2": "+++"}),
            claimed("without", {}, chunks=["Nothing here."]),
            claimed("open", {"c1": "!..", "c2": "..."}),
        ],
        metrics=["ClaimRecall@3", "HitRate@8w"],
    )
    filled = opened(run, verdict_table(run)).value
    for place, name in enumerate(["ClaimRecall@3", "HitRate@8w"]):
        assert np.nanmean(filled[:, place]) == pytest.approx(run.manifest.aggregates[name].mean)
    assert run["HitRate@8w"] == pytest.approx(2 / 3)
