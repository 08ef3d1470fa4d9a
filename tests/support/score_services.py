"""A loopback server that takes scores as Langfuse and LangSmith do."""

from __future__ import annotations

import json
import threading
from base64 import b64encode
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar, Self

import jsonschema

from judge_eval import Chunk, Evaluator, FakeBackend, Trace
from judge_eval.errors import CallError
from judge_eval.eval_run import EvalRun

HEXES = "0af7651916cd43dd8448eb211c803100"

Answer = tuple[int, dict[str, str], Any]
"""Status, headers and the JSON of a body."""

TEXT, UUID, TIME = {"type": "string"}, {"type": "string", "format": "uuid"}, {"type": "string", "format": "date-time"}
LANGFUSE: dict[str, Any] = {
    "type": "object",
    "required": ["name", "value"],
    "additionalProperties": False,
    "properties": {
        **dict.fromkeys(("id", "traceId", "sessionId", "observationId", "datasetRunId", "comment"), TEXT),
        **dict.fromkeys(("queueId", "configId", "source"), TEXT),
        "name": {"type": "string", "minLength": 1},
        "value": {"type": ["number", "string"]},
        "metadata": {"type": "object"},
        "environment": {"type": "string", "pattern": "^(?!langfuse)[a-z0-9-_]+$"},
        "dataType": {"enum": ["NUMERIC", "BOOLEAN", "CATEGORICAL", "CORRECTION", "TEXT"]},
        "timestamp": TIME,
    },
}
"""`CreateScoreRequest` of Langfuse's OpenAPI; an observation needs its trace."""
LANGSMITH: dict[str, Any] = {
    "type": "object",
    "required": ["key"],
    "additionalProperties": False,
    "properties": {
        **dict.fromkeys(("id", "run_id", "trace_id", "session_id", "comparative_experiment_id"), UUID),
        **dict.fromkeys(("created_at", "modified_at", "start_time"), TIME),
        "key": {"type": "string", "maxLength": 180},
        "score": {"type": ["number", "boolean", "null"]},
        "comment": {"type": ["string", "null"]},
        "feedback_source": {
            "type": "object",
            "required": ["type"],
            "properties": {"type": {"enum": ["app", "api", "model", "auto_eval"]}, "metadata": {"type": "object"}},
        },
        "extend_trace_retention": {"type": "boolean"},
    },
}
"""`FeedbackCreateSchema` of LangSmith's OpenAPI."""


class ScoreService:
    """Takes scores and keeps the last of each id; what it refuses is scripted."""

    schema: ClassVar[dict[str, Any]]
    path: ClassVar[str]

    def __init__(self, *, lists: bool = True) -> None:
        self.lists = lists
        """Whether several scores may come as a list."""
        self.kept: dict[str, dict[str, Any]] = {}
        self.requests: list[Any] = []
        """The JSON of each request with the right key, whatever became of it."""
        self.keys: list[str | None] = []
        self.script: list[Answer] = []
        """What the next requests are answered."""
        self.refuses: Callable[[dict[str, Any]], str | None] = lambda _: None
        self.hook: Callable[[], None] = lambda: None
        """Called before each answer."""
        self.cuts: list[int] = []
        """After how many bytes the connections of the next answers are cut; what they answer is done."""
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        service = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                service.hook()
                with service._lock:
                    status, headers, content = service.answer(self.path, dict(self.headers.items()), body)
                    cut = service.cuts.pop(0) if service.cuts else None
                data = json.dumps(content).encode()
                if cut is not None:
                    self.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n"[:cut])
                    self.close_connection = True
                    return
                with suppress(OSError):
                    self.send_response(status)
                    for name, value in {**headers, "content-length": str(len(data))}.items():
                        self.send_header(name, value)
                    self.end_headers()
                    self.wfile.write(data)

            def do_GET(self) -> None:  # what LangSmith's client asks first
                data = json.dumps(
                    {"version": "0.1.0", "batch_ingest_config": {"use_multipart_endpoint": False}}
                ).encode()
                self.send_response(200)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def key_of(self, headers: dict[str, str]) -> str | None:
        """Return the key that a request carries."""
        raise NotImplementedError

    key: ClassVar[str]

    def answer(self, path: str, headers: dict[str, str], body: bytes) -> Answer:
        """Answer a request."""
        self.keys.append(self.key_of({name.lower(): value for name, value in headers.items()}))
        if path != self.path:
            return 404, {}, {"message": f"no route {path}"}
        if self.keys[-1] != self.key:
            return 401, {}, {"message": "Invalid credentials"}
        content = json.loads(body)
        self.requests.append(content)
        if self.script:
            return self.script.pop(0)
        if isinstance(content, list):
            return self._many(content) if self.lists else (400, {}, {"message": "Invalid request data"})
        fault = self._fault(content)
        if fault is not None:
            return 400, {}, {"message": fault}
        self.kept[content["id"]] = content
        return 200, {}, {"id": content["id"]}

    def _many(self, records: list[dict[str, Any]]) -> Answer:
        faults = [fault for record in records if (fault := self._fault(record)) is not None]
        self.kept |= {record["id"]: record for record in records if self._fault(record) is None}
        if faults:
            errors = [{"message": fault} for fault in faults]
            return 207, {}, {"accepted": len(records) - len(faults), "rejected": len(faults), "errors": errors}
        return 202, {}, {"message": "Accepted"}

    @cached_property
    def _validator(self) -> jsonschema.Draft202012Validator:
        return jsonschema.Draft202012Validator(self.schema, format_checker=jsonschema.FormatChecker())

    def _fault(self, record: dict[str, Any]) -> str | None:
        error = next(self._validator.iter_errors(record), None)
        return self.refuses(record) if error is None else f"{error.json_path}: {error.message}"


