"""What became of a run, for people."""

from __future__ import annotations

from judge_eval.cli.printing.door import BAD, DOUBTFUL, GOOD, tell
from judge_eval.cli.printing.output import say
from judge_eval.runs.judging.verifying import Condition, Verification
from judge_eval.shown import one_line

MOST = 20
"""Findings that are printed; `--json` has all of them."""

_SAID: dict[Condition, str] = {
    "whole": "is what was written",
    "unverified": "holds no digest (an older version wrote it), and nothing in it contradicts itself",
    "unfinished": "did not end, so that there is no digest yet; nothing in it contradicts itself",
    "changed": "was changed",
}


_STYLES: dict[Condition, str] = {"whole": GOOD, "changed": BAD}


def say_verification(found: Verification) -> None:
    """Print what was found, one finding a line."""
    name = found.id[:8] if found.id else found.folder
    said = f"{found.condition}: run {name} {_SAID[found.condition]} ({found.results:,} results read)"
    say(one_line(said), _STYLES.get(found.condition, DOUBTFUL))
    for finding in found.findings[:MOST]:
        tell(f"  {finding}")
    if len(found.findings) > MOST:
        tell(f"  and {len(found.findings) - MOST:,} more (--json names all)")
