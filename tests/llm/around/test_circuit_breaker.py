"""After a success, one odd answer of a server costs one request; equal ones in a row end the run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from judge_eval import EvalRun, Evaluator, Options
from judge_eval.errors import FatalCallError
from tests.support.canned import Canned, error
from tests.support.chat_server import ChatServer

FIREWALL = Canned(403, {"content-type": "text/html"}, "<html><h1>Request blocked</h1>Ray 17</html>")
ODD = {
    "a firewall": FIREWALL,
    "no key": error(401, "Incorrect API key"),
    "no credit": error(402, "Payment required"),
    "not found": error(404, "no such page"),
    "a redirect": Canned(307, {"location": "http://elsewhere.example/v1"}, ""),
    "an error in a 200": Canned(200, {}, {"error": {"code": 403, "message": "blocked"}}),
    "a quotation": error(400, "invalid content: 'the model gpt-9 does not exist'"),
}


class PickyServer(ChatServer):
    """A chat server that gives an answer of its own to bodies which a rule names."""

    def __init__(self, rule: Callable[[str], bool], odd: Canned) -> None:
        super().__init__(keep=False)
        self.rule, self.odd = rule, odd

    def answer(self, raw: bytes, headers: dict[str, str]) -> Canned:
        """Decide on the reply to one call."""
        if self.rule(raw.decode()):
            self.counts["calls"] += 1
            self.counts["odd"] += 1
            return self.odd
        return super().answer(raw, headers)


@pytest.fixture(autouse=True)
def _local(monkeypatch: pytest.MonkeyPatch) -> None:
    """No key, which loopback does not need."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


def rows(count: int, odd: Mapping[int, str] | None = None) -> list[dict[str, Any]]:
    """Make traces of two chunks; `odd` replaces the second chunk's text by position."""
    return [
        {
            "id": f"t{n}",
            "query": f"Question {n}?",
            "reference": f"Answer {n}.",
            "chunks": [f"plain {n}", (odd or {}).get(n, f"other {n}")],
        }
        for n in range(count)
    ]


def judge(server: ChatServer, data: list[dict[str, Any]], **more: Any) -> EvalRun:
    """Judge traces one call after the other."""
    options = Options(base_url=server.url, concurrency=1, attempts=1)
    with Evaluator("openai/m", metrics=["AP@2"], cache=False, options=options) as evaluator:
        return evaluator.evaluate(data, **more)


def failures(run: EvalRun) -> list[tuple[str, str]]:
    """Return chunk and reason of each outcome without a verdict."""
    return [
        (result.trace_id, outcome.why)
        for result in run.results
        for outcome in result.outcomes
        if outcome.kind != "verdict"
    ]


@pytest.fixture(params=ODD)
def picky(request: pytest.FixtureRequest) -> Iterator[PickyServer]:
    """A server that dislikes one chunk in one of the ways."""
    with PickyServer(lambda body: "DISLIKED" in body, ODD[request.param]) as server:
        yield server


def test_an_odd_answer_about_one_chunk_fails_that_call(picky: PickyServer) -> None:
    """After a success, it costs its own verdict; the traces after it are judged."""
    run = judge(picky, rows(8, {3: "DISLIKED text"}))
    assert failures(run) == [("t3", "refused")]
    assert run.status == "incomplete"
    assert len(run.results) == 8


def test_the_first_answer_of_all_ends_the_run(picky: PickyServer) -> None:
    """Before any success it means the model or the key: one request is sent."""
    with pytest.raises(FatalCallError):
        judge(picky, [{"id": "t", "query": "q", "reference": "r", "chunks": ["DISLIKED"]}])
    assert picky.counts["calls"] == 1


@pytest.mark.slow
def test_an_odd_answer_before_the_others_waits_for_them(picky: PickyServer) -> None:
    """A firewall answers faster than a model: calls in flight show whether the server answers at all."""
    picky.latency = 0.2
    options = Options(base_url=picky.url, concurrency=8, attempts=1)
    with Evaluator("openai/m", metrics=["AP@2"], cache=False, options=options) as evaluator:
        run = evaluator.evaluate(rows(8, {0: "DISLIKED text"}))
    assert failures(run) == [("t0", "refused")]


def test_equal_answers_in_a_row_from_five_traces_end_the_run(picky: PickyServer, tmp_path: Path) -> None:
    """A key that expires in the middle is noticed after five traces; a resume asks those again."""
    data = rows(20)
    picky.rule = lambda body: picky.counts["paid"] >= 12
    with pytest.raises(FatalCallError, match="of 5 traces, failed in the same way"):
        judge(picky, data, out=tmp_path)
    assert picky.counts["odd"] < 20
    picky.rule = lambda body: False
    run = judge(picky, data, out=tmp_path, resume=True)
    assert run.status == "done"
    assert picky.counts["paid"] == 40


def test_a_resume_goes_past_the_odd_chunk(tmp_path: Path) -> None:
    """What earlier sessions were answered counts as a success: the run does not end there again."""
    with PickyServer(lambda body: "DISLIKED" in body, FIREWALL) as server:
        data = rows(6, {2: "DISLIKED"})
        first = judge(server, data, out=tmp_path)
        again = judge(server, data, resume=str(first.folder))
        assert failures(again) == [("t2", "refused")]
        assert again.status == "incomplete"
        server.rule = lambda body: False
        assert judge(server, data, resume=str(first.folder)).status == "done"


def test_answers_from_a_cache_count_as_a_success(tmp_path: Path) -> None:
    """A second run over the same data, of which all but the odd chunk is cached, does not end there."""
    with PickyServer(lambda body: "DISLIKED" in body, FIREWALL) as server:
        data = rows(6, {0: "DISLIKED"})[::-1]
        options = Options(base_url=server.url, concurrency=1, attempts=1)
        for _ in range(2):
            with Evaluator("openai/m", metrics=["AP@2"], cache=tmp_path, options=options) as evaluator:
                assert failures(evaluator.evaluate(data)) == [("t0", "refused")]
        assert server.counts["paid"] == 11


def test_odd_answers_with_successes_between_them_never_end_a_run() -> None:
    """A firewall that dislikes every second chunk leaves the others their verdicts."""
    with PickyServer(lambda body: "DISLIKED" in body, FIREWALL) as server:
        run = judge(server, rows(12, dict.fromkeys(range(12), "DISLIKED")))
        assert len(failures(run)) == 12
        assert len(run.results) == 12


def test_one_trace_alone_never_ends_a_run() -> None:
    """A question that the server dislikes costs its own chunks, however many."""
    with PickyServer(lambda body: "Question 1?" in body, FIREWALL) as server:
        data = rows(3)
        data[1]["chunks"] = [f"text {n}" for n in range(30)]
        run = judge(server, data)
        assert len(failures(run)) == 30
        assert {trace for trace, _ in failures(run)} == {"t1"}


def test_twenty_equal_refusals_in_a_row_end_the_run() -> None:
    """The rest is not spent on a server that refuses everything; the message quotes the server."""
    with PickyServer(lambda body: server.counts["paid"] >= 4, error(400, "too odd, id 77")) as server:
        with pytest.raises(FatalCallError, match=r"too odd, id 77 \(the last 20 calls, of 10 traces"):
            judge(server, rows(100))
        assert server.counts["odd"] < 40


def test_refusals_of_different_kinds_do_not_end_a_run() -> None:
    """Content filters speak of the content alone."""
    with PickyServer(lambda body: server.counts["paid"] >= 4, error(400, "flagged", code="content_filter")) as server:
        run = judge(server, rows(30))
        assert len(failures(run)) == 56
