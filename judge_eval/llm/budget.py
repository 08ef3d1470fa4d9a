"""Says what completions cost, and keeps what they take within a budget."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache
from typing import Any, NamedTuple

from judge_eval.digest import canonical_json
from judge_eval.errors import BudgetError, CallError, ConfigError, FatalCallError, TransientError, needs_extra
from judge_eval.llm.backend import Backend, Identity, Wrapper
from judge_eval.providers import built_in
from judge_eval.wire import Completion, Message, Request, Usage


def price_of(identity: Identity, usage: Usage) -> float | None:
    """Return what tokens cost in US dollars, >= 0; None if the model or the price list is missing."""
    try:
        genai_prices: Any = importlib.import_module("genai_prices")
    except ImportError:
        return None
    tokens = genai_prices.Usage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=(read := min(usage.cached_tokens, usage.input_tokens)),
        cache_write_tokens=min(usage.written_tokens, usage.input_tokens - read),
    )
    hint = _price_hint(identity.provider, identity.base_url, identity.model)
    if hint is None:
        return None
    return float(genai_prices.calc_price(tokens, identity.model, **hint).total_price)


@cache
def _price_hint(provider: str, base_url: str, model: str) -> Mapping[str, str] | None:
    """Return what the price list finds a model by; None if it does not know it, which takes it milliseconds."""
    genai_prices: Any = importlib.import_module("genai_prices")
    # The provider follows from the base URL, else from the model's name: a proxy's price is its provider's.
    entry = built_in().get(provider)
    hints: list[dict[str, str]] = [{"provider_api_url": base_url}] if base_url else []
    hints += [{"provider_id": entry.prices}] if entry and entry.prices else []
    for hint in [*hints, {}]:
        with suppress(LookupError):
            genai_prices.calc_price(genai_prices.Usage(input_tokens=1), model, **hint)
            return hint
    return None


def _require_price(identity: Identity | None) -> None:
    if identity is not None and price_of(identity, Usage(1000, 1000)) is not None:
        return
    if not _has_prices():
        raise needs_extra("max_cost needs a price list", "cost")
    raise ConfigError(f"max_cost: {why_unpriced(identity)}; use max_tokens or max_calls")


def _has_prices() -> bool:
    return importlib.util.find_spec("genai_prices") is not None


def why_unpriced(identity: Identity | None) -> str:
    """Say why a model's price is not known, and what to install if that helps."""
    if not _has_prices():
        return str(needs_extra("no price list is installed; for an offline one", "cost"))
    return f"the price of {identity.model if identity else 'this backend'!r} is not known"


_MARGIN = 1.5  # how many times as many tokens per byte a text may have as any text before
_PER_MESSAGE = 16  # tokens that a chat template puts around a message, at most


class _Size(NamedTuple):
    """The bytes of a request."""

    once: int
    most: int
    """As if each of its questions repeated what they share."""


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
class Ledger:
    """What is spent and reserved, and the calls that wait for room."""

    spent: Spending = Spending()
    reserved: Spending = Spending()
    waiters: deque[asyncio.Future[None]] = field(default_factory=deque)


