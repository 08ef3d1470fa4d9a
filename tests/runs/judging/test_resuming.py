"""Going on with a run reads it once, and its totals keep what was paid before a kill."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from judge_eval import EvalRun, Identity
from judge_eval.llm.fake.fake_backend import FakeBackend
from judge_eval.runs.folder import run as run_module
from judge_eval.runs.folder.journal import BEGUN, MANIFEST, PROGRESS
from judge_eval.runs.folder.records import TraceResult
from judge_eval.runs.scoring import counting as counting_module
from judge_eval.runs.scoring.counting import RequestsBegun
from judge_eval.safe_text import counted
from judge_eval.schema import Trace
from judge_eval.views.run_remarks import took
from judge_eval.wire import Completion, Request, Usage
from tests.support.command import ROOT
from tests.support.judges import TWO, only
from tests.support.replies import one
from tests.support.runs import evaluator, lines, traces

TRACES, CHUNKS = 20, 3
DATA: list[Trace] = traces(TRACES, CHUNKS)
TOKENS = Usage(input_tokens=100, output_tokens=7)


def paying(book: Path, cached: bool = False, last: int | None = None) -> FakeBackend:
    """Make a judge that writes each answer that is paid for into a book; with an identity it is cached.

    The process is killed when it has paid for the `last` answer, before anybody gets it.
    """

    def answer(_: Request) -> Completion:
        with book.open("a") as file:
            file.write("paid\n")
        if last is not None and paid(book) >= last:
            os.kill(os.getpid(), signal.SIGKILL)
        return replace(one(True, "Text"), usage=TOKENS)

    return FakeBackend(answer, identity=Identity("fake", "paying") if cached else None)


def paid(book: Path) -> int:
    """Count the answers that were paid for."""
    return len(book.read_text().splitlines()) if book.exists() else 0


KILLED = """
import os, signal, sys
from pathlib import Path
from judge_eval.llm.options import Options
from tests.runs.judging.test_resuming import DATA, evaluator, paying
folder, cache, after = Path(sys.argv[1]), sys.argv[2] or False, int(sys.argv[3])

def watch(progress):
    if progress.traces >= after:
        os.kill(os.getpid(), signal.SIGKILL)

evaluator(paying(folder / "book", bool(cache), int(sys.argv[4])), cache=cache, options=Options(concurrency=2)).evaluate(
    DATA, out=folder / "runs", watch=watch
)
"""


def killed(folder: Path, cache: str = "", after: int = 7, last: int = 10_000) -> Path:
    """Judge in a process that is killed after some traces or in a call, and return the folder of its run."""
    command = [sys.executable, "-c", KILLED, str(folder), cache, str(after), str(last)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    (made,) = (folder / "runs").iterdir()
    return made


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run that was killed and its book, to be copied."""
    folder = tmp_path_factory.mktemp("killed")
    killed(folder)
    return folder


@pytest.fixture
def begun(once: Path, tmp_path: Path) -> Path:
    """A copy of the killed run, in whose grandparent the book lies."""
    shutil.copytree(once, tmp_path, dirs_exist_ok=True)
    (folder,) = (tmp_path / "runs").iterdir()
    return folder


def test_what_was_paid_before_a_kill_is_in_the_totals(tmp_path: Path, begun: Path) -> None:
    """Calls and tokens of a resumed run are all that were paid, those before `kill -9` among them."""
    folder, book = begun, tmp_path / "book"
    before = paid(book)
    assert 7 * CHUNKS <= before < TRACES * CHUNKS
    tally = evaluator(paying(book)).evaluate(DATA, resume=folder).manifest.tally
    assert tally.calls == paid(book) > before
    assert (tally.input_tokens, tally.output_tokens) == (100 * tally.calls, 7 * tally.calls)
    assert (tally.traces, tally.verdicts) == (TRACES, TRACES * CHUNKS)
    assert not any((folder / name).exists() for name in (PROGRESS, BEGUN))


@pytest.mark.slow
def test_a_killed_run_that_was_killed_again_loses_nothing(tmp_path: Path, begun: Path) -> None:
    """Each sitting adds to what the ones before it took, however they ended."""
    folder, book = begun, tmp_path / "book"
    again = KILLED.replace('out=folder / "runs"', f"resume={str(folder)!r}")
    command = [sys.executable, "-c", again, str(tmp_path), "", "12", "10000"]
    assert subprocess.run(command, cwd=ROOT, timeout=60, check=False).returncode == -signal.SIGKILL
    tally = evaluator(paying(book)).evaluate(DATA, resume=folder).manifest.tally
    assert tally.calls == paid(book)
    assert tally.input_tokens == 100 * tally.calls


@pytest.mark.slow
def test_answers_from_the_cache_before_a_kill_are_no_calls(tmp_path: Path) -> None:
    """A killed run that was answered from the cache stays one that cost nothing."""
    cache, book = tmp_path / "cache", tmp_path / "book"
    evaluator(paying(book, True), cache=cache).evaluate(DATA)
    assert paid(book) == TRACES * CHUNKS
    folder = killed(tmp_path, str(cache))
    tally = evaluator(paying(book, True), cache=cache).evaluate(DATA, resume=folder).manifest.tally
    assert paid(book) == TRACES * CHUNKS
    assert (tally.calls, tally.hits, tally.input_tokens) == (0, TRACES * CHUNKS, 0)


