"""The one place where backends are stacked around each other."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from judge_eval.backends.around.balance import Balanced
from judge_eval.backends.around.budget import Budgeted, Purse
from judge_eval.backends.around.hedge import Hedge, Hedged, check_hedge
from judge_eval.backends.around.limit import Limited
from judge_eval.backends.around.meter import Counts, Metered
from judge_eval.backends.around.part import Parted
from judge_eval.backends.around.prices import price_of
from judge_eval.backends.around.retry import Retried
from judge_eval.backends.around.route import Routed
from judge_eval.backends.around.sealing import Sealing
from judge_eval.backends.around.trace import Otel, Traced
from judge_eval.backends.base import Backend, Identity, parts_requests
from judge_eval.backends.chat.receiving import MOST_BYTES
from judge_eval.backends.chat.secrets import refuse_credentials
from judge_eval.backends.storing.cached import CacheCounts, Cached
from judge_eval.backends.storing.databaseurl import is_postgres
from judge_eval.backends.storing.disk import DiskStore
from judge_eval.backends.storing.places import PROJECT, project_cache
from judge_eval.backends.storing.postgres import PostgresStore
from judge_eval.backends.storing.secret import secret_beside
from judge_eval.backends.storing.store import Store
from judge_eval.backends.tape.recording import Recording
from judge_eval.backends.tape.replay import Replay
from judge_eval.errors import ConfigError, advise
from judge_eval.ranges import check_params, check_ranges
from judge_eval.registry import find, split_model
from judge_eval.wire import Usage

_NUMBERS = (
    "timeout", "concurrency", "rpm", "tpm", "attempts", "max_calls", "max_tokens", "max_cost",
)  # fmt: skip
_URL = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]+:/")  # a folder made from it would bear a password in its name


@dataclass(frozen=True, slots=True)
class Options:
    """How the judge is called. None of it changes a verdict but `params` and `base_url`.

    Raises:
        ConfigError: A number is out of its range (`judge_eval.ranges`).
    """

    base_url: str | None = None
    """Of an OpenAI-compatible server; None takes `OPENAI_BASE_URL`, else the provider's own."""
    fleet: tuple[str, ...] = ()
    """Further base URLs of servers of the same model, over which calls are spread."""
    params: Mapping[str, Any] = field(default_factory=dict)
    """Sent with every request: temperature, seed, reasoning_effort, ..."""
    timeout: float = 120.0
    """Seconds for one call."""
    concurrency: int = 256
    """The most calls under way; the rate controller finds how many the server takes."""
    rpm: float | None = None
    """Requests a minute, where the server does not advertise a limit."""
    tpm: float | None = None
    """Tokens a minute, likewise."""
    attempts: int = 8
    """The most attempts at one call."""
    max_calls: int | None = None
    max_tokens: int | None = None
    max_cost: float | None = None
    """Budgets; what does not fit becomes `NoVerdict(why="budget")`."""
    offline: bool = False
    """A cache miss is an error instead of a call."""
    lead: bool = False
    """Whether a trace's first call goes ahead of its siblings, where the server bills a seen prefix less."""
    hedge: Hedge | None = None
    """Seconds after which a call without an answer is made again; `auto` finds them, None never does."""
    record: Path | None = None
    """A cassette to write every completion to."""
    replay: Path | None = None
    """A cassette to answer from instead of calling."""
    members: Mapping[str, Options] = field(default_factory=dict)
    """How single models of a panel are called, by route, where it differs: base URL, parameters."""
    otel: Otel = "off"
    """Whether OpenTelemetry is told of calls and scores, and whether with their texts."""
    max_reply: int = MOST_BYTES
    """The most bytes that are read of one reply, compressed or not."""

    def __post_init__(self) -> None:
        check_ranges({name: getattr(self, name) for name in _NUMBERS})
        check_params(self.params)
        if self.hedge is not None:
            check_hedge(self.hedge, "hedge")

    def telling(self, route: str) -> Options:
        """Return the same, with the model of a route asked for log-probabilities; what was set stays."""
        own = self.members.get(route, self)
        own = replace(own, params={**_TELLING, **own.params}, members={})
        return replace(self, members={**self.members, route: own})


_TELLING = {"logprobs": True, "top_logprobs": 5}


