"""Runs over a collection with its judgments: the metrics that need the pool, against trec_eval itself."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from judge_eval import Evaluator, FakeBackend, Trace
from judge_eval.errors import DataError, RefusedError
from judge_eval.eval_run import EvalRun
from judge_eval.runs.scoring.rescore import rescore
from tests.support.command import Shell
from tests.support.runs import evaluator, traces

MEASURES = ["bpref", "ndcg", "ndcg_cut_5", "ndcg_cut_10"]
QUERIES, DOCUMENTS, RETRIEVED = 12, 30, 14


def collection(folder: Path, highest: int, seed: int) -> dict[str, dict[str, int]]:
    """Write a TREC folder whose pool is only partly retrieved, and return its judgments."""
    draw = random.Random(seed)
    folder.mkdir()
    documents = [f"d{n}" for n in range(DOCUMENTS)]
    with (folder / "corpus.jsonl").open("w") as file:
        for name in documents:
            file.write(json.dumps({"_id": name, "text": f"Text {name}."}) + "\n")
    qrels: dict[str, dict[str, int]] = {}
    with (
        (folder / "queries.jsonl").open("w") as queries,
        (folder / "qrels.txt").open("w") as judgments,
        (folder / "run.trec").open("w") as run,
    ):
        for n in range(QUERIES):
            query = f"q{n}"
            queries.write(json.dumps({"_id": query, "text": f"Question {n}?", "answer": "So."}) + "\n")
            qrels[query] = {name: draw.randint(0, highest) for name in draw.sample(documents, 16)}
            for name, grade in qrels[query].items():
                judgments.write(f"{query} 0 {name} {grade}\n")
            judgments.write(f"{query} 0 unjudged -1\n")
            for rank, name in enumerate(draw.sample(documents, RETRIEVED), 1):
                run.write(f"{query} Q0 {name} {rank} {100 - rank} tag\n")
    return qrels


def verdicts(highest: int, seed: int) -> tuple[FakeBackend, dict[str, int]]:
    """A judge that grades every document as it likes, whatever people said; and its grades."""
    draw = random.Random(seed + 1)
    grades = {f"d{n}": draw.randint(0, highest) for n in range(DOCUMENTS)}
    table: dict[Any, Any] = {
        name: {"grade": grade, "evidence": "Text"} if grade else 0 for name, grade in grades.items()
    }
    return FakeBackend.table(table), grades


def by_trec_eval(run: EvalRun, qrels: dict[str, dict[str, int]], level: int) -> dict[str, dict[str, float]]:
    """What trec_eval says of the judgments, with the verdicts in the place of people's grades."""
    pytrec_eval = pytest.importorskip("pytrec_eval")
    completed, ranked = {}, {}
    for result in run.results:
        values = {o.chunk_id: o.grade for o in result.outcomes if o.kind == "verdict"}
        completed[result.trace_id] = {**qrels[result.trace_id], **values}
        ranked[result.trace_id] = {chunk.id: 1000.0 - n for n, chunk in enumerate(result.trace.chunks)}
    oracle = pytrec_eval.RelevanceEvaluator(completed, {"bpref", "ndcg", "ndcg_cut"}, relevance_level=level)
    messages: dict[str, dict[str, float]] = oracle.evaluate(ranked)
    return messages


@pytest.mark.foreign
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("prompt", "highest", "level"), [("binary", 1, 1), ("graded", 3, 2)])
def test_metrics_of_the_pool_are_trec_eval_s(prompt: str, highest: int, level: int, seed: int, tmp_path: Path) -> None:
    """To 1e-9, also where judge and people disagree, and where what was retrieved is not in the pool."""
    qrels = collection(tmp_path / "c", highest, seed)
    backend, _ = verdicts(highest, seed)
    names = MEASURES if highest > 1 else ["bpref"]
    made = Evaluator(backend, prompt=f"relevance/{prompt}", metrics=[*names, "AP@5"], cache=False)
    run = made.evaluate(tmp_path / "c", out=tmp_path / "runs")
    outcome = by_trec_eval(run, qrels, level)
    assert len(run.results) == QUERIES
    for result in run.results:
        for name in names:
            assert result.scores[name] == pytest.approx(outcome[result.trace_id][name], abs=1e-9), name
    assert run.folder is not None
    again = rescore(EvalRun.load(run.folder), names)
    assert [again[name] for name in names] == [run[name] for name in names]


