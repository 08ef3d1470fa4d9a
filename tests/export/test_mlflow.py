"""Runs in MLflow, seen through the real MLflow on a store in SQLite."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from judge_eval import Chunk, EvalRun, Evaluator, Trace
from judge_eval.errors import ConfigError, DataError, RefusedError
from judge_eval.export.formats import write_as
from judge_eval.export.mlflow import metric_key, metrics_of, params_of
from judge_eval.export.mlflow_scorer import retrievals
from judge_eval.llm.fake.fake_backend import FakeBackend
from judge_eval.metrics import metric_names
from tests.support.command import ROOT

pytestmark = pytest.mark.foreign

MLFLOW_KEY = r"[/\w.\- :]+"
"""What MLflow's own check of names allows."""


def failing_run(out: Path | None = None) -> EvalRun:
    """Three traces, of which the last has a chunk that the judge refused."""
    traces = [
        Trace(
            id=f"q{n}",
            query=f"question {n}?",
            reference="r",
            chunks=[Chunk(id=f"a{n}", text="t"), Chunk(id=f"b{n}", text="ü")],
        )
        for n in (1, 2, 3)
    ]
    answers = {"a1": 1, "b2": 1, "a3": RefusedError("declined"), "b3": 1}
    with Evaluator(FakeBackend.table(answers, default=0), metrics=["AP@2", "RR"], cache=False) as evaluator:
        return evaluator.evaluate(traces, label="main", tags=["nightly"], href="https://host/1", out=out)


def bare_environment() -> dict[str, str]:
    """Return the variables without anybody's settings."""
    foreign = ("MLFLOW", "JUDGE_EVAL", "OPENAI")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(foreign)}
    return kept | {"PYTHONPATH": str(ROOT), "MLFLOW_DISABLE_TELEMETRY": "true"}


def real(script: str, folder: Path, *arguments: str) -> Any:
    """Run a script beside the real MLflow, with a store in SQLite, and return the JSON it prints last."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("MLFLOW", "JUDGE_EVAL", "OPENAI"))}
    environment |= {
        "MLFLOW_TRACKING_URI": f"sqlite:///{folder}/mlflow.db",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "PYTHONPATH": str(ROOT),
    }
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty store: MLflow makes its tables in a hundred steps, which takes long where the disk is slow."""
    folder = tmp_path_factory.mktemp("mlflow")
    assert real("import mlflow; print(len(mlflow.search_experiments()))", folder) == 1
    return folder / "mlflow.db"


@pytest.fixture
def store(tmp_path: Path, empty: Path) -> Path:
    """A store of the test's own, where `real` looks for it."""
    return Path(shutil.copy(empty, tmp_path))


def test_what_has_no_value_is_no_metric() -> None:
    """Means go over with intervals and counts; a failed trace is counted and never a number."""
    metrics = metrics_of(failing_run())
    assert metrics["AP_at_2/least"] < metrics["AP_at_2/mean"] < metrics["AP_at_2/most"]
    assert (metrics["AP_at_2/n"], metrics["AP_at_2/n_failed"]) == (2, 1)
    assert metrics["AP_at_2/ci95_low"] < metrics["AP_at_2/mean"] < metrics["AP_at_2/ci95_high"]
    assert metrics["judge_eval/failed_verdicts"] == 1
    assert not any(key.startswith("RR/mean") and value != value for key, value in metrics.items())
    nothing = FakeBackend.table({}, default=RefusedError("declined"))
    with Evaluator(nothing, metrics=["AP@2"], cache=False) as evaluator:
        metrics = metrics_of(evaluator.evaluate(Trace(query="q?", reference="r", chunks=["t"])))
    assert "AP_at_2/mean" not in metrics
    assert (metrics["AP_at_2/n"], metrics["AP_at_2/n_failed"]) == (0, 1)


def test_names_are_what_mlflow_takes() -> None:
    """Every metric has a name that MLflow allows, and no two have the same."""
    names = [*metric_names(), "AP@5", "AP@10", "AP(norm=min)@5", "P(rel=3)@5", "NDCG(gain=exp)@10", "P_5", "P@5"]
    keys = [metric_key(name) for name in names]
    assert all(re.fullmatch(MLFLOW_KEY, key, re.ASCII) for key in keys)
    assert len(set(keys)) == len(set(names))
    assert metric_key("NDCG(gain=exp)@10") == "NDCG-gain-exp_at_10"
    assert all(re.fullmatch(MLFLOW_KEY, key, re.ASCII) for key in params_of(failing_run()))