@dataclass
class Stack:
    """A backend with everything around it, and the counters on the way."""

    backend: Backend
    metered: Metered
    cached: Cached | None = None
    retried: Retried | None = None
    otel: Otel = "off"
    hedged: Hedged | None = None

    @property
    def keeps(self) -> bool:
        """Whether an answer outlives the trace it was given for: whether a cache takes it."""
        return self.cached is not None and self.cached.failure is None

    def counts(self) -> Counts:
        """Tell what was done so far."""
        meter = self.metered.meter
        cache = self.cached.counts if self.cached else CacheCounts()
        retries = {
            kind: number
            for wrapper in (self.retried, self.hedged)
            for kind, number in (wrapper.counts.items() if wrapper else ())
        }
        odd = {"refused": cache.corrupt, "beside": cache.beside}
        calls, usage = meter.calls, meter.usage
        if self.hedged is not None:
            calls, usage = calls + self.hedged.extra_calls, usage + self.hedged.extra_usage
        return Counts(
            calls,
            cache.hits + cache.shared,
            usage,
            retries,
            tuple(sorted(meter.dropped)),
            {what: number for what, number in odd.items() if number},
        )

    def cost(self, usage: Usage) -> float | None:
        """Return what tokens cost in US dollars; None where the price is not known."""
        if usage == Usage():
            return 0.0
        identity = self.backend.identity
        if identity is None or identity.provider == "fake":
            return None
        return price_of(identity, usage)

    def spent(self, start: Counts) -> float | None:
        """Return what was spent since `start` in US dollars; None where a price is not known."""
        return self.cost(self.counts().since(start).usage)

    def identities(self) -> dict[str, Identity | None]:
        """Tell who answers, by route."""
        return {"": self.backend.identity}

    def cost_of(self, input_tokens: int, output_tokens: int) -> float | None:
        """Return what so many tokens would cost in US dollars; None where the price is not known."""
        return self.cost(Usage(input_tokens, output_tokens))


@dataclass
class Stacks:
    """The stacks of several models behind one backend."""

    backend: Routed
    parts: Mapping[str, Stack]

    @property
    def otel(self) -> Otel:
        """Whether OpenTelemetry is told, as the parts were told to: all alike, or not at all."""
        modes = {stack.otel for stack in self.parts.values()}
        return modes.pop() if len(modes) == 1 else "off"

    @property
    def keeps(self) -> bool:
        """Whether every part keeps its answers."""
        return all(stack.keeps for stack in self.parts.values())

    def counts(self) -> Counts:
        """Tell what was done so far, by all and by each."""
        return Counts.total({route: stack.counts() for route, stack in self.parts.items()})

    def spent(self, start: Counts) -> float | None:
        """Return what was spent since `start` in US dollars; None where a price is not known."""
        costs = _known(stack.spent(start.parts.get(route, Counts())) for route, stack in self.parts.items())
        return None if costs is None else sum(costs)

    def identities(self) -> dict[str, Identity | None]:
        """Tell who answers, by route."""
        return {route: stack.backend.identity for route, stack in self.parts.items()}

    def cost_of(self, input_tokens: int, output_tokens: int) -> float | None:
        """Return what so many tokens would cost at most: at the price of the dearest model."""
        costs = _known(stack.cost_of(input_tokens, output_tokens) for stack in self.parts.values())
        return max(costs) if costs else None


def _known(costs: Iterable[float | None]) -> list[float] | None:
    """Return costs that are all known; None where one is not."""
    known = list(costs)
    return None if None in known else [cost for cost in known if cost is not None]


def build_stacks(models: Mapping[str, str | Backend], store: Store | None, options: Options) -> Stacks:
    """Stack the wrappers around each of several models; a budget holds for all of them together.

    Args:
        models: By route a model or a backend.
        store: Where completions are kept; its keys hold who answered.
        options: How to call; `options.members` where single models differ.

    Raises:
        ConfigError: A model or an option cannot be used.
    """
    if options.record is not None or options.replay is not None:
        raise ConfigError("several models cannot be recorded or replayed at once; use the cache")
    odd = sorted(set(options.members) - set(models))
    if odd:
        raise ConfigError(f"no model for the route {odd[0]!r}; {advise(odd[0], sorted(models))}")
    purse = Purse()
    parts = {
        route: build_stack(model, store, options.members.get(route, options), purse=purse)
        for route, model in models.items()
    }
    for stack in list(parts.values())[1:]:
        if stack.cached is not None:
            stack.cached.tells_refused = False  # they share a store
    return Stacks(Routed({route: stack.backend for route, stack in parts.items()}), parts)


