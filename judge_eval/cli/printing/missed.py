"""What a run misses most of the claims of its references, on the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from judge_eval.cli.printing.door import DOUBTFUL
from judge_eval.cli.printing.output import say, say_table
from judge_eval.runs.folder.judgedclaims import vital_word
from judge_eval.runs.folder.wording import number
from judge_eval.runs.scoring.missedclaims import missed_claims
from judge_eval.shown import shortened

if TYPE_CHECKING:
    from judge_eval.runs.folder.run import Run
    from judge_eval.runs.scoring.missedclaims import CoverCounts

MOST_SHOWN = 10
"""How many missed claims are listed."""


def show_claims(run: Run, *, tags: bool = False) -> None:
    """Print what a run covers of the claims, and the claims missed most; nothing of a run without claims.

    Args:
        run: The run.
        tags: Whether what is covered is told by tag, in place of the claims.
    """
    told = missed_claims(run.results)
    if told is None:
        return
    say()
    say(told.sentence, DOUBTFUL if told.counts.missed else "")
    if tags:
        rows = [[one.tag, *_cells(one.counts)] for one in told.tags]
        if rows:
            columns = ["tag", "claims covered", "covered", "partly", "not covered", "not known"]
            say_table(columns, rows, right=range(1, 6))
        return
    missed = [
        [one.told, vital_word(one.vital), shortened(one.text, 70), ", ".join(one.traces)]
        for one in told.missed[:MOST_SHOWN]
    ]
    if missed:
        say()
        say_table(["missed most", "kind", "claim", "traces"], missed)
    if (left := told.distinct - len(missed)) > 0:
        say(f"... and {left:,} more missed claims")


def _cells(counts: CoverCounts) -> list[str]:
    return [
        number(counts.covered_share),
        str(counts.covered),
        str(counts.partly),
        str(counts.missing),
        str(counts.unknown or ""),
    ]
