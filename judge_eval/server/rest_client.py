"""A client of the REST API, on the standard library alone."""

import http.client
import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

from judge_eval.errors import ConfigError, DataError, RunError, mask
from judge_eval.eval_run import EvalRun
from judge_eval.foreign import RepeatedKeyError, check_single_keys, read_json
from judge_eval.record import R
from judge_eval.runs.folder.journal import MANIFEST, ResultsFile, encode, manifest_digest
from judge_eval.runs.folder.records import RESULTS, Manifest, TraceResult
from judge_eval.runs.judging.verify import verify
from judge_eval.runs.keeping.lookup import LABELLED
from judge_eval.safe_text import one_line, public_url
from judge_eval.schema import Chunk, Trace
from judge_eval.server.models import ResultPage, RunAnswer, RunList, RunSummary
from judge_eval.server.server_settings import PORT, SERVER
from judge_eval.trust import is_loopback

PAGE: Final = 200
"""Results fetched at a time."""
_REPLY = 256 * 2**20  # the most bytes of one reply
_RESULTS = 1_000_000  # the most results of a run that is fetched
_WHOLE = 10  # a reply must be whole in so many times the client's timeout
_SHOWN = 500  # characters of a server's words


class Client:
    """Collects traces, has them judged by a server, and brings runs home.

    Args:
        url: Of the server; `JUDGE_EVAL_SERVER` where None, else port 8642 of this machine.
        token: Its bearer token; `JUDGE_EVAL_SERVER_TOKEN` where None.
        timeout: Seconds to wait for a server that is silent; a whole request may take ten times as long.

    Example:
        client = Client() client.add_trace("What is a tomato?", ["A fruit.", "A car."], reference="A fruit.") submitted
        = client.evaluate(label="PR #111", tags=["prod"]) run = client.get_eval_run(submitted.uuid)
    """

    def __init__(self, url: str | None = None, *, token: str | None = None, timeout: float = 60.0) -> None:
        url = url or os.environ.get(SERVER) or f"http://127.0.0.1:{PORT}"
        if urlsplit(url).scheme not in ("http", "https"):
            raise ConfigError(f"the server's address {public_url(url)!r} must start with http:// or https://")
        if public_url(url).rstrip("/") != url.rstrip("/"):
            raise ConfigError(
                f"the server's address is {public_url(url)}, without user, password and query; give a token"
            )
        self._url, self._timeout = url.rstrip("/"), timeout
        handlers: list[Any] = [_NoRedirect]
        if is_loopback(urlsplit(url).hostname or ""):
            handlers.append(urllib.request.ProxyHandler({}))  # no proxy can reach this machine's own address
        self._opener = urllib.request.build_opener(*handlers)
        self._token = token or os.environ.get("JUDGE_EVAL_SERVER_TOKEN")
        self.traces: list[Trace] = []

    def add_trace(
        self,
        query: str | Trace,
        chunks: Sequence[str | Chunk | Mapping[str, Any]] = (),
        *,
        reference: str | None = None,
        answer: str | None = None,
        id: str | None = None,
        tags: Sequence[str] = (),
        **more: Any,
    ) -> Trace:
        """Add a trace to the next evaluation.

        Args:
            query: The question, or a whole `Trace`.
            chunks: What was retrieved, best first.
            reference: The reference answer.
            answer: The generated answer.
            id: Unique in the evaluation; made from the content where None.
            tags: Words to group and filter by.
            more: Other fields of `Trace`.

        Raises:
            DataError: It is not a trace.
        """
        if isinstance(query, Trace):
            trace = query
        else:
            data = {"query": query, "chunks": list(chunks), "reference": reference, "answer": answer}
            trace = Trace.parse({**data, "id": id or "", "tags": tuple(tags), **more})
        self.traces.append(trace)
        return trace

    def evaluate(
        self,
        *,
        label: str | None = None,
        href: str | None = None,
        tags: Sequence[str] = (),
        baseline: str | None = None,
        traces: Iterable[Trace] | None = None,
        name: str = "submitted traces",
        yes_ids: bool = False,
    ) -> RunSummary:
        """Submit the traces added so far and return at once; the run has a `uuid` and a `status`.

        Args:
            label: What people call the run.
            href: Where it belongs: a pull request, a commit, a job.
            tags: Words to group and filter by.
            baseline: The uuid of the run to show differences from, or `label:NAME` for the newest of that label.
            traces: Traces to judge in place of those added.
            name: What to call the dataset.
            yes_ids: Whether chunks are judged whose texts look like ids or file names; else they are refused.

        Raises:
            DataError: The server cannot judge these traces.
            RunError: The server refused, or cannot be reached.
        """
        sent = self.traces if traces is None else list(traces)
        body = {
            "traces": [trace.model_dump(mode="json") for trace in sent],
            "label": label,
            "href": href,
            "tags": list(tags),
            "baseline": baseline,
            "name": name,
            "yes_ids": yes_ids,
        }
        submitted = self._ask(RunAnswer, "POST", "/runs", body)
        if traces is None:
            self.traces = []
        return submitted

    def get_eval_run(self, uuid: str, *, wait: float | None = 600.0) -> EvalRun:
        """Bring a run home, with all its results.

        Args:
            uuid: Of the run, or `label:NAME` for the newest of that label.
            wait: Seconds to wait for its end; None does not wait.

        Raises:
            RunError: There is no such run, it failed, or it did not end in time.
        """
        path = self._path(uuid)
        until = time.monotonic() + (wait or 0.0)
        while wait is not None:
            summary = self._ask(RunSummary, "GET", f"{path}/summary")
            if summary.status == "failed":
                raise RunError(self._shown(f"run {uuid} failed: {summary.error or 'see the server'}"))
            if summary.ended:
                break
            if time.monotonic() > until:
                raise RunError(f"run {uuid} is still {summary.status} after {wait:g} seconds")
            time.sleep(0.25)
        manifest = self._ask(Manifest, "GET", path)
        results: list[TraceResult] = []
        total = None
        while total is None or len(results) < total:
            query = urlencode({"offset": len(results), "limit": PAGE})
            page = self._ask(ResultPage, "GET", f"{path}/results?{query}")
            total = page.total if total is None else total
            short = not page.results and len(results) < total
            if short or (page.offset, page.total) != (len(results), total) or not 0 <= total <= _RESULTS:
                raise DataError(f"run {uuid}: the server's pages of results do not fit each other")
            results += page.results
        self._check(uuid, manifest, results)
        return EvalRun(manifest, results)

    def _check(self, uuid: str, manifest: Manifest, results: Sequence[TraceResult]) -> None:
        """Check that a run holds together, as `runs verify` checks a folder; raises `DataError` if not."""
        # The digest of the results is not compared: labels may have been added since they were written.
        if manifest.digest not in (None, manifest_digest(manifest)):
            raise DataError(f"run {uuid}: its manifest was changed after it was written")
        with TemporaryDirectory() as folder:
            (Path(folder) / MANIFEST).write_bytes(manifest.model_dump_json().encode())
            (Path(folder) / RESULTS).write_bytes(b"".join(map(encode, results)))
            if findings := verify(Path(folder), digests=False).findings:
                raise DataError(self._shown(f"run {uuid} does not hold together: {findings[0]}"))

    def list_runs(self, *, label: str = "", tags: Sequence[str] = (), limit: int = 100) -> tuple[RunSummary, ...]:
        """List runs, newest first."""
        query = urlencode({"label": label, "tag": list(tags), "limit": limit}, doseq=True)
        return self._ask(RunList, "GET", f"/runs?{query}").runs

    def upload(self, run: EvalRun) -> RunSummary:
        """Give the server a run judged elsewhere.

        Raises:
            DataError: The run does not hold together.
            RunError: The server has it already, or cannot be reached.
        """
        results = [result.model_dump(mode="json") for result in run.results]
        manifest = run.manifest
        if not isinstance(run.results, ResultsFile):  # the digest is of what is in the run's folder
            manifest = manifest.under_way()
        body = {"manifest": manifest.model_dump(mode="json"), "results": results}
        return self._ask(RunSummary, "POST", "/runs/upload", body)

    def label(
        self, uuid: str, trace_id: str, chunk_id: str, label: int | None, *, by: str = "", blind: bool = False
    ) -> None:
        """Give a chunk a human label; None removes it. The run is named as in `get_eval_run`."""
        body = {"trace_id": trace_id, "chunk_id": chunk_id, "label": label, "by": by, "blind": blind}
        self._raw("POST", f"{self._path(uuid)}/labels", body)

    def delete(self, uuid: str) -> None:
        """Remove a run from the server; it takes the uuid alone, since a label may mean another run soon."""
        self._raw("DELETE", f"/runs/{quote(uuid, safe='')}")

    def _path(self, name: str) -> str:
        if name.startswith(LABELLED):
            name = self._ask(RunSummary, "GET", f"/named?{urlencode({'name': name})}").id
        return f"/runs/{quote(name, safe='')}"

    def _ask(self, kind: type[R], method: str, path: str, body: Any = None) -> R:
        # `DataError`: the server refuses the data, or its reply is not what was asked for. `RunError`: it
        # cannot be reached, refuses, or its reply is not JSON, too large or too slow.
        raw = self._raw(method, path, body)
        try:
            return kind.parse(check_single_keys(raw, read_json(raw)))
        except (DataError, RepeatedKeyError) as error:
            raise DataError(self._shown(f"the server's reply: {error}")) from None
        except ValueError:
            raise RunError(f"the server at {self._url} sent a reply that is not JSON") from None

    def _raw(self, method: str, path: str, body: Any = None) -> bytes:
        data = None if body is None else json.dumps(body, allow_nan=False, ensure_ascii=False).encode()
        headers = {"Accept": "application/json"}
        if data is not None:
            headers["Content-Type"] = "application/json"
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        url = f"{self._url}/api/v1{path}"
        request = urllib.request.Request(url, data, headers, method=method)  # noqa: S310  checked to be http
        try:
            status, raw = self._fetched(request)
        except (OSError, http.client.HTTPException, ValueError) as error:
            reason = getattr(error, "reason", error) or type(error).__name__
            message = f"the server at {self._url} cannot be reached: {reason}"
            raise RunError(self._shown(message)) from None
        if 200 <= status < 300:
            return raw
        try:
            message = str(read_json(raw)["error"]["message"])
        except (ValueError, KeyError, TypeError):
            message = f"the server answered {status}"
        raise (DataError if status in (400, 413, 422) else RunError)(self._shown(message))

    def _fetched(self, request: urllib.request.Request) -> tuple[int, bytes]:
        """Return status and body."""
        until = time.monotonic() + _WHOLE * self._timeout
        try:
            answer = self._opener.open(request, timeout=self._timeout)
        except urllib.error.HTTPError as error:
            answer = error
        with answer:
            return answer.status, _read(answer, until)

    def _shown(self, text: str) -> str:
        """Return a server's words as one bounded line without control characters and the token."""
        text = one_line(mask(text[: 4 * _SHOWN], [self._token]))
        return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows nothing: a token must not travel to where an answer points."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _read(answer: Any, until: float) -> bytes:
    """Read a body piece by piece; raises `OSError` if it is too large or not whole in time."""
    pieces, size = [], 0
    while piece := answer.read1(2**16):
        pieces.append(piece)
        size += len(piece)
        if size > _REPLY:
            raise OSError(f"a reply of more than {_REPLY:,} bytes")
        if time.monotonic() > until:
            raise TimeoutError("the reply comes too slowly")
    return b"".join(pieces)
