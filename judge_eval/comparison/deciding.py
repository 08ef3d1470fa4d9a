"""What a paired difference says about a limit on the drop: kept, broken, or that it cannot be told."""

from __future__ import annotations

import math

from judge_eval.comparison.findings import Difference, Outcome

LEAST_TRACES = 10
"""With fewer pairs no limit is shown to be kept."""
MOST_WITHOUT = 0.1
"""Where a greater share of the pairs has no value, no limit is shown to be kept: the rest may be others."""
_ONE_SIDED = 1.6449
_MOST_NAMED = 1_000_000


def decide_drop(d: Difference, limit: float) -> tuple[Outcome, str]:
    """Say whether a mean fell by less than a limit, by the one-sided 95% bounds of the difference.

    `passed` where a drop of the limit or more is ruled out, `failed` where one of the limit or less is;
    each is wrong in at most about 5 of 100. Else `undecided`, which says what would decide. Where less is
    better all of this is about a rise.

    No number of traces shows that nothing at all was lost: a limit of 0 is about the traces at hand.

    Args:
        d: The difference with its bounds.
        limit: The drop that is allowed, >= 0, in the metric's units.

    Returns:
        The outcome, and the rest of a sentence that says why.
    """
    lost, least, worst = d.lost
    if least is not None and least > limit:
        return "failed", f"by at least {least:.4f}: more than {limit:g} is shown"
    pairs = d.n + d.n_excluded
    if limit == 0 and lost <= 0 and not d.n_excluded:
        return "passed", "on these traces"
    if d.n < LEAST_TRACES:
        why = f"{_traces(d.n)} with a value show too little; at least {LEAST_TRACES} are needed"
    elif d.n_excluded > MOST_WITHOUT * pairs:
        why = (
            f"{d.n_excluded} of {pairs} traces have no value in one of the runs; "
            f"with at most {MOST_WITHOUT:.0%} without one this could be decided"
        )
    elif worst is None:
        why = f"all {d.n} traces differ alike, and {d.metric} has no greatest value that would bound the rest"
    elif worst < limit:
        return "passed", f"at worst by {max(worst, 0.0):.4f}: less than {limit:g} is shown"
    else:
        why = _what_would_decide(d, worst, limit)
    return "undecided", why


def _what_would_decide(d: Difference, worst: float, limit: float) -> str:
    lost, what = d.lost[0], "rise" if d.less_is_better else "drop"
    unseen = f"with {_traces(d.n)} a {what} under {worst - lost:.2g} cannot be told from none"
    wanted = _traces_needed(d, worst - lost, abs(limit - lost))
    if wanted is None:
        return f"{unseen}, and the {what} is too close to {limit:g} for any number of traces like these"
    side = "less" if lost < limit else "more"
    return f"{unseen}; about {wanted} traces like these would show that it is {side} than {limit:g}"


def _traces_needed(d: Difference, reach: float, gap: float) -> int | None:
    """Return about how many traces bring a bound within the gap; None for more than a million.

    A bound lies z * s / sqrt(n) from the mean for the spread s, and farther by a part that falls with 1 / n.
    """
    spread = _ONE_SIDED * (d.standard_error or 0.0) * math.sqrt(d.n)
    rest = max(reach * d.n - spread * math.sqrt(d.n), 0.0)
    if gap <= 0:
        return None
    root = (spread + math.sqrt(spread**2 + 4 * rest * gap)) / (2 * gap)
    wanted = math.ceil(root**2)
    step = 10 ** max(len(str(wanted)) - 2, 0)  # two digits, since it is no more than an estimate
    wanted = math.ceil(wanted / step) * step
    return wanted if wanted <= _MOST_NAMED else None


def _traces(n: int) -> str:
    return f"{n} trace{'s' if n != 1 else ''}"
