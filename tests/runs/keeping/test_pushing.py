import asyncio
import json
import re
import shlex
import signal
from itertools import count
from pathlib import Path

import fsspec
import pytest

from judge_eval import EvalRun, FakeBackend
from judge_eval.errors import RunError
from judge_eval.runs.folder.journal import Journal
from judge_eval.runs.keeping import transfer as moving
from judge_eval.runs.keeping.lookup import run_folders
from judge_eval.runs.keeping.mirror import bring_run, place_of_runs, pushing
from judge_eval.runs.keeping.transfer import copy_results, pull, push, segment_name
from tests.support.chat_server import ChatServer
from tests.support.object_storage import Machine, Stalling, storage, there
from tests.support.ports import quiet_port
from tests.support.runs import evaluator, traces, unnamed
from tests.support.waiting import until

pytestmark = pytest.mark.foreign

COUNT = 40
FAKE = FakeBackend.table({}, default={"grade": 1, "evidence": "Text"})


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Forty traces of two chunks."""
    path = tmp_path / "data.jsonl"
    path.write_text("".join(trace.model_dump_json() + "\n" for trace in traces(COUNT, 2)))
    return path


def stored(s3: str, place: str) -> dict[str, bytes]:
    """Return the files behind a place of runs, by their names in the run's folder."""
    options = {"endpoint_url": s3, "key": "key", "secret": "topsecret99"}
    system = fsspec.filesystem("s3", client_kwargs={"region_name": "us-east-1"}, **options)
    system.invalidate_cache()
    try:
        return {name.rpartition("/")[2]: system.cat_file(name) for name in system.find(place)}
    except FileNotFoundError:  # merged meanwhile
        return stored(s3, place)


def judging(server: ChatServer, data: Path, out: str, *more: object) -> tuple[object, ...]:
    """Return a command that judges slowly into a place, without a cache."""
    return (
        "run", data, "--model", "openai/m", "--base-url", server.url, "--cache", "none", "--concurrency", "2",
        "--out", out, "--push-every", "0.2", "--resume=newest", "-q", *more,
    )  # fmt: skip


def segments(files: dict[str, bytes]) -> list[dict[str, str]]:
    """Read the lines that lie in segments."""
    lines = [line for name in files if name.startswith("results-") for line in files[name].splitlines()]
    return [json.loads(line) for line in lines]


@pytest.mark.slow
def test_another_machine_goes_on_after_kill_9(s3: str, tmp_path: Path, data: Path) -> None:
    """What was pushed before a kill -9 is not paid for again by another machine; the first one learns it."""
    first, two = Machine(tmp_path / "one", s3), Machine(tmp_path / "two", s3)
    with ChatServer(latency=0.3) as server:
        judge = judging(server, data, "s3://bucket/parts")
        process = first.start(*judge)
        until(lambda: len(segments(stored(s3, "bucket/parts"))) > 5, process)
        process.kill()
        process.communicate(timeout=60)
        server.latency = 0.0
        pushed = {line["trace_id"] for line in segments(stored(s3, "bucket/parts"))}
        before = len(server.calls)
        result = two(*judge, "--json")
        run = json.loads(result.out)
        assert (run["status"], run["tally"]["traces"]) == ("done", COUNT)
        assert "waiting" in result.err
        asked = json.dumps(server.calls[before:])
        queries = {json.loads(line)["id"]: json.loads(line)["query"] for line in data.read_text().splitlines()}
        assert not [trace_id for trace_id in pushed if queries[trace_id] in asked]
        files = stored(s3, "bucket/parts")
        assert set(files) == {"results.jsonl", "manifest.json"}
        whole = two("run", data, *judge[2:8], "--out", "whole", "-q", "--json")
        assert run["aggregates"] == json.loads(whole.out)["aggregates"]
        (other,) = (two.shell.folder / "whole").glob("*/results.jsonl")
        assert unnamed(files["results.jsonl"]) == unnamed(other.read_bytes())
        # The machine that was killed takes over what the other one made of the run, and judges nothing again.
        paid = server.counts["paid"]
        again = json.loads(first(*judge[:-2], "--resume", run["id"], "-q", "--json").out)
        assert server.counts["paid"] == paid
        assert (again["status"], again["tally"]["traces"]) == ("done", COUNT)
        assert stored(s3, "bucket/parts")["results.jsonl"] == files["results.jsonl"]


