"""A bar on the terminal that shows how far a run is."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from judge_eval.runs.judging.counting import Progress
from judge_eval.views.progress import progress_line


@contextmanager
def progress_bar(after: float = 0.0) -> Iterator[Callable[[Progress], None]]:
    """Show on standard error how far a run is and the time that is left, from `after` seconds on."""
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = TextColumn("judging"), BarColumn(), TextColumn("{task.description}"), TimeRemainingColumn()
    bar = Bar(*columns, console=Console(stderr=True), transient=True)
    task = bar.add_task("", total=None)
    if not after:
        bar.start()

    def watch(progress: Progress) -> None:
        bar.update(task, completed=progress.traces, total=progress.total, description=progress_line(progress))
        if progress.seconds >= after:
            bar.start()

    try:
        yield watch
    finally:
        bar.stop()
