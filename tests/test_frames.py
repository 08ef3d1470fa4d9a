"""A frame in, a frame out: the input's columns and index, with what came of each row beside them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge_eval import EvalRun, Evaluator, FakeBackend, ReadOptions, Trace
from judge_eval.errors import ConfigError, RefusedError
from judge_eval.runs.scoring.rescore import rescore
from tests.support.examples import examples
from tests.support.memory import FRAMES, ROWS, made

pytestmark = pytest.mark.foreign

pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")
NEW = ["AP@2", "RR", "verdicts", "reasons"]
ANSWERS = {
    ("7", "c1"): {"grade": 0, "reason": "It does not."},
    ("7", "c2"): {"grade": 1, "reason": "It says so."},
    ("8", "c1"): RefusedError("declined"),
}
CAME = [
    {"AP@2": 0.5, "RR": 0.5, "verdicts": [0, 1], "reasons": ["It does not.", "It says so."]},
    {"AP@2": None, "RR": None, "verdicts": [None], "reasons": ["no verdict (refused): declined"]},
]
NOTHING = dict.fromkeys(NEW)


def judged(data: Any, default: object = 1, **keywords: Any) -> EvalRun:
    """Judge rows as `ANSWERS` says."""
    judge = FakeBackend.table(ANSWERS, default=default)
    with Evaluator(judge, metrics=["AP@2", "RR"], cache=False) as evaluator:
        return evaluator.evaluate(data, **keywords)


def plain(value: Any) -> Any:
    """Give pandas' several words for nothing one word, and its arrays that of lists."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): plain(inner) for key, inner in value.items()}
    return None if value is pandas.NA or value != value else value


def in_dataset(run: EvalRun) -> list[dict[str, Any]]:
    """Return the rows of the run as a `datasets.Dataset`."""
    pytest.importorskip("datasets")
    return list(run.to_dataset())


TO: dict[str, Callable[[EvalRun], list[dict[str, Any]]]] = {
    "pandas": lambda run: [plain(row) for row in run.to_pandas().to_dict("records")],
    "polars": lambda run: run.to_polars().to_dicts(),
    "datasets": in_dataset,
}


@pytest.mark.parametrize("library", TO)
@pytest.mark.parametrize("kind", FRAMES)
def test_one_frame_comes_back(kind: str, library: str) -> None:
    """Whatever rows were given in, each library's frame has their columns, then what came of them."""
    rows = TO[library](judged(made(kind, ROWS)))
    assert [list(row) for row in rows] == [[*ROWS[0], *NEW]] * 2
    assert [{name: row[name] for name in NEW} for row in rows] == CAME
    assert [{name: row[name] for name in ROWS[0]} for row in rows] == ROWS


@pytest.mark.parametrize("library", TO)
def test_rows_of_three_and_documents_come_back(library: str) -> None:
    """Tuples come back as `query`, `reference`, `chunks`, their chunks as what the library can hold."""
    (row,) = TO[library](judged([("Q?", "R.", [({"text": "a"}, 0.5), "b"])]))
    assert list(row) == ["query", "reference", "chunks", *NEW]
    assert (row["query"], row["verdicts"]) == ("Q?", [1, 1])


def test_the_index_is_the_inputs() -> None:
    """A pandas frame comes back with its own index and types, untouched itself."""
    frame = pandas.DataFrame(ROWS, index=pandas.Index(["x", "y"], name="row")).astype({"id": "int32"})
    before = frame.copy()
    run = judged(frame)
    back = run.to_pandas()
    pandas.testing.assert_frame_equal(back[list(frame.columns)], frame)
    pandas.testing.assert_frame_equal(frame, before)
    assert str(back["AP@2"].dtype) == "Float64"
    twice = frame.set_index(pandas.Index(["x", "x"]))
    assert judged(twice).to_pandas()["verdicts"].tolist() == [[0, 1], [None]]


