"""Gemini's batch mode: files of requests, and operations that answer them."""

import calendar
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import IO, Any, ClassVar
from urllib.parse import quote, urlsplit

from judge_eval.batch.batch_server import MARKS, Order, Remote, RemoteBatch
from judge_eval.batch.replies import LineReply
from judge_eval.batch.state import Part

_STATES = {
    "PENDING": "validating", "RUNNING": "in_progress", "SUCCEEDED": "completed", "FAILED": "failed",
    "CANCELLED": "cancelled", "EXPIRED": "expired", "UNSPECIFIED": "validating",
}  # fmt: skip
_STATUS = {3: 400, 5: 404, 7: 403, 8: 429, 13: 500, 14: 503, 16: 401}
"""The HTTP status of an error, by Google's code."""
_UNANSWERED = (1, 4)  # cancelled, too late
_NAME = "judge_eval"


class GeminiBatches(Remote):
    """Files are uploaded, then ordered for a model; the display name names a batch."""

    _first_page: ClassVar[Mapping[str, Any]] = {"pageSize": 100}
    _head: ClassVar[str] = '{"key":"%s","request":'
    _download_query: ClassVar[Mapping[str, str]] = {"alt": "media"}
    _streamed: ClassVar[tuple[str, ...]] = (":download",)

    @staticmethod
    def reply(record: Mapping[str, Any]) -> LineReply:
        """Read a line: `key`, and `response` or `error`."""
        key, response, error = bytes.fromhex(record["key"]), record.get("response"), record.get("error")
        if isinstance(response, dict):
            return LineReply(key, 200, response, None)
        if not isinstance(error, dict):
            return LineReply(key, None, None, None)
        code = error.get("code")
        if code in _UNANSWERED:
            return LineReply(key, None, None, error.get("message"))
        status = _STATUS.get(code, code) if isinstance(code, int) else 500
        return LineReply(key, status, {"error": error}, None)

    def upload(self, part: Part, file: IO[bytes]) -> str:
        """Upload a file of requests, and return its name."""
        size, kind = str(part.bytes), "application/jsonl"
        begun = {
            "X-Goog-Upload-Protocol": "resumable", "X-Goog-Upload-Command": "start",
            "X-Goog-Upload-Header-Content-Length": size, "X-Goog-Upload-Header-Content-Type": kind,
        }  # fmt: skip
        with self.errors():
            answer = self._http.post(
                self._address.under(self._beside("upload", "files")),
                headers=begun,
                json={"file": {"displayName": part.name}},
            )
            if not answer.is_success:
                self._refused(answer.status_code, answer.read(), answer.headers)
            target = urlsplit(answer.headers["x-goog-upload-url"])
            # The file goes to the server that was named, wherever its answer points.
            place = self._address.under(target.path)
            sent = {"X-Goog-Upload-Offset": "0", "X-Goog-Upload-Command": "upload, finalize", "Content-Length": size}
            done = self._http.post(f"{place}?{target.query}" if target.query else place, headers=sent, content=file)
            if not done.is_success:
                self._refused(done.status_code, done.read(), done.headers)
            return self.without_key(done.json()["file"]["name"])

    def _order(self, order: Order) -> tuple[str, dict[str, Any]]:
        name = " ".join((_NAME, *order.mark.values()))
        body = {"batch": {"displayName": name, "inputConfig": {"fileName": order.file_id}}}
        return f"/models/{quote(self.model, safe='')}:batchGenerateContent", {"body": body}

    def _page(self, page: Mapping[str, Any]) -> tuple[Sequence[Any], Mapping[str, Any] | None]:
        token = page.get("nextPageToken")
        return page.get("operations") or (), {"pageToken": token} if token else None

    def cancel(self, batch_id: str) -> RemoteBatch:
        """Cancel a batch; the server answers nothing, so its state is asked for."""
        with self.errors():
            self._json("post", f"/{batch_id}:cancel")
        return self.retrieve(batch_id)

    def retrieve(self, batch_id: str) -> RemoteBatch:
        """Return the current state of a batch."""
        with self.errors():
            return self._read(self._json("get", f"/{batch_id}"))

    def _place(self, file_id: str) -> str:
        return self._beside("download", f"{file_id}:download")

    def _beside(self, room: str, path: str) -> str:
        """Return the path of a service that stands before the base URL's path."""
        return f"/{room}{urlsplit(self._address.url).path.rstrip('/')}/{path}"

    def _read(self, known: Mapping[str, Any]) -> RemoteBatch:
        facts, done = known.get("metadata") or {}, known.get("response") or {}
        state = _STATES[str(facts.get("state", "UNSPECIFIED")).rpartition("STATE_")[2]]
        output = facts.get("output") or done.get("output") or done
        counts = facts.get("batchStats") or {}
        name = str(facts.get("displayName", "")).split(" ")
        began, error = facts.get("createTime"), known.get("error") or {}
        return self.sound(
            id=known["name"],
            status=state,
            mark=dict(zip(MARKS, name[1:], strict=False)) if name[0] == _NAME else None,
            requests=int(counts.get("requestCount", 0)),
            completed=int(counts.get("successfulRequestCount", 0)),
            failed=int(counts.get("failedRequestCount", 0)),
            created=calendar.timegm(datetime.fromisoformat(began).utctimetuple()) if began else 0,
            output_file_id=output.get("responsesFile"),
            message=str(error.get("message", "")),
        )
