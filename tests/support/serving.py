"""A real server on loopback, and runs to serve."""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn

from judge_eval import EvalRun, Evaluator, FakeBackend
from judge_eval.server.app import create_app
from judge_eval.server.process import make_config
from judge_eval.server.server_settings import ServerSettings
from judge_eval.wire import Request

FIXTURES = Path(__file__).parents[2] / "fixtures"


@contextmanager
def serving(settings: ServerSettings, evaluator: Evaluator | None = None, *, tools: bool = False) -> Iterator[str]:
    """Serve in a thread, with `tools` for agents too; yields the address."""
    config = make_config(create_app(settings, evaluator, tools=tools))
    config.port = 0
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    until = time.monotonic() + 60
    while not server.started:
        assert thread.is_alive(), "the server did not start"
        assert time.monotonic() < until, "the server did not start in time"
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(20)


def ask(
    url: str,
    *,
    method: str = "GET",
    body: Any = None,
    raw: bytes | None = None,
    headers: Mapping[str, str] | None = None,
) -> tuple[int, Any, Mapping[str, str]]:
    """Make one request; returns status, JSON (or text) and headers, whatever the status."""
    data = raw if raw is not None else None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, method=method)
    if data is not None:
        request.add_header("Content-Type", "application/json")
    for name, value in (headers or {}).items():
        request.add_header(name, value)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=60) as answer:
            status, text, result = answer.status, answer.read(), dict(answer.headers)
    except urllib.error.HTTPError as error:
        with error:
            status, text, result = error.code, error.read(), dict(error.headers)
    try:
        return status, json.loads(text), result
    except ValueError:
        return status, text.decode("utf-8", "replace"), result


def rows() -> list[dict[str, Any]]:
    """Return the labelled questions of the fixtures as plain data."""
    lines = (FIXTURES / "docs_qa.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def judge(data: Any, out: Path | None = None, *, cache: Path | None = None, **settings: Any) -> EvalRun:
    """Judge data with the offline judge."""
    with Evaluator("fake/overlap", cache=cache or False) as evaluator:
        return evaluator.evaluate(data, out=out, **settings)


def scripted(data: Any, out: Path | None, answer: Any, **settings: Any) -> EvalRun:
    """Judge data with a function from a chunk's text to reply fields, or to a text as the reply."""

    def script(request: Request) -> str:
        result = answer(request.passages[0].text)
        fields = {"evidence": "", "reason": "", "instruction_in_chunk": False, "verdict": False}
        return result if isinstance(result, str) else json.dumps({**fields, **result})

    with Evaluator(FakeBackend(script), cache=False) as evaluator:
        return evaluator.evaluate(data, out=out, **settings)


def ids(url: str) -> list[str]:
    """List the ids, newest first."""
    return [run["id"] for run in ask(f"{url}/runs")[1]["runs"]]