def test_a_frame_may_change_after_it_was_judged() -> None:
    """Columns and rows that are added to the frame or taken away later do not change what comes back."""
    frame = pandas.DataFrame(ROWS)
    run = judged(frame)
    frame["more"] = 1
    del frame["query"]
    frame.loc[2] = frame.loc[0]
    assert list(run.to_pandas().columns) == [*ROWS[0], *NEW]
    assert len(run.to_pandas()) == 2


@pytest.mark.parametrize("kind", ["list", "pandas", "polars", "datasets"])
@pytest.mark.parametrize("library", TO)
def test_rows_that_were_not_judged_hold_nothing(kind: str, library: str) -> None:
    """Every row comes back in its place: those beyond a limit, skipped or outside the shard hold nothing."""
    more = {**ROWS[0], "id": 9, "query": " "}
    rows = made(kind, [more, ROWS[0], ROWS[1]])
    for keywords, wanted in (
        ({"on_invalid": "skip"}, [NOTHING, *CAME]),
        ({"on_invalid": "skip", "limit": 1}, [NOTHING, CAME[0], NOTHING]),
    ):
        back = TO[library](judged(rows, **keywords))
        assert [{name: row[name] for name in NEW} for row in back] == wanted
    sample = judged(made(kind, ROWS), limit=1, seed=1)
    judged_id = sample.results[0].trace_id
    for row in TO[library](sample):
        assert (row["verdicts"] is not None) == (str(row["id"]) == judged_id)


def test_a_row_of_several_traces_stands_there_for_each() -> None:
    """Where one row holds several traces, it comes back once for each, in order."""
    body = {"contexts": ["a"], "reference": "R."}
    rows = [{"data": [{"query": "one", **body}, {"query": "two", **body}], "label": "x", "tags": []}]
    back = judged(rows).to_pandas()
    assert [[item["query"] for item in row] for row in back["data"]] == [["one", "two"]] * 2
    assert back.index.tolist() == [0, 0]
    assert back["verdicts"].tolist() == [[1], [1]]


def test_a_frame_that_came_back_can_be_judged_again() -> None:
    """Columns that a run makes take the place of what an earlier run left there."""
    first = judged(pandas.DataFrame(ROWS)).to_pandas()
    again = judged(first).to_pandas()
    assert list(again.columns) == list(first.columns)
    pandas.testing.assert_frame_equal(again, first)


@pytest.mark.parametrize("library", TO)
def test_a_run_without_rows_stands_for_itself(library: str, tmp_path: Path) -> None:
    """Traces, files and runs from a folder come back as a row a trace with its fields."""
    traces = [Trace.parse({**row, "tags": ["t"]}) for row in ROWS]
    kept = judged(made("pandas", [trace.model_dump() for trace in traces]), out=tmp_path)
    for run in (judged(traces), EvalRun.load(kept.folder or ""), judged(iter(traces))):
        rows = TO[library](run)
        fields = ["id", "query", "reference", "answer", "chunks", "relevant_total", "tags"]
        assert list(rows[0]) == [*fields, *NEW]
        assert rows[0]["chunks"] == [chunk.text for chunk in traces[0].chunks]
        assert [{name: row[name] for name in NEW} for row in rows] == CAME
    assert "tags" not in ROWS[0]


