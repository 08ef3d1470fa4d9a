"""Anthropic's Message Batches API."""

import calendar
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import IO, Any, ClassVar

from judge_eval.batch.batch_server import Order, Remote, RemoteBatch
from judge_eval.batch.replies import LineReply
from judge_eval.batch.state import Part
from judge_eval.llm.http.anthropic_messages import AnthropicMessages

_STATES = {"in_progress": "in_progress", "canceling": "cancelling", "ended": "completed"}
_STATUS = {
    "invalid_request_error": 400, "authentication_error": 401, "billing_error": 402, "permission_error": 403,
    "not_found_error": 404, "request_too_large": 413, "rate_limit_error": 429, "api_error": 500,
    "timeout_error": 504, "overloaded_error": 529,
}  # fmt: skip
"""The HTTP status of an error, by its type."""


class MessageBatches(Remote):
    """A file goes along with its order; nothing names a batch, so the user says which one a lost order made."""

    marks: ClassVar[bool] = False
    _home: ClassVar[str] = "/messages/batches"
    _head: ClassVar[str] = '{"custom_id":"%s","params":'
    _headers: ClassVar[Mapping[str, str]] = AnthropicMessages.version
    _streamed: ClassVar[tuple[str, ...]] = ("/results",)

    @staticmethod
    def reply(record: Mapping[str, Any]) -> LineReply:
        """Read a line: `custom_id` and `result`, a message or an error."""
        key, result = bytes.fromhex(record["custom_id"]), record["result"]
        kind = result["type"]
        if kind == "succeeded":
            return LineReply(key, 200, result["message"], None)
        error = result.get("error")
        if kind != "errored" or not isinstance(error, dict):
            return LineReply(key, None, None, f"batch_{kind}")
        inner = error.get("error")
        name = inner.get("type") if isinstance(inner, dict) else None
        status = _STATUS.get(name, 500) if isinstance(name, str) else 500
        return LineReply(key, status, error, None, error.get("request_id"))

    def upload(self, part: Part, file: IO[bytes]) -> None:
        """Upload nothing."""

    def _order(self, order: Order) -> tuple[str, dict[str, Any]]:
        # Of each line's end one byte stays, a comma; nothing of the last one's.
        length = order.part.bytes + len(_HEAD) + len(_TAIL) - 1
        headers = {"content-type": "application/json", "content-length": str(length)}
        return self._home, {"content": _body(order.file), "options": {"headers": headers}}

    def _page(self, page: Mapping[str, Any]) -> tuple[Sequence[Any], Mapping[str, Any] | None]:
        listed = page["data"]
        return listed, {"after_id": listed[-1]["id"]} if listed and page.get("has_more") else None

    def _place(self, file_id: str) -> str:
        return f"messages/batches/{file_id}/results"

    def _read(self, known: Mapping[str, Any]) -> RemoteBatch:
        counts = known["request_counts"]
        state, began = _STATES[known["processing_status"]], datetime.fromisoformat(known["created_at"])
        missing = {name: counts.get(name, 0) for name in ("canceled", "expired")}
        if state == "completed" and any(missing.values()):
            state = "cancelled" if missing["canceled"] else "expired"
        return self.sound(
            id=known["id"],
            status=state,
            requests=sum(counts.values()),
            completed=counts.get("succeeded", 0),
            failed=counts.get("errored", 0),
            created=calendar.timegm(began.utctimetuple()),
            output_file_id=known["id"] if known.get("results_url") else None,
        )


_HEAD, _TAIL = b'{"requests":[', b"]}"


def _body(lines: IO[bytes]) -> Iterator[bytes]:
    """Write the lines of a file as the one object that the server takes."""
    yield _HEAD
    for number, line in enumerate(lines):
        yield (b"," if number else b"") + line.rstrip(b"\n")
    yield _TAIL