LOG = """
import json, sys
import mlflow
from judge_eval import EvalRun
from judge_eval.errors import ConfigError
run = EvalRun.load(sys.argv[1])
with mlflow.start_run() as active:
    mlflow.log_param("mine", 1)
    assert run.to_mlflow() == active.info.run_id
    try:
        run.to_mlflow(experiment="retrieval")
    except ConfigError as error:
        assert "an MLflow run is active" in str(error)
    else:
        raise AssertionError
alone = run.to_mlflow(experiment="retrieval")
before = mlflow.get_tracking_uri()
run.to_mlflow(tracking_uri=sys.argv[2], experiment="elsewhere")
assert mlflow.get_tracking_uri() == before
assert mlflow.get_experiment_by_name("elsewhere") is None
with mlflow.start_run() as after:
    assert after.info.experiment_id == active.info.experiment_id
mlflow.set_experiment("retrieval")
found = mlflow.get_run(alone)
tables = {
    name: json.loads(mlflow.load_table(f"judge_eval/{name}.json", run_ids=[alone]).to_json(orient="records"))
    for name in ("verdicts", "traces")
}
print(json.dumps({
    "metrics": found.data.metrics, "params": found.data.params, "tags": found.data.tags,
    "name": found.info.run_name, "status": found.info.status, "tables": tables,
    "experiment": mlflow.get_experiment(found.info.experiment_id).name,
    "inside": sorted(set(mlflow.get_run(active.info.run_id).data.params) - set(found.data.params)),
    "inside_metrics": mlflow.get_run(active.info.run_id).data.metrics == found.data.metrics,
}))
"""


@pytest.mark.timeout(300)
def test_a_run_is_logged_as_mlflow_reads_it(tmp_path: Path, store: Path) -> None:
    """The real MLflow gives back metrics, params, tables, gaps as gaps; its settings stay as they were."""
    run = failing_run(tmp_path / "runs")
    other = shutil.copy(store, tmp_path / "other.db")
    result = real(LOG, tmp_path, str(run.folder), f"sqlite:///{other}")
    assert result["metrics"] == metrics_of(run)
    assert result["params"] == params_of(run)
    assert (result["name"], result["status"], result["experiment"]) == ("main", "FINISHED", "retrieval")
    assert result["tags"]["judge_eval.id"] == run.id
    assert result["tags"]["judge_eval.href"] == "https://host/1"
    aggregate = run.aggregate("AP@2")
    assert f"| AP@2 | {aggregate.shown} |" in result["tags"]["mlflow.note.content"]
    verdicts = result["tables"]["verdicts"]
    assert [row["grade"] for row in verdicts] == [1, 0, 0, 1, None, 1]
    assert verdicts[4]["relevant"] is None
    assert verdicts[4]["why"] == "refused"
    assert verdicts[1]["text"] == "ü"
    assert [row["AP@2"] for row in result["tables"]["traces"]] == [1.0, 0.5, None]
    assert result["inside"] == ["mine"]
    assert result["inside_metrics"]


EVALUATE = """
import json
import mlflow
from judge_eval import Evaluator, FakeBackend, mlflow_scorer
from judge_eval.errors import RefusedError

TEXTS = {"open?": ["We open at nine.", "Parking is free."], "park?": ["Parking is free.", "It is broken."]}

@mlflow.trace(span_type="RETRIEVER")
def retrieve(question):
    return [mlflow.entities.Document(page_content=text, id=text[:3]) for text in TEXTS[question]]

def answer(question):
    return " ".join(document.page_content for document in retrieve(question))

judge = FakeBackend.table({"We ": 1, "Par": 0, "It ": RefusedError("declined"), "c1": 1}, default=0)
evaluator = Evaluator(judge, metrics=["AP@2", "RR"], cache=False)
scorers = [mlflow_scorer(evaluator)]
rows = [{"inputs": {"question": q}, "expectations": {"expected_response": "r"}} for q in TEXTS]
traced = mlflow.genai.evaluate(data=rows, predict_fn=answer, scorers=scorers)
plain = mlflow.genai.evaluate(
    data=[{**row, "outputs": {"documents": ["t", "u"]}} for row in rows]
    + [{**rows[0], "outputs": "an answer without documents"}],
    scorers=scorers,
)
def feedbacks(result):
    out = []
    for given in result.result_df["assessments"]:
        out.append({
            one["assessment_name"]: (
                *(one["feedback"].get(key) for key in ("value", "error")),
                *(one.get(key) for key in ("rationale", "span_id", "source")),
            )
            for one in given if "feedback" in one
        })
    return out
print()
print(json.dumps([traced.metrics, feedbacks(traced), plain.metrics, feedbacks(plain)], default=float))
"""


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("store")
def test_the_scorer_judges_inside_mlflow(tmp_path: Path) -> None:
    """`mlflow.genai.evaluate` gets a feedback a metric, and an error where a verdict failed."""
    metrics, rows, plain_metrics, plain = real(EVALUATE, tmp_path)
    assert metrics["AP_at_2/mean"] == 1.0
    assert metrics["failed_verdicts/mean"] == 0.5
    by_failed = sorted(rows, key=lambda row: row["failed_verdicts"][0])
    good, bad = by_failed
    assert [row["failed_verdicts"][0] for row in by_failed] == [0, 1]
    value, error, rationale, span, source = good["AP_at_2"]
    assert (value, error) == (1.0, None)
    assert "1. We : relevant" in rationale or "1. Par: relevant" in rationale
    assert re.fullmatch(r"[0-9a-f]{16}", span), "the id by which MLflow knows the span"
    assert source["source_type"] == "LLM_JUDGE"
    value, error, rationale, _, _ = bad["AP_at_2"]
    assert value is None
    assert error["error_message"] == "1 of 2 verdicts failed (refused 1)"
    assert "no verdict (refused) declined" in rationale
    assert plain_metrics["AP_at_2/mean"] == 1.0
    (lost,) = [row for row in plain if "AP_at_2" not in row]
    (value, error, *_rest) = lost["judge_eval"]
    assert value is None
    assert "documents are not recorded" in error["error_message"]


