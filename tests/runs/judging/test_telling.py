"""What a process that judges a run tells others of it: true, at most once a second, and gone at the end."""

from __future__ import annotations

import asyncio
import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge_eval import EvalRun, FakeBackend
from judge_eval.errors import JudgeEvalError
from judge_eval.runs.folder.journal import PROGRESS
from judge_eval.runs.folder.run import load_manifest
from judge_eval.runs.judging.verify import verify
from judge_eval.runs.scoring import counting as telling_module
from judge_eval.runs.scoring.counting import (
    PROGRESS_EVERY,
    RECENT,
    Progress,
    ProgressFile,
    Speed,
    every_second,
    read_progress,
    remove_progress,
    write_progress,
)
from judge_eval.wire import Request
from tests.support import virtual_time
from tests.support.runs import evaluator, traces

YES = json.dumps({"evidence": "", "reason": "", "instruction_in_chunk": False, "verdict": True})
NEWS = ProgressFile(at=datetime.now(UTC), traces=1, verdicts=3, failed=0, calls=3, hits=0, retries=0)


def progress(seconds: float, done: int, *, chunks: int = 3, total: int | None = 100) -> Progress:
    """Make the progress of a run of traces of so many chunks."""
    return Progress(
        traces=done, total=total, verdicts=done * chunks, failed=0, calls=0, hits=0, retries=0,
        seconds=seconds, folder=None,
    )  # fmt: skip


@pytest.mark.slow
def test_a_run_tells_of_itself_while_it_is_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands in the folder is what the run has done by then; when it has ended nothing is left."""
    monkeypatch.setattr(telling_module, "PROGRESS_EVERY", 0.0)
    seen: list[tuple[ProgressFile, int]] = []

    async def judge() -> EvalRun:
        async with evaluator(FakeBackend(lambda _: YES)) as judging:

            def watch(told: Progress) -> None:
                news, _ = read_progress(Path(str(told.folder)))
                if news is not None:
                    seen.append((news, told.traces))

            return await judging.aevaluate(traces(600), out=tmp_path, watch=watch)

    run = asyncio.run(judge())
    assert seen
    for news, done in seen:
        assert news.total == 600
        assert news.traces <= done
        assert news.verdicts == 3 * news.traces
        assert (news.failed, news.hits, news.retries) == (0, 0, 0)
        assert news.calls >= news.verdicts
    assert run.folder is not None
    assert sorted(path.name for path in run.folder.iterdir()) == [".lock", "manifest.json", "results.jsonl"]


def test_it_is_told_at_once_and_once_a_second() -> None:
    """In ten seconds and a half a run tells of itself eleven times, whatever happens in them."""
    messages: list[float] = []

    async def ten_seconds() -> None:
        loop = asyncio.get_running_loop()
        async with every_second(lambda: messages.append(loop.time())):
            for _ in range(1050):
                await asyncio.sleep(0.01)

    virtual_time.run(ten_seconds())
    assert messages == pytest.approx([second * PROGRESS_EVERY for second in range(11)])


@pytest.mark.parametrize("ending", ["fails", "is stopped"])
def test_a_run_that_ends_early_leaves_no_news(tmp_path: Path, ending: str) -> None:
    """Failed or stopped, the run says in its manifest how it ended; nobody takes it for one that goes on."""

    def answer(request: Request) -> str:
        if ending == "fails" and "Text 400" in request.passages[0].text:
            raise JudgeEvalError("no more")
        return YES

    async def judge() -> None:
        async with evaluator(FakeBackend(answer)) as judging:
            stopped = asyncio.current_task()
            assert stopped is not None
            watch = (lambda _: stopped.cancel()) if ending == "is stopped" else None
            await judging.aevaluate(traces(600), out=tmp_path, watch=watch)

    with pytest.raises((JudgeEvalError, asyncio.CancelledError)):
        asyncio.run(judge())
    (folder,) = tmp_path.iterdir()
    assert load_manifest(folder).status == ("failed" if ending == "fails" else "interrupted")
    assert not (folder / PROGRESS).exists()


def test_what_a_kill_leaves_is_no_part_of_the_run(tmp_path: Path) -> None:
    """Progress left behind changes no verification and no resume, and goes when the run ends."""
    with evaluator(FakeBackend(lambda _: YES)) as judging:
        run = judging.evaluate(traces(4), out=tmp_path)
        assert run.folder is not None
        write_progress(
            run.folder, ProgressFile(at=datetime.now(UTC), traces=1, verdicts=3, failed=0, calls=3, hits=0, retries=0)
        )
        assert verify(run.folder).condition == "whole"
        manifest = run.folder / "manifest.json"
        manifest.write_text(load_manifest(run.folder).under_way("running").model_dump_json())
        again = judging.evaluate(traces(4), out=tmp_path, resume=run.folder)
    assert again.status == "done"
    assert not (run.folder / PROGRESS).exists()


def test_a_folder_that_takes_no_news_is_judged_all_the_same(tmp_path: Path) -> None:
    """Where the file cannot be written, or removed, the run goes on: it is a word to others, no more."""
    (tmp_path / PROGRESS).mkdir()
    write_progress(tmp_path, NEWS)
    remove_progress(tmp_path)
    assert (tmp_path / PROGRESS).is_dir()
    assert [path.name for path in tmp_path.iterdir()] == [PROGRESS]


def test_silence_is_counted_from_the_last_news(tmp_path: Path) -> None:
    """Old news tell for how long nothing was heard; without any, the run's files tell it."""
    news = ProgressFile(
        at=datetime.now(UTC) - timedelta(minutes=2), traces=0, verdicts=0, failed=0, calls=0, hits=0, retries=0
    )
    write_progress(tmp_path, news)
    result, silent = read_progress(tmp_path)
    assert result == news
    assert 120 <= silent < 180
    (tmp_path / PROGRESS).unlink()
    (tmp_path / "results.jsonl").write_text("")
    hour_ago = datetime.now(UTC).timestamp() - 3600
    os.utime(tmp_path / "results.jsonl", (hour_ago, hour_ago))
    result, silent = read_progress(tmp_path)
    assert result is None
    assert 3600 <= silent < 3700


