"""Batches of other wires on loopback: their own paths, bodies and results around one server of batches."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from tests.support.batch_server import BatchServer
from tests.support.canned import Canned
from tests.support.own_wires import ContentServer, MessagesServer, NativeServer, ResponsesServer

_STAMP = "%Y-%m-%dT%H:%M:%S.%fZ"


class Native(BatchServer):
    """Translates what comes and goes; files, counts, faults and hooks are those of `BatchServer`."""

    words: NativeServer
    header: str

    def _in_chat(self, lines: list[tuple[str, dict[str, Any]]], model: str) -> bytes:
        """Write requests as the lines of a chat batch."""
        written = []
        for key, body in lines:
            self.bodies[key] = body
            chat = self.words.asked(body, {"anthropic-version": "2026-10-21", ":path": f"/models/{model}:x"})
            line = {"custom_id": key, "method": "POST", "url": "/v1/chat/completions", "body": chat}
            written.append(json.dumps(line).encode() + b"\n")
        return b"".join(written)

    def _results(self, batch: Mapping[str, Any]) -> list[tuple[str, dict[str, Any] | None, int, dict[str, Any] | None]]:
        """Read what a chat batch brought: key, reply, status, error."""
        results = []
        for name in ("output_file_id", "error_file_id"):
            for text in self.files.get(batch[name] or "", b"").splitlines():
                line = json.loads(text)
                key, response = line["custom_id"], line["response"]
                if response is None:
                    results.append((key, None, 0, None))
                elif response["status_code"] == 200:
                    results.append((key, self.words.made(response["body"], self.bodies[key]), 200, None))
                else:
                    canned = Canned(response["status_code"], {}, response["body"], 0.0)
                    results.append((key, None, canned.status, self.words.failed(canned)))
        return results

    def _chat(self, raw: bytes, headers: Mapping[str, str], path: str) -> tuple[int, Any]:
        body = json.loads(raw)
        version = {"anthropic-version": headers.get("anthropic-version", ""), ":path": path}
        chat = self.words.asked(body, version)
        status, answer = super()._answer("chat", "", "", headers, json.dumps(chat).encode())
        if status != 200:
            return status, self.words.failed(Canned(status, {}, answer, 0.0))
        return status, self.words.made(answer, body)

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.bodies: dict[str, dict[str, Any]] = {}
        self.times: dict[str, str] = {}
        self.sent: Callable[[bytes], bytes] = bytes
        """What is sent of a file of results."""

    def _serve(self, handler: Any) -> None:
        assert "authorization" not in {name.lower() for name in handler.headers}
        assert handler.headers[self.header]
        super()._serve(handler)


class MessageBatchServer(Native):
    """Message Batches: no files, no metadata, results by a path of their own."""

    words = MessagesServer()
    header = "x-api-key"

    def _route(self, method: str, path: str) -> tuple[str, str]:
        for pattern, kind in (
            (r"POST /v1/messages/batches", "create"),
            (r"POST /v1/messages/batches/([\w-]+)/cancel", "cancel"),
            (r"GET /v1/messages/batches/([\w-]+)/results", "content"),
            (r"GET /v1/messages/batches/([\w-]+)", "retrieve"),
            (r"GET /v1/messages/batches", "list"),
            (r"POST /v1/messages", "chat"),
        ):
            if match := re.fullmatch(pattern, f"{method} {path}"):
                return kind, match[1] if match.groups() else ""
        return "unknown", path

    def _answer(self, kind: str, ident: str, query: str, headers: Mapping[str, str], raw: bytes) -> tuple[int, Any]:
        assert headers["anthropic-version"] == "2026-10-21"
        if kind == "chat":
            return self._chat(raw, headers, "")
        if kind == "content":
            return 200, self.sent(
                b"".join(json.dumps(line).encode() + b"\n" for line in self._lines(self.batches[ident]))
            )
        if kind == "create":
            lines = [(item["custom_id"], item["params"]) for item in json.loads(raw)["requests"]]
            assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", key) for key, _ in lines)
            name = f"file-{len(self.files) + 1}"
            self.files[name] = self._in_chat(lines, "m")
            order = {"input_file_id": name, "endpoint": "", "completion_window": ""}
            raw = json.dumps(order).encode()
        status, body = super()._answer(kind, ident, query.replace("after_id=", "after="), headers, raw)
        if status != 200:
            return status, {"type": "error", "error": {"type": "not_found_error", "message": "no such batch"}}
        if kind == "list":
            return status, {**body, "data": [self._shown(each) for each in body["data"]]}
        return status, self._shown(body)

    def _shown(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        ident, state = batch["id"], batch["status"]
        made = self.times.setdefault(ident, datetime.now(UTC).strftime(_STAMP))
        ended = state in ("completed", "expired", "cancelled")
        total = batch["request_counts"]["total"]
        counts = dict.fromkeys(("processing", "succeeded", "errored", "canceled", "expired"), 0)
        if ended:
            for line in self._lines(batch):
                counts[line["result"]["type"]] += 1
        counts["processing"] = total - sum(counts.values())
        return {
            "id": ident, "type": "message_batch", "created_at": made, "expires_at": made, "archived_at": None,
            "processing_status": "ended" if ended else "canceling" if state == "cancelling" else "in_progress",
            "request_counts": counts, "ended_at": made if ended else None, "cancel_initiated_at": None,
            "results_url": f"https://elsewhere.example/{ident}" if ended else None,
        }  # fmt: skip

    def _lines(self, batch: Mapping[str, Any]) -> list[dict[str, Any]]:
        lines: list[dict[str, Any]] = []
        for key, made, status, error in self._results(batch):
            result: dict[str, Any] = {"type": "succeeded", "message": made}
            if made is None:
                result = {"type": "errored", "error": error} if status else {"type": "expired"}
            lines.append({"custom_id": key, "result": result})
        return lines


class GeminiBatchServer(Native):
    """Gemini's batch mode: resumable uploads, operations, files of results."""

    words = ContentServer()
    header = "x-goog-api-key"

    def _route(self, method: str, path: str) -> tuple[str, str]:
        for pattern, kind in (
            (r"POST /upload/v1/files", "begin"),
            (r"POST /upload/v1/files/([\w-]+)", "upload"),
            (r"GET /download/v1/files/([\w-]+):download", "content"),
            (r"POST /v1/models/([\w-]+):batchGenerateContent", "create"),
            (r"POST /v1/batches/([\w-]+):cancel", "cancel"),
            (r"GET /v1/batches/([\w-]+)", "retrieve"),
            (r"GET /v1/batches", "list"),
            (r"POST (/v1/models/[\w-]+:generateContent)", "chat"),
        ):
            if match := re.fullmatch(pattern, f"{method} {path}"):
                return kind, match[1] if match.groups() else ""
        return "unknown", path

    def more_headers(self, kind: str) -> Mapping[str, str]:
        """Say where a file goes, at a host that is not this one: it must come here all the same."""
        place = f"https://elsewhere.example/upload/v1/files/f{len(self.files) + 1}?upload_id=1"
        return {"x-goog-upload-url": place} if kind == "begin" else {}

    def _answer(self, kind: str, ident: str, query: str, headers: Mapping[str, str], raw: bytes) -> tuple[int, Any]:
        if kind == "chat":
            return self._chat(raw, headers, ident)
        if kind == "begin":
            return 200, {}
        if kind == "upload":
            assert query == "upload_id=1"
            assert headers["x-goog-upload-command"] == "upload, finalize"
            self.files[ident] = raw
            return 200, {"file": {"name": f"files/{ident}", "uri": "https://elsewhere.example"}}
        if kind == "content":
            assert query == "alt=media"
            lines = []
            for key, made, status, error in self._results(self.batches[ident.removeprefix("out-")]):
                failed = error["error"] if error else {"code": 1, "message": "The batch expired."}
                if status == 400:
                    failed = {**failed, "code": 3}
                lines.append({"key": key, "response": made} if made else {"key": key, "error": failed})
            return 200, self.sent(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
        mark = None
        if kind == "create":
            order = json.loads(raw)["batch"]
            name = order["inputConfig"]["fileName"].removeprefix("files/")
            if name not in self.files:
                return 404, {"error": {"code": 404, "message": "no such file", "status": "NOT_FOUND"}}
            mark = order["displayName"]
            lines = [(item["key"], item["request"]) for item in map(json.loads, self.files[name].splitlines())]
            self.files["chat-" + name] = self._in_chat(lines, ident)
            raw = json.dumps(
                {"input_file_id": "chat-" + name, "endpoint": "", "completion_window": "", "metadata": {"name": mark}}
            ).encode()
        page = query.partition("pageToken=")[2].partition("&")[0]
        status, body = super()._answer(kind, ident, f"after={page}" if page else "", headers, raw)
        if status != 200:
            return status, {"error": {"code": status, "message": "no such batch", "status": "NOT_FOUND"}}
        if kind == "cancel":
            return 200, {}
        if kind == "list":
            more = {"nextPageToken": body["last_id"]} if body["has_more"] else {}
            return 200, {"operations": [self._shown(each) for each in body["data"]], **more}
        return 200, self._shown(body)

    def _shown(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        states = {"validating": "PENDING", "in_progress": "RUNNING", "completed": "SUCCEEDED", "cancelling": "RUNNING"}
        state, counts = batch["status"], batch["request_counts"]
        ended = state in ("completed", "expired", "cancelled")
        made = self.times.setdefault(batch["id"], datetime.now(UTC).strftime(_STAMP))
        facts: dict[str, Any] = {
            "state": f"BATCH_STATE_{states.get(state, state.upper())}", "createTime": made,
            "displayName": batch["metadata"]["name"], "model": "models/m",
        }  # fmt: skip
        shown: dict[str, Any] = {"name": f"batches/{batch['id']}", "metadata": facts}
        facts["batchStats"] = {"requestCount": str(counts["total"])}
        if state == "failed":
            shown |= {"done": True, "error": {"code": 3, "message": batch["errors"]["data"][0]["message"]}}
        if ended:
            facts["batchStats"]["successfulRequestCount"] = str(counts["completed"])
            facts["output"] = {"responsesFile": f"files/out-{batch['id']}"}
            shown |= {"done": True, "response": {"responsesFile": f"files/out-{batch['id']}"}}
        return shown


class ResponsesBatchServer(BatchServer):
    """OpenAI's batches of requests that Responses answers."""

    route = "/v1/responses"

    def _complete(self, text: str, body: Mapping[str, Any]) -> dict[str, Any]:
        words = ResponsesServer()
        return words.made(super()._complete(text, words.asked(body, {})), body)
