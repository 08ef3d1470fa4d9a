from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from judge_eval.data.collection import read_qrels, read_run
from judge_eval.errors import DataError


def test_reads_both_formats(tmp_path: Path) -> None:
    """Columns are split at any white space; comments, empty lines and text behind the tag are passed over."""
    qrels, run = tmp_path / "qrels", tmp_path / "run"
    qrels.write_text("\ufeff# by hand\nq1 0 d#1 2\n\nq1\t0\td2\t-1\r\nq2 0 d\u00a01 0\n", encoding="utf-8")
    run.write_text("q1\tQ0\td#1\t1\t 2.5e0\ttag more junk\nq1 Q0 d2 2 -inf tag\n")
    assert read_qrels(qrels) == {"q1": {"d#1": 2, "d2": -1}, "q2": {"d\u00a01": 0}}
    assert read_run(run) == {"q1": {"d#1": 2.5, "d2": float("-inf")}}


@pytest.mark.parametrize(
    ("read", "text", "message"),
    [
        (read_qrels, b"q 0 d 1\nq 0 d\n", "file:2: 3 fields; a judgment has 4"),
        (read_qrels, b"q 0 d 1.0\n", "file:1: grade: '1.0' is not a whole number"),
        (read_qrels, b"q 0 d 1_0\n", "file:1: grade: '1_0' is not a whole number"),
        (read_qrels, b"q 0 d 1\nq 0 d 1\n", "file:2: document 'd' occurs twice for query 'q'"),
        (read_qrels, b"q 0 \xff 1\n", "file:1: not UTF-8 text"),
        (read_run, b"q Q0 d 1 1.0\n", "file:1: 5 fields; a retrieved document has 6"),
        (read_run, b"\nq Q0 d 1 nan t\n", "file:2: score: 'nan' is not a number"),
        (read_run, b"q Q0 d 1 high t\n", "file:1: score: 'high' is not a number"),
        (read_run, b"q Q0 d 1 2 t\nq Q0 d 2 1 t\n", "file:2: document 'd' occurs twice"),
    ],
)
def test_bad_line_is_named(tmp_path: Path, read: Callable[[Path], Any], text: bytes, message: str) -> None:
    """The message says file, line, field, and what is wrong with it."""
    path = tmp_path / "file"
    path.write_bytes(text)
    with pytest.raises(DataError) as caught:
        read(path)
    assert message in str(caught.value)


def test_missing_file_is_a_data_error(tmp_path: Path) -> None:
    """A path that is not there is named in the message."""
    with pytest.raises(DataError, match=r"nowhere: cannot be read: No such file"):
        read_run(tmp_path / "nowhere")
