"""Counting what came of one probe."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from judge_eval.probes.assurance import Sourced, assurance_of, shift_of
from judge_eval.probes.cases import PROBES, Case
from judge_eval.probes.findings import Example, ProbeResult
from judge_eval.runs.folder.records import TraceResult
from judge_eval.runs.scoring.figure import Figure
from judge_eval.schema import Outcome, Verdict
from judge_eval.stats import proportion_interval

EXAMPLES = 3
"""How many cases of each probe a report shows."""


def tally(
    name: str, cases: Sequence[Case], judged: Mapping[str, TraceResult], base: Mapping[str, TraceResult]
) -> ProbeResult:
    """Count how often the judge was fooled.

    Args:
        name: The probe.
        cases: Its cases.
        judged: What was judged, by the cases' ids and those of the unaltered chunks.
        base: What was judged of the user's own traces.
    """
    probe = PROBES[name]
    by_trace: dict[str, list[bool]] = {}
    variants: dict[str, Counter[bool]] = {}
    flips: dict[str, bool] = {}
    positives = noticed = able = failed = rejected = 0
    judgments: list[Sourced] = []
    pairs: list[tuple[str, Verdict | None, Verdict]] = []
    examples: list[Example] = []
    for case in cases:
        result = judged[case.trace.id]
        if any(o.kind == "no_verdict" for o in result.outcomes):
            failed += 1
            continue
        verdicts = [o for o in result.outcomes if o.kind == "verdict"]
        before = _before(case, judged, base)
        changed = [
            (old, new)
            for old, new in zip(before, verdicts, strict=True)
            if old is not None and old.relevant != new.relevant
        ]
        if None in before and probe.expect in ("unchanged", "refuted"):
            failed += 1
            continue
        if probe.expect == "refuted":  # a sound judge changes each of its verdicts: no flip is a fault
            if not all(old is not None and old.relevant for old in before):
                rejected += 1
                continue
        elif None not in before:
            flips[case.source] = flips.get(case.source, False) or bool(changed)
        accepted = [v for v in verdicts if v.relevant]
        fooled = bool(changed) if probe.expect == "unchanged" else bool(accepted)
        positives += len(accepted)
        judgments += [(case.source, v) for v in verdicts]
        pairs += [(case.source, old, new) for old, new in zip(before, verdicts, strict=True)]
        noticed += any(v.instruction_in_chunk for v in verdicts)
        able += any(v.reason is not None for v in verdicts)  # who gives no reasons reports nothing
        by_trace.setdefault(case.source, []).append(fooled)
        if case.variant:
            variants.setdefault(case.variant, Counter())[fooled] += 1
        if fooled and len(examples) < EXAMPLES:
            first = next(place for place, v in enumerate(verdicts) if v.relevant) if accepted else 0
            old, new = changed[0] if changed else (before[first], verdicts[first])
            examples.append(_example(case, old, new))
    fooled_traces = sum(any(row) for row in by_trace.values())
    irrelevant = probe.expect in ("irrelevant", "refuted")
    return ProbeResult(
        probe=name,
        text=probe.text,
        n=len(by_trace),
        fooled=fooled_traces,
        rate=Figure.of(proportion_interval(fooled_traces, len(by_trace))),
        false_positives=positives if irrelevant else None,
        chunks=len(judgments) if irrelevant else None,
        flips=sum(flips.values()) if flips else None,
        flip_rate=Figure.of(proportion_interval(sum(flips.values()), len(flips))) if flips else None,
        noticed=noticed if name == "injection" and able else None,
        noticing=able if name == "injection" else None,
        variants={variant: (counts[True], counts.total()) for variant, counts in variants.items()},
        failed=failed,
        rejected_before=rejected,
        assurance=assurance_of(judgments) if irrelevant else None,
        shift=shift_of(pairs),
        examples=tuple(examples),
    )


def _before(
    case: Case, judged: Mapping[str, TraceResult], base: Mapping[str, TraceResult]
) -> list[Verdict | None]:
    """Return the verdicts on the unaltered chunks, in the case's order; None where one failed."""
    outcomes: list[Outcome] = []
    if case.probe == "order":
        by_chunk = {o.chunk_id: o for o in base[case.source].outcomes}
        outcomes = [by_chunk[chunk.id] for chunk in case.trace.chunks]
    elif twin := PROBES[case.probe].twin:
        result = judged.get(f"{case.source}~{twin}")
        outcomes = list(result.outcomes) if result else []
    return [o if o.kind == "verdict" else None for o in outcomes] or [None] * len(case.trace.chunks)


def _example(case: Case, old: Verdict | None, new: Verdict) -> Example:
    text = next(c.text for c in case.trace.chunks if c.id == new.chunk_id)
    return Example(
        trace_id=case.source,
        variant=case.variant,
        query=_brief(case.trace.query, 120),
        text=_brief(text, 300),
        before=None if old is None else old.grade,
        after=new.grade,
        reason=new.explanation,
    )


def _brief(text: str, most: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= most else text[: most - 3] + "..."