def test_rows_without_documents_are_refused() -> None:
    """A row that says nothing of what was retrieved is an error, never an empty retrieval."""
    with pytest.raises(DataError, match="documents are not recorded here"):
        list(retrievals({"question": "q?"}, "an answer", {}, None))
    with pytest.raises(DataError):
        list(retrievals({}, ["t"], {}, None))
    (trace,) = retrievals({"question": "q?"}, [{"page_content": "t", "id": "d"}], {"reference": "r"}, None)
    assert (trace.query, trace.chunks[0].id, trace.reference) == ("q?", "d", "r")


def test_mlflow_is_no_file(tmp_path: Path) -> None:
    """As a file the format is refused, with the way that works."""
    with pytest.raises(ConfigError, match="is not a file"):
        write_as(failing_run(), tmp_path / "x", "mlflow")


def command(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the command line."""
    return subprocess.run(
        [sys.executable, "-m", "judge_eval", "export", *arguments],
        cwd=folder,
        env=bare_environment() | variables,
        capture_output=True,
        text=True,
        timeout=200,
    )


@pytest.mark.timeout(300)
def test_the_command_line_logs_a_run(tmp_path: Path, store: Path) -> None:
    """`export --format mlflow` logs to the tracking URI, into the experiment that was named."""
    failing_run(tmp_path / "runs")
    uri = f"sqlite:///{shutil.copy(store, tmp_path / 'there.db')}"
    done = command(tmp_path, "latest", "--format", "mlflow", "--tracking-uri", uri, "--experiment", "e")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("main as MLflow run ")
    run_id = done.stdout.split()[-1]
    script = f"import mlflow; print(mlflow.MlflowClient({uri!r}).get_run({run_id!r}).data.metrics['AP_at_2/mean'])"
    assert 0.5 < real(script, tmp_path) < 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["latest", "--format", "mlflow", "-o", "x"], "does not write a file; leave out --output"),
        (["latest", "-o", "x.csv", "--experiment", "e"], "need --format mlflow"),
        (["latest"], "no output file is named; add --output FILE"),
    ],
)
def test_flags_that_do_not_fit_together_are_advised(arguments: list[str], told: str, tmp_path: Path) -> None:
    """A file for MLflow, a tracking URI for a file, or no place at all is a usage error."""
    done = command(tmp_path, *arguments)
    assert done.returncode == 2
    assert told in done.stderr


def test_a_server_that_is_not_there_is_told_without_secrets(tmp_path: Path) -> None:
    """Where MLflow cannot be reached the error names the address without its password, and no traceback."""
    failing_run(tmp_path / "runs")
    secret = "http://me:secret@127.0.0.1:9/"
    once = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0"}
    done = command(tmp_path, "latest", "--format", "mlflow", "--tracking-uri", secret, **once)
    assert done.returncode == 2
    assert "MLflow at http://127.0.0.1:9/ refuses" in done.stderr
    assert "secret" not in done.stderr
    assert "Traceback" not in done.stderr


def test_without_mlflow_the_extra_is_named(tmp_path: Path) -> None:
    """Where MLflow is not installed both ways say what to install."""
    script = """
import json, sys
sys.modules["mlflow"] = None
from judge_eval import EvalRun, mlflow_scorer
from judge_eval.errors import ConfigError
told = []
for call in (lambda: EvalRun.load(sys.argv[1]).to_mlflow(), lambda: mlflow_scorer(None)):
    try:
        call()
    except ConfigError as error:
        told.append(str(error))
print(json.dumps(told))
"""
    result = real(script, tmp_path, str(failing_run(tmp_path / "runs").folder))
    assert [("pip install 'context-judge[mlflow" in text) for text in result] == [True, True]
