from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from judge_eval import EvalRun, Evaluator, Trace
from judge_eval.compare.compare import compare
from judge_eval.compare.comparison import Comparison
from judge_eval.errors import RefusedError, RunError
from judge_eval.stats import compare_paired, holm
from judge_eval.views.comparison import finding_words
from tests.support.notes import note_sentences
from tests.support.verdicts import judged, traces_of

NAMES = [f"t{k:02d}" for k in range(30)]
GOOD = {(name, "b"): 1 for name in NAMES}


def test_two_cached_runs_show_no_difference_and_cost_no_call(tmp_path: Path) -> None:
    """An A/A comparison of the same data says "no difference" in every metric, with zero calls."""
    data = Path(__file__).parents[2] / "fixtures" / "docs_qa.jsonl"
    runs = []
    for label in ("first", "second"):
        with Evaluator("fake/overlap", blank="irrelevant", cache=tmp_path / "cache") as evaluator:
            runs.append(evaluator.evaluate(data, out=tmp_path / "runs", label=label))
    result = runs[0].compare(runs[1])
    assert runs[1].manifest.tally.calls == 0
    assert [d.finding for d in result.differences] == ["same"] * 3
    assert all(finding_words(d) == "all the same" for d in result.differences)
    assert (result.traces, result.changed, result.warnings, result.notes) == ((), ({},), (), ())
    assert result.differences[0].p == 1.0


def test_a_retriever_better_by_one_rank_is_found_and_its_traces_named() -> None:
    """30 of 200 traces whose relevant chunk rose by one rank: found, and exactly these are named."""
    names = [f"t{k:03d}" for k in range(200)]
    good = {(name, "b"): 1 for name in names}
    before = judged(traces_of(dict.fromkeys(names, "abc")), good)
    after = judged(traces_of({n: "bac" if k < 30 else "abc" for k, n in enumerate(names)}), good)
    result = before.compare(after)
    ap = result["AP@3"]
    assert ap.finding == "higher"
    assert (ap.wins, ap.ties, ap.losses) == (30, 170, 0)
    assert ap.difference == pytest.approx(30 / 200 * 0.5)
    assert {t.trace_id for t in result.traces} == set(names[:30])
    assert {t.kind for t in result.traces} == {"retrieval"}
    assert result.traces[0].moves == ("2", "1", "3")
    assert result["P@3"].finding == "same"


def test_numbers_are_those_of_the_paired_statistics() -> None:
    """Difference, interval, p values and power are those of `compare_paired` on the same values."""
    rng = np.random.default_rng(5)
    texts = dict.fromkeys(NAMES, "abc")
    single, two = ({(n, c): int(rng.integers(2)) for n in NAMES for c in "abc"} for _ in range(2))
    first, second = judged(traces_of(texts), single), judged(traces_of(texts), two)
    result = compare(first, second)
    a, b = ([r.scores["AP@3"] or 0.0 for r in run.results] for run in (first, second))
    expected = compare_paired(a, b, limits=(0.0, 1.0), comparisons=len(result.differences))
    d = result["AP@3"]
    assert expected.interval is not None
    assert d.interval == (expected.interval.low, expected.interval.high)
    assert (d.difference, d.p, d.dz) == (expected.difference, expected.p, expected.dz)
    assert d.detectable == expected.detectable
    assert d.p_holm >= d.p


def test_every_change_is_classified() -> None:
    """Retrieval changed, verdict flipped on the same chunk, or both; an unchanged trace is not named."""
    texts = {"same": "ab", "moved": "ab", "flipped": "ab", "both": "ab"}
    later = {**texts, "moved": "bc", "both": "bc"}
    first = judged(traces_of(texts), {("flipped", "a"): 1, ("both", "b"): 1})
    second = judged(traces_of(later), {("moved", "c"): 1})
    result = first.compare(second)
    assert {t.trace_id: t.kind for t in result.traces} == {"moved": "retrieval", "flipped": "verdicts", "both": "both"}
    assert result.changed == ({"retrieval": 1, "verdicts": 1, "both": 1},)
    flip = next(t for t in result.traces if t.trace_id == "both").flips
    assert [(f.chunk_id, f.before, f.after) for f in flip] == [("b", 1, 0)]


def test_a_lost_verdict_is_a_change_and_its_trace_stays_in_the_metric() -> None:
    """A trace with a failed verdict in one run is open, counted, warned of, and named as changed."""
    texts = {"x": "ab", "y": "ab", "z": "ab"}
    first = judged(traces_of(texts), {"a": 1})
    second = judged(traces_of(texts), {("x", "a"): RefusedError("no"), ("y", "a"): 1, ("z", "a"): 1})
    result = first.compare(second)
    assert (result["AP@3"].n, result["AP@3"].n_open, result["AP@3"].n_excluded) == (3, 1, 0)
    assert (result["AP@3"].wins, result["AP@3"].ties, result["AP@3"].losses) == (0, 2, 0)
    assert result["AP@3"].finding == "unclear"
    assert result["AP@3"].interval is not None
    assert result["AP@3"].interval[0] <= -1 / 3
    assert any("failed verdict" in line for line in note_sentences(result.warnings))
    (change,) = result.traces
    assert (change.trace_id, change.kind, change.before, change.after) == ("x", "verdicts", "+.", "!.")
    assert change.flips[0].after is None


