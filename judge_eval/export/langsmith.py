"""A run as feedback of LangSmith."""

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any
from uuid import UUID

from judge_eval.export.format import service_format
from judge_eval.export.scores import ScoreBody, Service, TraceScore


def _ids(metadata: Mapping[str, Any]) -> ScoreBody:
    """Return the ids of the run, of its trace and of its project; empty without a run, whose id is a UUID."""
    named = {"run_id": "run_id", "trace_id": "trace_id", "project_id": "session_id"}
    ids = {name: number for key, name in named.items() if (number := _uuid(metadata.get(key)))}
    if "run_id" not in ids:
        return {}
    started = metadata.get("start_time")
    with suppress(ValueError):
        if isinstance(started, str):
            datetime.fromisoformat(started)
            ids["start_time"] = started
    return ids


def _uuid(value: Any) -> str | None:
    with suppress(ValueError):
        return str(UUID(value)) if isinstance(value, str) else None
    return None


def _record(ids: ScoreBody, score: TraceScore) -> ScoreBody:
    return {
        "id": score.id,
        **ids,
        "key": score.name,
        "score": round(score.value, 4),  # LangSmith stores no more, and its client rounds too
        "comment": score.comment,
        "feedback_source": {"type": "model", "metadata": dict(score.source)},
        "created_at": score.created,
        "modified_at": score.created,
    }


SERVICE = Service(
    "LangSmith",
    "run_id",
    _ids,
    _record,
    path="feedback",
    base_urls=("LANGSMITH_ENDPOINT", "LANGCHAIN_ENDPOINT"),
    default_url="https://api.smith.langchain.com",
    keys=("LANGSMITH_API_KEY",),
    key_header="x-api-key",
    headers=(("x-tenant-id", "LANGSMITH_WORKSPACE_ID"),),
)
EXPORTS = (service_format("langsmith", SERVICE),)
