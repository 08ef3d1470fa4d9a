"""Batches of OpenAI's Responses: their path in each line and in the order, and the verdicts of online calls."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.batch_server import BatchServer
from tests.support.batching import call, moody, new_cache, newest, same_results
from tests.support.native_batches import ResponsesBatchServer

ALONE = "This model is only supported in v1/responses and not in v1/chat/completions."
MODELS = {"openai-responses/m": (), "openai/m": ("--unsupported", "chat_completions")}


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-1234567890")


def export(server: BatchServer, model: str, data: Path, folder: Path, *more: object) -> None:
    """Export the data for the server."""
    cache = new_cache(folder.parent / f"{folder.name}-cache")
    call("batch", "export", data, "--out", folder, "--model", model, "--base-url", server.url, "--cache", cache, *more)


@pytest.mark.parametrize("model", ["openai-responses/m", pytest.param("openai/m", marks=pytest.mark.slow)])
def test_a_batch_equals_the_online_run(tmp_path: Path, data: Path, model: str) -> None:
    """Every line and the order name the path of Responses; the run is that of calls, and nothing is paid twice."""
    folder, out, more = tmp_path / "batch", tmp_path / "runs", MODELS[model]
    with ResponsesBatchServer(verdict=moody, polls=1) as server:
        export(server, model, data, folder, *more)
        lines = (folder / "round-1").glob("*.jsonl")
        assert {json.loads(line)["url"] for each in lines for line in each.read_text().splitlines()} == {
            "/v1/responses"
        }
        for code in (3, 0):
            call("batch", "submit", folder)
            call("batch", "fetch", folder, "--wait", "--interval", 0.01)
            call("batch", "import", folder, "--finish", "batch", "--out", out, "--metrics", "AP@5", code=code)
        assert server.online == 0
        assert set(server.paid.values()) == {1}
        assert {batch["endpoint"] for batch in server.batches.values()} == {"/v1/responses"}
    with ResponsesBatchServer(verdict=moody) as server:
        call(
            "run", data, "--model", model, "--base-url", server.url, "--out", tmp_path / "online", "-q",
            "--cache", new_cache(tmp_path / "cache"), "--metrics", "AP@5", *more,
        )  # fmt: skip
        same_results(newest(out), newest(tmp_path / "online"))


def test_a_batch_of_a_model_that_is_answered_by_responses_alone(tmp_path: Path, data: Path) -> None:
    """The next export says in the server's words what to leave out, which makes a batch of Responses."""
    folder = tmp_path / "batch"
    with BatchServer(decline=lambda _: ALONE) as server:
        export(server, "openai/m", data, folder)
        call("batch", "submit", folder)
        call("batch", "fetch", folder)
        output = call("batch", "import", folder, "--finish", "batch", "--out", tmp_path / "runs", code=2).output
        said = " ".join(output.split())
        assert "only supported in v1/responses" in said
        assert "unsupported: chat_completions" in said
