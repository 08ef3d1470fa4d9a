"""A key that occurs twice in one object has no one value: readers refuse it and name it."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge_eval import limits
from judge_eval.data.claimfiles import read_claims
from judge_eval.data.files.jsonfile import read_document
from judge_eval.data.reading import open_dataset
from judge_eval.errors import ConfigError, DataError
from judge_eval.foreign import RepeatedKeyError, check_single_keys, read_json, single_keys
from judge_eval.llm import cassettes
from judge_eval.schema import Trace
from judge_eval.server.incoming import read_submission, read_upload
from judge_eval.server.rest_client import Client
from judge_eval.server.server_settings import ServerLimits
from tests.support.command import FIXTURES, Shell
from tests.support.desk import Desk
from tests.support.every_kind import write_kinds
from tests.support.raw_server import RawServer, http

TWICE = '{"id": "t1", "query": "Which?", "reference": "Basil.", "chunks": [{"text": "a", "text": "b"}]}\n'


@pytest.mark.slow
def test_data_with_a_key_twice(tmp_path: Path) -> None:
    """In traces, in another format's lines and in claims the message names key, file and line."""
    path = tmp_path / "t.jsonl"
    path.write_text(TWICE)
    with pytest.raises(DataError, match=r"t\.jsonl:1: the key 'text' occurs twice in one object"):
        list(open_dataset(path))
    (tmp_path / "other.jsonl").write_text('{"question": "a", "contexts": ["b"], "question": "c"}\n')
    done = Shell(tmp_path)("validate", tmp_path / "other.jsonl")
    assert done.code == 2
    assert "'question' occurs twice" in done.out + done.err
    path.write_text('{"query": "a", "reference": "b", "claims": ["c"], "claims": ["d"]}\n')
    with pytest.raises(DataError, match="'claims' occurs twice"):
        read_claims(path)


def test_texts_that_look_like_keys(tmp_path: Path) -> None:
    """Text that quotes JSON is no key, whatever its blanks and escapes."""
    text = '{"text": 1, "text" : 2} says "a": \\" : "b":'
    path = tmp_path / "t.jsonl"
    row = {"id": "t", "query": text, "reference": text, "chunks": [{"id": "a", "text": text}]}
    path.write_text(json.dumps(row) + "\n" + json.dumps({**row, "id": "u"}, separators=(" ,", "\t: ")) + "\n")
    assert [trace.query for trace in open_dataset(path)] == [text, text]
    with pytest.raises(ValueError, match="'b' occurs twice"):
        check_single_keys(b'{"a": {"b" : 1, "b"\t: 2}}', {"a": {"b": 2}})


def test_claims_are_of_their_trace(tmp_path: Path) -> None:
    """A blank claim is an error, and so are nuggets of another question under the trace's id."""
    path = tmp_path / "claims.jsonl"
    for claims in ('[" "]', '[{"text": "\\n"}]'):
        path.write_text(f'{{"query": "a", "reference": "b", "claims": {claims}}}\n')
        with pytest.raises(DataError, match="a claim without text"):
            read_claims(path)
    path.write_text('{"qid": "t1", "query": "Who?", "nuggets": [{"text": "x", "importance": "vital"}]}\n')
    trace = Trace.parse({"id": "t1", "query": "Which?", "reference": "y", "chunks": ["z"]})
    with pytest.raises(DataError, match="the claims are about 'Who\\?'"):
        read_claims(path).fill(trace)
    same = trace.model_copy(update={"query": "Who? "})
    assert read_claims(path).fill(same).claims
    assert read_claims(path).find(trace.model_copy(update={"id": "t2"})) is None


