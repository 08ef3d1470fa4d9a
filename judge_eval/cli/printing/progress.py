"""What is said of a run before and while it is judged: its plan, its progress, where answers are kept."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from judge_eval.cli.printing.safe_output import remark, tell
from judge_eval.safe_text import counted
from judge_eval.views.plan import escalation_lines, plan_lines, stage_lines

if TYPE_CHECKING:
    from judge_eval.evaluator import Evaluator
    from judge_eval.runs.judging.sources import Traces
    from judge_eval.runs.options import Selecting
    from judge_eval.runs.scoring.counting import Progress
    from judge_eval.trials import PairedPilot, PilotSample


LINE_EVERY = 30.0
"""Seconds between two lines of progress in a log."""


@contextmanager
def watching(quiet: bool) -> Iterator[Callable[[Progress], None] | None]:
    """Show a bar with the progress and the time that is left; if stderr is not a terminal, a line now and then."""
    if quiet:
        yield None
        return
    from judge_eval.views.progress import progress_line

    if not sys.stderr.isatty():
        last, wait = time.monotonic(), 0.0

        def tell_now_and_then(progress: Progress) -> None:
            nonlocal last, wait
            if time.monotonic() - last >= LINE_EVERY or progress.wait > wait:
                last = time.monotonic()
                remark(progress_line(progress))
            wait = progress.wait

        yield tell_now_and_then
        return
    from judge_eval.views.progress import progress_bar

    with progress_bar() as watch:
        yield watch


def show_plan(evaluator: Evaluator, path: Traces, selected: Selecting, *, asks: bool = False) -> int:
    """Print what judging the data takes, and return how many traces it is; `asks`: whether they are judged next."""
    from judge_eval.judges.judge import OnRoute, stages_asked

    dataset, plan = evaluator.plan(path, **selected)
    stack = evaluator.stack
    lines = [f"{selected['name']}: {counted(plan.traces, 'trace')}, {counted(plan.chunks, 'chunk')}"]
    if dataset.skipped:
        lines.append(f"{counted(dataset.skipped, 'invalid record')} would be skipped")
    first, *later = stages_asked(evaluator.chosen_judge) or (None,)
    lines += plan_lines(stack, plan) if first is None else stage_lines(stack, first.name, plan)
    for stage in later:
        assert stage is not None
        _, most = evaluator.with_judge(OnRoute(stage.judge, stage.route)).plan(path, **selected)
        lines += escalation_lines(stack, stage.name, most, stage.share)
    for each in dataset.remarks:
        remark(each)
    _tell(lines, asks=asks)
    return plan.traces


def show_pilot(pilot: PairedPilot, drawn: PilotSample) -> None:
    """Print what asking both judges about the sample would take."""
    from judge_eval.views.cascade import one_of_clusters
    from judge_eval.views.note_sentences import ties_sentence

    alone = all(len(trace.chunks) == 1 for trace in drawn.spots)
    lines = [
        f"{drawn.dataset}: {len(drawn.traces)} of {drawn.eligible} traces drawn, "
        f"{one_of_clusters(drawn.clusters, drawn.cluster)}{sum(len(trace.chunks) for trace in drawn.traces)} "
        f"chunks for the cheap judge, {'one of each trace' if alone else 'whole traces'} for the strong one"
    ]
    if pilot.ties:
        lines.append(ties_sentence(pilot.ties))
    for stage, plan in pilot.plans(drawn).items():
        lines += stage_lines(pilot.evaluator.stack, stage, plan)
    _tell(lines)


def _tell(lines: list[str], *, asks: bool = False) -> None:
    for line in lines:
        tell(line)
    if not asks:
        remark("no request was sent")
