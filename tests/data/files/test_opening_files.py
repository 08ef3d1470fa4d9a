from __future__ import annotations

import bz2
import gzip
import importlib
import json
import lzma
import tarfile
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pytest

from judge_eval import limits
from judge_eval.data.claimfiles import read_claims
from judge_eval.data.labels import read_labels
from judge_eval.data.reading import open_dataset
from judge_eval.errors import DataError
from judge_eval.evaluator import Evaluator

LINES = "".join(
    json.dumps({"query": f"q{n}?", "reference": "café “r”", "chunks": ["café"]}, ensure_ascii=False) + "\n"
    for n in range(3)
)
TABLE = 'user_input,retrieved_contexts,reference\r\ncafé?,"[""a""]",naïve “r”\r\n'


def write(folder: Path, name: str, data: bytes) -> Path:
    """Write bytes."""
    path = folder / name
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(("suffix", "pack"), [(".bz2", bz2.compress), (".gz", gzip.compress), (".xz", lzma.compress)])
def test_packed_files_are_read(suffix: str, pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    """bzip2, gzip and xz are unpacked, whatever stands inside and whatever the file is called."""
    for name, text in (
        ("x.jsonl", LINES),
        ("x.csv", TABLE),
        ("x.json", json.dumps([json.loads(LINES.splitlines()[0])])),
    ):
        path = write(tmp_path, name + suffix, pack(text.encode()))
        assert next(open_dataset(path)).reference in ("café “r”", "naïve “r”")
    assert len(list(open_dataset(write(tmp_path, "named.otherwise", pack(LINES.encode()))))) == 3
    run = Evaluator("fake/overlap", metrics=["AP@5"], cache=False).evaluate(
        write(tmp_path, "y.jsonl" + suffix, pack(LINES.encode()))
    )
    assert len(run.results) == 3


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_utf16_with_its_mark_is_read(encoding: str, tmp_path: Path) -> None:
    """Tables and lines in UTF-16 or UTF-32 with a mark are read to the letter."""
    mark = "" if encoding in ("utf-16", "utf-32") else "\ufeff"
    [trace] = open_dataset(write(tmp_path, "x.csv", (mark + TABLE).encode(encoding)))
    assert (trace.query, trace.reference) == ("café?", "naïve “r”")
    assert len(list(open_dataset(write(tmp_path, "x.jsonl", (mark + LINES).encode(encoding))))) == 3


def test_torn_utf16_is_told(tmp_path: Path) -> None:
    """A file that is not what its mark says is an error that names it."""
    with pytest.raises(DataError, match=r"x.csv: not UTF-16, as its mark says"):
        list(open_dataset(write(tmp_path, "x.csv", b"\xff\xfea\x00b")))


def test_a_table_in_windows_1252_is_named_with_the_remedy(tmp_path: Path) -> None:
    """Excel's plain CSV is never read on a guess: the error says what to save it as."""
    path = write(tmp_path, "x.csv", TABLE.encode("cp1252"))
    with pytest.raises(DataError, match=r'x.csv:2: not UTF-8; save it as "CSV UTF-8" .* iconv -f cp1252 -t utf-8'):
        list(open_dataset(path))
    head = write(tmp_path, "y.csv", "fragé,b\r\n1,2\r\n".encode("cp1252"))
    with pytest.raises(DataError, match=r"y.csv:1: not UTF-8; save it"):
        list(open_dataset(head))


@pytest.mark.parametrize("module", ["bz2", "gzip", "lzma"])
def test_a_torn_packed_file_is_told(module: str, tmp_path: Path) -> None:
    """A packed file that is cut off or garbled is an error that names it."""
    whole = importlib.import_module(module).compress(LINES.encode() * 50)
    for data in (whole[:-9], whole[: len(whole) // 2] + b"garbled" + whole[len(whole) // 2 :]):
        with pytest.raises(DataError, match=r"x.jsonl.bz2: cannot be unpacked"):
            list(open_dataset(write(tmp_path, "x.jsonl.bz2", data)))


def test_a_bomb_ends_at_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What unpacks to more than the limit is an error, and its copy is gone."""
    monkeypatch.setattr(limits, "UNPACKED", 2**20)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", None)
    path = write(tmp_path, "x.jsonl.bz2", bz2.compress(bytes(2**24)))
    with pytest.raises(DataError, match=r"x.jsonl.bz2: unpacks to more than 1 MiB; unpack it yourself"):
        list(open_dataset(path))
    assert list((tmp_path / "temporary").iterdir()) == []


def test_packed_twice_is_not_unpacked_twice(tmp_path: Path) -> None:
    """Of a file that was packed twice one layer is taken off; the rest is an error of ours."""
    with pytest.raises(DataError):
        list(open_dataset(write(tmp_path, "x.gz", gzip.compress(gzip.compress(LINES.encode())))))


def test_archives_are_named_with_the_remedy(tmp_path: Path) -> None:
    """A tar archive and Zstandard are named, with what to do."""
    write(tmp_path, "data.jsonl", LINES.encode())
    with tarfile.open(tmp_path / "x.tar.bz2", "w:bz2") as archive:
        archive.add(tmp_path / "data.jsonl", "data.jsonl")
    with pytest.raises(DataError, match="a tar archive; unpack it, and give the file inside"):
        list(open_dataset(tmp_path / "x.tar.bz2"))
    with pytest.raises(DataError, match=r"packed with Zstandard; unpack it first"):
        list(open_dataset(write(tmp_path, "x.jsonl.zst", b"\x28\xb5\x2f\xfd....")))


def test_a_packed_corpus_is_read(tmp_path: Path) -> None:
    """A corpus may be packed too."""
    corpus = write(tmp_path, "c.jsonl.gz", gzip.compress(b'{"_id": "d1", "text": "one"}\n'))
    data = write(tmp_path, "x.jsonl", b'{"user_input": "q?", "retrieved_contexts": ["d1"]}\n')
    assert next(open_dataset(data, corpus=corpus)).chunks[0].text == "one"


HEAD = " user_input , retrieved_contexts\u00a0, reference ,,\n"


def test_scars_of_spreadsheets(tmp_path: Path) -> None:
    """Blanks around headers, empty columns at the end and empty rows are nothing; lines are counted right."""
    text = HEAD + 'q1?,"[""a""]",r,,\n,,,,\n , , ,,\nq2?,7,r,,\n'
    errors: list[DataError] = []
    path = write(tmp_path, "x.csv", text.encode())
    [trace] = open_dataset(path, on_invalid="skip", on_skip=errors.append)
    assert (trace.query, trace.reference, trace.metadata) == ("q1?", "r", {})
    assert [error.line for error in errors] == [5]


def test_a_cell_under_no_name_is_an_error(tmp_path: Path) -> None:
    """A filled cell in a column without a name is not dropped."""
    path = write(tmp_path, "x.csv", (HEAD + 'q1?,"[""a""]",r,,lost\n').encode())
    with pytest.raises(DataError, match=r"x.csv:2: 5 cells, but the header has 3"):
        list(open_dataset(path))


def test_columns_without_names(tmp_path: Path) -> None:
    """Empty columns between others are nothing; a cell in one of several without a name is an error."""
    path = write(tmp_path, "x.csv", b'user_input,,retrieved_contexts,,reference\nq?,,"[""a""]",,r\nq?,,"[]",x,r\n')
    errors: list[DataError] = []
    [trace] = open_dataset(path, on_invalid="skip", on_skip=errors.append)
    assert (trace.reference, trace.metadata) == ("r", {})
    assert [str(error.line) + error.message[:20] for error in errors] == ["3a cell under no name"]


def test_names_that_are_one_without_their_blanks(tmp_path: Path) -> None:
    """Two columns that differ in blanks alone are one name that occurs twice."""
    with pytest.raises(DataError, match=r"x.csv:1: the column 'a' occurs twice"):
        list(open_dataset(write(tmp_path, "x.csv", b"a, a \n1,2\n")))


def test_the_keywords_are_the_options() -> None:
    """Every option of reading is a keyword of `open_dataset`."""
    from judge_eval.data.options import ReadKeywords, ReadOptions

    assert list(ReadKeywords.__annotations__) == [field.name for field in fields(ReadOptions)]


LABELS = {
    "labels.jsonl": ('{"trace_id": "q1", "chunk_id": "a", "label": 1}\n', '{"trace_id": "q1"}\n', "chunk_id"),
    "labels.csv": ("trace_id,chunk_id,label\nq1,a,yes\n", "trace_id,chunk_id,label\nq1,a,9x\n", "not a grade"),
    "qrels.txt": ("q1 0 a 1\n", "q1 0 a\n", "3 fields; a judgment has 4"),
}
CLAIMS = '{"query": "q?", "reference": "r", "claims": ["one"]}\n'


@pytest.mark.parametrize("name", LABELS)
def test_packed_labels_are_read_and_named(name: str, tmp_path: Path) -> None:
    """Labels may be packed in each of their formats; an error names the user's file and its line."""
    good, bad, fault = LABELS[name]
    path = write(tmp_path, f"{name}.gz", gzip.compress(good.encode()))
    assert read_labels(path).grades == {("q1", "a"): 1}
    write(tmp_path, f"{name}.gz", gzip.compress(bad.encode()))
    with pytest.raises(DataError, match=rf"{tmp_path}/{name}.gz:\d: .*{fault}"):
        read_labels(path)
    write(tmp_path, f"{name}.gz", gzip.compress(good.encode())[:-9])
    with pytest.raises(DataError, match=rf"{tmp_path}/{name}.gz: cannot be unpacked"):
        read_labels(path)


def test_packed_claims_are_read_and_named(tmp_path: Path) -> None:
    """A file of claims may be packed; an error names the user's file and its line."""
    path = write(tmp_path, "claims.jsonl.gz", gzip.compress(CLAIMS.encode()))
    assert [entry.query for entry in read_claims(path).entries] == ["q?"]
    write(tmp_path, "claims.jsonl.gz", gzip.compress(CLAIMS.encode() + b"[]\n"))
    with pytest.raises(DataError, match=rf"{tmp_path}/claims.jsonl.gz:2: a line is an object"):
        read_claims(path)


def test_a_run_names_the_packed_file_as_it_was_given(tmp_path: Path) -> None:
    """An error in a packed file that is judged names that file, not the temporary copy that was unpacked."""
    path = write(tmp_path, "x.jsonl.gz", gzip.compress(LINES.encode() + b"{bad\n"))
    with Evaluator("fake/overlap", cache=False) as evaluator, pytest.raises(DataError) as caught:
        evaluator.evaluate(path)
    assert caught.value.file == str(path)
