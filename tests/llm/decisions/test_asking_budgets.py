"""What asking a server of decision models costs, and who may be asked what."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from judge_eval import Evaluator, FakeBackend, Options, Trace
from judge_eval.errors import ConfigError
from judge_eval.judges import Pointwise
from judge_eval.judges.cascade import Cascade
from judge_eval.judges.decision import Decision
from judge_eval.llm.backend import Identity
from judge_eval.llm.budget import Budgeted
from judge_eval.llm.http.openai import OpenAI
from judge_eval.llm.limit import _guess
from judge_eval.wire import Completion, Request, Usage
from tests.support.asking_decisions import (
    TEXTS,
    asked_of_backend,
    complete_all,
    judged,
    options_for,
    request,
    row,
    sure,
    whys,
)
from tests.support.chat_server import ChatServer
from tests.support.decision_server import DecisionServer
from tests.support.desk import Desk
from tests.support.requests import ask


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Desk:
    """A new user's empty folder, in this process, with data."""
    (tmp_path / "data.jsonl").write_text(json.dumps(row()) + "\n")
    return Desk.at(tmp_path, monkeypatch, capsys)


# Budgets


@pytest.mark.parametrize("each", [False, True])
def test_budgets_are_kept(each: bool, tmp_path: Path) -> None:
    """Calls and tokens, however what the questions share is billed; what does not fit is no verdict."""
    rows = [row(*TEXTS, id=f"t{n}", query=f"query {n} " + "words " * 300) for n in range(12)]
    with DecisionServer("openai", each=each) as server:
        run = judged(server, *rows, max_calls=5, cache=tmp_path)
        assert server.counts["calls"] == 5
        assert whys(run).count("budget") == 7 * 4
        more = judged(server, *rows, max_calls=7, cache=tmp_path)
        assert server.counts["calls"] == 12
        assert whys(more) == [None] * 48
    with DecisionServer("openai", each=each) as server:
        judged(server, *rows, max_tokens=30_000, concurrency=8)
        assert server.counts["calls"] >= 3
        assert sum(server.billed) <= 30_000


def test_parted_calls_count_in_a_budget(tmp_path: Path) -> None:
    """Each half is a call; those that do not fit are no verdict, and the next run pays for them alone."""
    with DecisionServer("openai") as server:
        server.most = 2
        run = judged(server, max_calls=2, cache=tmp_path)
        assert server.counts["calls"] == 2
        assert whys(run).count("budget") == 2
        assert whys(judged(server, cache=tmp_path)) == [None] * 4
        assert [server.paid(text) for text in TEXTS] == [1] * 4


def test_a_cost_is_kept_where_the_input_is_billed_once_or_for_each() -> None:
    """The larger is held back, whichever kind of request told first."""

    class Billing:
        identity = Identity("openai", "gpt-4.1-mini", "https://api.openai.com/v1")
        each, spent = False, 0

        async def complete(self, request: Request) -> Completion:
            shown = request.billed if self.each else request.messages
            tokens = sum(len(message.content) for message in shown) // 4
            self.spent += tokens
            return Completion("", usage=Usage(tokens, 0), answers=sure(*[0.5] * len(request.passages)).answers)

        async def aclose(self) -> None:
            """Do nothing."""

    shared = "the same words " * 400
    first, many = request("a"), request(*map(str, range(20)))
    for each in (False, True):
        for order in ((first, many), (many, first)):
            server = Billing()
            server.each = each
            budget = Budgeted(server, max_tokens=60_000)

            async def go(budget: Budgeted = budget, order: tuple[Request, ...] = order) -> None:
                for n in range(40):
                    made = replace(order[n % 2], query=f"{n} {shared}")
                    await asyncio.gather(budget.complete(made), return_exceptions=True)

            asyncio.run(go())
            assert server.spent <= 60_000
            assert server.spent > 2_000


def test_the_first_guess_of_tokens_counts_the_questions() -> None:
    """A rate limit in tokens goes by what is shown: of ten questions more than of one."""
    first, ten = _guess(request("a")), _guess(request(*"abcdefghij"))
    shown = sum(len(message.content) for message in request(*"abcdefghij").messages)
    assert ten == pytest.approx(shown / 4 + 50)
    assert ten > first + 9 * 50
    assert _guess(ask()) > 300  # the cap of a text is part of it


def test_lead_asks_as_often(tmp_path: Path) -> None:
    """A trace's first request ahead of the others changes neither their number nor the verdicts."""
    with DecisionServer("openai") as server:
        plain = judged(server, layout="request")
        led = judged(server, layout="request", warm_prefix=True)
        assert server.counts["calls"] == 8
    assert led.results[0].outcomes == plain.results[0].outcomes


# Who may be asked what