def test_another_judge_prompt_or_dataset_is_warned_of() -> None:
    """The warning names what differs: the model, the prompt, traces of one run only, other questions."""
    traces = traces_of({"x": "ab", "y": "ab"})
    with Evaluator("fake/overlap", cache=False) as evaluator:
        first = evaluator.evaluate(traces)
    with Evaluator("fake/always", prompt="relevance/binary", cache=False) as evaluator:
        other = [traces[0], traces[1].model_copy(update={"query": "something else"}), *traces_of({"z": "ab"})]
        second = evaluator.evaluate([Trace.parse(t.model_dump()) for t in other])
    message = " | ".join(note_sentences(first.compare(second).warnings))
    assert "the model differs in model" in message
    assert "the judge differs in prompt" in message
    assert "1 trace (y) have a different question" in message
    assert "1 trace (z) only in the candidate" in message


def test_traces_without_ids_are_paired_by_what_they_ask() -> None:
    """An id made from the content changes with the retrieved chunks; the question still pairs the traces."""

    def made(order: str) -> EvalRun:
        rows = [{"query": f"q{k}", "reference": "r", "chunks": [f"{c}{k}" for c in order]} for k in range(5)]
        with Evaluator("fake/overlap", metrics=["AP@3"], cache=False) as evaluator:
            return evaluator.evaluate(rows)

    result = made("ab").compare(made("ba"))
    assert result.paired == (5,)
    assert result.warnings == ()


def test_three_runs_are_compared_with_the_baseline_and_pair_by_pair() -> None:
    """Several candidates: Holm over all of them, Tukey for all pairs, one more of these than candidates."""
    texts = dict.fromkeys(NAMES, "abc")
    runs = [judged(traces_of(texts), {c: 1}, label=c) for c in "cba"]
    result = compare(*runs, metrics=["RR"])
    assert [d.candidate for d in result.differences] == [1, 2]
    assert [(p.first, p.second) for p in result.pairs] == [(0, 1), (0, 2), (1, 2)]
    assert tuple(d.p_holm for d in result.differences) == holm([d.p for d in result.differences])
    assert result.pairs[1].p < 0.01 < result.pairs[0].p


def test_clusters_widen_the_comparison() -> None:
    """Traces that carry clusters are compared cluster-robustly, with the number of clusters recorded."""
    more = {name: {"metadata": {"cluster": k // 5}} for k, name in enumerate(NAMES)}
    texts = dict.fromkeys(NAMES, "abc")
    first = judged(traces_of(texts, **more), {})
    second = judged(traces_of(texts, **more), {(n, "a"): 1 for k, n in enumerate(NAMES) if k // 5 % 2})
    assert first.compare(second)["P@3"].clusters == 6


def test_metrics_a_run_was_not_scored_by_are_computed() -> None:
    """Any metric can be compared: it follows from the verdicts."""
    texts = dict.fromkeys(NAMES, "abc")
    result = judged(traces_of(texts), {"a": 1}).compare(judged(traces_of(texts), {"b": 1}), metrics=["HitRate@1"])
    assert result["HitRate@1"].difference == -1.0


def test_runs_without_a_common_trace_are_refused() -> None:
    """There is nothing to compare: the message names both runs."""
    with pytest.raises(RunError, match="no trace in common"):
        judged(traces_of({"x": "a"}), {}).compare(judged(traces_of({"y": "a"}), {}))


def test_the_record_is_json_without_nan_and_reads_back() -> None:
    """A comparison of a single trace has no interval, and still writes and reads back the same."""
    result = judged(traces_of({"x": "ab"}), {"a": 1}).compare(judged(traces_of({"x": "ab"}), {"b": 1}))
    assert result["AP@3"].interval is None
    text = result.model_dump_json()
    assert "NaN" not in text
    assert Comparison.model_validate_json(text) == result


def test_html_shows_strips_and_escapes_text() -> None:
    """The notebook's fragment holds the rank strips, and hostile text only as text."""
    evil = "<script>alert(1)</script>"
    first = judged(traces_of({"x": "ab"}, x={"query": evil}), {"a": 1}, label=evil)
    second = judged(traces_of({"x": "ba"}, x={"query": evil}), {"a": 1})
    html = first.compare(second)._repr_html_()
    assert "<script" not in html
    assert "rank 1, was 2" in html
    assert "retrieval changed" in html
