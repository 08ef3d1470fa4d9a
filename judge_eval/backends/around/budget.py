"""Keeps calls, tokens and cost under what was allowed, calls in flight included."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import NamedTuple

from judge_eval.backends.around.prices import price_of, require_price
from judge_eval.backends.base import Backend, Identity, Wrapper
from judge_eval.digest import canonical_json
from judge_eval.errors import BudgetError, CallError, ConfigError, FatalCallError, TransientError
from judge_eval.wire import Completion, Message, Request, Usage

Price = Callable[[Identity, Usage], Decimal | float | None]
"""What tokens cost, in one currency; None where it is not known."""

_MARGIN = 1.5
"""How much denser in tokens than anything seen so far a text may be."""
_PER_MESSAGE = 16
"""Tokens that a chat template puts around a message, at most."""


class _Size(NamedTuple):
    """The bytes of a request."""

    once: int
    most: int
    """With what its questions share once for each."""


@dataclass(frozen=True, slots=True)
class Spending:
    """Calls, tokens (input and output together) and cost, spent or reserved."""

    calls: int = 0
    tokens: int = 0
    cost: Decimal = Decimal(0)

    def __add__(self, other: Spending) -> Spending:
        return Spending(self.calls + other.calls, self.tokens + other.tokens, self.cost + other.cost)

    def __sub__(self, other: Spending) -> Spending:
        return Spending(self.calls - other.calls, self.tokens - other.tokens, self.cost - other.cost)


@dataclass(slots=True)
class Purse:
    """What is spent and held back, and who waits for room."""

    spent: Spending = Spending()
    reserved: Spending = Spending()
    waiters: deque[asyncio.Future[None]] = field(default_factory=deque)


class Budgeted(Wrapper):
    """A backend that spends no more than was allowed.

    Before a call the most that it can take is reserved; after it, what it took is booked. An attempt the
    server certainly did not execute costs nothing; one of unknown fate is booked as reserved. A call that
    would fit but for reservations waits for those in flight; one that cannot fit is declined.

    Input is reckoned as one token per UTF-8 byte until a call has told, which no tokenizer exceeds; then
    as one and a half times the most tokens per byte seen. What the questions of a request share may be
    billed once or for each of them: the larger holds. It stands inside a retrying backend, so that
    every attempt counts: `Retried(Budgeted(Limited(...)))`.

    Args:
        inner: The backend that calls.
        max_calls: The most calls; None: any number.
        max_tokens: The most tokens, input and output together; None: any number.
        max_cost: The most to be spent, in the currency of `price`; None: any amount.
        price: What tokens cost; else the price list of the extra `cost`, in US dollars.
        purse: What is spent so far, shared by several backends that must keep under one limit together.

    Raises:
        ConfigError: A number is below 0, or the model's price is not known and `max_cost` is given.
    """

    def __init__(
        self,
        inner: Backend,
        *,
        max_calls: int | None = None,
        max_tokens: int | None = None,
        max_cost: Decimal | float | None = None,
        price: Price | None = None,
        purse: Purse | None = None,
    ) -> None:
        for name, value in (("max_calls", max_calls), ("max_tokens", max_tokens), ("max_cost", max_cost)):
            if value is not None and not value >= 0:
                raise ConfigError(f"{name} must be at least 0, not {value}")
        super().__init__(inner)
        self._max_calls, self._max_tokens = max_calls, max_tokens
        self._max_cost = None if max_cost is None else Decimal(str(max_cost))
        self._price: Price | None = price
        if self._max_cost is not None and price is None:
            require_price(inner.identity)
            self._price = price_of
        elif self._max_cost is not None and self._cost(Usage(1000, 1000)) is None:
            raise ConfigError("max_cost: the price of these calls is not known; use max_tokens or max_calls")
        self._purse = purse or Purse()
        self._densities: tuple[float, float] | None = None
        self._schemas: dict[bytes, int] = {}

    @property
    def spent(self) -> Spending:
        """What is booked so far; cost is 0 where no price was given."""
        return self._purse.spent

    async def complete(self, request: Request) -> Completion:
        """Answer one request, if the budget allows.

        Raises:
            BudgetError: The budget does not allow the call.
            CallError: As the inner backend.
            FatalCallError: As the inner backend.
        """
        size = self._size(request)
        held = await self._reserve(size, request.max_tokens)
        booked = held
        try:
            completion = await self.inner.complete(request)
            booked = self._bill(completion.usage, held, size)
            return completion
        except TransientError as error:
            if not error.sent or error.kind == "rate_limit":
                booked = Spending()
            raise
        except (CallError, FatalCallError) as error:
            # Declined requests are not billed, but they were calls.
            if not isinstance(error, CallError) or error.why == "refused":
                booked = Spending(calls=1)
            raise
        finally:
            self._purse.reserved -= held
            self._purse.spent += booked
            self._wake()

    async def _reserve(self, size: _Size, output: int) -> Spending:
        """Hold back what a call may take, once there is room.

        Raises:
            BudgetError: There is none, even after all calls in flight have come back.
        """
        waited = False
        while True:
            need = self._need(size, output)
            over = self._over(self._purse.spent + need)
            if over:
                # Whoever waits behind may ask for less.
                self._wake()
                raise BudgetError(over)
            first = waited or not self._purse.waiters
            if first and not self._over(self._purse.spent + self._purse.reserved + need):
                self._purse.reserved += need
                self._wake()
                return need
            future = asyncio.get_running_loop().create_future()
            # One who was woken but found no room keeps its place at the head.
            (self._purse.waiters.appendleft if waited else self._purse.waiters.append)(future)
            waited = True
            try:
                await future
            except BaseException:
                if future in self._purse.waiters:
                    self._purse.waiters.remove(future)
                else:
                    self._wake()
                raise

    def _wake(self) -> None:
        """Let the first who waits look again; it wakes the next if there was room."""
        while self._purse.waiters:
            future = self._purse.waiters.popleft()
            if not future.done():
                future.set_result(None)
                return

    def _over(self, total: Spending) -> str:
        """Say which limit a total exceeds, "" where it exceeds none."""
        if self._max_calls is not None and total.calls > self._max_calls:
            return f"the budget of {self._max_calls} calls is used up; raise max_calls and resume"
        if self._max_tokens is not None and total.tokens > self._max_tokens:
            return (
                f"the budget of {self._max_tokens} tokens leaves no room for another call "
                f"({self._purse.spent.tokens} are spent); raise max_tokens and resume"
            )
        if self._max_cost is not None and total.cost > self._max_cost:
            return (
                f"the budget of {self._max_cost} leaves no room for another call "
                f"({self._purse.spent.cost:.4f} is spent); raise max_cost and resume"
            )
        return ""

    def _need(self, size: _Size, output: int) -> Spending:
        """Return the most that a call of so many bytes may take."""
        likely: float = size.most
        if self._densities is not None:
            once, most = self._densities
            likely = min(size.most, _MARGIN * max(once * size.once, most * size.most))
        usage = Usage(int(likely) + 1, output)
        return Spending(1, usage.input_tokens + usage.output_tokens, self._cost(usage) or Decimal(0))

    def _bill(self, usage: Usage, held: Spending, size: _Size) -> Spending:
        """Return what a call took: as the server says, else as reserved."""
        if not usage.input_tokens and not usage.output_tokens:
            return held
        if usage.input_tokens:
            once, most = self._densities or (0.0, 0.0)
            tokens = usage.input_tokens
            self._densities = max(once, tokens / size.once), max(most, tokens / size.most)
        return Spending(1, usage.input_tokens + usage.output_tokens, self._cost(usage) or Decimal(0))

    def _cost(self, usage: Usage) -> Decimal | None:
        identity = self.inner.identity
        if self._price is None or identity is None:
            return None
        cost = self._price(identity, usage)
        return None if cost is None else Decimal(str(cost))

    def _size(self, request: Request) -> _Size:
        """Return the request's bytes with an allowance for what a server wraps around messages."""
        if self._max_tokens is None and self._max_cost is None:
            return _Size(1, 1)
        once, most = _shown(request.messages), _shown(request.billed)
        schema = self._schemas.get(request.form.digest)
        if schema is None:
            schema = self._schemas[request.form.digest] = len(canonical_json(request.form.schema))
        more = 2 * schema + 64 * (len(request.passages) + 1)
        return _Size(once + more, most + more)


def _shown(messages: Iterable[Message]) -> int:
    return sum(_bytes(message.content) + _PER_MESSAGE for message in messages)


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
