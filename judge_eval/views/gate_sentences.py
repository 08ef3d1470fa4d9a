"""What is said of a limit: by how much it was missed or met, or what would decide it."""

from judge_eval.compare.comparison import (
    MOST_MOVERS,
    Check,
    CutsFound,
    Difference,
    LimitedDrop,
    LimitedSlices,
    SliceDifference,
)
from judge_eval.compare.foresight import Foresight
from judge_eval.compare.gate import LEAST_SLICE, LEAST_TRACES, MOST_WITHOUT, decide_drop, most_lost, planned_traces
from judge_eval.runs.folder.records import Aggregate
from judge_eval.safe_text import counted


def check_sentence(check: Check) -> str:
    """Say by how much a limit was missed or met, or what would decide it."""
    basis = check.basis
    if isinstance(basis, Aggregate):
        return _of_mean(check, basis)
    if isinstance(basis, CutsFound):
        sentence = f"{check.metric} counts chunks, and {_gate_advice(basis)}"
    else:
        sentence = _of_drop(check, basis) if isinstance(basis, LimitedDrop) else _of_slices(check, basis)
    return f"{sentence} (against {check.baseline})"


def _of_mean(check: Check, a: Aggregate) -> str:
    over, limit = check.kind == "fail-over", check.limit
    most, side, to = ("at most", "over", "up") if over else ("at least", "under", "down")
    if a.mean is None:
        return f"{check.metric} has no value; it must be {most} {limit:g}"
    if check.outcome == "failed":
        sentence = f"{check.metric} is {a.shown}, {abs(a.mean - limit):.4f} {side} {limit:g}"
        return sentence + (" by its expected value" if a.headline == "bounds" else "")
    if check.outcome == "passed":
        return f"{check.metric} is {a.shown}, {most} {limit:g}"
    reach = "to any value" if a.bounds is None else f"{to} to {a.bounds[1 if over else 0]:.4f}"
    return (
        f"{check.metric} is {a.shown}, but {a.n_failed} of {a.n + a.n_failed} traces have no value "
        f"and could bring it {reach}; resume the run to ask for them again"
    )


def _of_drop(check: Check, basis: LimitedDrop) -> str:
    d = basis.difference
    span = "" if d.interval is None else f" [{d.interval[0]:+.4f}, {d.interval[1]:+.4f}]"
    span += "" if d.clear or not d.difference else ", so none is shown"
    moved, why = _movement(d), reason_sentence(d, check.limit)
    if basis.shared is not None:
        moved += " by retrieval"
        span += f"; the judge's part is left out, {basis.shared:.0%} of the chunks have both verdicts"
    if check.outcome != "failed":
        why += f"; {_seen(d, check.sees)}"
    return f"{d.metric} {moved} (difference {d.difference:+.4f}{span}), {why}"


def reason_sentence(d: Difference, limit: float) -> str:
    """Say why a limit on what was lost is kept or broken, or what would decide it."""
    reason, worst = decide_drop(d, limit)[1], most_lost(d, limit) or 0.0
    match reason:
        case "more":
            return f"by at least {d.lost[1]:.4f}, which is more than {limit:g}"
        case "none":
            return "on these traces"
        case "few":
            return f"{counted(d.n, 'trace')} with a value are too few; at least {LEAST_TRACES} are needed"
        case "without":
            return (
                f"{d.n_excluded} of {d.n + d.n_excluded} traces have no value in one of the runs; "
                f"the result can be decided if at most {MOST_WITHOUT:.0%} have none"
            )
        case "alike":
            return f"all {d.n} traces have the same difference, and the range of {d.metric} is not bounded"
        case "less":
            return f"at worst by {max(worst, 0.0):.4f}, which is less than {limit:g}"
        case "open":
            return (
                f"failed verdicts leave {d.n_open} of {d.n} traces open, so that it could be {worst:.4f}; "
                "resume the runs to ask for them again"
            )
        case "near":
            return _what_would_decide(d, limit)


def _what_would_decide(d: Difference, limit: float) -> str:
    lost, what = d.lost[0], "rise" if d.less_is_better else "drop"
    least, planned = planned_traces(d, limit)
    which = f"whether it is {'less' if lost < limit else 'more'} than {limit:g}"
    if least is None:
        return f"the {what} is too close to {limit:g} to decide with more traces like these"
    if planned is None:
        return f"it takes {least} traces like these or more to show {which}"
    as_measured = "" if planned == least else f" ({least} if the {what} is as it is here)"
    return f"about {planned} traces like these would show {which}{as_measured}"


