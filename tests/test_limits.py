"""Every limit of a record, at its edge: what keeps it passes everywhere, what does not comes in nowhere."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from judge_eval import Chunk, EvalRun, Evaluator, FakeBackend, Pointwise, Trace, limits
from judge_eval.data.reading import open_dataset
from judge_eval.errors import DataError
from judge_eval.export.formats import FORMATS, write_as
from judge_eval.record import KEPT
from judge_eval.runs.folder.journal import encode, read_result
from judge_eval.runs.folder.records import TraceResult
from judge_eval.runs.judging.merge import merge
from judge_eval.runs.scoring.rescore import rescore
from judge_eval.server.rest_client import Client
from judge_eval.server.server_settings import ServerLimits, ServerSettings
from tests.support.command import ROOT, Shell
from tests.support.serving import ask, serving

pytestmark = pytest.mark.filterwarnings("ignore:The .* attribute with value .* was provided:UserWarning")


def trace(**more: Any) -> dict[str, Any]:
    """A trace as plain data, as it was read from a span."""
    metadata = {
        "span_id": "s",
        "trace_id": "t",
        "run_id": "01a1fd47-69a4-774a-a9d2-5da22ce52d32",
        **more.pop("metadata", {}),
    }
    return {"id": "q", "query": "What?", "reference": "This.", "chunks": [chunk()], "metadata": metadata, **more}


def chunk(**more: Any) -> dict[str, Any]:
    """A chunk as plain data."""
    return {"id": "c", "text": "This.", **more}


OTHER = trace(id="other", query="What else?")


def nested(depth: int) -> dict[str, Any]:
    """Metadata so many levels deep, objects and lists in turn."""
    value: Any = 1
    for level in range(depth - 1, 0, -1):
        value = [value] if level % 2 else {"a": value}
    return {"a": value}


def sized(size: int) -> dict[str, Any]:
    """A trace whose line is so many bytes long, most of them in texts of more than one byte a character."""
    bare = len(Trace.parse(trace(chunks=[chunk(text="")])).model_dump_json()) + 1
    text = "é" * ((size - bare) // 2)
    return trace(chunks=[chunk(text=text + "x" * (size - bare - 2 * len(text)))])


LIMITS: dict[str, tuple[Callable[[int], dict[str, Any]], int, str]] = {
    "depth": (lambda n: trace(metadata=nested(n)), limits.DEPTH, "nested more than 64 deep; flatten it"),
    "depth of a chunk's": (
        lambda n: trace(chunks=[chunk(metadata=nested(n))]),
        limits.DEPTH,
        "nested more than 64 deep; flatten it",
    ),
    "digits": (
        lambda n: trace(metadata={"a": 10**n - 1, "b": [{"c": 1 - 10**n}]}),
        limits.DIGITS,
        "a number of more than 100 digits",
    ),
    "id": (lambda n: trace(id="i" * n), limits.ID, "at most 10,000 characters"),
    "chunk's id": (lambda n: trace(chunks=[chunk(id="i" * n)]), limits.ID, "at most 10,000 characters"),
    "tag": (lambda n: trace(tags=["t" * n]), limits.ID, "at most 10,000 characters"),
    "tags": (lambda n: trace(tags=[f"t{k}" for k in range(n)]), limits.TAGS, "more than 1,000"),
    "label": (lambda n: trace(chunks=[chunk(label=n)]), limits.NUMBER, "must be at most 2,147,483,647"),
}
HEAVY: dict[str, tuple[Callable[[int], dict[str, Any]], int, str]] = {
    "total": (lambda n: trace(relevant_total=n), limits.TOTAL, "must be at most 1,000,000"),
    "chunks": (
        lambda n: trace(chunks=[chunk(id=f"c{k}") for k in range(n)]),
        limits.CHUNKS,
        "more than 10,000; read fewer",
    ),
    "line": (sized, limits.LINE, "more than 32 MiB written as JSON"),
}
ALL = {**LIMITS, **HEAVY}


def evaluator(**more: Any) -> Evaluator:
    """A judge that needs no network and keeps nothing."""
    return Evaluator("fake/always", metrics=["AP@5", "MRR"], cache=False, **more)


@pytest.mark.foreign
@pytest.mark.parametrize("name", [*LIMITS, *(pytest.param(item, marks=pytest.mark.slow) for item in HEAVY)])
def test_what_keeps_a_limit_passes_everywhere(name: str, tmp_path: Path) -> None:
    """Written, read, scored, compared, merged from shards, exported, uploaded and brought home the same."""
    make, most, _ = ALL[name]
    data = [make(most), OTHER]
    (tmp_path / "data.jsonl").write_text(
        "".join(json.dumps(item, ensure_ascii=False, separators=(",", ":")) + "\n" for item in data)
    )
    run = evaluator().evaluate(tmp_path / "data.jsonl", out=tmp_path / "runs")
    assert run.folder is not None
    again = EvalRun.load(run.folder)
    assert [result.trace for result in again.results] == [Trace.parse(item) for item in data]
    assert rescore(again, ["P@5"])["P@5"] == 1.0
    assert again.compare(run)
    shards = [evaluator().evaluate(tmp_path / "data.jsonl", out=tmp_path / "shards", shard=(k, 2)) for k in (1, 2)]
    merged = merge([shard.folder or Path() for shard in shards], tmp_path / "merged")
    assert merged.folder is not None
    assert (merged.folder / "results.jsonl").read_bytes() == (run.folder / "results.jsonl").read_bytes()
    for format in FORMATS:
        write_as(again, tmp_path / f"{format}.out", format)
    if name == "line":  # the export adds what the judge said: it is written whole, and too long for data
        assert (tmp_path / "jsonl.out").stat().st_size > limits.LINE
        with pytest.raises(DataError, match="longer than 32 MiB; a line holds one trace"):
            list(open_dataset(tmp_path / "jsonl.out", format="judge-eval"))
    else:
        back = list(open_dataset(tmp_path / "jsonl.out", format="judge-eval"))
        assert [item.digest for item in back] == [result.digest for result in again.results]
    with serving(ServerSettings(tmp_path / "served")) as url:
        client = Client(url)
        client.upload(again)
        assert list(client.get_eval_run(again.id).results) == list(again.results)


def doors(tmp_path: Path, data: dict[str, Any]) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield every way in."""
    (tmp_path / "lines.jsonl").write_text(json.dumps(data, ensure_ascii=False) + "\n")
    (tmp_path / "list.json").write_text(json.dumps([data], ensure_ascii=False))
    yield "jsonl", lambda: list(open_dataset(tmp_path / "lines.jsonl"))
    yield "json", lambda: list(open_dataset(tmp_path / "list.json"))
    yield "Trace.parse", lambda: Trace.parse(data)
    yield "evaluate", lambda: evaluator().evaluate([data])