def test_a_chat_model_is_not_asked_questions() -> None:
    """Nor a decision model for a text: said where the evaluator is made, and by the backends themselves."""
    cases: list[tuple[Any, dict[str, Any], str]] = [
        ("openai/m", {"mode": "decision"}, "openai/m writes texts, and the mode is decision"),
        ("openai/m", {"judge": Decision()}, "openai/m writes texts"),
        ("decisions/m", {"mode": "pointwise"}, "writes nothing, and the mode is pointwise"),
        ("decisions/m", {"judge": Pointwise("support/binary")}, "writes nothing"),
        ({"cheap": "decisions/m", "strong": "decisions/n"},
         {"judge": Cascade(Decision(), Pointwise("support/binary"), 0.8)}, "decisions/n answers questions"),
        ({"cheap": "openai/m", "strong": "openai/n"},
         {"judge": Cascade(Decision(), Pointwise("support/binary"), 0.8)}, "openai/m writes texts"),
    ]  # fmt: skip
    for model, more, outcome in cases:
        with pytest.raises(ConfigError, match=outcome):
            Evaluator(model, cache=False, **more)
    with ChatServer() as chat, pytest.raises(ConfigError, match="m writes texts and is not a decision model"):
        asyncio.run(OpenAI("m", base_url=chat.url).complete(request()))
    with DecisionServer() as server:
        (result,) = complete_all(asked_of_backend(server), [ask()])
        assert isinstance(result, ConfigError)
        assert server.counts["calls"] == chat.counts["calls"] == 0


def test_a_backend_of_ones_own_may_answer_both() -> None:
    """Nothing is assumed of it: a script sees the questions and answers them."""
    backend = FakeBackend(lambda r: sure(*[0.7] * len(r.passages)))
    with Evaluator(backend, mode="decision", cache=False) as evaluator:
        run = evaluator.evaluate(Trace.parse(row()))
    assert whys(run) == [None] * 4


def test_the_command_line_says_so_before_anything_is_paid(desk: Desk) -> None:
    """One line, exit code 2, no run; also from `doctor`."""
    with ChatServer() as chat, DecisionServer() as server:
        wrong = (
            ("--model", "openai/m", "--mode", "decision", "--base-url", chat.url),
            ("--model", "decisions/m", "--mode", "pointwise", "--base-url", server.url, "-p", "dialect=openai"),
            ("--model", "decisions/m", "--base-url", server.url),
        )
        for flags in wrong:
            result = desk("run", "data.jsonl", *flags)
            assert result.code == 2, result.err
            assert result.err.count("\n") == 1, result.err
            examined = desk("doctor", *flags)
            assert examined.code == 2
            assert "problem: " in examined.out
        result = desk("run", "data.jsonl", "--model", "decisions/m", "--prompt", "support/decision", "--mode",
                    "listwise", "--base-url", server.url, "-p", "dialect=openai")  # fmt: skip
        assert result.code == 2
        assert not (desk.folder / "runs").exists()
        assert server.counts["calls"] == chat.counts["calls"] == 0
        fine = desk("doctor", "--model", "decisions/m", "--base-url", server.url, "-p", "dialect=openai", "--live")
        assert fine.code == 0, fine.out + fine.err


def test_a_dry_run_of_a_decision_model(desk: Desk) -> None:
    """It counts requests, not chunks, and says that nothing is written."""
    with DecisionServer() as server:
        flags = ("--model", "decisions/m", "--base-url", server.url, "-p", "dialect=openai")
        result = desk("run", "data.jsonl", *flags, "--dry-run")
        assert result.code == 0, result.err
        assert "1 call, 0 answered without a call" in result.out
        assert "no output tokens: a decision model generates no text" in result.out
        assert "likely (" not in result.out
        assert server.counts["calls"] == 0
        (desk.folder / "alone.toml").write_text('model = "decisions/m"\nlayout = "request"\n')
        alone = desk("run", "data.jsonl", "--judge", "alone.toml", *flags[2:], "--dry-run")
        assert "4 calls, 0 answered without a call" in alone.out
        desk("run", "data.jsonl", *flags)
        assert "0 calls, 1 answered without a call" in desk("run", "data.jsonl", *flags, "--dry-run").out


def test_the_offline_judge_answers_questions(desk: Desk) -> None:
    """`fake/overlap` stands in for a decision model, in all layouts."""
    for layout in ("question", "input", "request"):
        (desk.folder / "j.toml").write_text(f'model = "fake/overlap"\nmode = "decision"\nlayout = "{layout}"\n')
        result = desk("run", "data.jsonl", "--judge", "j.toml")
        assert result.code == 0, result.err


def test_options_reach_the_backend() -> None:
    """A budget of time and the most bytes of a reply hold here too."""
    with DecisionServer() as server:
        server.slow = {"San": 60.0}
        with Evaluator("decisions/m", cache=False, options=options_for(server, timeout=0.2, attempts=1)) as e:
            assert whys(e.evaluate([row()])) == ["unreachable"] * 4
        server.slow = {}
        small: Options = options_for(server, max_reply=50, attempts=1)
        with Evaluator("decisions/m", cache=False, options=small) as e:
            assert whys(e.evaluate([row()])) == ["unparsable"] * 4