@pytest.mark.slow
def test_sigterm_pushes_what_is_done(s3: str, tmp_path: Path, data: Path) -> None:
    """Stopped by SIGTERM a run is pushed as it is: another machine goes on, and no verdict is paid twice."""
    first, two = Machine(tmp_path / "one", s3), Machine(tmp_path / "two", s3)
    with ChatServer(latency=0.2) as server:
        judge = judging(server, data, "s3://bucket/stopped")
        process = first.start(*judge)
        until(lambda: server.counts["paid"] > 20, process)
        process.send_signal(signal.SIGTERM)
        _, result = process.communicate(timeout=60)
        assert process.returncode == 143, result
        assert b"pushed to s3://bucket/stopped/" in result
        files = stored(s3, "bucket/stopped")
        assert set(files) == {"results.jsonl", "manifest.json"}
        assert json.loads(files["manifest.json"])["status"] == "interrupted"
        told_two = two(*judge, "--json")
        assert json.loads(told_two.out)["tally"]["verdicts"] == 2 * COUNT
        assert "waiting" not in told_two.err
        calls = [json.dumps(call, sort_keys=True) for call in server.calls]
        assert len(calls) == len(set(calls)) == 2 * COUNT


@pytest.mark.slow
def test_a_push_after_sigterm_is_bounded(s3: str, tmp_path: Path, data: Path) -> None:
    """A storage that answers no more delays the end by `--push-grace`; the named command pushes."""
    way = Stalling(int(s3.rpartition(":")[2]))
    machine = Machine(tmp_path / "one", way.url)
    with ChatServer(latency=0.2) as server:
        judge = judging(server, data, "s3://bucket/slow", "--push-grace", "0.5")
        process = machine.start(*judge)
        until(lambda: len(segments(stored(s3, "bucket/slow"))) > 2, process)
        way.stalled.set()
        paid = server.counts["paid"]
        until(lambda: server.counts["paid"] > paid + 4, process)
        process.send_signal(signal.SIGTERM)
        _, outcome = process.communicate(timeout=60)
        assert process.returncode == 143, outcome
    assert way.stalled.is_set()  # nothing went through, and nobody waited for it
    result = re.search(r"not pushed within 0.5 s: .* lacks (\d+) results .* `judge-eval (.*?)`", outcome.decode())
    assert result, outcome
    ((folder, manifest),) = run_folders(next((machine.shell.folder / "staging").iterdir()))
    there = {line["trace_id"] for line in segments(stored(s3, "bucket/slow"))}
    # A segment that came whole before its receipt was held back is not known to be there.
    assert int(result[1]) >= manifest.tally.traces - len(there) > 0
    way.stalled.clear()
    machine(*shlex.split(result[2]))
    assert stored(s3, "bucket/slow")["results.jsonl"] == (folder / "results.jsonl").read_bytes()


@pytest.mark.slow
def test_a_run_that_another_machine_judges_is_left_alone(s3: str, tmp_path: Path, data: Path) -> None:
    """Going on with a run that is alive elsewhere is refused, after a look; it ends undisturbed."""
    first, two = Machine(tmp_path / "one", s3), Machine(tmp_path / "two", s3)
    with ChatServer(latency=1.0) as server:
        judge = judging(server, data, "s3://bucket/alive")
        process = first.start(*judge)
        until(lambda: "pushing.json" in stored(s3, "bucket/alive"), process)
        result = two(*judge, code=2)
        assert "another machine is judging this run" in result.err
        server.latency = 0.0
        _, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        assert server.counts["paid"] == len(server.calls) == 2 * COUNT
        assert set(stored(s3, "bucket/alive")) == {"results.jsonl", "manifest.json"}


