from __future__ import annotations

import json
import random
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import ir_measures
import pytest
import pytrec_eval

from judge_eval import Chunk, Evaluator, Trace
from judge_eval.data.collection import read_qrels, read_run
from judge_eval.data.reading import open_dataset
from judge_eval.errors import ConfigError, DataError, RefusedError, UnknownNameError
from judge_eval.eval_run import EvalRun
from judge_eval.export.formats import FORMATS, write_as
from judge_eval.llm.fake.fake_backend import FakeBackend

pytestmark = pytest.mark.foreign

METRICS = ["map_cut_5", "ndcg_cut_5", "AP@5", "RR@5"]


def judged(
    traces: list[Trace], answers: Any, metrics: list[str] = METRICS, prompt: str = "relevance/binary"
) -> EvalRun:
    """Judge traces by a table of answers."""
    with Evaluator(FakeBackend.table(answers, default=0), prompt=prompt, metrics=metrics, cache=False) as evaluator:
        return evaluator.evaluate(traces, label="main", tags=["nightly"])


def some_run(seed: int = 1, count: int = 40) -> tuple[EvalRun, list[list[float]]]:
    """Return a run whose retriever scored with many ties, and the scores."""
    draw = random.Random(seed)
    traces, answers, scores = [], {}, []
    for n in range(count):
        length = draw.choice([0, 1, 2, 5, 8, 12])
        tied = sorted((draw.choice([0.2, 0.5, 0.5, 0.9]) for _ in range(length)), reverse=True)
        ids = [f"d{draw.randrange(10**6)}-{k}" for k in range(length)]
        grades = [int(draw.random() < 0.4) for _ in ids]
        answers |= {(f"q{n}", key): grade for key, grade in zip(ids, grades, strict=True)}
        chunks = [Chunk(id=key, text=f"text {key}", score=s) for key, s in zip(ids, tied, strict=True)]
        total = sum(grades) + draw.choice([0, 0, 1, 4])
        traces.append(Trace(id=f"q{n}", query=f"question {n}?", chunks=chunks, relevant_total=total))
        scores.append(tied)
    return judged(traces, answers), scores


def test_trec_files_give_our_numbers(tmp_path: Path) -> None:
    """pytrec_eval and ir_measures compute our map_cut_5, ndcg_cut_5 from the exported files, ties or not."""
    run, scores = some_run()
    assert any(a == b for tied in scores for a, b in pairwise(tied)), "no tie, nothing shown"
    write_as(run, tmp_path / "x.run")
    write_as(run, tmp_path / "x.qrels")
    qrels, ranked = read_qrels(tmp_path / "x.qrels"), read_run(tmp_path / "x.run")
    with (tmp_path / "x.qrels").open() as q, (tmp_path / "x.run").open() as r:
        theirs = pytrec_eval.RelevanceEvaluator(pytrec_eval.parse_qrel(q), {"map_cut.5", "ndcg_cut.5"}).evaluate(
            pytrec_eval.parse_run(r)
        )
    compared = 0
    for result in run.results:
        assert result.trace_id in qrels
        for name in ("map_cut_5", "ndcg_cut_5"):
            # A query for which nothing was retrieved stands in no run; its numbers are 0.
            value = theirs[result.trace_id][name] if result.trace.chunks else 0.0
            assert result.scores[name] == pytest.approx(value, abs=1e-9), (result.trace_id, name)
            compared += 1
    assert compared == 80
    assert sum(map(len, ranked.values())) == sum(len(result.outcomes) for result in run.results)
    measures = {"map_cut_5": ir_measures.AP @ 5, "ndcg_cut_5": ir_measures.nDCG @ 5}
    actual = ir_measures.calc_aggregate(
        measures.values(),
        ir_measures.read_trec_qrels(str(tmp_path / "x.qrels")),
        ir_measures.read_trec_run(str(tmp_path / "x.run")),
    )
    for name, measure in measures.items():
        assert run[name] == pytest.approx(actual[measure], abs=1e-9)