@pytest.mark.foreign
def test_where_the_judge_agrees_the_numbers_are_those_of_the_judgments(tmp_path: Path) -> None:
    """A judge that says what people said, of documents that people judged: trec_eval on the qrels alone."""
    pytrec_eval = pytest.importorskip("pytrec_eval")
    draw = random.Random(5)
    grades = {f"d{n}": draw.randint(0, 3) for n in range(20)}
    chunks = [{"id": name, "text": f"Text {name}."} for name in draw.sample(sorted(grades), 8)]
    pool = {"grades": grades, "maximum": 3}
    data = {"id": "q", "query": "Q?", "reference": "R.", "chunks": chunks, "pool": pool}
    table: dict[Any, Any] = {n: {"grade": g, "evidence": "Text"} if g else 0 for n, g in grades.items()}
    made = Evaluator(FakeBackend.table(table), prompt="support/graded", metrics=MEASURES, cache=False)
    scores = made.evaluate(data).results[0].scores
    oracle = pytrec_eval.RelevanceEvaluator({"q": grades}, {"bpref", "ndcg", "ndcg_cut"}, relevance_level=2)
    theirs = oracle.evaluate({"q": {chunk["id"]: 100.0 - n for n, chunk in enumerate(chunks)}})["q"]
    assert {name: scores[name] for name in MEASURES} == pytest.approx(
        {name: theirs[name] for name in MEASURES}, abs=1e-9
    )


def pooled(maximum: int, **grades: int) -> list[Trace]:
    """Two traces with a pool, and none of them with a total."""
    pool = {"grades": grades, "maximum": maximum}
    return [Trace.parse({**trace.model_dump(), "pool": pool}) for trace in traces(2)]


def test_a_pool_on_another_scale_than_the_judge_s_is_not_used() -> None:
    """Grades of 0 to 1 say nothing on a scale of 0 to 3, nor the other way round: both are named."""
    judge = FakeBackend.table({}, default=0)
    for prompt, maximum in (("support/graded", 1), ("support/binary", 3), ("support/graded", 2)):
        with pytest.raises(DataError, match=rf"bpref.*the pool's grades go from 0 to {maximum}"):
            evaluator(judge, prompt=prompt, metrics=["bpref"]).evaluate(pooled(maximum, x=1))
    assert judge.calls == 0


def test_graded_judgments_name_the_option_that_counts_them() -> None:
    """With judgments of another range than the judge's, map_cut_10 names the level, or a prompt that has grades."""
    judge = FakeBackend.table({}, default=0)
    for prompt, maximum, cure in (("graded", 2, "relevant=2.* says that"), ("binary", 3, "such as support/graded")):
        with pytest.raises(DataError, match=cure):
            evaluator(judge, prompt=f"support/{prompt}", metrics=["map_cut_10"]).evaluate(pooled(maximum, x=2))
    assert judge.calls == 0


def test_a_failed_verdict_at_any_rank_leaves_no_score_but_bounds() -> None:
    """What the judge says makes the pool: the ideal list cannot be known without it."""
    table: dict[Any, Any] = {"q0-a": {"grade": 3, "evidence": "Text"}, "q0-c": RefusedError("no")}
    judge = FakeBackend.table(table, default={"grade": 2, "evidence": "Text"})
    made = evaluator(judge, prompt="support/graded", metrics=["ndcg"])
    run = made.evaluate(pooled(3, x=3, y=2))
    first, second = run.results
    assert first.scores["ndcg"] is None
    low, high = first.bounds["ndcg"]
    assert 0 <= low < high <= 1
    assert second.scores["ndcg"] is not None


def test_traces_with_and_without_a_pool_are_scored_each_by_what_it_brings() -> None:
    """A neighbour changes no trace's value, with a total alone or with a pool alone."""
    judge = FakeBackend.table({}, default={"grade": 1, "evidence": "Text"})
    counted = traces(3)[2].model_copy(update={"relevant_total": 5})
    data = [*pooled(1, x=1, y=0, z=1), counted]
    made = evaluator(judge, metrics=["Recall@3", "ndcg_cut_3", "AP@3"])
    together = [result.scores for result in made.evaluate(data).results]
    alone = [made.evaluate(trace).results[0].scores for trace in data]
    assert together == alone
    assert [scores["Recall@3"] for scores in together] == pytest.approx([3 / 5, 3 / 5, 3 / 5])


def test_a_folder_of_beir_is_scored_from_the_command_line(tmp_path: Path) -> None:
    """`run` over a collection computes `bpref` where it was refused, and `score` does from its folder."""
    collection(tmp_path / "c", 1, 1)
    shell = Shell(tmp_path)
    common = ["run", "c", "--model", "fake/hash", "--prompt", "relevance/binary", "--out", "runs", "--json"]
    result = shell(*common, "--metrics", "bpref,infAP,AP@5")
    assert result.code == 0, result
    mean = json.loads(result.out)["aggregates"]["bpref"]["mean"]
    assert 0 <= mean <= 1
    again = shell("score", "latest", "--metrics", "bpref", "--json", "--out", "runs")
    assert again.code == 0, again
    assert json.loads(again.out)["aggregates"]["bpref"]["mean"] == mean