class Langfuse(ScoreService):
    """`POST /api/public/scores`."""

    schema, path = LANGFUSE, "/api/public/scores"
    key = "Basic " + b64encode(b"pk-lf-0123456789:sk-lf-abcdef012345").decode()

    def key_of(self, headers: dict[str, str]) -> str | None:
        return headers.get("authorization")

    @property
    def environment(self) -> dict[str, str]:
        """What the user sets."""
        return {
            "LANGFUSE_BASE_URL": self.url,
            "LANGFUSE_PUBLIC_KEY": "pk-lf-0123456789",
            "LANGFUSE_SECRET_KEY": "sk-lf-abcdef012345",
        }


class LangSmith(ScoreService):
    """`POST /feedback`."""

    schema, path = LANGSMITH, "/feedback"
    key = "lsv2_pt_0123456789abcdef"

    def __init__(self) -> None:
        super().__init__(lists=False)

    def key_of(self, headers: dict[str, str]) -> str | None:
        return headers.get("x-api-key")

    @property
    def environment(self) -> dict[str, str]:
        """What the user sets."""
        return {"LANGSMITH_ENDPOINT": self.url, "LANGSMITH_API_KEY": self.key}


def traced_run(folder: Path, count: int = 8, failed: tuple[int, ...] = (), **environment: Any) -> EvalRun:
    """Judge traces that were exported from a tracing tool, and keep the run."""
    traces = [
        Trace(
            id=f"q{n}",
            query=f"Question {n}?",
            reference="Yes.",
            chunks=[Chunk(id="a", text=f"Text {n}."), Chunk(id="b", text="Other.")],
            metadata={
                "run_id": f"01a1fd47-69a4-774a-a9d2-{n:012d}",
                "trace_id": f"{HEXES[:-4]}{n:04d}",
                "project_id": "01a1fd47-0000-755c-8fe5-6d5f0e351f27",
                "start_time": "2026-11-21T08:44:38.180284Z",
                "observation_id": f"{n:016x}",
                "environment": "production",
                **environment,
            },
        )
        for n in range(count)
    ]
    answers: dict[tuple[str, str], Any] = {(f"q{n}", "b"): 1 for n in range(count)}
    answers |= {(f"q{n}", "a"): CallError("away") for n in failed}
    backend = FakeBackend.table(answers, default=0)
    with Evaluator(backend, metrics=["AP@2", "RR@2"], cache=False) as evaluator:
        return evaluator.evaluate(traces, out=folder / "runs", label="main")
