"""A Files and Batches API on loopback, with Chat Completions beside it: real HTTP, faults on demand.

A batch is worked on at once and ends after a number of questions about it. Every completion that is made,
by batch or online, is counted by its body, so that a test can tell what was paid twice.
"""

from __future__ import annotations

import json
import random
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from tests.support.chat_answers import completion, judge

Hook = Callable[[], None]


class BatchServer:
    """A server of files and batches; use it as a context manager.

    Args:
        polls: How many questions about a batch are answered `in_progress`.
        verdict: The content of the reply to a body, in place of `judge`.
        status: What becomes of a request, by its number in the file: `ok`, `expired`, `missing` or an
            HTTP status.
        final: The state in which batches end.
        decline: Why a body is declined as a whole, None where it is taken.
        double: Whether every line of a result occurs twice.
        registering: Seconds from the order of a batch to the batch, also where nobody waits for it.
        listing: Seconds from a batch to its place in the list.
    """

    route = "/v1/chat/completions"
    """The path that answers the requests of a batch, and single ones."""

    def __init__(
        self,
        *,
        polls: int = 0,
        verdict: Callable[[Mapping[str, Any]], Any] = judge,
        status: Callable[[int], str] = lambda _: "ok",
        final: str = "completed",
        decline: Callable[[Mapping[str, Any]], str | None] = lambda _: None,
        double: bool = False,
        registering: float = 0.0,
        listing: float = 0.0,
    ) -> None:
        self.polls, self.verdict, self.status, self.final = polls, verdict, status, final
        self.decline, self.double = decline, double
        self.registering, self.listing = registering, listing
        self.files: dict[str, bytes] = {}
        self.batches: dict[str, dict[str, Any]] = {}
        self.paid: Counter[str] = Counter()
        """Completions made, by the request's body."""
        self.online = 0
        """Completions made for single calls."""
        self.counts: Counter[str] = Counter()
        self.keys: set[str] = set()
        """What requests carried as their key."""
        """Calls by what they were: `upload`, `create`, `list`, `retrieve`, `cancel`, `content`, `chat`."""
        self.asked: dict[str, list[Hook]] = {}
        """Called once each when such a call has come; what it asks for is done all the same."""
        self.before: dict[str, list[Hook]] = {}
        """Called once each when such a call has come; nothing is done and nothing answered then."""
        self.after: dict[str, list[Hook]] = {}
        """Called once each when it was done, before it is answered."""
        self.lose: set[str] = set()
        """Calls whose answer is lost once: the connection is closed after the work."""
        self.busy: set[str] = set()
        """Calls that are answered once by HTTP 429, with nothing done."""
        self.refuse: int | None = None
        """The status with which single calls are refused."""
        self.failing: list[str] = []
        """Messages with which the next batches fail their validation."""
        self._since: dict[str, float] = {}
        self._lock = threading.RLock()

    @property
    def url(self) -> str:
        """The base URL to give to a client."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> Self:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                outer._serve(self)

            do_POST = do_GET  # noqa: N815

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = _QuietServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    def _serve(self, handler: BaseHTTPRequestHandler) -> None:
        raw = handler.rfile.read(int(handler.headers.get("content-length") or 0))
        path, _, query = handler.path.partition("?")
        kind, ident = self._route(handler.command, path)
        self._ring(self.asked, kind)
        self.keys.add(handler.headers.get("authorization", "").removeprefix("Bearer "))
        if kind == "create":
            time.sleep(self.registering)
        with self._lock:
            self.counts[kind] += 1
            more: Mapping[str, str] = {}
            if self._ring(self.before, kind):
                handler.close_connection = True
                return
            if kind in self.busy:
                self.busy.discard(kind)
                status, body = 429, {"error": {"message": "too many batches", "code": None, "param": None}}
            else:
                status, body = self._answer(kind, ident, query, handler.headers, raw)
            more = self.more_headers(kind)
            self._ring(self.after, kind)
            lost = kind in self.lose
            self.lose.discard(kind)
        if lost:
            handler.close_connection = True
            handler.connection.close()
            return
        payload = body if isinstance(body, bytes) else json.dumps(body).encode()
        try:
            handler.send_response(status)
            handler.send_header("content-type", "application/json")
            handler.send_header("content-length", str(len(payload)))
            for name, value in more.items():
                handler.send_header(name, value)
            handler.end_headers()
            handler.wfile.write(payload)
        except OSError:  # the client was killed
            handler.close_connection = True

    def more_headers(self, kind: str) -> Mapping[str, str]:
        """Return what the answer to such a call carries besides."""
        return {}

    @staticmethod
    def _ring(hooks: dict[str, list[Hook]], kind: str) -> bool:
        waiting = hooks.get(kind)
        if not waiting:
            return False
        waiting.pop(0)()
        return True

    def _route(self, method: str, path: str) -> tuple[str, str]:
        for pattern, kind in (
            (r"POST /v1/files", "upload"),
            (r"GET /v1/files/([\w-]+)/content", "content"),
            (r"POST /v1/batches", "create"),
            (r"POST /v1/batches/([\w-]+)/cancel", "cancel"),
            (r"GET /v1/batches/([\w-]+)", "retrieve"),
            (r"GET /v1/batches", "list"),
            (f"POST {self.route}", "chat"),
        ):
            match = re.fullmatch(pattern, f"{method} {path}")
            if match:
                return kind, match[1] if match.groups() else ""
        return "unknown", path

    def _answer(self, kind: str, ident: str, query: str, headers: Mapping[str, str], raw: bytes) -> tuple[int, Any]:
        if kind == "upload":
            ident = f"file-{len(self.files) + 1}"
            self.files[ident] = _multipart(headers["content-type"], raw)["file"]
            return 200, {
                "id": ident, "object": "file", "bytes": len(self.files[ident]), "created_at": 1,
                "filename": "part.jsonl", "purpose": "batch", "status": "processed",
            }  # fmt: skip
        if kind == "content":
            return (200, self.files[ident]) if ident in self.files else _no("No such File object")
        if kind == "create":
            return self._create(json.loads(raw))
        if kind == "retrieve":
            return (200, self._advance(self.batches[ident])) if ident in self.batches else _no("No such batch")
        if kind == "cancel":
            batch = self.batches[ident]
            if batch["status"] in ("validating", "in_progress"):
                batch["status"] = "cancelling"
            return 200, batch
        if kind == "list":
            return self._list(query)
        if kind == "chat":
            body = json.loads(raw)
            if self.refuse is not None:
                return self.refuse, {"error": {"message": "refused", "code": None, "param": None}}
            if (declined := self.decline(body)) is not None:
                return 400, {"error": {"message": declined, "code": None, "param": None}}
            self.online += 1
            return 200, self._complete(raw.decode(), body)
        return _no("no such URL")

    def _list(self, query: str) -> tuple[int, Any]:
        result = dict(pair.split("=", 1) for pair in query.split("&") if "=" in pair)
        now = time.monotonic()
        every = [item for item in reversed(self.batches.values()) if self._since[item["id"]] + self.listing <= now]
        if "after" in result:
            ids = [batch["id"] for batch in every]
            every = every[ids.index(result["after"]) + 1 :]
        page = every[:2]  # small, so that clients have to turn pages
        return 200, {
            "object": "list", "data": page, "has_more": len(every) > len(page),
            "first_id": page[0]["id"] if page else None, "last_id": page[-1]["id"] if page else None,
        }  # fmt: skip

    def _create(self, body: dict[str, Any]) -> tuple[int, Any]:
        if body["input_file_id"] not in self.files:
            return _no("No such File object")
        assert body["endpoint"] in ("", self.route)
        ident = f"batch-{len(self.batches) + 1}"
        lines = [json.loads(line) for line in self.files[body["input_file_id"]].splitlines()]
        batch = {
            "id": ident, "object": "batch", "endpoint": body["endpoint"], "errors": None,
            "input_file_id": body["input_file_id"], "completion_window": body["completion_window"],
            "status": "validating", "output_file_id": None, "error_file_id": None, "created_at": 1,
            "metadata": body.get("metadata"), "polls": 0,
            "request_counts": {"total": len(lines), "completed": 0, "failed": 0},
        }  # fmt: skip
        self.batches[ident] = batch
        self._since[ident] = time.monotonic()
        if self.failing:
            error = {"code": "token_limit_exceeded", "message": self.failing.pop(0), "line": None, "param": None}
            batch |= {"status": "failed", "errors": {"object": "list", "data": [error]}}
            return 200, batch
        ids = [line["custom_id"] for line in lines]
        assert len(set(ids)) == len(ids), "a custom_id occurs twice"
        self._work(batch, lines)
        return 200, {**batch, "output_file_id": None, "error_file_id": None}

    def _work(self, batch: dict[str, Any], lines: list[dict[str, Any]]) -> None:
        output: list[dict[str, Any]] = []
        errors: list[dict[str, Any]] = []
        for number, line in enumerate(lines):
            assert (line["method"], line["url"]) == ("POST", self.route)
            fate = self.status(number)
            declined = self.decline(line["body"])
            messages: dict[str, Any] = {"id": f"r{number}", "custom_id": line["custom_id"]}
            if fate == "missing":
                continue
            if fate == "expired":
                error = {"code": "batch_expired", "message": "This request could not be executed in time."}
                errors.append({**messages, "response": None, "error": error})
            elif fate != "ok" or declined is not None:
                status = 400 if declined is not None else int(fate)
                failed = {"error": {"message": declined or "it failed", "code": None, "param": None}}
                errors.append({**messages, "response": {"status_code": status, "body": failed}, "error": None})
            else:
                text = json.dumps(line["body"], ensure_ascii=False, separators=(",", ":"))
                reply = self._complete(text, line["body"])
                output.append(
                    {
                        **messages,
                        "response": {
                            "status_code": 200,
                            "request_id": f"req_{len(self.files)}_{number}",
                            "body": reply,
                        },
                        "error": None,
                    }
                )
        random.Random(len(lines)).shuffle(output)
        if self.double:
            output += output
        for name, result in (("output", output), ("error", errors)):
            if result:
                ident = f"file-{len(self.files) + 1}"
                self.files[ident] = "".join(json.dumps(line) + "\n" for line in result).encode()
                batch[f"{name}_file_id"] = ident
        batch["request_counts"] |= {"completed": len(output), "failed": len(errors)}

    def _advance(self, batch: dict[str, Any]) -> dict[str, Any]:
        if batch["status"] == "cancelling":
            batch["status"] = "cancelled"
        if batch["status"] in ("validating", "in_progress"):
            batch["polls"] += 1
            batch["status"] = self.final if batch["polls"] > self.polls else "in_progress"
        if batch["status"] == "in_progress":
            return {**batch, "output_file_id": None, "error_file_id": None}
        return batch

    def _complete(self, text: str, body: Mapping[str, Any]) -> dict[str, Any]:
        self.paid[text.replace(',"stream":false', "")] += 1  # a batch does not say it
        given = self.verdict(body)
        content = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
        return completion(body, content)


class _QuietServer(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """Say nothing of clients that were killed."""


def _no(message: str) -> tuple[int, Any]:
    return 404, {"error": {"message": message, "type": "invalid_request_error", "code": None, "param": "id"}}


def _multipart(content_type: str, raw: bytes) -> dict[str, bytes]:
    boundary = b"--" + re.search(r'boundary="?([^";]+)', content_type)[1].encode()  # type: ignore[index]
    fields = {}
    for piece in raw.split(boundary)[1:-1]:
        head, _, value = piece.partition(b"\r\n\r\n")
        name = re.search(rb'name="([^"]+)"', head)[1].decode()  # type: ignore[index]
        fields[name] = value.removesuffix(b"\r\n")
    return fields
