"""What people read of a run while it is judged: one line, for terminals and notebooks, or a bar."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from judge_eval.runs.scoring.counting import Progress
from judge_eval.views.plan import dollars


def progress_line(progress: Progress) -> str:
    """Return how far a run is: traces, verdicts, their rate while it goes on, cached or failed ones, cost, and wait."""
    total = f" of {progress.total}" if progress.total is not None else ""
    rate = (progress.verdicts + progress.failed) / max(progress.seconds, 1e-9)
    speed = f", {rate:,.0f}/s" if rate >= 10 else f", {rate:.2g}/s"
    speed = "" if progress.traces == progress.total else speed
    counts = ((progress.hits, "cached"), (progress.retries, "retries"), (progress.failed, "failed"))
    more = "".join(f", {count} {word}" for count, word in counts if count)
    cost = f", {dollars(progress.cost)}" if progress.cost else ""
    wait = f"; the server asks to wait {progress.wait:.0f} s" if progress.wait else ""
    return f"{progress.traces}{total} traces, {progress.verdicts} verdicts{speed}{more}{cost}{wait}"


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
