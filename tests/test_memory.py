"""What people hold in memory is evaluated as it is: frames, tables, datasets, lists and documents."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from judge_eval import EvalRun, Evaluator, ReadOptions, Trace, evaluate, import_verdicts
from judge_eval.errors import ConfigError, DataError, MetricError, UnknownNameError
from tests.support.command import ROOT
from tests.support.memory import FRAMES, KINDS, ROWS, TEXTS, evaluated, made

FOREIGN = pytest.mark.foreign


@pytest.mark.parametrize("kind", [k if k in ("list", "tuple") else pytest.param(k, marks=FOREIGN) for k in FRAMES])
def test_what_people_hold_is_judged_like_its_file(kind: str, tmp_path: Path) -> None:
    """Rows in any frame, table, dataset or list give the run that their file gives, trace by trace."""
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, ROWS)), encoding="utf-8")
    wanted = evaluated(path)
    for data in (made(kind, ROWS), made(kind, ROWS[:1])):
        run = evaluated(data)
        count = len(run.results)
        assert [r.trace.digest for r in run.results] == [r.trace.digest for r in wanted.results[:count]]
        assert [r.trace_id for r in run.results] == [r.trace_id for r in wanted.results[:count]]
        assert [r.scores for r in run.results] == [r.scores for r in wanted.results[:count]]
    assert evaluated(made(kind, ROWS)).manifest.dataset.digest == wanted.manifest.dataset.digest


@pytest.mark.parametrize("kind", KINDS)
def test_every_door_takes_rows(kind: str) -> None:
    """`evaluate`, its async and streaming kin, `plan`, and `import_verdicts` take the same rows."""
    frame = made(kind, ROWS)
    wanted = evaluated(ROWS)
    with Evaluator("fake/overlap", metrics=["AP@5"], cache=False) as evaluator:
        values = [
            evaluate(frame, "fake/overlap", metrics=["AP@5"], cache=False),
            asyncio.run(evaluator.aevaluate(frame)),
        ]
        assert [run["AP@5"] for run in values] == [wanted["AP@5"]] * 2
        assert len(list(evaluator.stream(frame))) == len(ROWS)
        assert evaluator.plan(frame)[0].traces == len(ROWS)
    run = import_verdicts({(7, "c1"): 1, (7, "c2"): 0, (8, "c1"): 0}, frame, metrics=["AP@5"])
    assert run["AP@5"] == 0.5


def test_rows_without_a_reference_go_with_prompts_that_need_none() -> None:
    """In a row of three the reference may be None."""
    with Evaluator("fake/overlap", prompt="relevance/binary", metrics=["AP@5"], cache=False) as evaluator:
        assert evaluator.evaluate([("open", None, ["We open."])]).results[0].trace.reference is None


@pytest.mark.parametrize("kind", KINDS)
def test_the_reader_is_honoured(kind: str, tmp_path: Path) -> None:
    """Format, field names, corpus, separator and depth of `reader=` mean for rows what they do for files."""
    rows = [{"q": "When?", "gold": "At nine.", "hits": "a|b|c"}]
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text("".join(f'{{"_id": "{key}", "text": "text {key}"}}\n' for key in "abc"))
    reader = ReadOptions(
        map={"query": "q", "reference": "gold", "chunks": "hits"}, corpus=corpus, list_sep="|", depth=2
    )
    for data in (rows, made(kind, rows), iter(rows)):
        (result,) = evaluated(data, reader=reader).results
        assert [(c.id, c.text) for c in result.trace.chunks] == [("a", "text a"), ("b", "text b")]
        assert result.trace.reference == "At nine."
    two = [{"question": "When?", "contexts": ["a"], "answer": "At nine."}]
    with pytest.raises(DataError, match=r'first row: 2 formats fit; .*format="qa"'):
        evaluated(two)
    assert evaluated(two, reader=ReadOptions(format="qa")).results[0].trace.reference == "At nine."
    with pytest.raises(UnknownNameError, match="no format 'rags'; did you mean 'ragas'"):
        evaluated(two, reader=ReadOptions(format="rags"))
    with pytest.raises(ConfigError, match="map: a trace has no field 'frage'"):
        evaluated(two, reader=ReadOptions(map={"frage": "question"}))
    with pytest.raises(DataError, match="not a collection"):
        evaluated(two, reader=ReadOptions(format="beir"))


def test_the_reader_of_traces_takes_a_depth_alone() -> None:
    """Traces are read already: what says how rows are read is refused, not ignored; a depth cuts them."""
    traces = [Trace(id="q", query="q", reference="r", chunks=["a", "b", "c"])]
    assert len(evaluated(traces, reader=ReadOptions(depth=2)).results[0].outcomes) == 2
    for data in (traces, iter(traces)):
        with pytest.raises(ConfigError, match="the data are traces already"):
            evaluated(data, reader=ReadOptions(format="ragas"))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("key", [7, np.int64(7), 7.0, np.float64(7), "7"])
def test_numbers_as_ids_are_ids(key: Any, kind: str, tmp_path: Path) -> None:
    """A whole number is an id, of a trace and of a chunk, in every shape, in frames, files and records."""
    chunk = {"id": key, "text": "We open at nine."}
    shapes = (
        {"id": key, "query": "When?", "reference": "At nine.", "chunks": [chunk]},
        {"id": key, "question": "When?", "ground_truth": "At nine.", "contexts": [chunk]},
    )
    for row in shapes:
        for data in ([row], made(kind, [row, row | {"id": None}])):
            result = evaluated(data).results[0]
            assert (result.trace_id, result.outcomes[0].chunk_id) == ("7", "7")
    made_here = Trace.parse(shapes[0])
    assert (made_here.id, made_here.chunks[0].id) == ("7", "7")
    path = tmp_path / "x.jsonl"
    number = key if isinstance(key, str) else int(key)
    path.write_text(json.dumps(shapes[0] | {"id": number, "chunks": [chunk | {"id": number}]}))
    assert evaluated(path).results[0].trace_id == "7"


def test_fractions_and_uuids_are_ids_and_truth_values_are_none() -> None:
    """A truth value is no id; a fraction and a UUID are."""
    row = {"query": "When?", "reference": "At nine.", "chunks": ["a"]}
    with pytest.raises(DataError, match="row 0: id: holds"):
        evaluated([row | {"id": True}])
    for key in (7.5, uuid.UUID(int=5)):
        assert evaluated([row | {"id": key}]).results[0].trace_id == str(key)


@pytest.mark.parametrize("kind", KINDS)
def test_equal_rows_without_ids_are_told_apart_by_their_place(kind: str, tmp_path: Path) -> None:
    """Rows that are equal and have no ids are rows of their own, in memory, in streams and in files."""
    row = {"query": "When?", "reference": "At nine.", "chunks": ["We open at nine."]}
    path = tmp_path / "x.jsonl"
    path.write_text("\n".join(map(json.dumps, [row, row, row])))
    base = Trace.parse(row).id
    for data in ([row] * 3, [Trace.parse(row)] * 3, made(kind, [row] * 3), iter([row] * 3), path):
        run = evaluated(data)
        assert [result.trace_id for result in run.results] == [base, f"{base}-2", f"{base}-3"]
        assert run["AP@5"] == 1.0
    named = [row | {"id": "x"}, row | {"id": "x"}]
    twice = "row 1: id: the trace id 'x' occurs twice, here and in row 0; ids are unique"
    for data in (named, made(kind, named), iter(named)):
        with pytest.raises(DataError, match=twice):
            evaluated(data)
    sample = evaluated([row] * 3, limit=2, seed=3)
    assert {result.trace_id for result in sample.results} < {base, f"{base}-2", f"{base}-3"}


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ([ROWS[0], {**ROWS[1], "reference": None}], "row 1: reference: the prompt needs the reference"),
        ([ROWS[0], {**ROWS[1], "chunks": ["a", {"id": "x"}]}], r"row 1: chunks\[1\]: has an id but no text"),
        ([ROWS[0], {**ROWS[1], "chunks": "abc"}], "row 1: chunks: holds a text, not a list.*list_sep="),
        ([ROWS[0], 7], "row 1: is an int; give a `Trace`, a mapping"),
        (["abc"], "row 0: is a str"),
        ([("a", "b")], "row 0: is a tuple of 2 values"),
        ([("a", 3, ["b"])], r"row 0: is a tuple of \(str, int, list\)"),
        (
            [SimpleNamespace(source_nodes=[], response="x")],
            r"the retrieved nodes without the question; give a row \(question, reference, response.source_nodes\)",
        ),
        (
            [{"frage": "q"}],
            r'the first row: no known format has these keys: frage; .*perhaps with .map=\{"query": "frage"\}',
        ),
        ([{"run_type": "llm", "inputs": {}, "outputs": {}}], "1 records of the format langsmith, but no retrieval"),
        (7, "is an int"),
        (None, "^is None; give"),
        (b"abc", "^is a bytes; give"),
        (("When?", "At nine."), "^is a tuple of 2 values; give"),
        ([("When?", "At nine.", [], "x")], "row 0: is a tuple of 4 values; give"),
        (
            [("When?", "At nine.", SimpleNamespace(source_nodes=[]))],
            r"row 0: is a tuple of \(str, str, SimpleNamespace\); give a row \(question, reference, response\.",
        ),
        ([{"query": 5, "chunks": []}], "row 0: query: holds a number, not a text"),
        ([{"query": "q", "chunks": {"a": 1}}], "row 0: chunks: holds an object, not a list"),
    ],
)
def test_errors_name_the_row(data: Any, told: str) -> None:
    """What is wrong is said in one line with the row, counted from 0, the field, and no flag of a command."""
    with pytest.raises(DataError, match=told) as caught:
        evaluated(data)
    assert "\n" not in str(caught.value)
    assert " --" not in str(caught.value)


@FOREIGN
def test_errors_in_frames_name_the_index_too() -> None:
    """In a frame with an index of its own the row is named with its label, in a stream by its place."""
    pandas = pytest.importorskip("pandas")
    rows = [ROWS[0], {**ROWS[1], "reference": None}]
    with pytest.raises(DataError, match=r"^row 1 \(index 'b'\): reference: "):
        evaluated(pandas.DataFrame(rows, index=["a", "b"]))
    with pytest.raises(DataError, match=r"^row 1: reference: "):
        evaluated(pandas.DataFrame(rows))
    with pytest.raises(DataError, match=r"^row 1: reference: "):
        evaluated(iter(rows))
    with pytest.raises(DataError, match=r"^row 0 \(trace 'x'\): reference: "):
        evaluated(Trace(id="x", query="q", chunks=()))
    with pytest.raises(DataError, match="the column 'query' occurs twice"):
        evaluated(pandas.DataFrame([["a", "b"]], columns=["query", "query"]))


def test_names_and_keywords_of_a_run_are_checked_before_it_is_judged(tmp_path: Path) -> None:
    """A label that is no text would make a run that cannot be read; a misspelled keyword names the nearest."""
    row = {"query": "When?", "reference": "At nine.", "chunks": ["a"]}
    for name, value in (("label", 5), ("href", 5), ("tags", [5]), ("baseline", 5)):
        keywords: Any = {name: value, "out": tmp_path}
        with pytest.raises(ConfigError, match=f"{name}:? must be a text, not (5|an int)"):
            evaluate([row], "fake/overlap", cache=False, **keywords)
    others = {"reader": {}, "out": 5, "on_invalid": "x", "shard": 1, "options": {}, "intervals": "auto", "prompt": 5}
    for name, value in {**others, **dict.fromkeys(("judge", "model", "cache", "claims", "driver", "watch"), 5)}.items():
        keywords = {name: value}
        with pytest.raises(ConfigError, match=f"^{name} must be .*, not "):
            evaluate([row], **{"model": "fake/overlap", "cache": False, **keywords})
    with pytest.raises(ConfigError, match=r"is named by its `Path`: Path\('my.toml'\)"):
        evaluate([row], "fake/overlap", prompt="my.toml")
    assert not list(tmp_path.iterdir())
    for name, where in (
        ("timeout", "options=Options"),
        ("method", "intervals=Intervals"),
        ("format", "reader=ReadOptions"),
    ):
        inside: Any = {name: 5}
        with pytest.raises(TypeError, match=rf"'{name}'; write {where}\({name}=...\)"):
            evaluate([row], "fake/overlap", **inside)
    wrong: Any = {"metric": "AP@5"}
    with pytest.raises(TypeError, match="'metric'; did you mean 'metrics'"):
        evaluate([row], "fake/overlap", **wrong)
    with pytest.raises(
        ConfigError, match="model must be `provider/model`, such as 'openai/NAME', or a backend, not an int"
    ):
        evaluate([row], 5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("metrics", "names"),
    [("AP@5", ["AP@5"]), ("AP@5, NDCG(gain=exp,ideal=judged)@10", ["AP@5", "NDCG(gain=exp,ideal=judged)@10"])],
)
def test_metrics_may_be_one_text(metrics: str, names: list[str]) -> None:
    """One text names metrics as on the command line; what names none is refused in plain words."""
    row = {"query": "When?", "reference": "At nine.", "chunks": ["a"], "relevant_total": 1}
    assert [*evaluate([row], "fake/overlap", cache=False, metrics=metrics)] == names
    for wrong, told in (
        (5, "a list of names such as"),
        ([5], "a metric is a name such as 'AP@5' or a `Metric`, not an int"),
    ):
        anything: Any = wrong
        with pytest.raises(MetricError, match=told):
            evaluate([row], "fake/overlap", cache=False, metrics=anything)


def test_invalid_rows_can_be_skipped() -> None:
    """Under `on_invalid="skip"` a row that holds no trace is left out and counted, as in a file."""
    rows = [{**ROWS[0], "chunks": 3}, ROWS[0], {**ROWS[1], "reference": None}, ROWS[1], 7]
    run = evaluated(rows, on_invalid="skip")
    assert [result.trace_id for result in run.results] == ["7", "8"]
    assert run.manifest.dataset.skipped == 3


@FOREIGN
def test_an_index_with_a_name_is_read_like_a_column() -> None:
    """Of `frame.set_index("id")` the ids are the traces' ids."""
    frame = made("pandas", ROWS).set_index("id")
    assert [result.trace_id for result in evaluated(frame).results] == ["7", "8"]