@pytest.mark.slow
def test_where_the_push_failed_resuming_pushes_and_judges_nothing(tmp_path: Path, data: Path) -> None:
    """The storage goes away while a run is judged; once it is back, --resume pushes without a call."""
    port = quiet_port()
    address = f"http://127.0.0.1:{port}"
    machine = Machine(tmp_path / "one", address)
    running = storage(port)
    try:
        with ChatServer(latency=0.3) as server:
            judge = judging(server, data, "s3://bucket/runs")
            process = machine.start(*judge)
            until(lambda: server.counts["paid"] > 10, process)
            running.kill()
            running.wait()
            server.latency = 0.0
            _, result = process.communicate(timeout=100)
            assert process.returncode == 2, result
            assert b"--resume" in result
            assert b"Traceback" not in result
            assert server.counts["paid"] == 2 * COUNT
            running = storage(port)
            done = machine(*judge, "--json")
            assert "pushed to s3://bucket/runs/" in done.err
            assert json.loads(done.out)["tally"]["calls"] == 2 * COUNT
            assert server.counts["paid"] == 2 * COUNT
            assert set(stored(address, "bucket/runs")) == {"results.jsonl", "manifest.json"}
    finally:
        running.kill()
        running.wait()


def size_of(name: str) -> int:
    """Return the bytes of a segment by its name; of other files 0."""
    return int(name.rpartition("-")[2].removesuffix(".jsonl")) if "/results-" in name else 0


def pulled_whole(url: str, out: Path, whole: bytes) -> bool:
    """Pull a run; tell whether all lines came, of which never any but the first may be there.

    Beside a push not all need be there: a local file is not put in one step, as an object of a storage is.
    """
    try:
        folder = pull(url, out)
    except RunError as error:
        if "not a run's manifest" in str(error):
            return False
        raise
    result = (folder / "results.jsonl").read_bytes()
    assert whole.startswith(result)
    return result == whole


def test_many_pushes_make_few_segments_that_are_the_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often a run is pushed, its segments are few, whole, and put together they are its lines."""
    monkeypatch.setenv("JUDGE_EVAL_STAGING", str(tmp_path / "staging"))
    url = f"file://{tmp_path}/bucket/runs"
    run = evaluator(FAKE).evaluate(traces(60))
    folder = place_of_runs(url) / "20260101-000000-aaaaaaaa"
    journal = Journal(folder, run.manifest.model_copy(update={"status": "running"}))

    async def go() -> None:
        async with pushing(folder, 0.01):
            for number, result in enumerate(run.results):
                journal.append([result])
                size = (folder / "results.jsonl").stat().st_size
                while sum(map(size_of, there(url))) < size:
                    await asyncio.sleep(0.005)
                # While segments are merged, their lines are there twice, so sizes do not prove that the last is there.
                if number % 20 == 7 or number == len(run.results) - 1:
                    whole, turns = (folder / "results.jsonl").read_bytes(), count()
                    place = f"{url}/{folder.name}"
                    while not pulled_whole(place, tmp_path / f"copy-{number}-{next(turns)}", whole):
                        await asyncio.sleep(0.005)

    asyncio.run(go())
    names = [name.rpartition("/")[2] for name in there(url) if "/results-" in name]
    assert len(names) < 20
    # A segment that was torn off, or is left beside the results of a run that has ended, is passed over.
    place = tmp_path / "bucket" / "runs" / folder.name
    last = max(names)
    whole = (folder / "results.jsonl").read_bytes()
    torn = place / last
    kept = torn.read_bytes()
    torn.write_bytes(kept[:-10])
    pull(f"{url}/{folder.name}", tmp_path / "torn")
    assert (tmp_path / "torn" / folder.name / "results.jsonl").read_bytes() == whole.removesuffix(kept)
    journal.finish(run.manifest)
    journal.close()
    push(folder, url)
    assert {path.name for path in place.iterdir()} == {"results.jsonl", "manifest.json"}
    (place / last).write_bytes(kept)
    pull(f"{url}/{folder.name}", tmp_path / "replaced")
    assert (tmp_path / "replaced" / folder.name / "results.jsonl").read_bytes() == whole


def test_lines_of_a_killed_machine_join_those_of_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was judged here after the last push stays where another machine has gone on with the run."""
    monkeypatch.setenv("JUDGE_EVAL_STAGING", str(tmp_path / "staging"))
    url = f"file://{tmp_path}/bucket/runs"
    run = evaluator(FAKE).evaluate(traces(6))
    folder = place_of_runs(url) / "20260101-000000-aaaaaaaa"
    journal = Journal(folder, run.manifest.model_copy(update={"status": "running"}))

    async def go() -> None:
        async with pushing(folder, 0.01):
            journal.append(run.results[:2])
            while not any("/results-" in name for name in there(url)):
                await asyncio.sleep(0.005)

    asyncio.run(go())
    journal.append(run.results[2:4])  # never pushed
    journal.close()
    monkeypatch.setenv("JUDGE_EVAL_STAGING", str(tmp_path / "other"))
    other = bring_run(place_of_runs(url) / folder.name)
    second = Journal(other, run.manifest.model_copy(update={"status": "interrupted"}))
    second.append(run.results[4:5])
    second.finish(run.manifest.model_copy(update={"status": "interrupted"}))  # with digests
    second.close()
    push(other, url)
    monkeypatch.setenv("JUDGE_EVAL_STAGING", str(tmp_path / "staging"))
    bring_run(place_of_runs(url) / folder.name)
    result = EvalRun.load(folder)
    assert result.status == "running"  # there is more of it than its digests tell of
    assert [item.trace_id for item in result.results] == ["q0", "q1", "q2", "q3", "q4"]
    bring_run(folder)
    assert len(EvalRun.load(folder).results) == 5


