"""Requests that are declined whole are asked in halves: nothing is lost, nothing paid twice."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from judge_eval.errors import BudgetError, CallError, FatalCallError, FilteredError, RefusedError, RequestTooLargeError
from judge_eval.llm.backend import Identity
from judge_eval.llm.cache.disk import DiskStore
from judge_eval.llm.request_splitter import RequestSplitter
from judge_eval.wire import Completion, Request
from tests.support.asking_decisions import confidences, judged, replayed, request, row, sure, whys
from tests.support.canned import Canned, error
from tests.support.decision_server import DecisionServer
from tests.support.decision_shapes import DIALECT_NAMES, DialectName
from tests.support.forking import ROOT
from tests.support.waiting import until

TEXTS = tuple(f"text {n} " + "x" * 400 for n in range(8))
SURE = {text: round(0.1 + n / 10, 2) for n, text in enumerate(TEXTS)}


class Picky:
    """A backend that declines by a rule, and counts what it is asked."""

    identity = Identity("openai", "m")

    def __init__(self, declines: Callable[[Request], Exception | None]) -> None:
        self.declines, self.asked = declines, list[tuple[str, ...]]()

    async def complete(self, request: Request) -> Completion:
        """Answer with each text's number in hundredths, or decline."""
        await asyncio.sleep(0)
        texts = tuple(passage.text for passage in request.passages)
        self.asked.append(texts)
        wrong = self.declines(request)
        if wrong is not None:
            raise wrong
        return sure(*(int(text) / 100 for text in texts))

    async def aclose(self) -> None:
        """Do nothing."""


def ask(backend: RequestSplitter, *numbers: int) -> list[float | str | None]:
    """Ask about texts, and return each one's probability, or why there is none."""
    completion = asyncio.run(backend.complete(request(*map(str, numbers))))
    return [answer.probabilities[1] if answer.probabilities else answer.why for answer in completion.answers]


def over(most: int) -> Callable[[Request], Exception | None]:
    """Decline more than so many questions."""
    return lambda request: RequestTooLargeError("large") if len(request.passages) > most else None


def test_answers_keep_their_places() -> None:
    """However often a request is split, the answers stand in the order of the questions."""
    for most in range(1, 10):
        backend = Picky(over(most))
        assert ask(RequestSplitter(backend), *range(1, 10)) == [n / 100 for n in range(1, 10)]


def test_what_was_too_large_is_learned() -> None:
    """The next request of that size is split at once; a smaller one is not."""
    backend = Picky(over(2))
    splitter = RequestSplitter(backend)
    ask(splitter, 1, 2, 3, 4)
    assert backend.asked == [("1", "2", "3", "4"), ("1", "2"), ("3", "4")]
    backend.asked.clear()
    ask(splitter, 5, 6, 7, 8)
    ask(splitter, 11, 12)
    assert backend.asked == [("5", "6"), ("7", "8"), ("11", "12")]


def test_what_is_asked_of_all_passages_together_is_not_parted() -> None:
    """Halves of the passages would be another question, paid for in vain."""
    backend = Picky(over(1))
    whole = replace(request("1", "2"), claims=("a claim",))
    with pytest.raises(RequestTooLargeError):
        asyncio.run(RequestSplitter(backend).complete(whole))
    assert backend.asked == [("1", "2")]


def test_what_was_learned_does_not_grow() -> None:
    """Of sizes that were too large only the smallest are kept."""
    splitter = RequestSplitter(Picky(over(1)))

    async def many() -> None:
        await asyncio.gather(*(splitter.complete(request(*map(str, range(1, n)))) for n in range(3, 30)))

    asyncio.run(many())
    assert len(splitter._too_large) == 1


def test_a_filter_costs_one_question() -> None:
    """What a content filter declines is found by halves; nothing is learned from it."""
    backend = Picky(lambda r: FilteredError("filter") if "5" in [p.text for p in r.passages] else None)
    splitter = RequestSplitter(backend)
    assert ask(splitter, 1, 2, 3, 4, 5, 6, 7, 8) == [0.01, 0.02, 0.03, 0.04, "refused", 0.06, 0.07, 0.08]
    assert len(backend.asked) == 7
    backend.asked.clear()
    ask(splitter, 11, 12, 13, 14)
    assert len(backend.asked) == 1


def test_a_refusal_without_a_reason_costs_one_question() -> None:
    """An odd chunk never hides the others, whether or not the server says what it dislikes."""
    backend = Picky(lambda r: RefusedError("no") if "3" in [p.text for p in r.passages] else None)
    assert ask(RequestSplitter(backend), 1, 2, 3, 4) == [0.01, 0.02, "refused", 0.04]


def test_a_server_that_declines_everything_is_not_asked_in_halves_for_ever() -> None:
    """After eight questions declined one by one, with nothing ever answered, a request is asked once."""
    backend = Picky(lambda request: RefusedError("no such field"))
    splitter = RequestSplitter(backend)
    for turn in range(4):
        backend.asked.clear()
        try:
            result = ask(splitter, 1, 2, 3, 4, 5, 6)
        except RefusedError:
            result = ["refused"] * 6
        assert result == ["refused"] * 6
        assert 1 < len(backend.asked) <= 11 if turn < 2 else len(backend.asked) == 1