def test_ranks_survive_any_score(tmp_path: Path) -> None:
    """Scores that rise or are missing do not turn the list around: what is written falls strictly."""
    chunks = [Chunk(id=f"c{n}", text=f"text {n}", score=s) for n, s in enumerate([0.1, None, 0.9, 0.9])]
    run = judged([Trace(id="q", query="q?", chunks=chunks, relevant_total=0)], {})
    write_as(run, tmp_path / "x.run")
    ranked = read_run(tmp_path / "x.run")["q"]
    assert list(ranked) == ["c0", "c1", "c2", "c3"]
    assert all(a > b for a, b in zip(ranked.values(), list(ranked.values())[1:], strict=False))


def test_ids_are_made_safe_or_refused(tmp_path: Path) -> None:
    """White space in ids is escaped, a leading # too; two ids that would fall together are an error."""
    ids = ["a b", "#c", "d\u00a0e", "f\ng"]
    chunks = [Chunk(id=key, text=f"t {key}") for key in ids]
    run = judged([Trace(id="q 1", query="q?", chunks=chunks, relevant_total=0)], {"a b": 1})
    for suffix in ("run", "qrels"):
        write_as(run, tmp_path / f"x.{suffix}")
        assert len((tmp_path / f"x.{suffix}").read_text().splitlines()) == 4
    assert read_qrels(tmp_path / "x.qrels") == {"q%201": {"a%20b": 1, "%23c": 0, "d%C2%A0e": 0, "f%0Ag": 0}}
    chunks = [Chunk(id=key, text=f"t {key}") for key in ("a b", "a%20b")]
    run = judged([Trace(id="q", query="q?", chunks=chunks, relevant_total=0)], {})
    with pytest.raises(DataError, match=r"are the same in a TREC file"):
        write_as(run, tmp_path / "y.run")
    assert not (tmp_path / "y.run").exists()


def failing_run() -> EvalRun:
    """Two traces, of which one has a chunk that the judge refused."""
    traces = [
        Trace(id=f"q{n}", query="q?", chunks=[Chunk(id=f"a{n}", text="t"), Chunk(id=f"b{n}", text="u")]) for n in (1, 2)
    ]
    return judged(traces, {"a1": 1, "a2": 0, "b2": RefusedError("declined")}, ["AP@2"])


def test_a_failed_verdict_becomes_no_judgment(tmp_path: Path) -> None:
    """A trace with a failed verdict is left out of the judgments: readers would take the gap for a grade."""
    write_as(failing_run(), tmp_path / "x.qrels")
    assert read_qrels(tmp_path / "x.qrels") == {"q1": {"a1": 1, "b1": 0}}


def test_parquet_holds_the_verdicts(tmp_path: Path) -> None:
    """The Parquet file has a row a chunk, with types, and reads back as the frame."""
    import pyarrow.parquet

    write_as(failing_run(), tmp_path / "x.parquet")
    rows = pyarrow.parquet.read_table(tmp_path / "x.parquet").to_pylist()
    assert [row["grade"] for row in rows] == [1, 0, 0, None]
    assert [row["relevant"] for row in rows] == [True, False, False, None]
    assert rows[3]["reason"] == "declined"


def test_jsonl_can_be_judged_again(tmp_path: Path) -> None:
    """The exported dataset is the one that was judged, by id and digest, with the outcomes as metadata."""
    run = failing_run()
    write_as(run, tmp_path / "x.jsonl")
    again = list(open_dataset(tmp_path / "x.jsonl"))
    assert [(t.id, t.digest) for t in again] == [(r.trace_id, r.trace.digest) for r in run.results]
    result = again[1].chunks[1].metadata["judge_eval"]
    assert isinstance(result, dict)
    assert result["why"] == "refused"


