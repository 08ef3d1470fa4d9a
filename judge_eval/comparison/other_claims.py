"""Whether two runs were judged by the same claims."""

from __future__ import annotations

from judge_eval.comparison.pairing import Pairing
from judge_eval.runs.folder.records import TraceResult
from judge_eval.runs.folder.run import Run

_NAMED = 3


def other_claims(baseline: Run, candidate: Run, pairing: Pairing) -> str | None:
    """Say in how many traces the claims differ, and name some; None where they are the same.

    A trace that was judged by claims in one of the two alone is passed over: the judges differ then, which
    is told elsewhere. Only runs that were judged by claims are read.
    """
    modes = [str(run.manifest.judge.get("mode")) for run in (baseline, candidate)]
    if not all(mode.startswith("claims") for mode in modes):
        return None
    count, named = 0, []
    for a, b in zip(pairing.a.tolist(), pairing.b.tolist(), strict=True):
        before, after = baseline.results[a], candidate.results[b]
        there, here = _told(before), _told(after)
        if there is not None and here is not None and there != here:
            count += 1
            named.append(after.trace_id)
            del named[_NAMED:]
    if not count:
        return None
    which = ", ".join(named) + (", ..." if count > _NAMED else "")
    traces = f"{count} trace{'s' if count != 1 else ''}"
    return f"the claims differ in {traces} ({which}): what was judged there is not the same"


def _told(result: TraceResult) -> list[tuple[str, bool]] | None:
    return None if result.claims is None else [(one.text, one.vital) for one in result.claims.claims]
