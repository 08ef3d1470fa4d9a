"""What a metric needs is looked for in the data before anybody is asked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from judge_eval import Evaluator, FakeBackend, Trace
from judge_eval.errors import DataError, MetricError
from judge_eval.eval_run import EvalRun
from judge_eval.metrics import Metric
from judge_eval.runs.scoring.rescore import rescore
from tests.support.command import Shell
from tests.support.runs import evaluator, lines, traces

GRADED: dict[str, Any] = {"prompt": "support/graded"}


def asked() -> FakeBackend:
    """A judge that finds everything relevant, and counts."""
    return FakeBackend.table({}, default={"grade": 1, "evidence": "Text"})


def counted(count: int = 3, total: int | None = 2) -> list[Trace]:
    """Traces that know how many relevant chunks exist, but not which grades they have."""
    return [trace.model_copy(update={"relevant_total": total}) for trace in traces(count)]


@pytest.mark.parametrize(
    ("metric", "settings", "told"),
    [
        ("bpref", {}, "bpref: the judged chunks of the whole pool are unknown"),
        ("bpref", GRADED, "bpref: "),
        ("ndcg", GRADED, "ndcg: the grades of the whole pool are unknown"),
        ("ndcg_cut_10", GRADED, "ndcg_cut_10: the grades of the whole pool are unknown"),
        ("NDCG(ideal=judged)@5", GRADED, "the grades of the whole pool are unknown"),
        ("Recall(rel=3)@5", GRADED, "the totals count grades >= 2, not >= 3"),
        ("map(rel=1)", GRADED, "the totals count grades >= 2, not >= 1"),
        ("AP(rel=3,norm=total)@5", GRADED, "the totals count grades >= 2, not >= 3"),
    ],
)
def test_a_metric_that_a_total_does_not_serve_is_refused_before_the_first_call(
    metric: str, settings: dict[str, Any], told: str, tmp_path: Path
) -> None:
    """From a list, a file, one trace and a plan alike: nobody is asked, no run is left."""
    judge = asked()
    path = tmp_path / "traces.jsonl"
    path.write_text("".join(trace.model_dump_json() + "\n" for trace in counted()))
    data: list[Any] = [counted(), path, counted()[0]]
    for given in data:
        made = evaluator(judge, metrics=["AP@5", metric], **settings)
        with pytest.raises(DataError) as caught:
            made.evaluate(given, out=tmp_path / "runs")
        assert told in str(caught.value)
        assert "or leave the metric out" in str(caught.value)
        with pytest.raises(DataError, match=r"leave the metric out"):
            made.plan(given)
        with pytest.raises(DataError, match=r"leave the metric out"):
            made.evaluate(given, shard=(1, 2))
    assert judge.calls == 0
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("metric", ["Recall@5", "F1@5", "P_5", "map", "recip_rank", "AP(norm=min)@5"])
def test_the_trace_that_lacks_what_a_metric_needs_may_stand_anywhere(metric: str) -> None:
    """The last trace of many is looked at too, and named."""
    judge = asked()
    data = [*counted(40), *traces(41)[40:]]
    with pytest.raises(DataError, match=rf"q40.*relevant_total: .*{metric.split('(')[0]}.* needs to know"):
        evaluator(judge, metrics=[metric]).evaluate(data)
    assert judge.calls == 0


def test_what_the_data_serve_is_computed() -> None:
    """On a binary scale a total tells the ideal list; on a graded one it serves what counts."""
    names = ["ndcg_cut_5", "NDCG(ideal=judged)@5", "map", "Recall@5"]
    assert evaluator(asked(), metrics=names).evaluate(counted()).status == "done"
    names = ["map", "Recall@5", "map(rel=2)", "NDCG@5"]
    assert evaluator(asked(), metrics=names, **GRADED).evaluate(counted()).status == "done"


@pytest.mark.slow
def test_the_command_line_refuses_before_the_first_call_and_in_a_dry_run(tmp_path: Path) -> None:
    """Exit code 2, one message with file, line and metric, no run and no cached call."""
    data = [*counted(4), *traces(5)[4:]]
    (tmp_path / "t.jsonl").write_text("".join(trace.model_dump_json() + "\n" for trace in data))
    shell = Shell(tmp_path)
    for metric, line in (("bpref", 1), ("Recall@5", 5)):
        for more in (["--dry-run"], ["--out", "runs"], ["--out", "runs", "--shard", "1/2"]):
            result = shell("run", "t.jsonl", "--model", "fake/overlap", "--metrics", f"AP@5,{metric}", *more)
            assert result.code == 2, result
            assert f"t.jsonl:{line}: " in result.err
            assert metric in result.err
            assert "Traceback" not in result.err
    assert not (tmp_path / "runs").exists()


@dataclass(frozen=True)
class Moody(Metric):
    """A metric that turns out undefined only when it sees a relevant chunk, as an installed one might."""

    def compute(self, table: Any, missing: Any = "exclude") -> Any:
        if len(table) > 0 and int(table.grades.max(initial=0)) > 0:
            raise MetricError(f"{self}: undefined for such grades")
        return super().compute(table, missing)


def ended(tmp_path: Path, judge: FakeBackend) -> EvalRun:
    """A run that a metric ended after its calls."""
    made = evaluator(judge, metrics=["AP@3", Moody("DCG")])
    with pytest.raises(MetricError, match=r"undefined for such grades; every verdict is kept") as caught:
        made.evaluate(traces(3), out=tmp_path)
    assert caught.value.run_folder is not None
    return EvalRun.load(caught.value.run_folder)


def test_a_run_that_a_metric_ended_can_be_scored_by_others(tmp_path: Path) -> None:
    """Its verdicts are kept; `score` computes other metrics of them without a call."""
    judge = asked()
    run = ended(tmp_path, judge)
    assert run.status == "failed"
    assert [result.trace_id for result in run.results] == ["q0", "q1", "q2"]
    assert judge.calls == 9
    assert (run["AP@3"], run["DCG"]) == (1.0, None)
    again = rescore(run, ["P@3", "MRR"])
    assert (again["P@3"], again["MRR"]) == (1.0, 1.0)
    outcome = Shell(tmp_path)("score", str(run.folder), "--metrics", "P@3", "--json")
    assert outcome.code == 0, outcome
    assert json.loads(outcome.out)["aggregates"]["P@3"]["mean"] == 1.0


@pytest.mark.parametrize("finished", [0, 1, 3])
def test_a_run_that_a_metric_ended_is_resumed_with_others(tmp_path: Path, finished: int) -> None:
    """The verdicts at hand are scored anew, the rest is judged, and the run equals one made at once."""
    judge = asked()
    run = ended(tmp_path / "runs", judge)
    assert run.folder is not None
    results = run.folder / "results.jsonl"
    results.write_bytes(b"".join(results.read_bytes().splitlines(keepends=True)[:finished]))
    manifest = run.manifest.under_way("running")  # as a kill leaves it, before the end
    (run.folder / "manifest.json").write_text(manifest.model_dump_json())
    judge = asked()
    resumed = evaluator(judge, metrics=["P@3", "MRR"]).evaluate(traces(3), resume=run.folder)
    assert judge.calls == 9 - 3 * finished
    assert resumed.status == "done"
    whole = evaluator(asked(), metrics=["P@3", "MRR"]).evaluate(traces(3), out=tmp_path / "whole")
    assert whole.folder is not None
    assert lines(run.folder) == lines(whole.folder)
    assert resumed.manifest.metrics == ("P@3", "MRR")
    assert resumed.aggregates == whole.aggregates


def test_a_stream_is_checked_trace_by_trace_before_its_calls() -> None:
    """What can be read once cannot be surveyed: the first trace that lacks something ends it, unasked."""
    judge = asked()

    def stream() -> Iterator[Trace]:
        yield from counted(1)

    with pytest.raises(DataError, match="bpref"):
        evaluator(judge, metrics=["bpref"]).evaluate(stream())
    assert judge.calls == 0


def test_a_metric_of_the_user_is_asked_itself() -> None:
    """A metric that is undefined for what the data know is refused without being known here."""
    judge = asked()

    @dataclass(frozen=True)
    class NeedsTotals(Metric):
        def compute(self, table: Any, missing: Any = "exclude") -> Any:
            table.totals_at(table.relevant)
            return super().compute(table, missing)

    metric = NeedsTotals("DCG")
    with pytest.raises(DataError, match=r"relevant_total: DCG needs to know"):
        Evaluator(judge, metrics=[metric], cache=False).evaluate(traces(2))
    assert judge.calls == 0
    Evaluator(judge, metrics=[metric], cache=False).evaluate(counted(2))
