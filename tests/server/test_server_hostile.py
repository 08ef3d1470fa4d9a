"""A server that strangers can reach goes on answering, whatever they send and however slowly."""

from __future__ import annotations

import asyncio
import http.client
import json
import re
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from judge_eval import EvalRun, Evaluator, FakeBackend
from judge_eval.errors import ConfigError, DataError
from judge_eval.runs.folder.labels import Label, add_label
from judge_eval.runs.folder.records import TraceResult
from judge_eval.runs.judging.verify import verify
from judge_eval.server import process as connections
from judge_eval.server.rest_client import Client
from judge_eval.server.server_settings import TOKEN_LENGTH, ServerLimits, ServerSettings
from tests.support.serving import ask, judge, rows, serving

# See test_server_api: two servers made at once in threads of one process.
pytestmark = pytest.mark.filterwarnings("ignore:The .* attribute with value .* was provided:UserWarning")

ONE = {"query": "a", "reference": "b", "chunks": ["c"]}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server with a judge."""
    root = tmp_path_factory.mktemp("hostile")
    with serving(ServerSettings(root), Evaluator("fake/overlap", cache=False)) as address:
        yield address


def many(item: str, size: int) -> str:
    """As many items of a list as make up so many bytes."""
    return ",".join([item] * (size // (len(item) + 1)))


HOSTILE = {
    "empty traces": lambda: f'{{"traces": [{many("{}", 3_000_000)}]}}',
    "more empty traces": lambda: f'{{"traces": [{many("{}", 15_000_000)}]}}',
    "empty chunks": lambda: f'{{"traces": [{{"query": "a", "chunks": [{many("{}", 3_000_000)}]}}]}}',
    "empty metadata": lambda: f'{{"traces": [{{"metadata": [{many("{}", 15_000_000)}]}}]}}',
    "too many traces": lambda: f'{{"traces": [{many(json.dumps(ONE), 3_000_000)}]}}',
    "objects as tags": lambda: f'{{"tags": [{many("{}", 15_000_000)}], "traces": []}}',
    "unknown fields": lambda: "{" + ",".join(f'"x{n}": {{}}' for n in range(300_000)) + "}",
    "a deep nest": lambda: '{"traces": [{"metadata": ' + "[" * 3_000_000,
    "one number": lambda: '{"traces": [{"query": ' + "1" * 5_000_000 + "}]}",
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.parametrize("path", ["/api/v1/runs", "/api/v1/runs/upload"])
def test_hostile_bodies_are_refused_and_hold_nobody_up(url: str, kind: str, path: str) -> None:
    """Each of four at once is a 4xx with a short message; the health is answered all the while."""
    body = HOSTILE[kind]()
    if path.endswith("upload"):
        body = body.replace('"traces"', '"results"', 1)
    data = body.encode()
    with ThreadPoolExecutor(4) as pool:
        sent = [pool.submit(ask, f"{url}{path}", method="POST", raw=data) for _ in range(4)]
        asked = 0
        while not asked or not all(entry.done() for entry in sent):
            assert ask(f"{url}/api/v1/health")[0] == 200
            asked += 1
        codes = {entry.result()[0] for entry in sent}
    assert codes <= {413, 422}, codes
    for item in sent:
        assert len(item.result()[1]["error"]["message"]) < 1000


@pytest.mark.slow
def test_health_is_answered_before_a_hostile_body_is(tmp_path: Path) -> None:
    """A request that comes after a body of the largest kind was sent is answered before the body is.

    The body is a run of as many results as are taken, each of which must be read before it can be refused.
    """
    result = judge(rows()[:1]).results[0].model_dump(mode="json")
    lines = [json.dumps({**result, "position": n}) for n in range(8_000)]
    lines[-1] = lines[-1].replace('"outcomes"', '"outcome"')
    data = f'{{"results": [{",".join(lines)}], "manifest": {{}}}}'.encode()
    with serving(ServerSettings(tmp_path)) as url:
        order: list[str] = []

        def send() -> None:
            code = ask(f"{url}/api/v1/runs/upload", method="POST", raw=data)[0]
            order.append(f"body {code}")

        thread = threading.Thread(target=send)
        connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)
        thread.start()
        while thread.is_alive():
            connection.request("GET", "/api/v1/health")
            answer = connection.getresponse()
            answer.read()
            order.append(f"health {answer.status}")
        connection.close()
        thread.join()
    before = order[: order.index("body 422")]
    assert before.count("health 200") == len(before) >= 10


def gone(connection: socket.socket) -> bool:
    """Wait until the server has dropped a connection."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def drips_until_dropped(connection: socket.socket) -> bool:
    """Send a header byte by byte; tell whether the server dropped the connection within 400 of them."""
    try:
        for _ in range(400):
            connection.sendall(b"x")
            time.sleep(0.05)
    except OSError:
        return True
    return False


