"""Telling OpenTelemetry what every trace scored."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from judge_eval.runs.folder.records import TraceResult

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span

EVENT = "gen_ai.evaluation.result"
SPAN = "evaluate"
"""The span that holds the events of a trace if that of the retrieval is over, or not known."""
_LONGEST = 4096
"""Characters of an explanation that are sent."""


def emit_scores(results: Sequence[TraceResult], *, content: bool = False) -> None:
    """Emit one event a metric and trace, as a log record and on a span, to what the process has set up."""
    # An event carries `gen_ai.evaluation.name` and `gen_ai.evaluation.score.value`, with the label `relevant` where the
    # score is above 0, else `not_relevant`; with `content` also `gen_ai.evaluation.explanation`, the judge's reasons by
    # rank. A metric without a value has the label `no_verdict` and an `error.type` (the commonest reason of its failed
    # verdicts) instead of a value. Both belong to the span of the retrieval that was judged, if the trace names it.
    from opentelemetry import trace
    from opentelemetry._logs import LogRecord, SeverityNumber, get_logger

    logger, tracer, severity = get_logger("judge_eval"), trace.get_tracer("judge_eval"), SeverityNumber.INFO
    for result in results:
        context = _context(result.trace.metadata)
        events = list(_events(result, explanation(result) if content else None))
        for event in events:
            logger.emit(LogRecord(event_name=EVENT, attributes=event, context=context, severity_number=severity))
        current, judged = trace.get_current_span(), trace.get_current_span(context) if context else None
        if judged is not None and current.is_recording() and _ids(current) == _ids(judged):
            for event in events:
                current.add_event(EVENT, event)
            continue
        # A span that has ended takes no event: a span below it does.
        with tracer.start_as_current_span(SPAN, context, attributes={"judge_eval.trace.id": result.trace_id}) as span:
            for event in events:
                span.add_event(EVENT, event)


def _events(result: TraceResult, reasons: str | None) -> Iterator[dict[str, Any]]:
    for name, score in result.scores.items():
        attributes: dict[str, Any] = {"gen_ai.evaluation.name": name, "judge_eval.trace.id": result.trace_id}
        if score is None:
            whys = Counter(o.why for o in result.outcomes if o.kind == "no_verdict")
            attributes["error.type"] = min(whys, key=lambda why: (-whys[why], why)) if whys else "_OTHER"
            attributes["gen_ai.evaluation.score.label"] = "no_verdict"
        else:
            attributes["gen_ai.evaluation.score.value"] = score
            attributes["gen_ai.evaluation.score.label"] = "relevant" if score > 0 else "not_relevant"
        if reasons:
            attributes["gen_ai.evaluation.explanation"] = reasons
        yield attributes


def _ids(span: Span) -> tuple[int, int]:
    context = span.get_span_context()
    return context.trace_id, context.span_id


def explanation(result: TraceResult) -> str:
    """Say what the judge says of each chunk, by rank, in at most 4,096 characters."""
    lines = []
    for rank, outcome in enumerate(result.outcomes, 1):
        if outcome.kind == "no_verdict":
            lines.append(f"{rank}. no verdict ({outcome.why})")
        else:
            by = f" ({outcome.stage} judge)" if outcome.stage else ""
            lines.append(f"{rank}. grade {outcome.grade}{by}: {outcome.explanation}")
    return "\n".join(lines)[:_LONGEST]


def _context(metadata: Mapping[str, Any]) -> Context | None:
    """Return the context of the span that a trace names, by its own ids or those of the export it was read from."""
    from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

    pairs = (("otel_trace_id", "otel_span_id"), ("trace_id", "span_id"), ("traceId", "span_id"))
    named = ((str(metadata.get(trace_id)), str(metadata.get(span_id))) for trace_id, span_id in pairs)
    whole = (ids for ids in named if re.fullmatch(r"[0-9a-f]{32}", ids[0]) and re.fullmatch(r"[0-9a-f]{16}", ids[1]))
    trace_id, span_id = next(whole, ("0", "0"))
    span = SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=TraceFlags(1))
    return set_span_in_context(NonRecordingSpan(span)) if span.is_valid else None