def test_phoenix_annotations_name_span_and_position(tmp_path: Path) -> None:
    """A run over spans becomes the body that Phoenix takes; a failed verdict has a label and no score."""
    chunks = [Chunk(id="a", text="t"), Chunk(id="b", text="u"), Chunk(id="c", text="v")]
    trace = Trace(id="x", query="q?", chunks=chunks, metadata={"span_id": "00f067aa0ba902b7"})
    run = judged([trace], {"a": 1, "c": RefusedError("declined")}, ["AP@2"])
    write_as(run, tmp_path / "x.json", "phoenix")
    sent = json.loads((tmp_path / "x.json").read_text())["data"]
    assert {row["span_id"] for row in sent} == {"00f067aa0ba902b7"}
    assert [row["document_position"] for row in sent] == [0, 1, 2]
    assert [row["result"].get("score") for row in sent] == [1.0, 0.0, None]
    assert [row["result"]["label"] for row in sent] == ["relevant", "not relevant", "no verdict: refused"]
    assert {row["annotator_kind"] for row in sent} == {"LLM"}
    assert not any("identifier" in row for row in sent), "Phoenix refuses identifiers on documents"
    with pytest.raises(DataError, match="trace 'q1' names no span"):
        write_as(failing_run(), tmp_path / "y.json", "phoenix")


def test_inspect_log_counts_what_failed(tmp_path: Path) -> None:
    """The log has a sample a trace and a score a metric; a missing score is unscored, never a number."""
    run = failing_run()
    write_as(run, tmp_path, "inspect")
    [path] = tmp_path.iterdir()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d.*_main_[0-9a-f]{8}\.json", path.name)
    log = json.loads(path.read_text())
    assert (log["version"], log["status"]) == (2, "success")
    [score] = log["results"]["scores"]
    assert (score["name"], score["scored_samples"], score["unscored_samples"]) == ("AP@2", 1, 1)
    assert 0 < score["metrics"]["mean"]["value"] < 1  # the failed trace counts by expectation
    assert [sample["scores"].get("AP@2", {}).get("value") for sample in log["samples"]] == [1.0, None]
    assert "no verdict (refused) declined" in log["samples"][1]["output"]["choices"][0]["message"]["content"]


def test_a_format_is_named_or_advised(tmp_path: Path) -> None:
    """The suffix names the format; without one, or with a wrong name, the error lists what there is."""
    run = failing_run()
    assert write_as(run, tmp_path / "x.csv") == "csv"
    with pytest.raises(ConfigError, match=r"its suffix names no format; give `format` \(`--format`\): csv, inspect"):
        write_as(run, tmp_path / "x.bin")
    with pytest.raises(UnknownNameError, match="did you mean 'trec-run'"):
        write_as(run, tmp_path / "x.bin", "trec_run")
    with pytest.raises(ConfigError, match=r"cannot write .*No such file"):
        write_as(run, tmp_path / "no" / "x.csv")
    assert {"jsonl", "csv", "parquet", "phoenix", "inspect", "trec-run", "trec-qrels"} <= set(FORMATS)


def test_writers_import_no_framework(tmp_path: Path) -> None:
    """Writing everything but Parquet imports neither tables nor tools."""
    run = failing_run()
    with Evaluator(FakeBackend.table({}, default=0), prompt="relevance/binary", cache=False) as evaluator:
        ids = {"span_id": "s", "trace_id": "t", "run_id": "01a1fd47-69a4-774a-a9d2-5da22ce52d32"}
        trace = Trace(id="x", query="q?", chunks=[Chunk(text="t")], metadata=ids)
        kept = evaluator.evaluate([trace], out=tmp_path / "runs")
    assert run.folder is None
    script = f"""
import sys
from itertools import pairwise
from pathlib import Path
from judge_eval.eval_run import EvalRun
from judge_eval.export.formats import FORMATS, write_as
run = EvalRun.load({str(kept.folder)!r})
for name in FORMATS:
    if name != "parquet":
        write_as(run, Path({str(tmp_path)!r}) / name, name)
heavy = "inspect_ai phoenix mlflow ir_measures pytrec_eval pandas polars pyarrow openai"
print([name for name in heavy.split() if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"