def build_stack(
    model: str | Backend, store: Store | None, options: Options, *, purse: Purse | None = None
) -> Stack:
    """Stack the wrappers: recording, cache, parting, meter, spans, retry, hedge, budget, limit.

    Inmost is who is asked.

    The budget stands inside the retry, so that every attempt that may be billed counts.

    Args:
        model: `provider/model`, or a backend of your own.
        store: Where completions are kept; None caches nothing.
        options: How to call.
        purse: A budget shared with other models.

    Raises:
        ConfigError: The model or an option cannot be used.
    """
    retried = hedged = None
    inner: Backend
    if options.replay is not None:
        inner = Replay(options.replay)
    else:
        inner = create_backend(model, options) if isinstance(model, str) else model
        fleet = isinstance(inner, Balanced)  # its servers have a gate each; what is left is the user's limit
        inner = _sealed(inner, store)
        if _remote(inner) and (not fleet or (options.rpm, options.tpm) != (None, None)):
            inner = Limited(inner, concurrency=options.concurrency, rpm=options.rpm, tpm=options.tpm)
        if (options.max_calls, options.max_tokens, options.max_cost) != (None, None, None):
            inner = Budgeted(
                inner,
                max_calls=options.max_calls,
                max_tokens=options.max_tokens,
                max_cost=options.max_cost,
                purse=purse,
            )
        if options.hedge is not None and _remote(inner):
            inner = hedged = Hedged(inner, after=options.hedge)
        inner = retried = Retried(inner, attempts=options.attempts)
    if options.otel != "off":
        inner = Traced(inner, content=options.otel == "content")
    metered = Metered(inner)
    asked: Backend = metered
    parted = Parted(metered) if parts_requests(inner) else None
    if parted is not None:
        asked = parted
    cached = None
    if store is not None and options.replay is None:
        asked = cached = Cached(asked, store, offline=options.offline)
    if parted is not None:
        parted.parts = asked
    outer = asked
    if options.record is not None:
        outer = Recording(outer, options.record)
    return Stack(outer, metered, cached, retried, options.otel, hedged)


def create_backend(model: str, options: Options) -> Backend:
    """Make the backend that a model names.

    Raises:
        ConfigError: The name has no provider, or the provider takes no such option.
        UnknownNameError: There is no such provider.
    """
    provider, name = split_model(model)
    factory = find("backends", provider, "provider")
    refuse_credentials(options.params)
    if provider == "fake":
        backend: Backend = factory(name, **options.params)
        return backend
    how = {"timeout": options.timeout, "concurrency": options.concurrency, "params": options.params}
    if options.max_reply != MOST_BYTES:  # a provider of your own need not know it
        how["max_reply"] = options.max_reply
    urls = (options.base_url, *options.fleet)
    made: list[Backend] = [factory(name, base_url=base_url, **how) for base_url in urls]
    if len(made) == 1:
        return made[0]
    servers = [Limited(one, concurrency=options.concurrency) for one in made]
    return Balanced(servers, most=options.concurrency)


def _sealed(backend: Backend, store: Store | None) -> Backend:
    """Have a backend's requests sealed, unless it is a fake one: those answer without sending anything."""
    from judge_eval.backends.fake.backend import FakeBackend

    return backend if isinstance(backend, FakeBackend) else Sealing(backend, secret_beside(store))


def _remote(backend: Backend) -> bool:
    """Tell whether a rate limit can matter."""
    return backend.identity is None or backend.identity.provider != "fake"


def open_store(cache: str | Path) -> Store:
    """Open a store of completions: a folder of this machine (`project`: one in the project), or a database.

    Raises:
        ConfigError: It is a URL that cannot be read, or of something else than a PostgreSQL database.
    """
    if isinstance(cache, str) and is_postgres(cache):
        return PostgresStore(cache)
    if _URL.match(str(cache)):
        scheme = str(cache).partition(":")[0]
        raise ConfigError(
            f"{scheme}:// cannot hold the cache; give a folder, or a database as in postgresql://host:5432/name"
        )
    return DiskStore(project_cache() if cache == PROJECT else cache)
