"""A client takes from a server only a run that holds together, within bounds, and shows its words safely."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from judge_eval.errors import DataError, RunError
from judge_eval.server import rest_client as client_module
from judge_eval.server.rest_client import Client
from tests.support.raw_server import RawServer, http
from tests.support.serving import judge, rows

TOKEN = "a-long-random-token-0123456789"
Run = tuple[dict[str, Any], list[dict[str, Any]]]
Change = Callable[[dict[str, Any], list[dict[str, Any]]], object]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run's manifest and results as a server sends them."""
    made = judge(rows()[:5], tmp_path_factory.mktemp("run"))
    assert made.folder is not None
    manifest = json.loads((made.folder / "manifest.json").read_bytes())
    return manifest, [result.model_dump(mode="json") for result in made.results]


@contextmanager
def lying(run: Run, change: Change, page: Callable[[dict[str, Any]], object] = lambda page: None) -> Iterator[Client]:
    """Serve a changed run; `page` changes each page of results."""
    manifest, results = json.loads(json.dumps(run))
    change(manifest, results)

    def answer(request: bytes) -> bytes:
        url = urlsplit(request.split()[1].decode())
        if not url.path.endswith("/results"):
            return http(200, json.dumps(manifest).encode())
        offset = int(parse_qs(url.query)["offset"][0])
        made = {"total": len(results), "offset": offset, "results": results[offset : offset + 2]}
        page(made)
        return http(200, json.dumps(made).encode())

    with RawServer(answer) as server:
        yield Client(f"http://127.0.0.1:{server.port}", token=TOKEN, timeout=5)


def without_digests(change: Change) -> Change:
    """Change a run whose author also removed the digests."""

    def changed(manifest: dict[str, Any], results: list[dict[str, Any]]) -> None:
        change(manifest, results)
        manifest |= {"files": {}, "digest": None}

    return changed


LIES: dict[str, Change] = {
    "means": lambda m, r: m["aggregates"]["AP@5"].update(mean=0.99),
    "no results": lambda m, r: r.clear(),
    "one result again and again": lambda m, r: r.__setitem__(slice(None), [r[0]] * 5),
    "one result less": lambda m, r: r.pop(),
    "scores": lambda m, r: r[1]["scores"].update({"AP@5": 0.123}),
    "a grade": lambda m, r: r[1]["outcomes"][0].update(
        grade=1 - r[1]["outcomes"][0]["grade"], relevant=not r[1]["outcomes"][0]["relevant"]
    ),
    "a chunk's text": lambda m, r: r[1]["trace"]["chunks"][0].update(text="other"),
    "outcomes": lambda m, r: r[1]["outcomes"].reverse(),
    "failures": lambda m, r: m["tally"].update(failed_verdicts=3),
    "the data": lambda m, r: m["dataset"].update(digest="0" * 64),
}


@pytest.mark.parametrize("seal", [True, False])
@pytest.mark.parametrize("name", LIES)
def test_a_run_that_does_not_hold_together_is_refused(run: Run, name: str, seal: bool) -> None:
    """Whatever was changed, with or without its digests, the run is a `DataError`."""
    with lying(run, LIES[name] if seal else without_digests(LIES[name])) as client, pytest.raises(DataError):
        client.get_eval_run(run[0]["id"], wait=None)


def test_a_manifest_with_another_judge_is_refused(run: Run) -> None:
    """What no verdict contradicts is held to the digest of the manifest: the model, for instance."""
    with (
        lying(run, lambda m, r: m["backend"].update(model="other")) as client,
        pytest.raises(DataError, match="changed after it was written"),
    ):
        client.get_eval_run(run[0]["id"], wait=None)


def test_an_honest_run_comes_home(run: Run) -> None:
    """Page by page, with the means that the manifest states."""
    with lying(run, lambda m, r: None) as client:
        fetched = client.get_eval_run(run[0]["id"], wait=None)
    assert [result.trace_id for result in fetched.results] == [result["trace_id"] for result in run[1]]
    assert fetched["AP@5"] == run[0]["aggregates"]["AP@5"]["mean"]


PAGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "a growing total": lambda page: page.update(total=page["offset"] + 100),
    "a huge total": lambda page: page.update(total=10**9),
    "a negative total": lambda page: page.update(total=-1),
    "empty pages": lambda page: page.update(results=[]),
    "the first page again": lambda page: page.update(offset=0),
}


@pytest.mark.parametrize("name", PAGES)
def test_pages_that_do_not_fit_or_end_are_refused(run: Run, name: str) -> None:
    """Fetching ends with an error, not with memory."""
    with lying(run, lambda m, r: None, PAGES[name]) as client, pytest.raises(DataError):
        client.get_eval_run(run[0]["id"], wait=None)


REPLIES: dict[str, bytes] = {
    "not json": http(200, b"<html>"),
    "nothing": http(200),
    "a number": http(200, b"7"),
    "nested": http(200, b"[" * 100_000),
    "no http": b"nonsense\r\n\r\n",
    "a long header": b"HTTP/1.1 200 OK\r\nx: " + b"y" * 70_000 + b"\r\n\r\n",
    "a broken length": b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{",
    "a bad length": b"HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n{",
    "bad chunks": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n{",
    "a redirect": http(302, b"", "location: http://elsewhere.example/"),
    "an error in a list": http(500, b'["error"]'),
    "unauthorised": http(401, b'{"error": {"message": "no"}}'),
    "forbidden": http(403, b"{}"),
    "invalid": http(422, json.dumps({"error": {"message": f"bad \x1b[31m\u202e {TOKEN} " + "x" * 9_000}}).encode()),
    "a field of controls": http(200, json.dumps({f"\x1b[2J{TOKEN}": 1}).encode()),
    "closed": b"",
}


@pytest.mark.parametrize("name", REPLIES)
def test_whatever_a_server_sends_is_one_of_two_errors(name: str) -> None:
    """Nothing but `RunError` and `DataError` leaves, in one short line without controls and token."""
    with RawServer(lambda _: REPLIES[name]) as server:
        client = Client(f"http://127.0.0.1:{server.port}", token=TOKEN, timeout=5)
        for call in (client.list_runs, lambda: client.get_eval_run("x"), lambda: client.evaluate(traces=[])):
            with pytest.raises((RunError, DataError)) as caught:
                call()
            text = str(caught.value)
            assert text.isprintable()
            assert TOKEN not in text
            assert len(text) < 700


@pytest.mark.slow
def test_replies_are_bounded_in_bytes_and_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reply that is too large, and a body that drips, end in a `RunError`."""
    monkeypatch.setattr(client_module, "_REPLY", 1_000)
    large = RawServer(lambda _: http(200, b" " * 2_000))
    with large as server, pytest.raises(RunError, match="more than 1,000 bytes"):
        Client(f"http://127.0.0.1:{server.port}").list_runs()
    monkeypatch.setattr(client_module, "_WHOLE", 2)
    pieces = [b"HTTP/1.1 200 OK\r\ncontent-length: 900\r\n\r\n"] + [b" "] * 900
    with RawServer(lambda _: pieces, pause=0.05) as server, pytest.raises(RunError, match="too slowly"):
        Client(f"http://127.0.0.1:{server.port}", timeout=0.3).list_runs()
