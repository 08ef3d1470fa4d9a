import json
import tracemalloc
from pathlib import Path

import pytest

from judge_eval.data.reading import open_dataset
from judge_eval.errors import DataError
from judge_eval.schema import Chunk, Trace

LINE = '{"id": "a", "query": "q", "chunks": ["x"]}'


def write(tmp_path: Path, text: str | bytes) -> Path:
    """Write a file of traces."""
    path = tmp_path / "data.jsonl"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_one_trace_a_line(tmp_path: Path) -> None:
    """Blank lines, a byte order mark, CRLF and a missing last line end are all right."""
    path = write(tmp_path, "\ufeff" + LINE + "\r\n\n  \n" + LINE.replace('"a"', '"é"'))
    assert [trace.id for trace in open_dataset(path)] == ["a", "é"]


def test_fields_that_are_not_ours_are_kept(tmp_path: Path) -> None:
    """Unknown fields of traces and chunks go into `metadata`, beside what is there."""
    data = {
        "query": "q",
        "source": "wiki",
        "metadata": {"k": 1},
        "chunks": [{"document": "d", "relevance": 0.5, "page": 7}],
    }
    (trace,) = open_dataset(write(tmp_path, json.dumps(data)))
    assert trace.metadata == {"source": "wiki", "k": 1}
    assert trace.chunks == (Chunk(id="c1", text="d", score=0.5, metadata={"page": 7}),)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("{bad", "data.jsonl:2: not JSON: Expecting property name enclosed in double quotes at column 2"),
        ('{"query"', "data.jsonl:2: not JSON: Expecting ':' delimiter at column 9"),
        ("[1]", "data.jsonl:2: a record is one JSON object, not a list"),
        ("null", "data.jsonl:2: a record is one JSON object, not nothing"),
        ("[" * 100_000, "data.jsonl:2: nested more than 64 deep"),
        (b"\xff\xfe", "data.jsonl:2: not UTF-8: "),
        ('{"qury": "q"}', "data.jsonl:2: query: this field is required"),
        ('{"query": "q", "chunks": [], "metadata": 3, "x": 1}',
         "data.jsonl:2: metadata: holds"),
        ('{"query": "q", "chunks": [{"text": "t", "score": Infinity}]}', "data.jsonl:2: chunks[0].score: must be"),
        (
            '{"query": "q", "chunks": [{"id": "x", "text": "1"}, {"id": "x", "text": "2"}]}',
            "data.jsonl:2: chunks: the id 'x'",
        ),
    ],
)  # fmt: skip
def test_a_bad_line_is_told(tmp_path: Path, line: str | bytes, told: str) -> None:
    """File, line and field are named; the lines before it were read."""
    data = line if isinstance(line, bytes) else line.encode()
    reading = open_dataset(write(tmp_path, LINE.encode() + b"\n" + data + b"\n" + LINE.encode()), name="data.jsonl")
    assert next(reading).id == "a"
    with pytest.raises(DataError) as caught:
        next(reading)
    assert str(caught.value).startswith(told)
    assert caught.value.line == 2


def test_numbers_that_are_none_are_missing(tmp_path: Path) -> None:
    """NaN is what other tools write for a missing value; metadata keep nothing that is not finite."""
    line = '{"query": "q", "x": Infinity, "y": 1, "chunks": [{"text": "t", "score": NaN}]}'
    (trace,) = open_dataset(write(tmp_path, line))
    assert trace.chunks[0].score is None
    assert trace.metadata == {"x": None, "y": 1}


def test_bad_lines_can_be_skipped(tmp_path: Path) -> None:
    """Skipped records are each told, and the others read."""
    skipped: list[DataError] = []

    def check(trace: Trace) -> None:
        if trace.id == "no":
            raise DataError("not this one", field="id")

    path = write(tmp_path, "\n".join([LINE, "{bad", LINE.replace('"a"', '"no"'), LINE.replace('"a"', '"b"')]))
    result = list(open_dataset(path, check=check, on_invalid="skip", on_skip=skipped.append))
    assert [trace.id for trace in result] == ["a", "b"]
    assert [(error.line, error.field) for error in skipped] == [(2, None), (3, "id")]
    with pytest.raises(DataError, match=r"data.jsonl:3: id: not this one"):
        list(open_dataset(write(tmp_path, f"{LINE}\n\n" + LINE.replace('"a"', '"no"')), check=check))


def test_half_characters_are_mended(tmp_path: Path) -> None:
    """JSON can spell half a character, which no file can hold; it is replaced, whole pairs are kept."""
    line = r'{"query": "\ud83d\ude00 \ud800", "k\uDFFF": ["\udfff"], "chunks": ["\ud83d\ude00"]}'
    (trace,) = open_dataset(write(tmp_path, line))
    assert trace.query == "😀 \ufffd"
    assert trace.metadata == {"k\ufffd": ["\ufffd"]}
    assert trace.chunks[0].text == "😀"
    assert trace.model_dump_json()


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    """A missing file is an error that names it."""
    with pytest.raises(DataError, match=r"gone.jsonl: cannot be read: No such file"):
        list(open_dataset(tmp_path / "gone.jsonl"))


def test_an_empty_file_holds_no_trace(tmp_path: Path) -> None:
    """An empty file is read to its end at once."""
    assert list(open_dataset(write(tmp_path, ""))) == []


@pytest.mark.slow
def test_only_one_record_is_held(tmp_path: Path) -> None:
    """Memory does not grow with the file."""
    line = json.dumps({"query": "q", "chunks": ["x" * 10_000]}) + "\n"
    path = write(tmp_path, line * 1000)
    tracemalloc.start()
    try:
        assert sum(1 for _ in open_dataset(path)) == 1000
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000


def test_a_pool_of_another_kind_is_metadata(tmp_path: Path) -> None:
    """A field called `pool` that holds no grades is kept like any other; one that does is checked."""
    path = tmp_path / "pool.jsonl"
    base = {"query": "q?", "reference": "r", "chunks": ["c"]}
    path.write_text(json.dumps({**base, "pool": "train"}) + "\n")
    [trace] = open_dataset(path)
    assert (trace.pool, trace.metadata) == (None, {"pool": "train"})
    path.write_text(json.dumps({**base, "pool": {"grades": {"d": 4}, "maximum": 3}}) + "\n")
    with pytest.raises(DataError, match=r"pool: grades: one is above the scale's highest, 3"):
        list(open_dataset(path))
