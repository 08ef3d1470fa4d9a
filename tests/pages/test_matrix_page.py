from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from judge_eval import EvalRun
from judge_eval.compare.compare import compare
from judge_eval.errors import ConfigError
from judge_eval.pages.matrixpage import MatrixRow, SeveralRuns, find_rows, matrix_page, ordered_rows
from judge_eval.pages.rows import Table
from judge_eval.server.server_settings import ServerSettings
from judge_eval.views.note_sentences import notes_of_runs
from tests.pages.test_compare_page import turned
from tests.support.blocks_of_pages import blocks_of, data_of
from tests.support.command import Shell
from tests.support.reports import matrix_report
from tests.support.serving import ask, judge, rows, scripted, serving


def three(out: Path | None = None) -> list[EvalRun]:
    """Judge the same questions with three retrievers; one run has failed verdicts."""
    broken = scripted(
        turned(rows(), 3),
        out,
        lambda t: "no JSON" if len(t) % 17 == 0 else {"verdict": len(t) % 2 == 0, "reason": f"has {len(t)}"},
        label="broken",
    )
    return [judge(rows(), out, label="main"), judge(turned(rows()), out, label="turned"), broken]


def held(runs: list[EvalRun], most: int | None = None) -> SeveralRuns:
    """Hold runs side by side."""
    return SeveralRuns([Table(run, most) for run in runs], most)


@pytest.mark.slow
def test_a_cell_says_what_its_run_says() -> None:
    """Each cell has the strip, the outlines and the scores that the run's own page has of that trace."""
    runs = three()
    several = held(runs)
    assert several.total == len(several.rows) == len(rows())
    for run, table in enumerate(several.tables):
        own = {row.id: row for row in table.rows}
        for row in several.rows:
            cell = row.cells[run]
            assert cell is not None
            assert (cell["strip"], cell["off"]) == (own[row.id].strip, own[row.id].off)
            assert cell["scores"] == {name: own[row.id].scores[name] for name in several.names}


@pytest.mark.slow
def test_the_page_says_what_the_comparison_says() -> None:
    """Differences, intervals, warnings and notes are those of `compare A B C`, to the last digit."""
    runs = three()
    record, page = compare(*runs), matrix_page(held(runs))
    assert (page["warnings"], page["notes"]) == (
        notes_of_runs(record, record.warnings),
        notes_of_runs(record, record.notes),
    )
    for each in record.differences:
        (metric,) = (m for m in page["metrics"] if m["name"] == each.metric)
        result = metric["runs"][each.candidate]["pair"]
        assert (result["difference"], tuple(result["interval"]), result["p_holm"]) == (
            each.difference,
            each.interval,
            each.p_holm,
        )
        assert metric["runs"][each.candidate]["mean"] == runs[each.candidate][each.metric]


def test_traces_that_a_run_has_alone_have_rows_of_their_own() -> None:
    """What the first run lacks stands below, joined where later runs share it; another question is a row."""
    data = rows()
    asks = [{**data[4], "query": "Another?"}]
    runs = [judge(data[:6]), judge(data[3:4] + asks + data[8:10]), judge(data[9:12])]
    several = held(runs)
    there = {
        (row.id, row.query == "Another?"): "".join("-" if cell is None else "x" for cell in row.cells)
        for row in several.rows
    }
    assert there == {
        **{(f"docs-00{k}", False): "x--" for k in (1, 2, 3, 5, 6)},
        ("docs-004", False): "xx-",
        ("docs-005", True): "-x-",
        ("docs-009", False): "-x-",
        ("docs-010", False): "-xx",
        ("docs-011", False): "--x",
        ("docs-012", False): "--x",
    }


def test_traces_without_ids_meet_by_what_they_ask() -> None:
    """An id made from content differs between retrievers: the row goes by the first, cells name their own."""
    data = [{"query": f"what is {k}?", "reference": f"it is {k}", "chunks": [f"it is {k}", "no"]} for k in range(4)]
    runs = [judge(data), judge(turned(data, 1)), judge(data)]
    several = held(runs)
    assert several.total == 4
    for row in several.rows:
        assert row.cells[1] is not None
        assert row.cells[1]["id"] == runs[1].results[row.place].trace_id != row.id
        assert row.cells[2] is not None
        assert "id" not in row.cells[2]


def test_a_trace_in_full_brings_the_same_chunks_together() -> None:
    """A chunk has one line, with each run's rank, verdict and reason; equal texts are told apart."""
    texts = {"a": "It is.", "b": "No.", "c": "It is."}
    chunks = [{"id": name, "text": text} for name, text in texts.items()]
    twice: list[dict[str, Any]] = [{"id": "q", "query": "What?", "reference": "It is.", "chunks": chunks}]
    other = [{**twice[0], "chunks": twice[0]["chunks"][::-1]}]
    new = [{**twice[0], "chunks": [{"id": "z", "text": "New."}]}]
    several = held([judge(twice), judge(other), judge(new)])
    result = several.in_full(0)
    assert result["reference"] == "It is."
    lines = [(c["id"], [None if cell is None else cell["rank"] for cell in c["cells"]]) for c in result["chunks"]]
    assert lines == [("a", [1, 1, None]), ("z", [None, None, 1]), ("b", [2, 2, None]), ("c", [3, 3, None])]