@FOREIGN
def test_splits_are_no_dataset() -> None:
    """A `DatasetDict` is refused with the names of its splits."""
    datasets = pytest.importorskip("datasets")
    both = datasets.DatasetDict({"dev": made("datasets", ROWS), "test": made("datasets", ROWS)})
    with pytest.raises(DataError, match=r"holds the splits dev, test; give one of them: data\['dev'\]"):
        evaluated(both)
    assert len(evaluated(both["dev"]).results) == 2


def test_what_changes_a_list_later_changes_no_run() -> None:
    """A run stands for the rows as they were when it began, though its judge empties the list meanwhile."""
    rows = [dict(row) for row in ROWS]

    def stream() -> Iterator[Any]:
        yield from rows

    async def slow() -> AsyncIterator[Any]:
        for row in rows:
            await asyncio.sleep(0)
            yield row

    def spoil(_: object) -> None:
        for row in rows:
            row["chunks"] = ["spoilt"]
        rows.clear()

    for data in (stream(), slow()):
        assert len(evaluated(data).results) == 2
    with Evaluator("fake/overlap", metrics=["AP@5"], cache=False) as evaluator:
        run: EvalRun = evaluator.evaluate(rows, watch=spoil)
    assert [result.trace.chunks[0].text for result in run.results] == [TEXTS[0], TEXTS[2]]