@pytest.mark.slow
def test_205_silent_connections_leave_the_server_answering(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are dropped when their headers do not come in time, whole or byte by byte; others are served."""
    assert connections.HEADER_SECONDS == 10
    monkeypatch.setattr(connections, "HEADER_SECONDS", 1.5)
    with serving(ServerSettings(tmp_path)) as url:
        place = (urlsplit(url).hostname, urlsplit(url).port)
        silent = [socket.create_connection(place, timeout=20) for _ in range(205)]
        dripping = silent[0]
        dripping.sendall(b"GET / HTTP/1.1\r\nHost: 127")
        try:
            for _ in range(3):
                assert ask(f"{url}/api/v1/health")[0] == 200
            assert ask(f"{url}/api/v1/runs")[0] == 200
            assert drips_until_dropped(dripping)
            assert all(map(gone, silent[1:]))
        finally:
            for item in silent:
                item.close()
        assert ask(f"{url}/api/v1/health")[0] == 200


def test_the_longest_silent_connection_makes_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Past the most connections a new one is served, and the one that has waited longest is gone."""
    monkeypatch.setattr(connections, "CONNECTIONS", 5)
    with serving(ServerSettings(tmp_path)) as url:
        place = (urlsplit(url).hostname, urlsplit(url).port)
        silent = [socket.create_connection(place, timeout=20) for _ in range(5)]
        assert ask(f"{url}/api/v1/health")[0] == 200
        assert gone(silent[0])
        for item in silent:
            item.close()


def test_a_kept_connection_serves_request_after_request(url: str) -> None:
    """The clock for headers does not run while a connection is used as it should be."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=10)
    connection.request("GET", "/api/v1/health")
    sock = connection.sock
    connection.getresponse().read()
    for _ in range(3):
        connection.request("GET", "/api/v1/health")
        assert connection.getresponse().read()
        assert connection.sock is sock
    connection.close()


@pytest.mark.slow
def test_the_queue_holds_its_limit_when_all_come_at_once(tmp_path: Path) -> None:
    """Of twenty submissions at the same time to two servers on one folder no more are taken than may wait."""
    settings = ServerSettings(tmp_path, limits=ServerLimits(queued=3))

    with (
        serving(settings, Evaluator(FakeBackend(_stuck), cache=False)) as first,
        serving(settings, Evaluator(FakeBackend(_stuck), cache=False)) as two,
        ThreadPoolExecutor(20) as pool,
    ):
        sent = [
            pool.submit(ask, f"{(first, two)[n % 2]}/api/v1/runs", method="POST", body={"traces": [ONE]})
            for n in range(20)
        ]
        codes = sorted(item.result()[0] for item in sent)
    assert codes == [202] * 3 + [429] * 17


async def _stuck(_: Any) -> str:
    await asyncio.sleep(600)
    return ""


def test_a_short_token_is_refused(tmp_path: Path) -> None:
    """A token that can be guessed is a usage error that does not repeat it."""
    for token in ("x", "short-token-123"):
        assert len(token) < TOKEN_LENGTH
        with pytest.raises(ConfigError, match="16 characters") as caught:
            ServerSettings(tmp_path, token=token)
        assert f" {token} " not in str(caught.value)
    ServerSettings(tmp_path, token="x" * TOKEN_LENGTH)


def test_head_and_options_are_answered(url: str) -> None:
    """HEAD says what GET would, without the body; OPTIONS names the methods of a path."""
    for path in ("/", "/api/v1/health", "/api/v1/runs", "/static/app.js", "/api/v1/nothing"):
        got, _, _ = ask(f"{url}{path}")
        code, text, headers = ask(f"{url}{path}", method="HEAD")
        assert (code, text) == (got, ""), path
        assert int(headers["content-length"]) > 0
    for path, methods in (
        ("/", "GET, HEAD, OPTIONS"),
        ("/api/v1/runs", "GET, HEAD, OPTIONS, POST"),
        (f"/api/v1/runs/{uuid.uuid4()}", "DELETE, GET, HEAD, OPTIONS"),
        ("/api/v1/runs/upload", "POST"),
    ):
        code, text, headers = ask(f"{url}{path}", method="OPTIONS")
        assert (code, text) == (204, "")
        assert set(methods.split(", ")) <= set(headers["allow"].split(", ")), path
    assert ask(f"{url}/api/v1/runs", method="OPTIONS", headers={"Origin": "http://evil.example"})[0] == 403


@pytest.mark.parametrize(
    ("method", "path", "body", "message"),
    [
        ("GET", "runs?limit=0", None, "query.limit: must be at least 1"),
        ("GET", "runs?limit=x", None, "query.limit: must be a whole number"),
        ("GET", "runs?limit=1001", None, "query.limit: must be at most 1,000"),
        ("GET", "runs?status=gone", None, "query.status: must be 'submitted', 'running', 'done', "),
        ("GET", f"runs?label={'x' * 10_001}", None, "query.label: must have at most 10,000 characters"),
        ("GET", "runs/label:main/answer?wait=99", None, "query.wait: must be at most 30"),
        ("GET", "runs/label:main/live?blind=maybe", None, "query.blind: must be true or false"),
        ("GET", "named", None, "query.name: this field is required"),
        ("GET", "named?name=x", None, "a run is named here by its whole id or by label:NAME"),
        ("POST", "runs/label:main/labels", [], "body: holds a list, not an object"),
        ("POST", "runs/label:main/labels", {"chunk_id": 1}, "body.trace_id: this field is required (and 2 more)"),
        ("POST", "runs/label:main/labels", b"{", "the body is not JSON: Expecting property name"),
        ("POST", "runs/label:main/labels", {"trace_id": "a", "chunk_id": "b", "label": 1.5},
         "body.label: must be a whole number"),
        ("POST", "runs", {"traces": []}, "traces: must hold at least 1 item"),
        ("POST", "runs", {"traces": [{"query": "q", "chunks": ["a"]}], "baseline": "x"},
         "baseline.uuid: must be a run's whole id, or label:NAME"),
    ],
)  # fmt: skip
def test_a_422_is_one_sentence_in_plain_words(url: str, method: str, path: str, body: Any, message: str) -> None:
    """What is wrong and where, in the words of this project's own messages; none of a library's."""
    sent: Any = {"raw": body} if isinstance(body, bytes) else {"body": body}
    status, answer, _ = ask(f"{url}/api/v1/{path}", method=method, **sent)
    assert (status, answer["error"]["type"]) == (422, "data")
    assert answer["error"]["message"].startswith(message)
    assert not re.search("[Ii]nput should|pydantic|validation|constrained", answer["error"]["message"])


def test_small_requests_may_not_be_large(url: str) -> None:
    """A label is no place for megabytes."""
    path = f"{url}/api/v1/runs/{uuid.uuid4()}/labels"
    code, result, _ = ask(path, method="POST", raw=b'{"by": "' + b"x" * 300_000 + b'"}')
    assert code == 413
    assert "262,144 bytes" in result["error"]["message"]


CHANGES: dict[str, Callable[[dict[str, Any]], None]] = {
    "created": lambda m: m.update(created=(datetime.now(UTC) + timedelta(days=400)).isoformat()),
    "created, no zone": lambda m: m.update(created="2026-01-01T00:00:00"),
    "finished": lambda m: m.update(finished="2001-01-01T00:00:00Z"),
    "finished, missing": lambda m: m.update(finished=None),
    "tags": lambda m: m.update(tags=["x"] * 51),
    "label": lambda m: m.update(label="x" * 501),
    "status": lambda m: m.update(status="incomplete"),
    "tally.traces": lambda m: m["tally"].update(traces=60),
    "tally.verdicts": lambda m: m["tally"].update(verdicts=1),
    "tally.failed_verdicts": lambda m: m["tally"].update(failed_verdicts=2),
    "tally.failures": lambda m: m["tally"].update(failures={"refused": 1}),
    "tally": lambda m: m["tally"].update(calls=-1),
    "dataset": lambda m: m["dataset"].update(traces=60),
    "dataset, digest": lambda m: m["dataset"].update(digest="0" * 64),
    "files": lambda m: m["files"]["results.jsonl"].update(sha256="0" * 64),
    "digest": lambda m: m.update(digest="0" * 64),
}


@pytest.mark.parametrize("name", CHANGES)
def test_an_upload_that_does_not_hold_together_is_refused(url: str, tmp_path: Path, name: str) -> None:
    """Dates, counts, tags and digests must be those of the results; the message names the field."""
    run = judge(rows()[:5], tmp_path)
    manifest = json.loads((tmp_path / run.folder.name / "manifest.json").read_bytes())  # type: ignore[union-attr]
    results = [result.model_dump(mode="json") for result in run.results]
    CHANGES[name](manifest)
    code, outcome, _ = ask(f"{url}/api/v1/runs/upload", method="POST", body={"manifest": manifest, "results": results})
    assert code == 422, outcome
    assert f"manifest.{name.split(',')[0]}" in outcome["error"]["message"]


def test_results_of_other_traces_are_refused(url: str) -> None:
    """The digest of a result is that of its trace."""
    run = judge(rows()[:2])
    first: TraceResult = run.results[0]
    lying = first.model_copy(update={"digest": "0" * 64})
    with pytest.raises(DataError, match=r"results\[0\].digest"):
        Client(url).upload(EvalRun(run.manifest, [lying, run.results[1]]))


@pytest.mark.slow
def test_an_upload_has_digests_and_stays_whole(tmp_path: Path) -> None:
    """From a folder, with labels, or from memory: what the server keeps is whole, and comes home."""
    from judge_eval.runs.folder.labels import with_labels

    kept = judge(rows()[:5], tmp_path / "here")
    assert kept.folder is not None
    add_label(
        kept.folder, Label(trace_id=kept.results[0].trace_id, chunk_id=kept.results[0].outcomes[0].chunk_id, label=1)
    )
    with serving(ServerSettings(tmp_path / "there")) as url:
        client = Client(url)
        for run in (EvalRun.load(kept.folder), with_labels(judge(rows()[:5], tmp_path / "more")), judge(rows()[5:9])):
            client.upload(run)
        labelled = judge(rows()[9:12], tmp_path / "labelled")
        assert labelled.folder is not None
        add_label(
            labelled.folder,
            Label(trace_id=labelled.results[0].trace_id, chunk_id=labelled.results[0].outcomes[0].chunk_id, label=1),
        )
        client.upload(with_labels(EvalRun.load(labelled.folder)))
        assert len(client.list_runs()) == 4
    values = [verify(folder) for folder in (tmp_path / "there").iterdir()]
    assert {item.condition for item in values} == {"whole"}, values
