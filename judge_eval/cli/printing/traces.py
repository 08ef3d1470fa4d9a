"""The traces of a run in a table, and what is left out of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from judge_eval.cli.printing.door import DOUBTFUL
from judge_eval.cli.printing.output import say, say_table, signs
from judge_eval.runs.folder.wording import number
from judge_eval.shown import shortened

if TYPE_CHECKING:
    from judge_eval.runs.folder.ordering import Picked
    from judge_eval.runs.folder.run import Run


def show_traces(run: Run, picked: Picked, by: tuple[str, bool] | None = None) -> None:
    """Print traces of a run, one a line.

    Args:
        run: The run.
        picked: Which of its traces.
        by: What they are sorted by.
    """
    names = list(run.manifest.metrics[:4])
    if by is not None and by[0] in run.manifest.metrics and by[0] not in names:
        names[-1:] = [by[0]]
    rows: list[list[str | Text]] = []
    for result in (run.results[place] for place in picked.places):
        scores = [number(result.scores.get(name)) for name in names]
        rows.append([result.trace_id, signs(result.outcomes), *scores, shortened(result.trace.query, 60)])
    if rows:
        say()
        say_table(["trace", "ranks", *names, "query"], rows, right=range(2, 2 + len(names)))
    if picked.left:
        say(f"... and {picked.left:,} more")
    if picked.valueless and by is not None:
        say(f"{picked.valueless:,} have no {by[0]}, since verdicts failed: they come last", DOUBTFUL)
