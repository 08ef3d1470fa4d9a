"""A run logged to MLflow, by the MLflow that the user has installed."""

import json
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from judge_eval.data.reading import error_text
from judge_eval.errors import ConfigError, JudgeEvalError, needs_extra
from judge_eval.export.tables import TableName, claim_rows, table_of
from judge_eval.export.text import as_json, as_markdown
from judge_eval.files import json_list
from judge_eval.runs.folder.run import Run
from judge_eval.safe_text import public_url
from judge_eval.views.run import described_by

NOTE = "mlflow.note.content"
TABLES = "mlflow.loggedArtifacts"
"""The tags in which MLflow keeps a run's description, and which of its artifacts are tables."""
STATUS = {"running": "KILLED", "submitted": "KILLED", "interrupted": "KILLED", "failed": "FAILED"}
MOST = 5000
"""Characters of a tag or parameter; MLflow refuses longer ones."""


def metric_key(name: str) -> str:
    """Return a metric's name as MLflow takes it: `AP_at_5`; `NDCG-gain-exp_at_10` for a variant."""
    head, at, cut = name.partition("@")
    return re.sub(r"[^\w.]+", "-", head, flags=re.ASCII).strip("-") + (f"_at_{cut}" if at else "")


def log_run(run: Run, *, tracking_uri: str | None = None, experiment: str | None = None) -> str:
    """Log means with intervals and counts as metrics, verdicts and traces as tables; return MLflow's run id.

    Where an MLflow run is active it is logged into that one; otherwise into a new one, which is ended. A
    metric without a value is no metric there; how many traces failed always is. None leaves `tracking_uri`
    and `experiment` to MLflow; neither may be named while a run is active.
    """
    try:
        import mlflow
    except ImportError:
        raise needs_extra("MLflow is not installed", "mlflow") from None
    before = mlflow.get_tracking_uri()
    try:
        active = mlflow.active_run()
        if active is not None:
            if tracking_uri is not None or experiment is not None:
                raise ConfigError("an MLflow run is active; end it, or leave tracking_uri and experiment out")
            _log(mlflow, run, active.info.run_id)
            return str(active.info.run_id)
        if tracking_uri is not None:
            mlflow.set_tracking_uri(tracking_uri)
        return _log_alone(mlflow, run, experiment)
    except JudgeEvalError:
        raise
    except Exception as error:  # MLflow's stores raise errors of their databases and of the network too
        uri = str(tracking_uri or before)
        raise ConfigError(f"MLflow at {public_url(uri)} refuses: {error_text(error, uri)[:500]}") from None
    finally:
        if tracking_uri is not None:
            mlflow.set_tracking_uri(before)


def _log_alone(mlflow: Any, run: Run, experiment: str | None) -> str:
    """Log into an MLflow run of its own; the user's active experiment stays what it was."""
    home = None
    if experiment is not None:
        known = mlflow.get_experiment_by_name(experiment)
        home = known.experiment_id if known is not None else mlflow.create_experiment(experiment)
    started = mlflow.start_run(experiment_id=home, run_name=run.name)
    status = "FAILED"
    try:
        _log(mlflow, run, started.info.run_id)
        status = STATUS.get(run.status, "FINISHED")
    finally:
        mlflow.end_run(status)
    return str(started.info.run_id)


def _log(mlflow: Any, run: Run, run_id: str) -> None:
    metrics, scored = metrics_of(run), list(run.manifest.aggregates)
    if len({metric_key(name) for name in scored}) < len(scored):
        raise ConfigError(f"MLflow cannot tell these metrics apart: {', '.join(scored)}; score fewer at once")
    mlflow.log_params(params_of(run))
    mlflow.log_metrics(metrics)
    mlflow.set_tags(tags_of(run))
    with tempfile.TemporaryDirectory(prefix="judge_eval-") as folder:
        home = Path(folder)
        tables: list[TableName] = ["verdicts", "traces"]
        if any(True for _ in claim_rows(run)):
            tables.append("claims")
        for table in tables:
            _table(home / f"{table}.json", *table_of(run, table))
        (home / "run.json").write_text(as_json(run), encoding="utf-8")
        mlflow.log_artifacts(folder, artifact_path="judge_eval")
    kept = json.loads(mlflow.get_run(run_id).data.tags.get(TABLES, "[]"))
    for table in tables:
        entry = {"path": f"judge_eval/{table}.json", "type": "table"}
        kept += [] if entry in kept else [entry]
    mlflow.set_tag(TABLES, json.dumps(kept))


def metrics_of(run: Run) -> dict[str, float]:
    """Return the run's numbers under MLflow's names, without those that have no value."""
    out: dict[str, float] = {}
    for name, a in run.manifest.aggregates.items():
        key = metric_key(name)
        pairs = [("mean", a.mean), ("n", a.n), ("n_failed", a.n_failed)]
        if a.interval is not None:
            pairs += [("ci95_low", a.interval[0]), ("ci95_high", a.interval[1])]
        if a.bounds is not None and a.n_failed:
            pairs += [("least", a.bounds[0]), ("most", a.bounds[1])]
        out |= {f"{key}/{what}": float(value) for what, value in pairs if value is not None}
    names = {"traces", "verdicts", "failed_verdicts", "failed_traces", "unsupported", "calls", "hits", "cost"}
    counts = run.manifest.tally.model_dump(include=names, exclude_none=True)
    return out | {f"judge_eval/{name}": float(value) for name, value in counts.items()}


def params_of(run: Run) -> dict[str, str]:
    """Return what was chosen before the run, flat, as MLflow compares it between runs."""
    m = run.manifest
    chosen = {
        "model": f"{m.backend.get('provider')}/{m.backend.get('model')}",
        **{f"judge.{key}": value for key, value in _flat(m.judge)},
        **{f"params.{key}": value for key, value in _flat(m.backend.get("params") or {})},
        "dataset.name": m.dataset.name,
        "dataset.digest": m.dataset.digest,
        "metrics": ", ".join(m.metrics),
        "version": m.environment.get("judge_eval"),
    }
    return {
        re.sub(r"[^\w. :/-]+", "-", f"judge_eval.{key}", flags=re.ASCII): str(value)[:MOST]
        for key, value in chosen.items()
        if value is not None
    }


def tags_of(run: Run) -> dict[str, str]:
    """Return what people call the run, and its summary as the description that MLflow shows."""
    m = run.manifest
    named = {
        "id": m.id,
        "label": m.label,
        "href": m.href,
        "tags": ", ".join(m.tags),
        "status": m.status,
        "judged": described_by(m),
    }
    tags = {f"judge_eval.{key}": str(value)[:MOST] for key, value in named.items() if value}
    return tags | {NOTE: as_markdown(run)[:MOST]}


def _flat(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, inner in value.items() if isinstance(value, Mapping) else ():
        if isinstance(inner, Mapping):
            yield from _flat(inner, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", json.dumps(inner) if isinstance(inner, list) else inner


def _table(path: Path, columns: Iterable[str], rows: Iterator[dict[str, Any]]) -> None:
    """Write a table as MLflow keeps them: column names beside rows, which `mlflow.load_table` reads."""
    names = list(columns)
    lines = (json.dumps([row[name] for name in names], ensure_ascii=False, allow_nan=False) for row in rows)
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json_list(f'{{"columns":{json.dumps(names)},"data":[', lines, "]}"))
