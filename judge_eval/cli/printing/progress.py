"""Progress of a run, on stderr and only where somebody watches."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from judge_eval.runs.judging.counting import Progress


@contextmanager
def watching(quiet: bool) -> Iterator[Callable[[Progress], None] | None]:
    """Show a bar with rate, cache hits, failures and the time that is left; nothing off a terminal."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    bar = Bar(
        TextColumn("judging"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("traces  {task.fields[line]}"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    with bar:
        task = bar.add_task("", total=None, line="")

        def watch(progress: Progress) -> None:
            rate = (progress.verdicts + progress.failed) / max(progress.seconds, 1e-9)
            line = f"{rate:,.0f} verdicts/s  {progress.hits} cached"
            if progress.retries:
                line += f"  {progress.retries} retries"
            if progress.failed:
                line += f"  [red]{progress.failed} failed[/red]"
            bar.update(task, completed=progress.traces, total=progress.total, line=line)

        yield watch
