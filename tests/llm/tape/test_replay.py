from __future__ import annotations

import asyncio
import json
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from judge_eval.errors import ConfigError, DataError, MissError, RefusedError, TransientError
from judge_eval.llm.backend import Backend, Identity
from judge_eval.llm.cache.cached import Cached
from judge_eval.llm.cassettes import Recording, Replay
from judge_eval.wire import Completion, Message, Request, TokenLogprob, Usage
from tests.support.cache_doubles import IDENTITY, Counting, MemoryStore, ask, readable


def run(backend: Backend, *requests: Request, close: bool = True) -> list[Completion | BaseException]:
    """Complete requests at once and close the backend."""

    async def work() -> list[Completion | BaseException]:
        result = await asyncio.gather(*map(backend.complete, requests), return_exceptions=True)
        if close:
            await backend.aclose()
        return result

    return asyncio.run(work())


def answers(path: Path, *requests: Request) -> list[str]:
    """The texts a cassette answers with."""
    result = run(Replay(path), *requests)
    return [c.text if isinstance(c, Completion) else type(c).__name__ for c in result]


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    """Where the cassette goes."""
    return tmp_path / "folder" / "tape.jsonl"


def test_both_are_backends(tape: Path) -> None:
    """Replaying and recording fit the protocols."""
    run(Recording(Counting(), tape), ask())
    for backend in (Replay(tape), Recording(Counting(), tape)):
        assert isinstance(backend, Backend)
        assert callable(backend.peek)


def test_what_was_recorded_is_replayed_whole(tape: Path) -> None:
    """Text, finish, usage, model, what was dropped and log-probabilities come back, marked as cached."""
    full = Completion(
        'yes "quoted"\n\u2028\x85 ü \ud800',
        "length",
        Usage(1, 2, 3, 4),
        "model-2026",
        ("strict", "top_p"),
        (TokenLogprob("yes", -0.25, (("yes", -0.25), ("no", -1.5))),),
    )

    class Full(Counting):
        async def complete(self, request: Request) -> Completion:
            return full if request.query == "full" else Completion("no")

    requests = [ask("full"), ask("bare", sample=2)]
    recorded = run(Recording(Full(), tape), *requests)
    assert recorded == run(Replay(tape), *requests)
    assert [c and c.cached for c in Replay(tape).peek(requests)] == [True, True]


def test_replay_says_whose_answers_they_are(tape: Path) -> None:
    """The identity is that of the recorded backend, so that keys and provenance are the same."""
    run(Recording(Counting(), tape), ask())
    assert Replay(tape).identity == IDENTITY
    run(Recording(Counting(identity=None), tape.with_name("none.jsonl")), ask())
    assert Replay(tape.with_name("none.jsonl")).identity is None


def test_a_miss_names_trace_and_chunk(tape: Path) -> None:
    """A request that is not recorded is an error that names trace, chunks, file and what to do."""
    run(Recording(Counting(), tape), ask())
    (error,) = run(Replay(tape), ask("new", trace_id="t7", chunk_ids=("c3",)))
    assert isinstance(error, MissError)
    for part in ("'t7'", "'c3'", str(tape), "record="):
        assert part in str(error)
    assert Replay(tape).peek([ask("new"), ask()])[0] is None


def test_a_miss_survives_the_way_between_processes() -> None:
    """The error can be sent from a worker of a test run to the one that reports."""
    error = MissError("the cache", "t1", ("c1",), "run once")
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.trace_id, again.chunk_ids) == (str(error), "t1", ("c1",))


def test_a_cassette_can_be_reviewed(tape: Path) -> None:
    """It starts with who answered; each line says trace, chunks, what was asked in short, and the reply."""
    run(Recording(Counting(), tape), ask("Why  is\nthe sky " + "blue? " * 100, "Because.", chunk_ids=("c2",)))
    header, line = map(json.loads, tape.read_text().splitlines())
    assert header["cassette"] == 1
    assert header["backend"]["model"] == "model-a"
    assert list(line)[:4] == ["trace_id", "chunk_ids", "asked", "passage"]
    assert (line["trace_id"], line["chunk_ids"], line["passage"]) == ("t1", ["c2"], "Because.")
    assert line["asked"].startswith("Why is the sky blue? blue?")
    assert len(line["asked"]) == 100
    assert line["reply"].startswith("yes Why")
    assert line["model"] == "model-a-2026"
    assert len(line["key"]) == 64


