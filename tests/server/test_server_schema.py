from __future__ import annotations

import copy
import json
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from judge_eval import Evaluator
from judge_eval.server.server_settings import ServerLimits, ServerSettings
from tests.support.serving import ask, judge, rows, serving


def test_the_document_describes_every_route(tmp_path: Path) -> None:
    """The OpenAPI document names the routes, their records and their errors."""
    with serving(ServerSettings(tmp_path)) as url:
        code, result, _ = ask(f"{url}/api/v1/openapi.json")
    assert code == 200
    assert {"/api/v1/runs", "/api/v1/runs/{run_id}", "/api/v1/compare", "/api/v1/runs/upload"} <= set(result["paths"])
    assert {"Trace", "Chunk", "Manifest", "TraceResult", "RunSummary"} <= set(result["components"]["schemas"])
    for methods in result["paths"].values():
        for operation in methods.values():
            assert operation["description"]
            assert {"401", "404", "422"} <= set(operation["responses"])


@pytest.mark.slow
def test_no_generated_request_makes_the_server_fail(tmp_path: Path) -> None:
    """Whatever schemathesis makes of the document, no answer is a 5xx."""
    pytest.importorskip("schemathesis")
    run = judge(rows()[:3], tmp_path)
    settings = ServerSettings(tmp_path, limits=ServerLimits(queued=1000))
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
            "--checks", "not_a_server_error", "--generation-deterministic", "--no-color", "--workers", "1",
        ]  # fmt: skip
        # The generator cannot make the pairs of an upload; the test below takes one apart instead.
        fuzzing = ["--phases", "fuzzing", "--max-examples", "8", "--exclude-path", "/api/v1/runs/upload"]
        for phase in (["--phases", "examples,coverage"], fuzzing):
            output = subprocess.run(
                [*command, *phase], cwd=tmp_path, capture_output=True, text=True, timeout=110, check=False
            )
            assert output.returncode == 0, output.stdout[-6000:] + output.stderr[-2000:]


def places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the path of everything inside a JSON value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield (*path, key)
        yield from places(each, (*path, key))


@pytest.mark.slow
def test_an_upload_taken_apart_is_never_a_server_error(tmp_path: Path) -> None:
    """Whatever part of an uploaded run is replaced by junk of some kind, the answer is a run or a 4xx; pages work."""
    run = judge([{**row, "chunks": row["chunks"][:2]} for row in rows()[:1]])
    results = [result.model_dump(mode="json") for result in run.results]
    whole = {"manifest": run.manifest.model_dump(mode="json"), "results": results}
    taken = 0
    with serving(ServerSettings(tmp_path)) as url:
        for number, path in enumerate(places(whole)):
            for junk in (None, -1, 10**30, "\x00", "\ud800", [], {}, [[]], {"a": 1})[number % 3 :: 3]:
                body = copy.deepcopy(whole)
                body["manifest"]["id"] = str(uuid.uuid4())
                inside: Any = body
                for key in path[:-1]:
                    inside = inside[key]
                inside[path[-1]] = junk
                code, outcome, _ = ask(f"{url}/api/v1/runs/upload", method="POST", body=body)
                assert code < 500, (path, junk, outcome)
                if code == 201:
                    taken += 1
                    for part in ("page", "rows?filter=x", "trace?trace_id=docs-001", "results", "summary"):
                        code, shown, _ = ask(f"{url}/api/v1/runs/{outcome['id']}/{part}")
                        assert code < 500, (path, junk, part, shown)
                    assert ask(f"{url}/api/v1/runs/{outcome['id']}", method="DELETE")[0] == 204
    assert taken > 10
