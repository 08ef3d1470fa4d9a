"""What people read of a run while it is judged: one line, for terminals and notebooks."""

from judge_eval.runs.judging.counting import Progress
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