def test_a_push_that_was_cut_short_leaves_a_readable_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where results are replaced and the manifest is not yet, what lies there is a run under way."""
    url = f"file://{tmp_path}/bucket/runs"
    made = evaluator(FAKE).evaluate(traces(3), out=tmp_path / "runs")
    assert made.folder is not None
    push(made.folder, url)
    grown = Journal(made.folder, made.manifest)
    extra = evaluator(FAKE).evaluate(traces(4)).results[3:]
    grown.append(extra)
    grown.finish(made.manifest.model_copy(update={"status": "interrupted"}))
    grown.close()
    with monkeypatch.context() as patched:
        patched.setattr(moving, "FILES", ("results.jsonl",))
        push(made.folder, url)
    folder = pull(f"{url}/{made.folder.name}", tmp_path / "copy")
    assert (EvalRun.load(folder).status, len(EvalRun.load(folder).results)) == ("running", 4)


def test_segments_merged_while_they_are_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader whose segments became one between listing and reading looks again, and has every line."""
    place = tmp_path / "run"
    place.mkdir()
    first, second = b'{"a":1}\n', b'{"b":2}\n'
    short = [segment_name(number, "0" * 8, 8) for number in (1, 2)]
    for name, line in zip(short, (first, second), strict=True):
        (place / name).write_bytes(line)
    system = fsspec.filesystem("file")
    listed = system.ls

    def merging(*given: object, **more: object) -> object:
        result = listed(*given, **more)
        if (place / short[0]).exists():
            (place / segment_name(3, "0" * 8, 16)).write_bytes(first + second)
            for name in short:
                (place / name).unlink()
        return result

    monkeypatch.setattr(system, "ls", merging)
    copy_results(system, str(place), tmp_path / "results.jsonl", ended=False)
    assert (tmp_path / "results.jsonl").read_bytes() == first + second


def test_a_file_in_a_mounted_folder_is_there_when_it_is_whole(tmp_path: Path) -> None:
    """Who reads while it is written has what stood there before, as in an object store."""
    system = fsspec.filesystem("file")
    path = f"{tmp_path.as_posix()}/manifest.json"
    with moving.writing(system, path) as file:
        file.write(b"before")
    with moving.writing(system, path) as file:
        file.write(b"after, and much more of it")
        file.flush()
        assert system.cat_file(path) == b"before"
    assert system.cat_file(path) == b"after, and much more of it"
    assert [each.name for each in tmp_path.iterdir()] == ["manifest.json"]


def test_lines_that_were_pushed_twice_are_copied_once(tmp_path: Path) -> None:
    """After a kill the same machine pushes its journal again: no call of it counts twice elsewhere."""
    place = tmp_path / "run"
    place.mkdir()
    lines = [b'{"a":1}\n', b'{"b":2}\n', b'{"c":3}\n']
    (place / segment_name(1, "0" * 8, 16)).write_bytes(b"".join(lines[:2]))
    (place / segment_name(2, "0" * 8, 24)).write_bytes(b"".join(lines))
    copy_results(fsspec.filesystem("file"), str(place), tmp_path / "results.jsonl", ended=False)
    assert (tmp_path / "results.jsonl").read_bytes() == b"".join(lines)
