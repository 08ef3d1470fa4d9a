from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from judge_eval import Evaluator
from judge_eval.server.settings import Limits, Settings
from tests.support.serving import ask, judge, rows, serving


def test_the_document_describes_every_route(tmp_path: Path) -> None:
    """The OpenAPI document names the routes, their records and their errors."""
    with serving(Settings(tmp_path)) as url:
        code, told, _ = ask(f"{url}/api/v1/openapi.json")
    assert code == 200
    assert {"/api/v1/runs", "/api/v1/runs/{run_id}", "/api/v1/compare", "/api/v1/runs/upload"} <= set(
        told["paths"]
    )
    assert {"Trace", "Chunk", "Manifest", "TraceResult", "RunSummary"} <= set(told["components"]["schemas"])
    for methods in told["paths"].values():
        for operation in methods.values():
            assert operation["description"]
            assert {"401", "404", "422"} <= set(operation["responses"])


@pytest.mark.slow
def test_no_generated_request_makes_the_server_fail(tmp_path: Path) -> None:
    """Whatever schemathesis makes of the document, no answer is a 5xx."""
    pytest.importorskip("schemathesis")
    run = judge(rows()[:3], tmp_path)
    settings = Settings(tmp_path, limits=Limits(queued=1000))
    with serving(settings, Evaluator("fake/overlap", cache=False)) as url:
        document = ask(f"{url}/api/v1/openapi.json")[1]
        for methods in document["paths"].values():  # half of the calls are to hit a run that is there
            for operation in methods.values():
                for parameter in operation.get("parameters", ()):
                    if parameter["name"] in ("run_id", "baseline", "candidate"):
                        parameter["example"] = run.id
        path = tmp_path / "openapi.json"
        path.write_text(json.dumps(document))
        command = [
            str(Path(sys.executable).parent / "schemathesis"), "run", str(path), "--url", url,
            "--checks", "not_a_server_error", "--max-examples", "60", "--phases", "examples,coverage,fuzzing",
            "--generation-deterministic", "--no-color", "--workers", "1",
        ]  # fmt: skip
        told = subprocess.run(command, capture_output=True, text=True, timeout=110, check=False)
    assert told.returncode == 0, told.stdout[-6000:] + told.stderr[-2000:]