def test_a_run_in_a_folder_and_one_scored_again_keep_the_rows(tmp_path: Path) -> None:
    """The run that `evaluate` returns has the rows, wherever it is kept; other metrics go beside them too."""
    frame = pandas.DataFrame(ROWS, index=["x", "y"])
    run = judged(frame, out=tmp_path)
    for item in (run, judged(frame, out=tmp_path, resume=True)):
        assert item.to_pandas().index.tolist() == ["x", "y"]
        assert list(item.to_pandas().columns) == [*ROWS[0], *NEW]
    again = rescore(run, ["P@1"]).to_pandas()
    assert list(again.columns) == [*ROWS[0], "P@1", "verdicts", "reasons"]
    assert again.index.tolist() == ["x", "y"]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_the_frame_of_verdicts_has_a_row_a_chunk(library: Any) -> None:
    """Every chunk is there in rank order, with its grade and reason or why it has none."""
    frame = judged(pandas.DataFrame(ROWS, index=["x", "y"])).verdicts_frame(library)
    rows = [plain(row) for row in (frame.to_dict("records") if library == "pandas" else frame.to_dicts())]
    assert [(row["trace_id"], row["rank"], row["chunk_id"]) for row in rows] == [
        ("7", 1, "c1"),
        ("7", 2, "c2"),
        ("8", 1, "c1"),
    ]
    assert [(row["grade"], row["why"], row["retriever_score"]) for row in rows] == [
        (0, None, 0.5),
        (1, None, 0.25),
        (None, "refused", 0.75),
    ]
    if library == "pandas":
        assert frame.index.tolist() == ["x", "x", "y"]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_of_nothing_keep_their_types(library: Any) -> None:
    """A run without a single chunk gives the columns and types that every run gives."""
    fields = {"answer": "a", "relevant_total": 1, "tags": ["t"]}
    empty = judged([Trace.parse({"id": "q", "query": "q?", "reference": "r", "chunks": [], **fields})])
    full = judged([Trace.parse({**ROWS[0], **fields})])
    pairs = [(empty.verdicts_frame(library), full.verdicts_frame(library))]
    if library == "polars":
        pairs.append((empty.to_polars().select(NEW), full.to_polars().select(NEW)))
    for first, other in pairs:
        assert list(first.columns) == list(other.columns)
        assert [str(kind) for kind in first.dtypes] == [str(kind) for kind in other.dtypes]


def test_columns_of_several_kinds_become_texts() -> None:
    """A typed frame gets what it cannot hold as JSON, pandas gets it as it is."""
    rows = [{**ROWS[0], "more": {"a": 1}}, {**ROWS[1], "more": [object]}, {**ROWS[1], "id": 9, "more": "x"}]
    run = judged(rows)
    assert run.to_pandas()["more"].tolist()[0] == {"a": 1}
    assert run.to_polars()["more"].to_list()[::2] == ['{"a": 1}', "x"]
    pytest.importorskip("datasets")
    assert list(run.to_dataset()["more"])[::2] == ['{"a": 1}', "x"]


def test_mapped_rows_keep_their_own_names() -> None:
    """Fields that `reader=` has renamed come back under the names they were given with."""
    frame = pandas.DataFrame({"q": ["Q?"], "gold": ["R."], "hits": [["a"]]})
    run = judged(frame, reader=ReadOptions(map={"query": "q", "reference": "gold", "chunks": "hits"}))
    assert list(run.to_pandas().columns) == ["q", "gold", "hits", *NEW]


@examples(40)
@given(
    st.lists(st.tuples(st.sampled_from(["a?", "b?", " "]), st.integers(0, 3), st.text("xy", max_size=2)), min_size=1),
    st.integers(1, 5),
)
def test_every_row_comes_back_in_its_place(rows: list[tuple[str, int, str]], limit: int) -> None:
    """Whatever rows, equal and invalid ones too: index and columns stay, lists are as long as the chunks."""
    frame = pandas.DataFrame(
        {"query": [query for query, _, _ in rows], "reference": "r", "chunks": [["t"] * count for _, count, _ in rows]},
        index=[label for _, _, label in rows],
    )
    valid = [query.strip() != "" for query, _, _ in rows]
    if not any(valid):
        return
    back = judged(frame, on_invalid="skip", limit=limit).to_pandas()
    pandas.testing.assert_frame_equal(back[["query", "reference", "chunks"]], frame)
    wanted: list[list[int] | None] = []
    left = limit
    for (_, count, _), good in zip(rows, valid, strict=True):
        wanted.append([1] * count if good and left > 0 else None)
        left -= good
    assert back["verdicts"].tolist() == wanted


def test_another_library_is_refused() -> None:
    """Frames are made of pandas and Polars."""
    with pytest.raises(ConfigError, match="cannot make a frame with 'dask'"):
        judged(ROWS).verdicts_frame("dask")  # type: ignore[arg-type]