def test_the_order_of_lines_is_that_of_traces(tape: Path) -> None:
    """Whatever the order of the calls, the file is the same, and recording again leaves it the same."""
    requests = [ask(f"q{t}{c}", trace_id=f"t{t}", chunk_ids=(f"c{c}",)) for t in range(3) for c in range(3)]
    run(Recording(Counting(), tape), *requests[::-1])
    first = tape.read_bytes()
    lines = [json.loads(line) for line in tape.read_text().splitlines()[1:]]
    assert [(line["trace_id"], line["chunk_ids"]) for line in lines] == [(r.trace_id, [*r.chunk_ids]) for r in requests]
    run(Recording(Counting(), tape), *requests)
    assert tape.read_bytes() == first


def test_recording_again_replaces_and_keeps_the_rest(tape: Path) -> None:
    """A new answer replaces the old one of its request; other lines stay; there is one line a request."""
    run(Recording(Counting(), tape), ask("q1"), ask("q2"))
    run(Recording(Counting(lambda _: "no"), tape), ask("q2"), ask("q3"))
    assert answers(tape, ask("q1"), ask("q2"), ask("q3")) == ["yes q1", "no", "no"]
    assert len(tape.read_text().splitlines()) == 4


def test_equal_requests_are_one_line(tape: Path) -> None:
    """Equal requests of two traces are written once."""
    run(Recording(Counting(), tape), ask(trace_id="t1"), ask(trace_id="t2"))
    assert len(tape.read_text().splitlines()) == 2
    assert answers(tape, ask(trace_id="t2")) == ["yes why?"]


def test_lines_are_there_before_the_end(tape: Path) -> None:
    """Each answer is in the file once it was given, so that a kill loses none."""
    recording = Recording(Counting(), tape)
    for n in range(3):
        run(recording, ask(f"q{n}"), close=False)
        assert len(tape.read_text().splitlines()) == n + 2
    assert answers(tape, ask("q2")) == ["yes q2"]


def test_repairs_are_replayed_as_they_were(tape: Path) -> None:
    """An unreadable answer and its repair are two lines, replayed in the same order of questions."""
    backend = Counting(lambda request: "yes" if request.follow_up else "hm")
    first = ask(accepts=readable)
    repair = replace(first, follow_up=(Message("user", "again"),), origin=first)
    run(Recording(Cached(backend, MemoryStore()), tape), first, repair)
    assert answers(tape, first, repair) == ["hm", "yes"]
    assert [json.loads(line).get("repair") for line in tape.read_text().splitlines()[1:]] == [None, True]


def test_hits_of_a_cache_are_recorded(tape: Path) -> None:
    """With a cache inside, what is peeked is recorded like what is asked."""
    store = MemoryStore()
    run(Cached(Counting(), store), ask("q1"))
    backend = Counting()
    recording = Recording(Cached(backend, store), tape)
    assert [c is None for c in recording.peek([ask("q1"), ask("q2")])] == [False, True]
    run(recording, ask("q2"))
    assert len(backend.asked) == 1
    assert answers(tape, ask("q1"), ask("q2")) == ["yes q1", "yes q2"]
    assert Recording(Counting(), tape).peek([ask("q1")]) == [None]


def test_refusals_are_recorded_and_other_failures_are_not(tape: Path) -> None:
    """What the server declines for good is replayed as declined; what may pass is not written."""

    def fail(request: Request) -> str:
        raise RefusedError("filtered") if request.query == "refused" else TransientError("overloaded")

    run(Recording(Counting(fail), tape), ask("refused"), ask("overloaded"))
    refused, missing = run(Replay(tape), ask("refused"), ask("overloaded"))
    assert isinstance(refused, RefusedError)
    assert refused.detail == "filtered"
    assert isinstance(missing, MissError)
    assert Replay(tape).peek([ask("refused")]) == [None]