@pytest.mark.slow
def test_cassettes_are_bounded(tmp_path: Path) -> None:
    """A long line, a key that occurs twice, a pipe and a device are errors at once."""
    path = tmp_path / "tape.jsonl"
    head = '{"cassette": 1, "backend": null}\n'
    row = {"trace_id": "t", "chunk_ids": [], "reply": "", "finish": "stop", "usage": {}, "model": "m"}
    line = json.dumps({**row, "key": "aa"})
    path.write_text(head + line[:-1] + ', "key": "bb"}\n')
    with pytest.raises(DataError, match=r"tape\.jsonl:2: .*the key 'key' occurs twice"):
        cassettes.read(path)
    with path.open("wb") as file:
        file.write(head.encode())
        file.truncate(limits.LINE * 4)
    with pytest.raises(DataError, match=r"tape\.jsonl:2: longer than 32 MiB"):
        cassettes.read(path)
    os.mkfifo(tmp_path / "pipe")
    for odd in (tmp_path / "pipe", Path("/dev/zero"), tmp_path):
        with pytest.raises(ConfigError, match="cannot be read"):
            cassettes.read(odd)
    (tmp_path / "t.jsonl").write_text(TWICE.replace(', "text": "b"', ""))
    done = Shell(tmp_path)("run", tmp_path / "t.jsonl", "--model", "fake/overlap", "--replay", tmp_path / "pipe")
    assert done.code == 2
    assert "not a regular file" in done.err


def doubled(text: str) -> tuple[str, str]:
    """Write the first key of the last object of a JSON text a second time; return the text and the key."""
    *_, match = re.finditer(r'\{\s*"(\w+)"\s*:', text)
    return f'{text[: match.start()]}{{"{match[1]}": null, {text[match.start() + 1 :]}', match[1]


RUN = ("run", "--model", "fake/overlap", "--out", "new", "--prompt", "support/binary@1")
PLACES: dict[str, tuple[str, tuple[str, ...]]] = {
    "array": ("array.json", (*RUN, "array.json")),
    "records in an object": ("wrapped.json", (*RUN, "wrapped.json")),
    "one record": ("one.json", (*RUN, "one.json")),
    "objects one after another": ("objects.json", (*RUN, "objects.json")),
    "records by id": ("ids.json", (*RUN, "ids.json", "--records", "*")),
    "a trace to judge": ("one.json", ("judge", "one.json", "--model", "fake/overlap")),
    "manifest": ("runs/overlap/manifest.json", ("show", "runs/overlap")),
    "results, verified": ("runs/overlap/results.jsonl", ("runs", "verify", "runs/overlap")),
    "labels of a run": ("runs/overlap/labels.jsonl", ("agree", "runs/overlap")),
    "labels": ("array.json", ("agree", "runs/overlap", "array.json")),
    "claims": ("claims.jsonl", (*RUN[:3], "traces.jsonl", "--mode", "claims", "--claims", "claims.jsonl")),
    "cassette": ("cassette.jsonl", (*RUN, "traces.jsonl", "--replay", "cassette.jsonl")),
    "batch": ("batch/batch.json", ("batch", "status", "batch")),
    "cascade": ("cascade.json", (*RUN, "traces.jsonl", "--judge", "cascade.json")),
    "judge file": ("judge.json", ("run", "traces.jsonl", "--judge", "judge.json", "--out", "new")),
    "calibration": (
        "calibration.json",
        ("score", "runs/confidence", "--metrics", "SoftP@5", "--calibration", "calibration.json"),
    ),
    "ranking": ("collection/run.json", (*RUN, "collection")),
}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that the commands write."""
    folder = tmp_path_factory.mktemp("written")
    lines = (FIXTURES / "docs_qa.jsonl").read_bytes().splitlines(keepends=True)[:3]
    (folder / "traces.jsonl").write_bytes(b"".join(lines))
    with pytest.MonkeyPatch.context() as patch:
        Desk.at(folder, patch, None)  # type: ignore[arg-type]
        write_kinds(Desk(folder, patch, lambda: ("", "")))
    return folder


@pytest.fixture
def kept(tmp_path: Path, written: Path) -> Shell:
    """A folder with a file of every kind."""
    shutil.copytree(written, tmp_path, dirs_exist_ok=True)
    rows = [json.loads(line) for line in (tmp_path / "traces.jsonl").read_text().splitlines()][:2]
    files: dict[str, object] = {
        "array": rows,
        "wrapped": {"name": "x", "data": rows},
        "one": rows[0],
        "ids": {str(row["id"]): row for row in rows},
        "judge": {"model": "fake/overlap", "prompt": "support/binary"},
        "collection/run": {"q1": {"d1": 1.0}},
    }
    (tmp_path / "collection").mkdir()
    (tmp_path / "collection/queries.jsonl").write_text('{"_id": "q1", "text": "Which?"}\n')
    (tmp_path / "collection/corpus.jsonl").write_text('{"_id": "d1", "text": "This one."}\n')
    for name, value in files.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(value, indent=1))
    (tmp_path / "objects.json").write_text("\n".join(json.dumps(row, indent=1) for row in rows))
    label = {"trace_id": "t", "chunk_id": "c", "label": 1, "by": "", "given": "2026-01-01T00:00:00Z"}
    (tmp_path / "runs/overlap/labels.jsonl").write_text(json.dumps(label) + "\n")
    return Shell(tmp_path)


@pytest.mark.parametrize("kind", PLACES)
def test_every_file_names_a_key_that_stands_twice(kind: str, kept: Shell) -> None:
    """Wherever JSON is read, the message names the key and the file; nothing is judged or ordered."""
    name, command = PLACES[kind]
    path = kept.folder / name
    text, key = doubled(path.read_text())
    path.write_text(text)
    result = kept(*command)
    assert result.code == 2, result
    assert f"the key {key!r} occurs twice" in result.out + result.err, result
    assert path.name in result.out + result.err


def submitted(body: bytes) -> object:
    """Read a submission's body."""
    return read_submission(body, ServerLimits(), lambda _: None)


