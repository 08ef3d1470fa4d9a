"""OpenAI's Files and Batches API, which other servers have too."""

from collections.abc import Mapping, Sequence
from typing import IO, Any, ClassVar

from judge_eval.batch.batch_server import Order, Remote, RemoteBatch
from judge_eval.batch.replies import LineReply
from judge_eval.batch.state import Part

_HEAD = '{"custom_id":"%%s","method":"POST","url":"%s","body":'


class OpenAIBatches(Remote):
    """Files are uploaded, then ordered; metadata name a batch."""

    _streamed: ClassVar[tuple[str, ...]] = ("/content",)
    _url: ClassVar[str] = "/v1/chat/completions"
    """The path that answers the requests."""
    _head: ClassVar[str] = _HEAD % _url

    @staticmethod
    def reply(record: Mapping[str, Any]) -> LineReply:
        """Read a line: `custom_id`, `response` and `error`."""
        key, response, error = bytes.fromhex(record["custom_id"]), record.get("response"), record.get("error")
        if not isinstance(response, dict):
            return LineReply(key, None, None, error.get("code") if isinstance(error, dict) else None)
        status = response.get("status_code")
        return LineReply(
            key, status if type(status) is int else 200, response.get("body"), None, response.get("request_id")
        )

    def upload(self, part: Part, file: IO[bytes]) -> str:
        """Upload a file of requests, and return its id."""
        with self.errors():
            return self.without_key(self._client.files.create(file=(part.name, file), purpose="batch").id)

    def _order(self, order: Order) -> tuple[str, dict[str, Any]]:
        body = {"completion_window": "24h", "endpoint": self._url}
        return self._home, {"body": {**body, "input_file_id": order.file_id, "metadata": order.mark}}

    def _page(self, page: Mapping[str, Any]) -> tuple[Sequence[Any], Mapping[str, Any] | None]:
        listed = page["data"]
        return listed, {"after": listed[-1]["id"]} if listed and page.get("has_more") is not False else None

    def _place(self, file_id: str) -> str:
        return f"files/{file_id}/content"

    def _read(self, known: Mapping[str, Any]) -> RemoteBatch:
        counts = known.get("request_counts") or {}
        reasons = []
        for error in ((known.get("errors") or {}).get("data") or [])[:3]:
            line = f", line {error['line']}" if type(error.get("line")) is int else ""
            reasons.append(f"{error.get('message')} ({error.get('code')}{line})")
        return self.sound(
            id=known.get("id"),
            status=known.get("status"),
            mark=known.get("metadata"),
            requests=counts.get("total", 0),
            completed=counts.get("completed", 0),
            failed=counts.get("failed", 0),
            created=known.get("created_at") or 0,
            input_file_id=known.get("input_file_id"),
            output_file_id=known.get("output_file_id"),
            error_file_id=known.get("error_file_id"),
            message="; ".join(reasons),
        )


class ResponsesBatches(OpenAIBatches):
    """The same for requests that the Responses API answers."""

    _url: ClassVar[str] = "/v1/responses"
    _head: ClassVar[str] = _HEAD % _url