def test_one_question_too_large_is_refused() -> None:
    """What has no halves is declined as it is."""
    with pytest.raises(RequestTooLargeError):
        ask(RequestSplitter(Picky(over(0))), 1)
    assert ask(RequestSplitter(Picky(over(0))), 1, 2) == ["refused", "refused"]


def test_a_part_that_fails_says_why_and_the_other_stands() -> None:
    """Its questions are not answered, which is no final answer: nothing keeps it."""
    for wrong, why in ((CallError("gone"), "unreachable"), (BudgetError("spent"), "budget")):
        backend = Picky(
            lambda r, wrong=wrong: (  # type: ignore[misc]
                over(2)(r) or (wrong if r.passages[0].text == "3" else None)
            )
        )
        assert ask(RequestSplitter(backend), 1, 2, 3, 4) == [0.01, 0.02, why, why]
        assert not asyncio.run(RequestSplitter(backend).complete(request("1", "2", "3", "4"))).whole


def test_what_ends_the_run_waits_for_the_other_half() -> None:
    """A key that was withdrawn between two halves ends the run, after the answer that was paid for."""
    done: list[str] = []

    class Slow(Picky):
        async def complete(self, request: Request) -> Completion:
            if request.passages[0].text == "1" and len(request.passages) == 2:
                await asyncio.sleep(0.02)
                done.append("answered")
            return await super().complete(request)

    backend = Slow(lambda r: over(2)(r) or (FatalCallError("key") if r.passages[0].text == "3" else None))
    with pytest.raises(FatalCallError):
        ask(RequestSplitter(backend), 1, 2, 3, 4)
    assert done == ["answered"]


# Over HTTP, with a cache, a cassette and a run


@pytest.mark.parametrize("how", ["413", "504", "context"])
@pytest.mark.parametrize("dialect", DIALECT_NAMES)
def test_a_server_that_takes_less_is_asked_for_less(
    dialect: DialectName, how: Literal["413", "504", "context"], tmp_path: Path
) -> None:
    """413, 504 with HTML and a context that is too long: no attempt is repeated, each question paid once."""
    tape = tmp_path / "tape.jsonl"
    with DecisionServer(dialect, SURE.__getitem__) as server:
        server.most_characters, server.too_large = 3_600, how
        run = judged(server, row(*TEXTS), cache=tmp_path / "cache", record=tape, attempts=8)
        assert confidences(run) == pytest.approx(list(SURE.values()))
        assert [server.paid(text) for text in TEXTS] == [1] * 8
        declined = server.counts["413"] + server.counts["504"] + server.counts["400"]
        assert server.counts["calls"] == declined + server.counts["paid"]
        assert len({str(body) for body in server.calls}) == len(server.calls)
        before = server.counts["calls"]
        again = judged(server, row(*TEXTS), cache=tmp_path / "cache")
        offline = judged(server, row(*TEXTS), cache=tmp_path / "cache", offline=True)
        assert server.counts["calls"] == before
    for later in (again, offline, replayed(tape, row(*TEXTS))):
        assert later.results[0].outcomes == run.results[0].outcomes


def test_too_many_questions_are_parted_and_learned(tmp_path: Path) -> None:
    """The second trace is not asked whole any more."""
    with DecisionServer("openai", SURE.__getitem__) as server:
        server.most = 4
        rows = [row(*TEXTS, id=f"t{n}", query=f"q{n}") for n in range(3)]
        run = judged(server, *rows, concurrency=1)
        assert confidences(run) == pytest.approx(list(SURE.values()) * 3)
        assert server.counts["400"] <= 3
        judged(server, *rows[:1], most=4)
        assert server.counts["400"] <= 3


def test_a_dialect_has_a_limit_of_its_own() -> None:
    """VLLM takes 200 questions: more are not even sent."""
    texts = [f"text {n}" for n in range(250)]
    with DecisionServer("vllm", lambda text: int(text.split()[1]) / 1000) as server:
        run = judged(server, row(*texts), most=400)
        assert server.objections == []
        assert [len(body["questions"]) for body in server.calls] == [125, 125]
    assert confidences(run) == pytest.approx([n / 1000 for n in range(250)])


def test_a_single_question_that_no_gateway_waits_for_is_unreachable() -> None:
    """It has no halves and is not asked again: no verdict, and no claim that the model declined."""
    with DecisionServer("openai") as server:
        server.most_characters, server.too_large = 10, "504"
        run = judged(server, row("one"), attempts=8)
        assert whys(run) == ["unreachable"]
        assert server.counts["calls"] <= 2  # the run goes over what failed once more


