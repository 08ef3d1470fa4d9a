"""Comparisons and reports of large runs, and what they hold of each trace."""

import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge_eval import EvalRun, FakeBackend
from judge_eval.compare.changes import KINDS, kinds_of, pair_traces
from judge_eval.compare.compare import compare
from judge_eval.runs.columns.verdict_table import table_from
from judge_eval.runs.folder.labels import Label, add_label
from judge_eval.runs.folder.records import TraceResult
from judge_eval.schema import Chunk, NoVerdict, Trace, Verdict
from tests.support.application import CliRunner, app
from tests.support.blocks_of_pages import blocks_of, data_of
from tests.support.columnar import made
from tests.support.reports import compare_report, run_report
from tests.support.runs import evaluator, traces

pytestmark = pytest.mark.foreign


def test_a_comparison_holds_little_of_each_trace(tmp_path: Path) -> None:
    """Comparing two runs takes less than 1,200 bytes a trace of eight chunks, though its texts are longer."""
    data = traces(60, 8)
    wide = [
        Trace.parse({**t.model_dump(), "id": f"{t.id}-{k}", "query": t.query + " long" * 500})
        for k in range(25)
        for t in data
    ]
    backend = FakeBackend.table({}, default=1)
    folder = evaluator(backend).evaluate(wide, out=tmp_path).folder
    first, two = EvalRun.load(folder or ""), EvalRun.load(folder or "")
    compare(first, two)  # imports are not counted
    first, two = EvalRun.load(folder or ""), EvalRun.load(folder or "")
    tracemalloc.start()
    compare(first, two)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak / len(wide) < 1200, peak / len(wide)


chunk = st.tuples(st.integers(0, 3), st.sampled_from([0, 1, None]))


@given(st.lists(st.tuples(st.lists(chunk, max_size=4), st.lists(chunk, max_size=4)), max_size=8))
def test_changes_are_what_the_lists_say(rows: list[tuple[list[Any], list[Any]]]) -> None:
    """Order and membership of chunks are the retrieval, another grade of a chunk of both is the verdict."""

    def told(place: int, chunks: list[Any]) -> TraceResult:
        passages = [Chunk(id=f"c{rank}", text=f"text {name}") for rank, (name, _) in enumerate(chunks)]
        trace = Trace(id=f"t{place}", query="q?", chunks=tuple(passages))
        outcomes = tuple(
            NoVerdict(chunk_id=c.id, why="refused")
            if grade is None
            else Verdict(chunk_id=c.id, grade=grade, relevant=grade == 1)
            for c, (_, grade) in zip(passages, chunks, strict=True)
        )
        return TraceResult(
            position=place, trace_id=trace.id, digest="d", outcomes=outcomes, trace=trace,
            scores={"P@2": float(len(chunks))},
        )  # fmt: skip

    def named(old: list[Any], new: list[Any]) -> str | None:
        flipped = False
        for name in {name for name, _ in old}:  # the first of both is the same chunk, the second, ...
            pairs = zip([g for n, g in old if n == name], [g for n, g in new if n == name], strict=False)
            flipped |= any(single != other for single, other in pairs)
        if [name for name, _ in old] != [name for name, _ in new]:
            return "both" if flipped else "retrieval"
        return "verdicts" if flipped else "scores" if len(old) != len(new) else None

    first = table_from([told(place, old) for place, (old, _) in enumerate(rows)], ["P@2"])
    second = table_from([told(place, new) for place, (_, new) in enumerate(rows)][::-1], ["P@2"])
    kinds = kinds_of(pair_traces(first, second))
    assert [KINDS[kind] for kind in kinds] == [named(old, new) for old, new in rows]


def test_a_large_run_is_reported_by_its_worst_traces(tmp_path: Path) -> None:
    """Of a run with more traces than wanted, the worst are in the file; its figures are those of all."""
    first, two = made(tmp_path / "a", 1), made(tmp_path / "b", 2)
    add_label(first.folder or Path(), Label(trace_id="t04", chunk_id="a", label=1))
    whole, brief = data_of(run_report(first)), data_of(run_report(first, most=10))
    assert whole["shown"] is None
    assert brief["shown"] == {"n": 10, "of": 40}
    for part in ("head", "metrics", "histograms", "by_tag", "failures", "provenance"):
        assert brief[part] == whole[part], part
    assert brief["agreement"] == {**whole["agreement"], "slices": ""}, "of a large run slices are shown if asked for"
    scores = sorted((r.scores["AP@3"] is not None, r.scores["AP@3"] or 0.0) for r in first.results)
    assert len(brief["rows"]) == 10
    shown = [(row["scores"]["AP@3"] is not None, row["scores"]["AP@3"] or 0.0) for row in brief["rows"]]
    assert sorted(shown) == scores[:10]
    blocks = blocks_of(run_report(first, most=10))
    assert [card["id"] for card in blocks] == [row["id"] for row in brief["rows"]]
    # Beside a baseline: those that lost most; the comparison is of all.
    whole, brief = data_of(run_report(two, first)), data_of(run_report(two, first, most=10))
    assert brief["metrics"] == whole["metrics"]
    lost = sorted(row["deltas"].get("AP@3", 0.0) for row in whole["rows"])
    assert sorted(row["deltas"].get("AP@3", 0.0) for row in brief["rows"]) == lost[:10]
    whole, brief = data_of(compare_report(first, two)), data_of(compare_report(first, two, most=6))
    assert whole["shown"] is None
    assert brief["shown"] == {"n": 6, "of": len(whole["changed"])}
    for part in ("a", "b", "warnings", "notes", "metrics", "changes", "common", "only_a", "only_b"):
        assert brief[part] == whole[part], part
    assert len(blocks_of(compare_report(first, two, most=6))) == 6
    for name, points in brief["points"].items():
        assert [(p["a"], p["b"], p["n"]) for p in points] == [(p["a"], p["b"], p["n"]) for p in whole["points"][name]]
        assert brief["differences"][name]["zero"] == whole["differences"][name]["zero"]


def test_report_max_traces_on_the_command_line(tmp_path: Path) -> None:
    """`report --max-traces` says in the file how many traces it leaves out."""
    run = made(tmp_path / "runs")
    out = tmp_path / "report.html"
    done = CliRunner().invoke(app, ["report", str(run.folder), "--max-traces", "5", "-o", str(out), "--cache", "none"])
    assert done.exit_code == 0, done.output
    assert data_of(out.read_text())["shown"] == {"n": 5, "of": 40}
    assert "5 of 40 traces in full" in done.output
