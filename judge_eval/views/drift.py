"""What people read of a judge that was asked again."""

from judge_eval.compare.drift import Drift
from judge_eval.safe_text import counted
from judge_eval.views.blocks import Sentence, View, make_section
from judge_eval.views.comparison import differences_table, remarks_on


def drift_view(drift: Drift, alpha: float = 0.05) -> View:
    """Build what people read: whether the judge drifted (p at most `alpha`), the flips, and the means."""
    drifted = drift.p <= alpha
    flips = (
        f"of {counted(drift.chunks, 'verdict')} {drift.became_relevant:,} became relevant and "
        f"{drift.became_irrelevant:,} irrelevant"
    )
    test = (
        f"p = {drift.p:.2g} by an exact sign-flip test over {counted(drift.replies, 'reply', 'replies')}, "
        f"{drift.leaning:,} of which lean one way"
    )
    lines = [Sentence(f"{'drifted' if drifted else 'no drift seen'}: {flips}", "bad" if drifted else "good")]
    lines.append(Sentence(f"{test}."))
    if drift.failed:
        lines.append(Sentence(f"left out: {counted(drift.failed, 'chunk')} without a verdict", "doubtful"))
    means = make_section("means", differences_table(drift.comparison), *remarks_on(drift.comparison))
    return View("drift", (make_section("verdict", *lines), means))
