"""Tables whose cells are not what readers of tables expect."""

from __future__ import annotations

from pathlib import Path

import pytest

from judge_eval.errors import DataError
from tests.support.odd_files import read, write

HEAD = "user_input,retrieved_contexts,reference\n"


@pytest.mark.parametrize(
    ("cell", "texts"),
    [
        ('"[""a, b"", ""c""]"', ["a, b", "c"]),
        ("\"['a, b', 'it''s']\"", ["a, b", "its"]),
        ('"[\'a\', ""it\'s""]"', ["a", "it's"]),
        ('"[""line\\none"", ""two\nlines""]"', None),
        ("\"['line\\none']\"", ["line\none"]),
        ("[]", []),
    ],
)
def test_lists_in_cells(cell: str, texts: list[str] | None, tmp_path: Path) -> None:
    """A list in a CSV cell is JSON or Python's notation."""
    path = write(tmp_path, "x.csv", f"{HEAD}q?,{cell},r\n")
    if cell == "\"['a, b', 'it''s']\"" or texts is None:
        with pytest.raises(DataError, match=r":2: retrieved_contexts: holds a"):
            read(path)
        return
    assert [chunk.text for chunk in read(path)[0].chunks] == texts


@pytest.mark.parametrize(
    ("cell", "texts"),
    [
        ("\"['a' 'b']\"", ["a", "b"]),
        ("\"['a, \\\\n b'\n ''c'\n 'd']\"", None),
        ('"[\'a\'\n \'it, is\' ""it\'s""]"', ["a", "it, is", "it's"]),
        ("\"['it''s']\"", None),
        ("\"['a' 'b' ... 'y' 'z']\"", None),
        ("\"['a' 'b', 'c']\"", None),
        ("\"[array(['a'], dtype=object)]\"", None),
        ("\"[b'a' b'b']\"", None),
    ],
)
def test_printed_arrays_are_read_or_refused(cell: str, texts: list[str] | None, tmp_path: Path) -> None:
    """A printed NumPy array of texts is read; where its items cannot be told apart an error says so."""
    path = write(tmp_path, "x.csv", f"{HEAD}q?,{cell},r\n")
    if texts is None:
        with pytest.raises(DataError, match=r":2: retrieved_contexts: holds a printed NumPy array"):
            read(path)
        return
    assert [chunk.text for chunk in read(path)[0].chunks] == texts


def test_cells_are_never_run(tmp_path: Path) -> None:
    """A cell that spells a program is a text, not a program."""
    mark = tmp_path / "ran"
    cell = f"\"[__import__('pathlib').Path('{mark}').touch()]\""
    with pytest.raises(DataError, match=r"holds a text, not a list"):
        read(write(tmp_path, "x.csv", f"{HEAD}q?,{cell},r\n"))
    assert not mark.exists()


@pytest.mark.slow
@pytest.mark.parametrize("cell", ["[" * 100_000 + "]" * 100_000, "['a'" + ", 'a'" * 10 + "", "[1e999]"])
def test_cells_that_break_readers(cell: str, tmp_path: Path) -> None:
    """Deep nesting, half a list and numbers off all scales end in an error with the line."""
    with pytest.raises(DataError, match=r":2: "):
        read(write(tmp_path, "x.csv", f'{HEAD}q?,"{cell}",r\n'))


def test_a_separator_splits_only_when_told(tmp_path: Path) -> None:
    """Text in a list's cell is split at --list-sep; a cell that is JSON stays as it is."""
    path = write(tmp_path, "x.csv", f'{HEAD}q?,a|b;c,r\nq2?,"[""a|b""]",r\n')
    first, second = read(path, list_sep="|")
    assert [chunk.text for chunk in first.chunks] == ["a", "b;c"]
    assert [chunk.text for chunk in second.chunks] == ["a|b"]


def test_tables_from_elsewhere(tmp_path: Path) -> None:
    """Byte order mark, CRLF, semicolons, new lines, huge cells in a CSV are read; lines are counted right."""
    huge = "x" * 300_000
    rows = f'\ufeffuser_input;retrieved_contexts;reference\r\n"q\r\nq?";"[""{huge}""]";r\r\nq2?;7;r\r\n'
    errors: list[DataError] = []
    [trace] = read(write(tmp_path, "x.csv", rows), on_invalid="skip", on_skip=errors.append)
    assert trace.query == "q\r\nq?"
    assert trace.chunks[0].text == huge
    assert [(error.line, error.field) for error in errors] == [(4, "retrieved_contexts")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEAD + "q?,[],r,more\n", r":2: 4 cells, but the header has 3"),
        (HEAD + "q?\n", r":2: 1 cells, but the header has 3"),
        (HEAD + 'q?,"[]"x,r\n', r":2: not CSV"),
        (HEAD + 'q?,"[],r\n', r":2: not CSV"),
        ("user_input,user_input\n", r":1: the column 'user_input' occurs twice"),
    ],
)
def test_broken_tables(text: str, message: str, tmp_path: Path) -> None:
    """A row with too many cells, too few, or a torn quote is an error at its line."""
    with pytest.raises(DataError, match=message):
        read(write(tmp_path, "x.csv", text))