def _movement(d: Difference) -> str:
    """Say which way a metric moved, and how far if it was for the worse."""
    fell, fall = ("rose", "rise") if d.less_is_better else ("fell", "fall")
    return f"{fell} by {d.lost[0]:.4f}" if d.lost[0] > 0 else f"did not {fall}"


def _seen(d: Difference, sees: float | None) -> str:
    """Say which drops a gate sees."""
    what = "rise" if d.less_is_better else "drop"
    if sees is None:
        return f"{counted(d.n, 'trace')} are too few for it to see any {what}"
    return f"it sees {what}s of {sees:.2g} or more with {counted(d.n, 'trace')} (80% power)"


def foresight_sentence(foresight: Foresight) -> str:
    """Say which drops a limit will see, before anything is judged."""
    limit, part, n, few, many = foresight
    what = "rise" if limit.kind == "max-rise" else "drop"
    if few[0] is None:
        sees = f"it will see no {what}"
    else:
        to = f"{many[0]:.2g}" if many[0] is not None else f"no {what}"
        sees = f"it will see {what}s of about {few[0]:.2g} or more (80% power) if few questions change, "
        sees += f"of {to} if many do"
    wanted = ""
    if few[1] is not None:
        wanted = f"; it takes about {few[1]:,} questions to show that an unchanged run keeps it"
        wanted += "" if many[1] is None else f", {many[1]:,} if many change"
    name = limit.metric + (f"[{limit.part}]" if limit.by is not None else "")
    where = f"{part}, {counted(n, 'question')}" if part else counted(n, "question")
    return f"gate {limit.kind} {name}={limit.value:g}, {where}: {sees}{wanted}"


def _of_slices(check: Check, basis: LimitedSlices) -> str:
    among = f", corrected for {basis.limited} slices" if basis.limited > 1 else ""
    by, single, _ = check.part.partition("=")
    sentence = _of_slice(check, basis.worst, among) if single else _of_each_slice(check, basis, by, among)
    if basis.sees:
        what = "rise" if basis.worst.less_is_better else "drop"
        drops = [
            f"{f'no {what}' if sees is None else f'{what}s of {sees:.2g} or more'} in {_slice_name(d)}"
            for d, sees in basis.sees
        ]
        sentence += f"; it sees {', '.join(drops)} (80% power)"
    if basis.too_few:
        sentence += f"; {counted(basis.too_few, 'slice')} of fewer than {LEAST_SLICE} traces cannot be tested"
    if basis.another_judge:
        sentence += "; another judge judged the baseline, and its part is not left out"
    return sentence


def _of_slice(check: Check, d: SliceDifference, among: str) -> str:
    why = reason_sentence(d, check.limit)
    if check.outcome == "failed":
        why += among
    elif d.lost[1] is not None and d.lost[1] > check.limit:
        why = f"by at least {d.lost[1]:.4f}, which is not shown{among}"
    return f"{check.metric} {_movement(d)} in {_slice_name(d)}, {why}"


def _of_each_slice(check: Check, basis: LimitedSlices, by: str, among: str) -> str:
    """Say what became of so many slices, of which some failed and some are open."""
    tested, failed, worst = basis.tested, basis.failed, basis.worst
    fell, drop = ("rose", "rise") if worst.less_is_better else ("fell", "drop")
    if failed:
        names = ", ".join(f"{_slice_name(d)} by {d.lost[0]:.4f}" for d in failed[:MOST_MOVERS])
        names += f" and {len(failed) - MOST_MOVERS} more" if len(failed) > MOST_MOVERS else ""
        return (
            f"{check.metric} {fell} by more than {check.limit:g} in {len(failed)} of {tested} slices by "
            f"{by}{among}: {names}"
        )
    if not basis.undecided and tested:
        return f"{check.metric} {fell} by less than {check.limit:g} in each of {tested} slices by {by}"
    return (
        f"{check.metric}: whether the {drop} is less than {check.limit:g} cannot be told in {basis.undecided} of "
        f"{tested} slices by {by}; the most is {worst.lost[0]:.4f} in {_slice_name(worst)}"
    )


def _slice_name(d: SliceDifference) -> str:
    return f"{d.by} {d.name} ({counted(d.n, 'question')})"


def _gate_advice(cuts: CutsFound) -> str:
    instead = cuts.headline or f"{'ClaimRecall' if cuts.alone else 'HitRate'}@Bw, with a cutoff of B words"
    every = counted(cuts.recut + cuts.same, "chunk")
    return f"{cuts.recut:,} of {every} that share text are cut differently; limit {instead} instead"
