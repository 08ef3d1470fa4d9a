"""What people read of a run that was checked for changes."""

from typing import Final

from judge_eval.runs.judging.verify import Condition, Verification
from judge_eval.safe_text import one_line
from judge_eval.views.blocks import Sentence, View, make_section
from judge_eval.views.tones import Tone

MOST: Final = 20
"""How many findings are shown."""
_MEANINGS: Final[dict[Condition, tuple[str, Tone]]] = {
    "whole": ("is what was written", "good"),
    "unfinished": ("did not finish, so it has no digest yet; its contents are consistent", "doubtful"),
    "changed": ("was changed", "bad"),
}


def verification_view(verification: Verification) -> View:
    """Build what was found, one finding a line."""
    name = verification.id[:8] if verification.id else verification.folder
    meaning, tone = _MEANINGS[verification.condition]
    title = f"{verification.condition}: run {name} {meaning} ({verification.results:,} results read)"
    lines = [f"  {one_line(str(finding))}" for finding in verification.findings[:MOST]]
    if (more := len(verification.findings) - MOST) > 0:
        lines.append(f"  and {more:,} more")
    return View("verification", (make_section("findings", Sentence(one_line(title), tone), *lines),))