def test_a_filtered_chunk_is_refused_alone(tmp_path: Path) -> None:
    """The others have their verdicts, are kept, and are not paid again."""
    with DecisionServer("openai", SURE.__getitem__) as server:
        server.filtered = TEXTS[2]
        run = judged(server, row(*TEXTS), cache=tmp_path)
        assert whys(run) == [None, None, "refused", *[None] * 5]
        assert [server.paid(text) for text in TEXTS] == [1, 1, 0, 1, 1, 1, 1, 1]
        calls = server.counts["calls"]
        again = judged(server, row(*TEXTS), cache=tmp_path)
        assert server.counts["calls"] == calls
    assert again.results[0].outcomes == run.results[0].outcomes


def test_a_fleet_parts_requests_too() -> None:
    """Several servers behind one name are no reason to lose what is too large."""
    with DecisionServer("openai", SURE.__getitem__) as first, DecisionServer("openai", SURE.__getitem__) as two:
        first.most = two.most = 3
        run = judged(first, row(*TEXTS), fleet=(two.url,))
    assert confidences(run) == pytest.approx(list(SURE.values()))


@pytest.mark.slow
def test_a_half_that_failed_is_asked_again_alone(tmp_path: Path) -> None:
    """What passed is kept, what failed is no verdict; the next run pays for that half only."""
    with DecisionServer("openai", SURE.__getitem__) as server:
        server.most, server.slow = 4, {TEXTS[7]: 60.0}
        run = judged(server, row(*TEXTS), cache=tmp_path, timeout=1.5, attempts=1)
        assert whys(run) == [*[None] * 4, *["unreachable"] * 4]
        server.slow = {}
        again = judged(server, row(*TEXTS), cache=tmp_path)
        assert [server.paid(text) for text in TEXTS[:4]] == [1] * 4
    assert confidences(again) == pytest.approx(list(SURE.values()))


def test_what_failed_in_passing_is_not_recorded(tmp_path: Path) -> None:
    """A cassette holds answers and refusals: replaying never repeats a failure of the network."""
    tape = tmp_path / "tape.jsonl"
    with DecisionServer("openai", SURE.__getitem__) as server:
        server.most = 4
        server.slow = {TEXTS[7]: 60.0}
        judged(server, row(*TEXTS), record=tape, timeout=0.3, attempts=1)
        assert not tape.exists() or "unreachable" not in tape.read_text()
        server.slow = {}
        run = judged(server, row(*TEXTS), record=tape)
    assert replayed(tape, row(*TEXTS)).results[0].outcomes == run.results[0].outcomes


@pytest.mark.slow
def test_passing_failures_are_tried_again(tmp_path: Path) -> None:
    """429 with Retry-After, 500 and a 504 that is JSON pass; what they hold up is paid once."""
    for canned in (
        error(429, "slow down", code="rate_limit_exceeded", retry_after_ms="5"),
        error(500),
        error(504),
        Canned(200, {}, {"error": {"message": "overloaded", "code": 503}}),
    ):
        with DecisionServer("openai", SURE.__getitem__) as server:
            server.script(canned)
            run = judged(server, row(*TEXTS))
            assert server.counts["calls"] == 2
        assert whys(run) == [None] * 8


@pytest.mark.slow
@pytest.mark.parametrize("killed", ["first", "second"])
def test_a_kill_between_halves_pays_nothing_twice(killed: str, tmp_path: Path) -> None:
    """A run that is killed with one half answered goes on with the other one."""
    data = tmp_path / "data.jsonl"
    data.write_text(json.dumps(row(*TEXTS)) + "\n")
    slow, quick = (TEXTS[4:], TEXTS[:4]) if killed == "second" else (TEXTS[:4], TEXTS[4:])
    with DecisionServer("openai", SURE.__getitem__) as server:
        server.most, server.slow = 4, {slow[0]: 60.0}
        arguments = ["run", str(data), "--model", "decisions/m", "-p", "dialect=openai", "--base-url"]
        arguments += [server.url, "--out", str(tmp_path / "runs"), "-q", "--resume"]
        env = {name: each for name, each in os.environ.items() if not name.startswith(("JUDGE_EVAL", "OPENAI"))}
        env |= {"PYTHONPATH": str(ROOT), "JUDGE_EVAL_CACHE": str(tmp_path / "cache")}
        command = [sys.executable, "-m", "judge_eval", *arguments]
        with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            kept = DiskStore(tmp_path / "cache")
            until(lambda: server.paid(quick[0]) == 1 and kept.info().entries == 1, process)
            process.send_signal(signal.SIGKILL)
        assert [server.paid(text) for text in TEXTS] == [int(text in quick) for text in TEXTS]
        server.slow = {}
        done = subprocess.run(command, env=env, capture_output=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr
        assert [server.paid(text) for text in TEXTS] == [1] * 8
        before = server.counts["calls"]
        offline = [*command[:-1], "--offline", "--out", str(tmp_path / "others")]
        done = subprocess.run(offline, env=env, capture_output=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr
        assert server.counts["calls"] == before
