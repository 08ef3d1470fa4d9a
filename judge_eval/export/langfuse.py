"""A run as scores of Langfuse."""

import re
from collections.abc import Mapping
from typing import Any

from judge_eval.data.files.values import first_of
from judge_eval.export.format import service_format
from judge_eval.export.scores import ScoreBody, Service, TraceScore

_ENVIRONMENT = re.compile(r"(?!langfuse)[a-z0-9_-]{1,40}")


def _ids(metadata: Mapping[str, Any]) -> ScoreBody:
    """Return the ids of the trace and of the observation in it; Langfuse takes those of OpenTelemetry for its own."""
    trace = first_of(metadata, "traceId", "trace_id", "otel_trace_id")
    observation = first_of(metadata, "observation_id", "span_id", "otel_span_id")
    if not isinstance(trace, str):
        return {}
    ids = {"traceId": trace}
    if isinstance(observation, str):
        ids["observationId"] = observation
    environment = metadata.get("environment")
    if isinstance(environment, str) and _ENVIRONMENT.fullmatch(environment):
        ids["environment"] = environment  # a score stands beside its trace only in the same one
    return ids


def _record(ids: ScoreBody, score: TraceScore) -> ScoreBody:
    return {
        "id": score.id,
        **ids,
        "name": score.name,
        "value": score.value,
        "dataType": "NUMERIC",
        "comment": score.comment,
        "metadata": dict(score.source),
        # A score is replaced only by one of the same id and time.
        "timestamp": score.created,
    }


SERVICE = Service(
    "Langfuse",
    "trace_id",
    _ids,
    _record,
    path="api/public/scores",
    base_urls=("LANGFUSE_BASE_URL", "LANGFUSE_HOST"),
    default_url="https://cloud.langfuse.com",
    keys=("LANGFUSE_PUBLIC_KEY", "LANGFUSE_SECRET_KEY"),
    at_once=100,
)
EXPORTS = (service_format("langfuse", SERVICE),)