@pytest.mark.parametrize("cut", [1, 2, 10, 100])
def test_a_torn_last_line_is_left_out(tape: Path, cut: int) -> None:
    """After a kill in the midst of a line the lines before it are replayed, and recording goes on."""
    run(Recording(Counting(), tape), ask("q1"), ask("q2", trace_id="t2"))
    tape.write_bytes(tape.read_bytes()[:-cut])
    torn = cut > 1
    assert answers(tape, ask("q1"), ask("q2")) == ["yes q1", "MissError" if torn else "yes q2"]
    run(Recording(Counting(), tape), ask("q3"))
    assert answers(tape, ask("q1"), ask("q3")) == ["yes q1", "yes q3"]
    assert len(tape.read_text().splitlines()) == (3 if torn else 4)


@pytest.mark.parametrize(
    "line", ["not json", "[]", "7", "{}", '{"key": "00", "reply": 7}', '{"key": "00"}', "[" * 100_000]
)
def test_a_bad_line_is_named(tape: Path, line: str) -> None:
    """A line that is no answer is an error with file and line, and never an answer."""
    run(Recording(Counting(), tape), ask("q1"), ask("q2"))
    header, first, two = tape.read_text().splitlines()
    tape.write_text("\n".join([header, first, line, two]) + "\n")
    with pytest.raises(DataError, match=r"tape.jsonl:3: not a recorded answer"):
        Replay(tape).peek([ask("q1")])


@pytest.mark.parametrize("header", ["", "{}", "[]", "text", '{"cassette": 99, "backend": null}'])
def test_a_file_that_is_no_cassette_is_refused(tape: Path, header: str) -> None:
    """A file that does not begin like a cassette is neither replayed nor added to."""
    tape.parent.mkdir()
    tape.write_text(header + "\n")
    with pytest.raises(DataError, match="first line"):
        _ = Replay(tape).identity
    (error,) = run(Recording(Counting(), tape), ask())
    assert isinstance(error, DataError)
    assert tape.read_text() == header + "\n"


def test_a_missing_cassette_says_how_to_make_it(tape: Path) -> None:
    """Replaying a file that is not there names it and the flag."""
    with pytest.raises(ConfigError, match=r"no such cassette.*record="):
        Replay(tape).peek([ask()])


def test_one_cassette_holds_one_backend(tape: Path) -> None:
    """Answers of another model are not mixed into a cassette: keys leave out who answered."""
    run(Recording(Counting(), tape), ask())
    before = tape.read_bytes()
    other = Counting(identity=replace(IDENTITY, model="model-b"))
    (error,) = run(Recording(other, tape), ask())
    assert isinstance(error, ConfigError)
    assert "model-a" in str(error)
    assert "model-b" in str(error)
    assert tape.read_bytes() == before


def test_no_credentials_reach_a_cassette(tape: Path) -> None:
    """A base URL with a password is refused before anything is written, without repeating it."""
    who = Identity("openai", "m", "https://user:sesame@host/v1")
    (error,) = run(Recording(Counting(identity=who), tape), ask())
    assert isinstance(error, ConfigError)
    assert "sesame" not in str(error)
    assert not tape.exists() or b"sesame" not in tape.read_bytes()


MANY = """if True:
    import asyncio, sys
    sys.path.insert(0, sys.argv[2])
    from tests.support.cache_doubles import Counting, ask
    from judge_eval.llm.cassettes import Recording
    async def run():
        for turn in range(4):
            recording = Recording(Counting(), sys.argv[1])
            for n in range(10):
                await recording.complete(ask(f"{sys.argv[3]}-{turn}-{n}", trace_id=sys.argv[3]))
            await recording.aclose()
    asyncio.run(run())
"""


@pytest.mark.slow
def test_processes_record_into_one_file(tape: Path) -> None:
    """Four processes that add to and rewrite one cassette lose no line."""
    here = str(Path(__file__).parents[3])
    processes = [subprocess.Popen([sys.executable, "-c", MANY, str(tape), here, str(p)]) for p in range(4)]
    assert [process.wait(60) for process in processes] == [0] * 4
    requests = [ask(f"{p}-{turn}-{n}") for p in range(4) for turn in range(4) for n in range(10)]
    assert None not in Replay(tape).peek(requests)
    assert len(tape.read_text().splitlines()) == 161
    assert [path.name for path in tape.parent.iterdir()] == ["tape.jsonl"]