ROW: dict[str, Any] = {
    "place": 0,
    "id": "q1",
    "query": "What is it?",
    "tags": ("Easy",),
    "rows": (None,) * 3,
    "columns": {"AP@5": np.array([[0.5, 0.5, np.nan], [0.1, 0.9, 0.2], [np.nan, 0.4, 0.1]])},
}


def test_words_find_and_orders_sort() -> None:
    """Every word must hold; furthest apart first, or the lowest of one run, without a value last."""
    made = [
        MatrixRow(**ROW),
        MatrixRow(**{**ROW, "place": 1, "id": "q2", "tags": ()}),
        MatrixRow(**{**ROW, "place": 2, "query": "Who?"}),
    ]

    def found(text: str) -> list[int]:
        return [row.place for row in find_rows(made, text)]

    assert (found(""), found("WHAT it?"), found("tag:easy"), found("differs"), found("differs who")) == (
        [0, 1, 2], [0, 1], [0, 2], [1, 2], [2],
    )  # fmt: skip
    orders = {by: [row.place for row in ordered_rows(made, by, 0)] for by in ("order", "apart", "0", "2")}
    assert orders == {"order": [0, 1, 2], "apart": [1, 2, 0], "0": [1, 0, 2], "2": [2, 1, 0]}


@pytest.mark.slow
def test_a_brief_report_holds_the_traces_furthest_apart() -> None:
    """Of more traces than asked for those in which the runs differ most are held; figures are of all."""
    runs = three()
    data = data_of(matrix_report(runs, most=5))
    assert data["shown"] == {"n": 5, "of": len(rows())}
    whole = held(runs)
    apart = ordered_rows(whole.rows, "apart", 0)
    assert {row["place"] for row in data["rows"]} == {row.place for row in apart[:5]}
    by_place = {row.place: row.data() for row in whole.rows}
    assert [row["cells"] for row in data["rows"]] == [list(by_place[row["place"]]["cells"]) for row in data["rows"]]
    full = data_of(matrix_report(runs))
    assert full["metrics"] == data["metrics"]


@pytest.mark.slow
def test_the_report_holds_every_row_with_its_chunks() -> None:
    """A file has a block of chunks for each row, in the order of the rows."""
    text = matrix_report(three())
    data, blocks = data_of(text), blocks_of(text)
    assert [row["place"] for row in data["rows"]] == [block["place"] for block in blocks]
    assert len(blocks) == len(rows())


def test_too_few_too_many_and_one_twice_are_refused() -> None:
    """Three to eight different runs stand side by side."""
    first = judge(rows()[:2])
    for runs in ([first, judge(rows()[:2])], [judge(rows()[:2]) for _ in range(9)], [first, judge(rows()[:2]), first]):
        with pytest.raises(ConfigError, match="side by side"):
            matrix_report(runs)


@pytest.mark.slow
def test_the_server_shows_what_the_file_shows(tmp_path: Path) -> None:
    """Figures, rows and chunks over the server are those of the file; wrong questions are told."""
    runs = three(tmp_path)
    text = matrix_report(runs)
    data, blocks = data_of(text), blocks_of(text)
    query = "&".join(f"run={run.id}" for run in runs)
    with serving(ServerSettings(tmp_path)) as url:
        base = f"{url}/api/v1/matrix"
        page = ask(f"{base}?{query}")[1]
        assert page == {name: value for name, value in data.items() if name != "rows"}
        result = ask(f"{base}/rows?{query}&limit=10&offset=5&sort=order")[1]
        assert (result["total"], result["rows"]) == (len(data["rows"]), data["rows"][5:15])
        assert ask(f"{base}/trace?{query}&place=3")[1] == blocks[3]
        assert ask(f"{base}/trace?{query}&place=99999")[0] == 404
        assert ask(f"{base}?run={runs[0].id}&run={runs[1].id}")[0] == 422
        assert ask(f"{base}?{query}&run={runs[0].id}")[0] == 422
        assert ask(f"{base}/rows?{query}&sort=sideways")[0] == 422
        assert ask(f"{base}?{query.replace(runs[0].id, '0' * 8 + runs[0].id[8:])}")[0] == 404


@pytest.mark.slow
def test_report_of_three_runs_from_the_command_line(tmp_path: Path) -> None:
    """`report A B C` writes the file; what does not go together is told in a line."""
    shell = Shell(tmp_path)
    three(tmp_path / "runs")
    result = shell("report", "label:main", "label:turned", "label:broken", "-o", "matrix.html")
    assert (result.code, result.err) == (0, "")
    assert data_of((tmp_path / "matrix.html").read_text(encoding="utf-8"))["page"] == "matrix"
    for arguments, words in (
        (("label:main", "label:turned", "label:broken", "--baseline", "label:main"), "leave out --baseline"),
        (("label:main", "label:turned", "label:main"), "one run is named twice"),
    ):
        result = shell("report", *arguments)
        assert result.code == 2
        assert words in result.err
