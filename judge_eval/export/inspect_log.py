"""A run as a log of Inspect, as `inspect view` opens it."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

from judge_eval.export.format import Format, stream
from judge_eval.runs.folder.records import TraceResult
from judge_eval.runs.folder.run import Run
from judge_eval.views.run import described_by
from judge_eval.views.run_remarks import remarks_of
from judge_eval.views.trace import verdicts_in_words

STATUS = {"submitted": "started", "running": "started", "interrupted": "cancelled", "failed": "error"}


def inspect_log(run: Run) -> str:
    """Return the log as one JSON document: a sample a trace, a score a metric."""
    # A metric without a value in a trace is not a score there, and counts as unscored. The chunks with their
    # verdicts are in the sample's metadata, and as text in the scores' explanation.
    m = run.manifest
    model = f"{m.backend.get('provider')}/{m.backend.get('model')}"
    status = STATUS.get(m.status, "success")
    remarks = remarks_of(m)
    cascade = [remark.text for remark in remarks if remark.about == "cascade"]
    ids = [result.trace_id for result in run.results]
    log: dict[str, Any] = {
        "version": 2,  # of Inspect's log format
        "status": status,
        "eval": {
            "eval_id": m.id,
            "run_id": m.id,
            "created": _time(m.created),
            "task": m.label or "judge_eval",
            "task_id": m.id,
            "task_version": 0,
            "task_args": {"judge": m.judge, "metrics": list(m.metrics)},
            "dataset": {"name": m.dataset.name, "location": m.dataset.path, "samples": len(ids), "sample_ids": ids},
            "model": model,
            "config": {"epochs": 1},
            "tags": list(m.tags),
            "metadata": {
                "href": m.href,
                "dataset_digest": m.dataset.digest,
                "environment": m.environment,
                **({"cascade": cascade} if cascade else {}),
                "remarks": [remark.text for remark in remarks],
            },
        },
        "plan": {"name": "plan", "steps": [], "config": {}},
        "results": {
            "total_samples": len(ids),
            "completed_samples": len(ids),
            "scores": [_score(run, name) for name in m.metrics if name in m.aggregates],
        },
        "stats": {
            "started_at": _time(m.created),
            "completed_at": _time(m.finished) if m.finished else "",
            "model_usage": {
                model: {
                    "input_tokens": m.tally.input_tokens,
                    "output_tokens": m.tally.output_tokens,
                    "total_tokens": m.tally.input_tokens + m.tally.output_tokens,
                }
            },
        },
        "samples": [_sample(result, model) for result in run.results],
    }
    if status == "error":
        log["error"] = {"message": described_by(m), "traceback": "", "traceback_ansi": ""}
    return json.dumps(log, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def log_name(run: Run) -> str:
    """Name the file as `inspect view` finds it in a folder: by its time, its task, its id."""
    stamp = run.created.strftime("%Y-%m-%dT%H-%M-%S+00-00")
    label = "".join(c if c.isascii() and c.isalnum() else "-" for c in run.label or "judge-eval")
    return f"{stamp}_{label}_{run.id[:8]}.json"


def _score(run: Run, name: str) -> dict[str, Any]:
    a = run.manifest.aggregates[name]
    metrics = {} if a.mean is None else {"mean": {"name": "mean", "value": a.mean, "params": {}}}
    if a.mean is not None and a.interval is not None:
        for end, value in zip(("low", "high"), a.interval, strict=True):
            metrics[f"mean_{end}"] = {"name": f"mean_{end}", "value": value, "params": {"level": 0.95}}
    return {
        "name": name,
        "scorer": name,
        "scored_samples": a.n,
        "unscored_samples": a.n_failed,
        "params": {"definition": a.definition},
        "metrics": metrics,
    }


def _sample(result: TraceResult, model: str) -> dict[str, Any]:
    trace, explanation = result.trace, verdicts_in_words(result)
    return {
        "id": result.trace_id,
        "epoch": 1,
        "input": trace.query,
        "target": trace.reference or "",
        "messages": [
            *({**turn.model_dump(), "source": "input"} for turn in trace.history),
            {"role": "user", "content": trace.query, "source": "input"},
        ],
        "output": {
            "model": model,
            "choices": [{"message": {"role": "assistant", "content": explanation}, "stop_reason": "stop"}],
        },
        "scores": {
            name: {"value": value, "explanation": explanation}
            for name, value in result.scores.items()
            if value is not None
        },
        "metadata": {
            "answer": trace.answer,
            "tags": list(trace.tags),
            "chunks": [chunk.model_dump(mode="json") for chunk in trace.chunks],
            "outcomes": [outcome.model_dump(mode="json") for outcome in result.outcomes],
            **({"claims": result.claims.model_dump(mode="json")} if result.claims else {}),
        },
        "store": {},
        "events": [],
        "attachments": {},
    }


def _time(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds")


def inspect_file(run: Run, path: Path) -> Path:
    """Return the file of a run's log for Inspect; a path without `.json` is a folder of logs, and is made."""
    if path.suffix.lower() == ".json" and not path.is_dir():
        return path
    path.mkdir(parents=True, exist_ok=True)
    return path / log_name(run)


EXPORTS = (Format("inspect", lambda run, path: stream([inspect_log(run)], inspect_file(run, path)), writes=True),)
