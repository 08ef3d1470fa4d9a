"""What users write, checked by mypy --strict and never run."""

from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass
from typing import assert_type

from judge_eval import (
    Chunk,
    EvalRun,
    Evaluator,
    GradeTable,
    Metric,
    NoVerdict,
    ReadOptions,
    Trace,
    TraceResult,
    Verdict,
    evaluate,
    mlflow_scorer,
    open_dataset,
    parse_metric,
)


def one_trace(trace: Trace) -> None:
    evaluator = Evaluator("fake/overlap", prompt="support/binary", metrics=["AP@5", parse_metric("MRR")])
    run = evaluator.evaluate(trace)
    assert_type(run, EvalRun)
    assert_type(run["AP@5"], float | None)
    outcome = run.results[0].outcomes[0]
    assert_type(outcome, Verdict | NoVerdict)
    if outcome.kind == "verdict":
        assert_type(outcome, Verdict)
    else:
        assert_type(outcome, NoVerdict)


def rows(frame: Iterable[str], documents: list[object]) -> None:
    run = evaluate([("question", "reference", documents), {"query": "q", "chunks": documents}], "fake/overlap")
    assert_type(evaluate(frame, "fake/overlap"), EvalRun)  # a frame iterates over the names of its columns
    run.to_pandas(), run.to_polars(), run.to_dataset(), run.verdicts_frame("polars")


async def many(traces: AsyncIterator[Trace]) -> None:
    async with Evaluator("fake/overlap", cache=False) as evaluator:
        assert_type(await evaluator.aevaluate(traces), EvalRun)
        async for result in evaluator.astream([{"query": "q", "reference": "r", "chunks": ["a"]}]):
            assert_type(result, TraceResult)


def shapes() -> None:
    assert_type(evaluate("data.jsonl", "fake/overlap", cache=False), EvalRun)
    assert_type(Trace(query="q", chunks=(Chunk(id="c1", text="t"),)).chunks, tuple[Chunk, ...])
    metric = parse_metric("NDCG(gain=exp)@10")
    assert_type(metric, Metric)
    table = GradeTable.from_rows([[1, 0], [None, 1]], ids=["a", "b"])
    metric.compute(table, missing="bounds")[0].mean()


def selections() -> None:
    evaluator = Evaluator("fake/overlap")
    run = evaluator.evaluate("x.csv", out="runs", limit=3, seed=1, shard=(1, 2), on_invalid="skip", name="x")
    assert_type(run, EvalRun)
    assert_type(evaluator.stream("x.csv"), Iterator[TraceResult])
    evaluator.evaluate("x.csv", limt=3)  # type: ignore[call-arg]
    evaluator.plan("x.csv", limit="3")  # type: ignore[arg-type]


def files() -> None:
    assert_type(open_dataset("ragas.csv", map={"query": "q"}, depth=10), Iterator[Trace])
    options = ReadOptions(format="qa", list_sep="|")
    run = Evaluator("fake/overlap").evaluate("x.csv", reader=options)
    assert_type(run.to_mlflow(experiment="retrieval"), str)
    mlflow_scorer(Evaluator("fake/overlap"), name="retrieval")


@dataclass
class Row:
    """A user's own."""

    question: str
    contexts: list[str]


def what_the_docs_show(texts: list[str], own: Row) -> None:
    chunk = Chunk(id="c1", text="We open at nine.")
    traces = [Trace(id="q1", query="When?", reference="At nine.", chunks=[chunk]), Trace(query="When?", chunks=texts)]
    Trace(id="q1", query="When?", chunks=[{"id": "c1", "text": "We open at nine."}], tags=["a"], metadata={"page": 1})
    evaluate(traces, "fake/overlap"), evaluate(own, "fake/overlap"), evaluate([own], "fake/overlap")
    assert_type(Evaluator("fake/overlap").judge(own), TraceResult)
