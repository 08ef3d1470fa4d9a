"""A budget is never exceeded, and is used as far as can be known."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal

import pytest

from judge_eval.errors import BudgetError, CallError, ConfigError, RefusedError, TransientError
from judge_eval.llm import budget
from judge_eval.llm.backend import Identity
from judge_eval.llm.budget import Budgeted, Spending, price_of
from judge_eval.llm.retry import Retried
from judge_eval.wire import Completion, Request, Usage
from tests.support import virtual_time
from tests.support.requests import ask

IDENTITY = Identity("openai", "gpt-4.1-mini", "https://api.openai.com/v1")


@dataclass
class Billing:
    """A server that bills: 0.25 tokens a byte and a few for the answer, and may fail."""

    failing: Callable[[int], Exception | None] = lambda number: None
    identity: Identity | None = IDENTITY
    calls: int = 0
    tokens: int = 0
    tells: bool = True
    random: random.Random = field(default_factory=lambda: random.Random(1))

    async def complete(self, request: Request) -> Completion:
        """Answer, or fail as told; what is billed is counted."""
        number = self.calls
        self.calls += 1
        await asyncio.sleep(self.random.uniform(0.5, 1.5))
        failure = self.failing(number)
        if failure:
            if isinstance(failure, TransientError) and not failure.sent:
                self.calls -= 1
            raise failure
        size = sum(len(message.content.encode()) for message in request.messages)
        usage = Usage(size // 4, self.random.randint(20, request.max_tokens))
        self.tokens += usage.input_tokens + usage.output_tokens
        return Completion("{}", usage=usage if self.tells else Usage())

    async def aclose(self) -> None:
        """Nothing to close."""


def spend(backend: Budgeted | Retried, calls: int, workers: int = 64) -> list[object]:
    """Make calls with many workers; return the outcomes."""

    async def go() -> list[object]:
        outcomes: list[object] = []
        left = iter(range(calls))

        async def work() -> None:
            for number in left:
                try:
                    outcomes.append(await backend.complete(ask(f"passage {number} " * (1 + number % 90))))
                except CallError as error:
                    outcomes.append(error)

        await asyncio.gather(*(work() for _ in range(workers)))
        return outcomes

    return virtual_time.run(go())


@pytest.mark.parametrize("most", [0, 1, 10, 63, 64, 65, 200])
def test_calls(most: int) -> None:
    """Exactly as many calls as allowed are made, the rest are declined."""
    server = Billing()
    outcomes = spend(Budgeted(server, max_calls=most), 150)
    assert server.calls == min(most, 150)
    assert sum(isinstance(outcome, BudgetError) for outcome in outcomes) == max(0, 150 - most)


@pytest.mark.parametrize("most", [1_000, 5_000, 50_000, 100_000])
def test_tokens(most: int) -> None:
    """Tokens stay under the limit, and what is left over is less than one call might take."""
    server = Billing()
    outcomes = spend(Budgeted(server, max_tokens=most), 400)
    assert server.tokens <= most
    assert any(isinstance(outcome, BudgetError) for outcome in outcomes)
    if most >= 50_000:
        assert server.tokens >= most - 2_000


def test_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cost stays under the limit, by the price list."""

    def price(identity: Identity, usage: Usage) -> float:
        return usage.input_tokens / 1000 + usage.output_tokens / 100

    monkeypatch.setattr(budget, "price_of", price)
    server = Billing()
    backend = Budgeted(server, max_cost=100)
    spend(backend, 400)
    assert Decimal(90) < backend.spent.cost <= Decimal(100)
    assert backend.spent.tokens == server.tokens


def test_waiting_for_those_in_flight() -> None:
    """A call that fits only if others take less than reserved waits for them."""
    server = Billing()
    backend = Budgeted(server, max_tokens=4_400)
    outcomes = spend(backend, 3)
    assert not any(isinstance(outcome, BudgetError) for outcome in outcomes)
    assert server.tokens <= 4_400


def test_unexecuted_attempts_are_free() -> None:
    """Attempts the server did not execute use up nothing, those of unknown fate do."""
    errors: list[Exception] = [
        TransientError("x", kind="rate_limit", sent=False),
        TransientError("x", kind="connection", sent=False),
    ]
    server = Billing(failing=lambda number: errors.pop() if errors else None)
    backend = Retried(Budgeted(server, max_calls=1), base=0.01)
    assert isinstance(spend(backend, 1)[0], Completion)
    lost = Budgeted(Billing(failing=lambda number: TransientError("x", kind="timeout")), max_tokens=10_000)
    spend(lost, 1)
    assert lost.spent.calls == 1
    assert lost.spent.tokens > 300


def test_refused_requests_cost_a_call_and_no_tokens() -> None:
    """A declined request is not billed."""
    backend = Budgeted(Billing(failing=lambda number: RefusedError("no")), max_tokens=100_000)
    spend(backend, 1)
    assert backend.spent == Spending(calls=1)


def test_server_that_does_not_tell() -> None:
    """Without usage the reservation is what was spent."""
    server = Billing(tells=False)
    backend = Budgeted(server, max_tokens=50_000)
    spend(backend, 400)
    assert server.tokens <= backend.spent.tokens <= 50_000


def test_cancelled_calls_give_back_their_turn() -> None:
    """Those who wait can be cancelled; the reservation of one under way is booked, its fate unknown."""
    server = Billing()
    backend = Budgeted(server, max_calls=2)

    async def go() -> None:
        tasks = [asyncio.create_task(backend.complete(ask())) for _ in range(4)]
        await asyncio.sleep(0.1)
        tasks[0].cancel()
        tasks[2].cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert isinstance(outcomes[1], Completion)
        assert isinstance(outcomes[3], BudgetError)

    virtual_time.run(go())
    assert backend.spent.calls == 2


def test_message_says_what_to_do() -> None:
    """The error names the limit and how to go on."""
    with pytest.raises(BudgetError, match="budget of 0 calls is used up; raise max_calls and resume") as caught:
        asyncio.run(Budgeted(Billing(), max_calls=0).complete(ask()))
    assert caught.value.why == "budget"


def test_unknown_price() -> None:
    """A budget in money needs a price, up front."""
    unknown = Identity("openai", "no-such-model-at-all", "http://127.0.0.1:1/v1")
    with pytest.raises(ConfigError, match="max_cost"):
        Budgeted(Billing(identity=unknown), max_cost=1)


def test_price_list() -> None:
    """Known models have a price that grows with the tokens, unknown ones None; cached input is cheaper."""
    pytest.importorskip("genai_prices")
    plain = price_of(IDENTITY, Usage(1_000_000, 0))
    cached = price_of(IDENTITY, Usage(1_000_000, 0, cached_tokens=1_000_000))
    assert plain is not None
    assert cached is not None
    assert 0 < cached < plain
    assert price_of(Identity("openai", "gpt-4.1-mini", "http://proxy.example/v1"), Usage(1_000_000, 0)) == plain
    assert price_of(Identity("openai", "no-such-model-at-all"), Usage(1, 1)) is None
    Budgeted(Billing(), max_cost=1)
