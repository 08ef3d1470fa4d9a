"""A client of the REST API, on the standard library alone."""

from __future__ import annotations

import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from judge_eval.errors import ConfigError, DataError, JudgeEvalError, RunError
from judge_eval.eval_run import EvalRun
from judge_eval.runs.folder.records import Manifest, TraceResult
from judge_eval.runs.folder.results import ResultsFile
from judge_eval.runs.keeping.finding import LABELLED
from judge_eval.schema import Chunk, Trace
from judge_eval.server.hosted import RunAnswer
from judge_eval.server.models import ResultPage, RunList, RunSummary
from judge_eval.server.settings import PORT, SERVER, is_loopback

PAGE = 200
"""Results fetched at a time."""


class Client:
    """Collects traces, has them judged by a server, and brings runs home.

    Args:
        url: Of the server; `JUDGE_EVAL_SERVER` where None, else port 8642 of this machine.
        token: Its bearer token; `JUDGE_EVAL_SERVER_TOKEN` where None.
        timeout: Seconds for one request.

    Example:
        client = Client()
        client.add_trace("What is a tomato?", ["A fruit.", "A car."], reference="A fruit.")
        submitted = client.evaluate(label="PR #111", tags=["prod"])
        run = client.get_eval_run(submitted.uuid)
    """

    def __init__(self, url: str | None = None, *, token: str | None = None, timeout: float = 60.0) -> None:
        url = url or os.environ.get(SERVER) or f"http://127.0.0.1:{PORT}"
        if urlsplit(url).scheme not in ("http", "https"):
            raise ConfigError(f"the server's address {url!r} must start with http:// or https://")
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
            DataError: It is no trace.
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
    ) -> RunSummary:
        """Submit the traces added so far and return at once; the run has a `uuid` and a `status`.

        Args:
            label: What people call the run.
            href: Where it belongs: a pull request, a commit, a job.
            tags: Words to group and filter by.
            baseline: The uuid of the run to show differences from, or `label:NAME` for the newest of that
                label.
            traces: Traces to judge in place of those added.
            name: What to call the dataset.

        Raises:
            DataError: The server cannot judge these traces.
            RunError: The server refused, or cannot be reached.
        """
        given = self.traces if traces is None else list(traces)
        body = {
            "traces": [trace.model_dump(mode="json") for trace in given],
            "label": label,
            "href": href,
            "tags": list(tags),
            "baseline": baseline,
            "name": name,
        }
        submitted = RunAnswer.parse(self._ask("POST", "/runs", body))
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
            summary = RunSummary.parse(self._ask("GET", f"{path}/summary"))
            if summary.status == "failed":
                raise RunError(f"run {uuid} failed: {summary.error or 'see the server'}")
            if summary.ended:
                break
            if time.monotonic() > until:
                raise RunError(f"run {uuid} is still {summary.status} after {wait:g} seconds")
            time.sleep(0.25)
        manifest = Manifest.parse(self._ask("GET", path))
        results: list[TraceResult] = []
        while True:
            query = urlencode({"offset": len(results), "limit": PAGE})
            page = ResultPage.parse(self._ask("GET", f"{path}/results?{query}"))
            results += page.results
            if len(results) >= page.total or not page.results:
                return EvalRun(manifest, results)

    def list_runs(
        self, *, label: str = "", tags: Sequence[str] = (), limit: int = 100
    ) -> tuple[RunSummary, ...]:
        """List runs, newest first."""
        query = urlencode({"label": label, "tag": list(tags), "limit": limit}, doseq=True)
        return RunList.parse(self._ask("GET", f"/runs?{query}")).runs

    def upload(self, run: EvalRun) -> RunSummary:
        """Give the server a run judged elsewhere.

        Raises:
            DataError: The run does not hold together.
            RunError: The server has it already, or cannot be reached.
        """
        results = [result.model_dump(mode="json") for result in run.results]
        manifest = run.manifest
        if not isinstance(run.results, ResultsFile):  # the digest is of what is in the run's folder
            manifest = manifest.model_copy(update={"results": None})
        body = {"manifest": manifest.model_dump(mode="json"), "results": results}
        return RunSummary.parse(self._ask("POST", "/runs/upload", body))

    def label(
        self, uuid: str, trace_id: str, chunk_id: str, label: int | None, *, by: str = "", blind: bool = False
    ) -> None:
        """Give a chunk a human label; None takes one back. The run is told as in `get_eval_run`."""
        body = {"trace_id": trace_id, "chunk_id": chunk_id, "label": label, "by": by, "blind": blind}
        self._ask("POST", f"{self._path(uuid)}/labels", body)

    def delete(self, uuid: str) -> None:
        """Remove a run from the server; it takes the uuid alone, since a label may mean another run soon."""
        self._ask("DELETE", f"/runs/{quote(uuid, safe='')}")

    def _path(self, name: str) -> str:
        """Return the path of a run; a label is looked up once, so that all that follows is about one run."""
        if name.startswith(LABELLED):
            name = RunSummary.parse(self._ask("GET", f"/named?{urlencode({'name': name})}")).id
        return f"/runs/{quote(name, safe='')}"

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body, allow_nan=False, ensure_ascii=False).encode()
        headers = {"Accept": "application/json"}
        if data is not None:
            headers["Content-Type"] = "application/json"
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        url = f"{self._url}/api/v1{path}"
        request = urllib.request.Request(url, data, headers, method=method)  # noqa: S310  checked to be http
        try:
            with self._opener.open(request, timeout=self._timeout) as answer:
                raw = answer.read()
        except urllib.error.HTTPError as error:
            raise _refused(error.code, error.read()) from None
        except (urllib.error.URLError, OSError) as error:
            reason = getattr(error, "reason", error)
            raise RunError(f"the server at {self._url} cannot be reached: {reason}") from None
        return json.loads(raw) if raw else None


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows nothing: a token must not travel to where an answer points."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _refused(code: int, raw: bytes) -> JudgeEvalError:
    try:
        message = str(json.loads(raw)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        message = f"the server answered {code}"
    if code in (400, 413, 422):
        return DataError(message)
    return ConfigError(message) if code in (401, 403) else RunError(message)
