"""Telling OpenTelemetry what every trace scored."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from judge_eval.runs.folder.records import TraceResult

if TYPE_CHECKING:
    from opentelemetry.context import Context

EVENT = "gen_ai.evaluation.result"
_LONGEST = 4096
"""Characters of an explanation that are sent."""


def emit_scores(results: Sequence[TraceResult], *, content: bool = False) -> None:
    """Emit one event a metric and trace to the logger that the process has set up."""
    # An event carries `gen_ai.evaluation.name` and `gen_ai.evaluation.score.value`, with the label `relevant` where the
    # score is above 0, else `not_relevant`; with `content` also `gen_ai.evaluation.explanation`, the judge's reasons by
    # rank. A metric without a value has the label `no_verdict` and an `error.type` (the commonest reason of its failed
    # verdicts) instead of a value. A trace whose metadata holds `otel_trace_id` and `otel_span_id` (32 and 16
    # hexadecimal digits) has its events put under that span: the retrieval or answer that was judged.
    from opentelemetry._logs import LogRecord, SeverityNumber, get_logger

    logger = get_logger("judge_eval")
    for result in results:
        context = _context(result.trace.metadata)
        explanation = _explanation(result) if content else None
        for name, score in result.scores.items():
            attributes: dict[str, Any] = {"gen_ai.evaluation.name": name, "judge_eval.trace.id": result.trace_id}
            if score is None:
                whys = Counter(o.why for o in result.outcomes if o.kind == "no_verdict")
                attributes["error.type"] = min(whys, key=lambda why: (-whys[why], why)) if whys else "_OTHER"
                attributes["gen_ai.evaluation.score.label"] = "no_verdict"
            else:
                attributes["gen_ai.evaluation.score.value"] = score
                attributes["gen_ai.evaluation.score.label"] = "relevant" if score > 0 else "not_relevant"
            if explanation:
                attributes["gen_ai.evaluation.explanation"] = explanation
            severity = SeverityNumber.INFO
            logger.emit(LogRecord(event_name=EVENT, attributes=attributes, context=context, severity_number=severity))


def _explanation(result: TraceResult) -> str:
    lines = []
    for rank, outcome in enumerate(result.outcomes, 1):
        if outcome.kind == "no_verdict":
            lines.append(f"{rank}. no verdict ({outcome.why})")
        else:
            by = f" ({outcome.stage} judge)" if outcome.stage else ""
            lines.append(f"{rank}. grade {outcome.grade}{by}: {outcome.explanation}")
    return "\n".join(lines)[:_LONGEST]


def _context(metadata: Mapping[str, Any]) -> Context | None:
    from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

    trace_id, span_id = str(metadata.get("otel_trace_id")), str(metadata.get("otel_span_id"))
    if not re.fullmatch(r"[0-9a-f]{32}", trace_id) or not re.fullmatch(r"[0-9a-f]{16}", span_id):
        return None
    span = SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=TraceFlags(1))
    return set_span_in_context(NonRecordingSpan(span)) if span.is_valid else None