class Budgeted(Wrapper):
    """A backend that spends no more than a budget: calls, tokens (input and output), cost; None: no limit.

    The most that a call can take is reserved before it, and what it took is booked after it. An attempt that
    the server did not execute costs nothing; one of unknown fate is booked as reserved. A call that fits once
    reservations are settled waits for them; one that cannot fit is declined.

    Until the first answer, input is estimated as one token per UTF-8 byte, which no tokenizer exceeds; then
    as one and a half times the most tokens per byte so far. What the questions of a request share may be
    billed once or for each: the larger counts. It stands inside a retrying backend, so that every attempt
    counts: `Retried(Budgeted(Limited(...)))`.

    Cost is in US dollars, by the price list of the extra `cost`. Several backends may share a budget by its `ledger`.
    """

    def __init__(
        self,
        inner: Backend,
        *,
        max_calls: int | None = None,
        max_tokens: int | None = None,
        max_cost: Decimal | float | None = None,
        ledger: Ledger | None = None,
    ) -> None:
        super().__init__(inner)
        self._max_calls, self._max_tokens = max_calls, max_tokens
        self._max_cost = None if max_cost is None else Decimal(str(max_cost))
        if max_cost is not None:
            _require_price(inner.identity)
        self._ledger = ledger or Ledger()
        self._densities: tuple[float, float] | None = None
        self._schemas: dict[bytes, int] = {}

    @property
    def spent(self) -> Spending:
        """What is booked so far; cost is 0 without a price."""
        return self._ledger.spent

    async def complete(self, request: Request) -> Completion:
        """Answer one request; raises `BudgetError` if the budget does not allow the call."""
        size = self._size(request)
        reserved = await self._reserve(size, request.max_tokens)
        booked = reserved
        try:
            completion = await self.inner.complete(request)
            booked = self._bill(completion.usage, reserved, size)
            return completion
        except TransientError as error:
            if not error.sent or error.kind == "rate_limit":
                booked = Spending()
            raise
        except (CallError, FatalCallError) as error:
            # A declined request is a call that is not billed.
            if not isinstance(error, CallError) or error.why == "refused":
                booked = Spending(calls=1)
            raise
        finally:
            self._ledger.reserved -= reserved
            self._ledger.spent += booked
            self._wake()

    async def _reserve(self, size: _Size, output: int) -> Spending:
        ledger, waited = self._ledger, False
        while True:
            need = self._need(size, output)
            if over := self._over(ledger.spent + need):
                self._wake()  # the next in line may ask for less
                raise BudgetError(over)
            first = waited or not ledger.waiters
            if first and not self._over(ledger.spent + ledger.reserved + need):
                ledger.reserved += need
                self._wake()
                return need
            future = asyncio.get_running_loop().create_future()
            # A call that was woken without room for it keeps its place at the head.
            (ledger.waiters.appendleft if waited else ledger.waiters.append)(future)
            waited = True
            try:
                await future
            except BaseException:
                if future in ledger.waiters:
                    ledger.waiters.remove(future)
                else:
                    self._wake()
                raise

    def _wake(self) -> None:
        """Wake the first that waits; it wakes the next if there is room for it."""
        while self._ledger.waiters:
            future = self._ledger.waiters.popleft()
            if not future.done():
                future.set_result(None)
                return

    def _over(self, total: Spending) -> str:
        if self._max_calls is not None and total.calls > self._max_calls:
            return f"the budget of {self._max_calls} calls is used up; raise max_calls and resume"
        if self._max_tokens is not None and total.tokens > self._max_tokens:
            return (
                f"the budget of {self._max_tokens} tokens leaves no room for another call "
                f"({self._ledger.spent.tokens} are spent); raise max_tokens and resume"
            )
        if self._max_cost is not None and total.cost > self._max_cost:
            return (
                f"the budget of {self._max_cost} leaves no room for another call "
                f"({self._ledger.spent.cost:.4f} is spent); raise max_cost and resume"
            )
        return ""

    def _need(self, size: _Size, output: int) -> Spending:
        likely: float = size.most
        if self._densities is not None:
            once, most = self._densities
            likely = min(size.most, _MARGIN * max(once * size.once, most * size.most))
        usage = Usage(int(likely) + 1, output)
        return self._spending(usage)

    def _bill(self, usage: Usage, reserved: Spending, size: _Size) -> Spending:
        if not usage.input_tokens and not usage.output_tokens:
            return reserved
        if usage.input_tokens:
            once, most = self._densities or (0.0, 0.0)
            tokens = usage.input_tokens
            self._densities = max(once, tokens / size.once), max(most, tokens / size.most)
        return self._spending(usage)

    def _spending(self, usage: Usage) -> Spending:
        identity = self.inner.identity
        cost = price_of(identity, usage) if identity is not None and self._max_cost is not None else None
        return Spending(1, usage.input_tokens + usage.output_tokens, Decimal(str(cost or 0)))

    def _size(self, request: Request) -> _Size:
        if self._max_tokens is None and self._max_cost is None:
            return _Size(1, 1)
        once, most = _bytes(request.messages), _bytes(request.billed)
        schema = self._schemas.get(request.form.digest)
        if schema is None:
            schema = self._schemas[request.form.digest] = len(canonical_json(request.form.schema))
        more = 2 * schema + 64 * (len(request.passages) + 1)
        return _Size(once + more, most + more)


def _bytes(messages: Iterable[Message]) -> int:
    texts = [message.content for message in messages]
    sizes = (len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass")) for text in texts)
    return sum(sizes) + _PER_MESSAGE * len(texts)
