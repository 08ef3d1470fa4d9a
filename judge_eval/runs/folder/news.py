"""What the process that judges a run tells others of it, about once a second, in a file of its folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from pydantic import AwareDatetime, Field

from judge_eval.files import read_plain, replacing
from judge_eval.record import Record
from judge_eval.runs.folder.files import MANIFEST, PROGRESS, RESULTS
from judge_eval.runs.folder.records import FORMAT

_MOST = 4096
"""Bytes that the file may have."""


class News(Record):
    """How far a run is while it is judged: `progress.json`."""

    v: int = Field(default=FORMAT, ge=1, le=FORMAT)
    at: AwareDatetime
    """When it was written."""
    traces: int = Field(ge=0)
    """Traces that have a result."""
    total: int | None = Field(default=None, ge=0)
    """How many there are; None for a stream."""
    verdicts: int = Field(ge=0)
    failed: int = Field(ge=0)
    """Chunks that were judged and have no verdict."""
    calls: int = Field(ge=0)
    """Calls of this sitting."""
    hits: int = Field(ge=0)
    """Answers out of the cache in this sitting."""
    retries: int = Field(ge=0)
    rate: float | None = Field(default=None, ge=0)
    """Chunks judged in a second, lately; None where it is not known yet."""
    left: float | None = Field(default=None, ge=0)
    """Seconds until the last trace is judged, at the rate of late; None where it is not known."""


def write_news(folder: Path, news: News) -> None:
    """Replace a run's news in one step, without waiting for the disk; a folder that takes none has none."""
    with suppress(OSError), replacing(folder / PROGRESS, durable=False) as file:
        file.write(news.model_dump_json().encode() + b"\n")


def drop_news(folder: Path) -> None:
    """Take a run's news away once it has ended."""
    with suppress(OSError):
        (folder / PROGRESS).unlink(missing_ok=True)


def read_news(folder: Path) -> tuple[News | None, float]:
    """Read the news of a run that is judged, without its lock, which is for those that write.

    Returns:
        What was told last, None where nothing was, and the seconds since anything was heard of the run. A
        process that was killed, or stands still, is known by these alone.
    """
    now = datetime.now(UTC)
    try:
        news = News.model_validate_json(read_plain(folder / PROGRESS, _MOST))
    except (OSError, ValueError):
        return None, max(0.0, now.timestamp() - max(_written(folder), default=0.0))
    return news, max(0.0, (now - news.at).total_seconds())


def _written(folder: Path) -> Iterator[float]:
    for name in (MANIFEST, RESULTS):
        with suppress(OSError):
            yield os.lstat(folder / name).st_mtime