@pytest.mark.slow
@pytest.mark.parametrize(("last", "times"), [(1, 1), (25, 2)])
def test_the_most_that_a_kill_lost_is_known(tmp_path: Path, last: int, times: int) -> None:
    """Paid calls that are in no total are at most `lost`, which exceeds them by requests in flight alone."""
    book = tmp_path / "book"
    folder = killed(tmp_path, after=TRACES, last=last)
    for more in range(1, times):
        again = KILLED.replace('out=folder / "runs"', f"resume={str(folder)!r}")
        command = [sys.executable, "-c", again, str(tmp_path), "", str(TRACES), str(last + 10 * more)]
        assert subprocess.run(command, cwd=ROOT, timeout=60, check=False).returncode == -signal.SIGKILL
    tally = evaluator(paying(book)).evaluate(DATA, resume=folder).manifest.tally
    assert tally.killed == times
    assert tally.lost is not None
    assert tally.calls < paid(book) <= tally.calls + tally.lost
    assert tally.lost <= paid(book) - tally.calls + 2 * times
    assert f"up to {counted(tally.lost, 'more call')} may have been paid" in took(tally)


def test_requests_alone_bound_what_a_kill_lost(tmp_path: Path, begun: Path) -> None:
    """Killed before it told how far it was, a session may have paid for every request that it began."""
    folder, book = begun, tmp_path / "book"
    requests = (folder / BEGUN).stat().st_size
    assert paid(book) <= requests <= paid(book) + 2
    (folder / PROGRESS).unlink()
    assert EvalRun.load(folder).manifest.tally.calls == 0
    tally = evaluator(paying(book)).evaluate(DATA, resume=folder).manifest.tally
    assert (tally.killed, tally.lost) == (1, requests)
    assert paid(book) <= tally.calls + requests


def test_a_folder_that_cannot_note_requests_bounds_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a request cannot be noted, no file is left that would bound what a kill lost."""
    (tmp_path / BEGUN).mkdir()
    requests = RequestsBegun(tmp_path)
    requests.begin()
    requests.close()
    assert requests.count is None
    (tmp_path / BEGUN).rmdir()
    (tmp_path / BEGUN).write_bytes(b".")
    with Path("/dev/full").open("ab", buffering=0) as no_room:
        monkeypatch.setattr(counting_module, "open_plain", lambda *_: no_room)
        full = RequestsBegun(tmp_path)
        full.begin()
    assert full.count is None
    assert not (tmp_path / BEGUN).exists()


def test_a_kill_without_notes_leaves_what_the_manifest_says(tmp_path: Path, begun: Path) -> None:
    """A killed run that was pulled continues from the tally of its manifest, and says that some may be missing."""
    folder, book = begun, tmp_path / "book"
    (folder / PROGRESS).unlink()
    (folder / BEGUN).unlink()
    before, noted = paid(book), EvalRun.load(folder).manifest.tally.calls
    done = evaluator(paying(book)).evaluate(DATA, resume=folder).manifest.tally
    assert done.calls == noted + paid(book) - before
    assert (done.killed, done.lost) == (1, None)
    assert "calls of the last seconds before may be in no figure" in took(done)


class Reads:
    """Counts how often manifests are read and results parsed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.manifests: list[Path] = []
        self.parsed = 0
        plain, parse = run_module.read_plain, TraceResult.model_validate_json

        def read(path: Path, most: int) -> bytes:
            self.manifests.append(path)
            return plain(path, most)

        def validate(*args: Any, **more: Any) -> TraceResult:
            self.parsed += 1
            return parse(*args, **more)

        monkeypatch.setattr(run_module, "read_plain", read)
        monkeypatch.setattr(TraceResult, "model_validate_json", validate)


def incomplete(folder: Path) -> EvalRun:
    """Make a run of two traces with two chunks that have no verdict."""
    return evaluator(only("q0-a", failed=("q0-b", "q1-c"))).evaluate(TWO, out=folder)


@pytest.mark.parametrize("newest", [True, False])
@pytest.mark.parametrize("metrics", [["AP@3", "MRR"], ["AP@2"]])
def test_a_resume_reads_manifest_and_results_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, newest: bool, metrics: list[str]
) -> None:
    """One reading of the manifest and one of each line serve everything, with other metrics too."""
    first = incomplete(tmp_path)
    assert first.folder is not None
    reads = Reads(monkeypatch)
    done = evaluator(only("q0-a", "q0-b"), metrics=metrics).evaluate(
        TWO, out=tmp_path, resume=True if newest else first.folder
    )
    assert done.folder == first.folder
    assert reads.manifests == [first.folder / MANIFEST]
    assert reads.parsed == 2
    assert done.status == "done"
    whole = evaluator(only("q0-a", "q0-b"), metrics=metrics).evaluate(TWO, out=tmp_path)
    assert whole.folder is not None
    assert lines(first.folder) == lines(whole.folder)


def test_resuming_what_is_done_reads_no_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest run, where it is done, is handed back after one look at its manifest."""
    first = evaluator(only("q0-a")).evaluate(TWO, out=tmp_path)
    assert first.folder is not None
    reads = Reads(monkeypatch)
    again = evaluator(only()).evaluate(TWO, out=tmp_path, resume=True)
    assert again.folder == first.folder
    assert (reads.manifests, reads.parsed) == ([first.folder / MANIFEST], 0)


def test_a_few_unreadable_replies_are_asked_again_after_one_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second round of a run over a few unreadable replies reads each line once."""
    asked: dict[str, int] = {}

    def answer(request: Request) -> str | Completion:
        (chunk,) = request.chunk_ids
        asked[chunk] = asked.get(chunk, 0) + 1
        return "what?" if chunk == "q3-a" and asked[chunk] <= 2 else one(True, "Text")

    reads = Reads(monkeypatch)
    done = evaluator(FakeBackend(answer)).evaluate(DATA, out=tmp_path)
    assert done.status == "done"
    assert asked["q3-a"] > 2
    assert (reads.manifests, reads.parsed) == ([], TRACES)