@pytest.mark.parametrize("data", [b"", b"{", b"null", b'{"traces": -1}', b"\xff" * 5000, b'{"v": 9}'])
def test_news_that_cannot_be_read_are_none(tmp_path: Path, data: bytes) -> None:
    """Whatever stands in the file, the run is shown, and nothing is made up."""
    (tmp_path / PROGRESS).write_bytes(data)
    assert read_progress(tmp_path)[0] is None


def test_a_link_is_not_read_as_news(tmp_path: Path) -> None:
    """A link in a stranger's folder leads nowhere."""
    (tmp_path / "run").mkdir()
    write_progress(
        tmp_path, ProgressFile(at=datetime.now(UTC), traces=1, verdicts=1, failed=0, calls=0, hits=0, retries=0)
    )
    (tmp_path / "run" / PROGRESS).symlink_to(tmp_path / PROGRESS)
    assert read_progress(tmp_path / "run")[0] is None


@given(st.integers(1, 50), st.integers(1, 30), st.integers(2, 90))
def test_an_even_pace_tells_when_it_ends(traces_a_second: int, chunks: int, seconds: int) -> None:
    """At an even pace the rate is that pace, and the time left is what the rest takes."""
    total, rating = 10_000, Speed()
    for second in range(seconds + 1):
        rate, left = rating.rate(progress(second, second * traces_a_second, chunks=chunks, total=total))
    assert rate == pytest.approx(traces_a_second * chunks)
    assert left == pytest.approx((total - seconds * traces_a_second) / traces_a_second)


def test_the_rate_is_that_of_late() -> None:
    """A run that began from the cache and now waits for a server tells the pace of the last half minute."""
    rating = Speed()
    rating.rate(progress(0, 0, total=2000))
    rating.rate(progress(1, 1000, total=2000))
    result: tuple[Any, Any] = (None, None)
    for second in range(2, 101):
        result = rating.rate(progress(second, 1000 + second, total=2000))
    assert result == pytest.approx((3.0, 900.0))


def test_what_is_not_known_is_not_told() -> None:
    """No rate before anything was judged; no time left of a stream, while verdicts are mended, or at rest."""
    rating = Speed()
    assert rating.rate(progress(0, 0)) == (None, None)
    assert rating.rate(progress(5, 0)) == (None, None)
    assert rating.rate(progress(RECENT + 5, 0)) == (0.0, None)
    stream = Speed()
    stream.rate(progress(0, 0, total=None))
    assert stream.rate(progress(1, 5, total=None)) == (15.0, None)
    mended = Speed()
    mended.rate(progress(0, 100))
    assert mended.rate(progress(10, 100)) == (None, None)