def as_pydantic_says(words: str) -> str:
    """Return the pattern of a limit's words as a record made in Python says them."""
    return words.replace(",", ",?").replace("must be at most", "less than or equal to")


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_one_above_a_limit_is_refused_at_every_door(name: str, tmp_path: Path) -> None:
    """One message that says what, where and how much, whichever way it came in; nobody is asked."""
    make, most, result = ALL[name]
    data = make(most + 1)
    for door, enter in doors(tmp_path, data):
        with pytest.raises(DataError) as caught:
            enter()
        assert result in str(caught.value), door
        assert len(str(caught.value)) < 300, door
        if door == "jsonl":
            assert "lines.jsonl:1: " in str(caught.value)
    with pytest.raises(ValueError, match=as_pydantic_says(result)):
        Trace(**data)


@pytest.mark.parametrize("name", ["depth of a chunk's", "chunk's id", "label"])
def test_a_chunk_alone_keeps_its_limits(name: str) -> None:
    """A `Chunk` made in Python is held to them at once."""
    make, most, result = LIMITS[name]
    Chunk(**make(most)["chunks"][0])
    with pytest.raises(ValueError, match=as_pydantic_says(result)):
        Chunk(**make(most + 1)["chunks"][0])


@pytest.mark.slow
@pytest.mark.parametrize("name", LIMITS)
def test_a_server_refuses_what_is_above_a_limit(name: str, tmp_path: Path) -> None:
    """422 with the same message, for traces to be judged and for runs judged elsewhere."""
    make, most, outcome = LIMITS[name]
    run = evaluator().evaluate([make(most)])
    with serving(ServerSettings(tmp_path), evaluator()) as url:
        body = {"traces": [make(most + 1)]}
        status, answer, _ = ask(f"{url}/api/v1/runs", method="POST", body=body)
        assert status == 422
        assert outcome in answer["error"]["message"]
        results = [result.model_dump(mode="json") for result in run.results]
        above = json.loads(json.dumps(results[0])) | {"trace": make(most + 1)}
        upload = {"manifest": run.manifest.model_dump(mode="json"), "results": [above]}
        status, answer, _ = ask(f"{url}/api/v1/runs/upload", method="POST", body=upload)
        assert status == 422
        assert outcome in answer["error"]["message"]
        assert ask(f"{url}/api/v1/runs")[1]["total"] == 0


