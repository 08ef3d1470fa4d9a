"""Biases from the command line."""

from __future__ import annotations

import json

from judge_eval import evaluate
from judge_eval.data.options import ReadOptions
from tests.study.test_bias import traces
from tests.support.desk import Desk


def test_the_command_prints_the_table_and_edits_chunks(desk: Desk) -> None:
    """`bias` needs labels or a judge; with a judge chunks are edited and asked again."""
    rows = [trace.model_dump(mode="json", exclude_defaults=True) for trace in traces(25)]
    (desk.folder / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert desk("run", "data.jsonl", "-m", "fake/biased", "-q").code == 0
    done = desk("bias", "latest", "--origin", "reference=fake/biased", "-m", "fake/biased", "--limit", "4")
    assert done.code == 0, done.err
    assert "change of P(relevant)" in done.out
    assert "echo-bait" in done.out
    assert desk("bias", "latest", "--origin", "reranker").code == 2


def test_the_origin_given_to_a_run_stays_with_its_traces(desk: Desk) -> None:
    """`run --origin` fills what traces do not say, in every reader; `bias` finds it later; wrong roles are named."""
    rows = [trace.model_dump(mode="json", exclude_defaults=True) for trace in traces(25)]
    rows = [{**row, "origin": {}} for row in rows]
    rows[0]["origin"] = {"reranker": "other/own"}
    (desk.folder / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (desk.folder / "data.json").write_text(json.dumps({"cases": rows}), encoding="utf-8")
    for data in (["data.jsonl"], ["data.json", "--records", "cases"]):
        done = desk("run", *data, "-m", "fake/biased", "-q", "--origin", "reranker=fake/r", "--origin", "answer=gpt/a")
        assert done.code == 0, done.err
        first, second, *_ = json.loads(desk("show", "latest", "--json", "--limit", "2").out)
        assert first["trace"]["origin"] == {"reranker": "other/own", "answer": "gpt/a"}
        assert second["trace"]["origin"] == {"reranker": "fake/r", "answer": "gpt/a"}
    assert "kinship with reranker" in desk("bias", "latest").out
    for text in ("rerank=fake/r", "reranker=", "reranker"):
        done = desk("run", "data.jsonl", "-m", "fake/biased", "--origin", text)
        assert done.code == 2
        assert "write ROLE=MODEL, ROLE one of reference, answer, reranker" in done.err
    run = evaluate(traces(2), "fake/biased", metrics=["P@1"], cache=False, reader=ReadOptions(origin={"answer": "x/y"}))
    assert {result.trace.origin["answer"] for result in run.results} == {"x/y"}