def test_a_script_shows_the_call_and_the_message(tmp_path: Path) -> None:
    """An error about data ends a script with its own line, one door of this package, and the message."""
    script = tmp_path / "script.py"
    script.write_text(
        "from judge_eval import Evaluator\n"
        'Evaluator("fake/overlap", cache=False).evaluate([{"query": "q", "chunks": ["a"]}])\n'
    )
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=60, env={"PYTHONPATH": str(ROOT)}
    )
    lines = done.stderr.splitlines()
    assert lines[-1].startswith("judge_eval.errors.DataError: row 0: reference: the prompt needs")
    assert len(lines) <= 8
    assert sum(line.startswith("  File") for line in lines) == 2


@FOREIGN
def test_rows_of_a_frame_are_rows() -> None:
    """A pandas Series is a row, alone and in a list, as `iterrows` yields them; a column is told to be one."""
    pandas = pytest.importorskip("pandas")
    series = [row for _, row in pandas.DataFrame(ROWS).iterrows()]
    with pytest.raises(DataError, match=r"is one column of a frame \('query'\); give the whole frame"):
        evaluated(pandas.DataFrame(ROWS)["query"])
    whole = evaluate(series, "fake/overlap", cache=False)
    assert [result.scores for result in whole.results] == [
        result.scores for result in evaluate(ROWS, "fake/overlap", cache=False).results
    ]
    assert len(evaluate(series[0], "fake/overlap", cache=False).results) == 1
    shuffled = pandas.DataFrame(ROWS)[["reference", "query", "chunks"]]
    for rows in ([*shuffled.itertuples()], shuffled.itertuples(), [*shuffled.itertuples(index=False)]):
        named = evaluate(rows, "fake/overlap", cache=False)
        assert [result.trace.query for result in named.results] == [row["query"] for row in ROWS]
    assert len(evaluate(next(shuffled.itertuples()), "fake/overlap", cache=False).results) == 1


def test_a_result_prints_in_ten_lines() -> None:
    """The question, the scores, a line a chunk and how many are left out; nothing in it steers a terminal."""
    row = {"query": "what\x1b[31m?", "reference": "the answer", "chunks": [f"text {k}\nmore" for k in range(12)]}
    text = str(evaluate([row], "fake/overlap", cache=False).results[0])
    assert len(text.splitlines()) == 10
    assert text.splitlines()[1].startswith("AP@5 ")
    assert text.endswith("... and 5 more")
    assert "\x1b" not in text