@pytest.mark.parametrize("depth", [65, 199, 256, 1_000, 100_000])
def test_any_depth_is_the_same_message(depth: int, tmp_path: Path) -> None:
    """Whatever reader would give up first: of JSON Lines, a JSON file, another tool's, the command line."""
    deep = "[" * depth + "1" + "]" * depth
    (tmp_path / "ours.jsonl").write_text(
        '{"query": "q?", "reference": "r", "chunks": ["c"], "metadata": {"a": ' + deep + "}}\n"
    )
    (tmp_path / "ours.json").write_text(
        '[{"query": "q?", "reference": "r", "chunks": ["c"], "metadata": {"a": ' + deep + "}}]"
    )
    (tmp_path / "ragas.jsonl").write_text('{"user_input": "q?", "retrieved_contexts": ["c"], "more": ' + deep + "}\n")
    for name in ("ours.jsonl", "ours.json", "ragas.jsonl"):
        with pytest.raises(DataError, match="nested more than 64 deep"):
            list(open_dataset(tmp_path / name))
    (tmp_path / "one.json").write_text((tmp_path / "ours.jsonl").read_text())
    result = Shell(tmp_path)("judge", "one.json", "--model", "fake/always")
    assert result.code == 2
    assert "nested more than 64 deep" in result.err
    assert "Traceback" not in result.err


def test_what_was_changed_after_it_was_made_is_looked_at_again() -> None:
    """A copy, or metadata that were filled later, cannot bring in what nobody could read again."""
    made = Trace.parse(trace())
    made.metadata["a"] = nested(250)
    with pytest.raises(DataError, match=r"row 0 .*: nested more than 64 deep"):
        evaluator().evaluate([made])
    many = Trace.parse(trace()).model_copy(update={"tags": ("t",) * (limits.TAGS + 1)})
    with pytest.raises(DataError, match="tags: more than 1,000"):
        evaluator().evaluate(many)


class Talkative(Pointwise):
    """A judge that says more of itself than a manifest may hold."""

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "more": nested(limits.DEPTH)}


def test_what_a_judge_says_of_itself_is_held_to_the_depth_before_the_first_call(tmp_path: Path) -> None:
    """What a run's manifest could not be read with is refused before anything is judged."""
    backend = FakeBackend.table({}, default=0)
    made = Evaluator(backend, judge=Talkative("support/binary"), cache=False)
    with pytest.raises(DataError, match=r"judge: nested more than 64 deep"):
        made.evaluate([trace()], out=tmp_path)
    assert backend.calls == 0
    assert not list(tmp_path.iterdir())


def test_a_run_of_an_earlier_version_is_still_read(tmp_path: Path) -> None:
    """Results that were written before there was a limit are read, as deep as any reader goes."""
    run = evaluator().evaluate([trace()])
    data = run.results[0].model_dump(mode="json")
    data["trace"]["metadata"] = nested(150)
    data["trace"]["tags"] = [f"t{k}" for k in range(limits.TAGS + 1)]
    line = json.dumps(data).encode() + b"\n"
    result = read_result(line, tmp_path / "results.jsonl", 1)
    assert encode(result) == encode(TraceResult.model_validate(data, context=KEPT))
    with pytest.raises(DataError):
        TraceResult.parse(data)


@pytest.mark.slow
def test_a_line_too_long_is_skipped_whole(tmp_path: Path) -> None:
    """The lines behind it keep their numbers, and no more of it is held than shows that it is too long."""
    path = tmp_path / "long.jsonl"
    with path.open("w") as file:
        file.write(json.dumps(OTHER) + "\n" + '{"query": "' + "x" * (2 * limits.LINE + 7) + '"}\n')
        file.write(json.dumps({**OTHER, "id": "third"}) + "\nnot JSON\n")
    errors: list[DataError] = []
    read = [item.id for item in open_dataset(path, on_invalid="skip", on_skip=errors.append)]
    assert read == ["other", "third"]
    assert [error.line for error in errors] == [2, 4]


def test_submissions_keep_the_server_s_own_limits(tmp_path: Path) -> None:
    """What a server judges for others it limits further; a run judged elsewhere keeps a record's limits."""
    many = trace(chunks=[chunk(id=f"c{k}") for k in range(4)])
    run = evaluator().evaluate([many])
    settings = ServerSettings(tmp_path, limits=ServerLimits(chunks=3))
    with serving(settings, evaluator()) as url:
        assert ask(f"{url}/api/v1/runs", method="POST", body={"traces": [many]})[0] == 413
        assert Client(url).upload(run).status == "done"


def test_the_documentation_states_the_limits() -> None:
    """The reference shows every constant, and the numbers that the page on formats states are theirs."""
    assert "::: judge_eval.limits" in (ROOT / "docs" / "reference" / "records.md").read_text()
    text = " ".join((ROOT / "docs" / "formats.md").read_text().split())
    for words in (
        f"at most {limits.CHUNKS:,} chunks and {limits.LINE // 2**20} MiB as a line of JSON",
        f"`metadata` is at most {limits.DEPTH} deep",
        f"at most {limits.UNPACKED // 2**30} GiB or {limits.RATIO} times its size",
    ):
        assert words in text
