"""One trace in full, as the JSON that a page shows: texts, verdicts, quotes, calls."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from judge_eval.errors import MetricError
from judge_eval.metrics import Metric, parse_metric
from judge_eval.pages.calls import call_data
from judge_eval.pages.claimgrid import claim_grid_data
from judge_eval.pages.recall import Memory
from judge_eval.pages.rows import JSON, agrees, reason_data
from judge_eval.quotes import marked
from judge_eval.runs.folder.records import TraceResult
from judge_eval.runs.scoring.aggregate import main_metric
from judge_eval.schema import NoVerdict, Scale, Verdict


def card_page(
    result: TraceResult, scale: Scale, metrics: Sequence[str], memory: Memory | None, systems: list[str]
) -> JSON:
    """Make the detail of one trace.

    Args:
        result: The trace with its outcomes.
        scale: The run's scale, with the threshold in force.
        metrics: The run's metrics; contributions are to the first average precision.
        memory: Brings back prompts and replies; None leaves them out.
        systems: System messages seen so far; a new one is added, and cards name them by their place.
    """
    trace = result.trace
    precision, shares = ladder(result, scale, metrics)
    calls = _calls_by_chunk(result, memory, systems)
    cards = []
    for rank, (chunk, outcome) in enumerate(zip(trace.chunks, result.outcomes, strict=True), 1):
        card: JSON = {
            "rank": rank,
            "id": chunk.id,
            "title": chunk.title,
            "score": chunk.score,
            "label": chunk.label,
            "text": [chunk.text],
            "precision": precision[rank - 1],
            "share": shares[rank - 1] if shares is not None else None,
            **_outcome(outcome),
        }
        if outcome.kind == "verdict":
            card["text"] = marked(chunk.text, outcome.quote)
            if chunk.title and len(card["text"]) == 1:
                card["title_marks"] = marked(chunk.title, outcome.quote)
            if (same := agrees(chunk.label, outcome, scale)) is not None:
                card["agrees"] = same
        card["calls"] = calls.get(chunk.id, [])
        cards.append(card)
    return {
        "p": result.position,
        "id": trace.id,
        "query": trace.query,
        "reference": trace.reference,
        "answer": trace.answer,
        "tags": trace.tags,
        "relevant_total": trace.relevant_total,
        "scores": result.scores,
        "bounds": result.bounds,
        "metadata": trace.metadata,
        "claims": claim_grid_data(result),
        "chunks": cards,
    }


def _calls_by_chunk(result: TraceResult, memory: Memory | None, systems: list[str]) -> dict[str, list[JSON]]:
    """Make what cards show of calls, by chunk; one about several chunks is shown at the first."""
    ranks = {chunk.id: rank for rank, chunk in enumerate(result.trace.chunks, 1)}
    recalled = [None] * len(result.calls) if memory is None else memory.calls(result)
    by_chunk: dict[str, list[JSON]] = {}
    for call, asked in zip(result.calls, recalled, strict=True):
        about = sorted((chunk_id for chunk_id in call.chunk_ids if chunk_id in ranks), key=ranks.__getitem__)
        for place, chunk_id in enumerate(about):
            data = {"same_as": ranks[about[0]]} if place else call_data(call, asked, memory, systems)
            by_chunk.setdefault(chunk_id, []).append(data)
    return by_chunk


def _outcome(outcome: Verdict | NoVerdict) -> JSON:
    if outcome.kind == "no_verdict":
        return {"why": outcome.why, "detail": outcome.detail}
    return {
        "grade": outcome.grade,
        "relevant": outcome.relevant,
        **reason_data(outcome),
        "evidence": outcome.evidence,
        "found": outcome.evidence_found,
        "instruction": outcome.instruction_in_chunk,
        "confidence": outcome.confidence,
        "expected_grade": outcome.expected_grade,
        "stage": outcome.stage,
    }


def ladder(
    result: TraceResult, scale: Scale, metrics: Sequence[str]
) -> tuple[list[float | None], list[float] | None]:
    """Return P@i at each rank, and what each rank adds to average precision.

    From the first failed verdict on, P@i is unknown. The shares add up to the trace's score of the run's
    first `AP` metric; they are None where there is no such metric, or it has no value here.
    """
    grades = [o.grade if o.kind == "verdict" else None for o in result.outcomes]
    hits, precision = 0, list[float | None]()
    known = True
    for rank, grade in enumerate(grades, 1):
        known = known and grade is not None
        hits += grade is not None and grade >= scale.relevant
        precision.append(hits / rank if known else None)
    metric = _average_precision(metrics)
    score = None if metric is None else result.scores.get(str(metric))
    if metric is None or score is None:
        return precision, None
    depth = len(grades) if metric.cutoff is None else min(metric.cutoff, len(grades))
    relevant = [grade is not None and grade >= scale.relevant for grade in grades[:depth]]
    total = max(1, sum(relevant))
    shares = [(p or 0.0) * v / total for p, v in zip(precision, relevant, strict=False)]
    shares += [0.0] * (len(grades) - depth)
    # A variant that divides or counts in another way has no such shares; then none are shown.
    return precision, shares if abs(sum(shares) - score) < 1e-9 else None


def _average_precision(metrics: Sequence[str]) -> Metric | None:
    name = main_metric(metrics)
    with suppress(MetricError):
        return parse_metric(name) if name is not None and name.startswith("AP") else None
    return None