BODIES: dict[str, tuple[Callable[[bytes], object], str]] = {
    "first": (submitted, '{"traces": [], "traces": []}'),
    "inside": (submitted, f'{{"traces": [{TWICE}]}}'),
    "hosted": (submitted, f'{{"data": [{TWICE}]}}'),
    "uploaded": (read_upload, f'{{"results": [{TWICE}]}}'),
}


@pytest.mark.parametrize("name", BODIES)
def test_requests_and_replies_have_single_keys(name: str) -> None:
    """A body that a client or a server sends is refused in the same words as a file."""
    read, body = BODIES[name]
    words = r"the key '(traces|text)' occurs twice in one object"
    with pytest.raises(DataError, match=words):
        read(body.encode())
    with RawServer(lambda _: http(200, body.encode())) as server:
        client = Client(f"http://127.0.0.1:{server.port}", timeout=5)
        with pytest.raises(DataError, match=words):
            client.list_runs()


def test_a_key_is_found_however_deep_it_stands(tmp_path: Path) -> None:
    """The same key may stand in two objects, and not twice in one."""
    path = tmp_path / "a.json"
    path.write_text('{"a": {"a": 1}, "b": [{"a": 1}, {"a": 2}]}')
    assert read_document(path, "a.json") == {"a": {"a": 1}, "b": [{"a": 1}, {"a": 2}]}
    path.write_text('{"b": [{"a": 1,\n "a": 2}]}')
    with pytest.raises(DataError, match=r"a\.json: the key 'a' occurs twice"):
        read_document(path, "a.json")


PIECES = ["a", "b", '\\"', "\\u0022", ":", " ", "\\u0020", "\\u003a", "\\u003A", "\\n", "\\\\", "\\ud800", "é"]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=4).map(lambda pieces: f'"{"".join(pieces)}"')
JSON = st.recursive(
    TEXTS,
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: f"[{','.join(items)}]")
        | st.lists(st.tuples(TEXTS, st.sampled_from(["", " "]), inner), max_size=4).map(
            lambda members: f"{{{','.join(f'{key}{blank}:{value}' for key, blank, value in members)}}}"
        )
    ),
)


@given(JSON)
def test_the_quick_look_for_doubled_keys_misses_none(text: str) -> None:
    """Whatever texts look like keys, however they are escaped, it finds what reading each object finds."""
    data = text.encode()
    try:
        json.loads(data, object_pairs_hook=single_keys)
    except RepeatedKeyError:
        with pytest.raises(RepeatedKeyError):
            check_single_keys(data, read_json(data))
    else:
        check_single_keys(data, read_json(data))
