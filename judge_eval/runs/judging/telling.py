"""Telling others how far a run is, while it is judged."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

from judge_eval.runs.folder.news import News, drop_news, write_news
from judge_eval.runs.judging.counting import Progress

TELL_EVERY = 1.0
"""Seconds between news of a run."""
LATELY = 30.0
"""Seconds of which the rate is told."""


class Rating:
    """How fast a run goes, of late."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int, int]] = deque()

    def rate(self, progress: Progress) -> tuple[float | None, float | None]:
        """Take in how far it is; return chunks a second and the seconds that are left, each where known."""
        now = (progress.seconds, progress.traces, progress.verdicts + progress.failed)
        self._seen.append(now)
        while len(self._seen) > 2 and now[0] - self._seen[1][0] >= LATELY:
            self._seen.popleft()
        seconds, traces, chunks = (b - a for a, b in zip(self._seen[0], now, strict=True))
        if seconds <= 0 or traces <= 0:  # nothing ended: a run that goes on may give traces again
            return (0.0 if seconds >= LATELY else None), None
        left = None
        if progress.total is not None and progress.traces < progress.total:
            left = (progress.total - progress.traces) * seconds / traces
        return max(0.0, chunks / seconds), left


@asynccontextmanager
async def telling(folder: Path | None, progress: Callable[[], Progress]) -> AsyncIterator[None]:
    """Tell how far a run is, at once and about every second, while the block judges it.

    The file is taken away when the block ends, however it does; one that stays tells of a kill.

    Args:
        folder: The run's folder; nothing is told of a run in memory.
        progress: Says how far it is.
    """
    if folder is None:
        yield
        return
    task = asyncio.create_task(_tell(folder, progress), name="judge_eval news")
    try:
        yield
    finally:
        task.cancel()  # it writes no more from here on
        drop_news(folder)


async def _tell(folder: Path, progress: Callable[[], Progress]) -> None:
    rating = Rating()
    while True:
        told = progress()
        rate, left = rating.rate(told)
        counts = {name: getattr(told, name) for name in _COUNTS}
        write_news(folder, News(at=datetime.now(UTC), rate=rate, left=left, **counts))
        await asyncio.sleep(TELL_EVERY)


_COUNTS = ("traces", "total", "verdicts", "failed", "calls", "hits", "retries")
