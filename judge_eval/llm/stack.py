"""The one place where backends are stacked around each other, with the counts of what they did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from judge_eval.errors import ConfigError, advise
from judge_eval.llm.backend import Backend, Identity, Wrapper, peek, states
from judge_eval.llm.budget import Budgeted, Ledger, price_of
from judge_eval.llm.cache.cached import CacheCounts, Cached
from judge_eval.llm.cache.disk import DiskStore, secret_beside
from judge_eval.llm.cache.postgres import PostgresStore
from judge_eval.llm.cache.store import Store, cache_place
from judge_eval.llm.cassettes import Recording, Replay
from judge_eval.llm.limit import Limited, QuotaGate, run_gate
from judge_eval.llm.load_balancer import LoadBalancer
from judge_eval.llm.options import Options, Otel
from judge_eval.llm.request_splitter import RequestSplitter
from judge_eval.llm.retry import CircuitBreaker, Retried
from judge_eval.llm.tracing import Traced
from judge_eval.providers import addresses_named, known_providers
from judge_eval.registry import provider_of, split_model
from judge_eval.safe_text import is_address, refuse_credentials
from judge_eval.spelling import option
from judge_eval.trust import user_config
from judge_eval.wire import Completion, Request, Usage, with_secret_fences


@dataclass(frozen=True, slots=True)
class Counts:
    """What a stack has done up to a moment."""

    calls: int = 0
    """Completions that were paid for."""
    hits: int = 0
    """Requests answered without a call."""
    usage: Usage = field(default_factory=Usage)
    retries: Mapping[str, int] = field(default_factory=dict)
    """Attempts that were repeated, by what had gone wrong."""
    dropped: tuple[str, ...] = ()
    """What was left out of requests because the server does not take it."""
    cache: Mapping[str, int] = field(default_factory=dict)
    """Oddities of the cache: rows `refused`, and answers paid for `beside` those of another process."""
    lost: int = 0
    """The most calls that workers which died had begun and that are not among `calls`."""
    parts: Mapping[str, Counts] = field(default_factory=dict)
    """What each of several models or workers has done."""

    @classmethod
    def total(cls, parts: Mapping[str, Counts]) -> Counts:
        """Add up the counts of several."""
        each = list(parts.values())
        return cls(
            sum(counts.calls for counts in each),
            sum(counts.hits for counts in each),
            sum((counts.usage for counts in each), Usage()),
            sum((Counter(counts.retries) for counts in each), Counter()),
            tuple(sorted({name for counts in each for name in counts.dropped})),
            sum((Counter(counts.cache) for counts in each), Counter()),
            sum(counts.lost for counts in each),
            parts,
        )

    def since(self, start: Counts) -> Counts:
        """Return what came after `start`."""
        return Counts(
            self.calls - start.calls,
            self.hits - start.hits,
            self.usage - start.usage,
            Counter(self.retries) - Counter(start.retries) if self.retries else {},
            self.dropped,
            Counter(self.cache) - Counter(start.cache) if self.cache else {},
            self.lost - start.lost,
        )


class UsageCounter(Wrapper):
    """Counts what was paid for: every completion that arrived, readable or not."""

    def __init__(self, inner: Backend) -> None:
        super().__init__(inner)
        self.calls = 0
        self.usage = Usage()
        self.dropped: set[str] = set()
        """What was left out of requests because the server does not take it."""
        self.in_flight = 0
        """Requests that have begun and not ended."""
        self.on_begin: list[Callable[[], None]] = []
        """Called before each request."""

    async def complete(self, request: Request) -> Completion:
        """Ask, and count what came."""
        for begin in self.on_begin:
            begin()
        self.in_flight += 1
        try:
            completion = await self.inner.complete(request)
        finally:
            self.in_flight -= 1
        self.calls += 1
        self.usage += completion.usage
        self.dropped.update(completion.dropped)
        return completion


@dataclass
class ModelStack:
    """The backend of one model with its wrappers and their counters."""

    backend: Backend
    counter: UsageCounter
    cached: Cached | None = None
    retried: Retried | None = None
    otel: Otel = "off"
    breaker: CircuitBreaker | None = None

    @property
    def keeps(self) -> bool:
        """Whether a cache keeps the answers."""
        return self.cached is not None and self.cached.failure is None

    def counts(self) -> Counts:
        """Return what was done so far."""
        counter = self.counter
        cache = self.cached.counts if self.cached else CacheCounts()
        calls, usage, retries = counter.calls, counter.usage, dict(self.retried.counts if self.retried else {})
        odd = {"refused": cache.corrupt, "beside": cache.beside}
        odd = {what: number for what, number in odd.items() if number}
        return Counts(calls, cache.hits + cache.shared, usage, retries, tuple(sorted(counter.dropped)), odd)

    def cost(self, usage: Usage) -> float | None:
        """Return what tokens cost in US dollars; None where the price is not known."""
        if usage == Usage():
            return 0.0
        identity = self.backend.identity
        if identity is None or states(self.backend, "calls_nobody"):
            return None
        return price_of(identity, usage)


@dataclass
class Stack:
    """What answers a run: the stacks of its models behind one backend."""

    backend: Backend
    parts: Mapping[str, ModelStack]
    """By route; a single model, which answers every route, has the route ""."""

    def part(self, route: str) -> Stack:
        """Return the stack of the model that answers a route."""
        route = route if route in self.parts else ""
        return Stack(self.parts[route].backend, {route: self.parts[route]})

    def note_answered(self) -> None:
        """Take note that the models have answered in an earlier session of the run."""
        for part in self.parts.values():
            if part.breaker is not None:
                part.breaker.answered = True

    @property
    def otel(self) -> Otel:
        """What OpenTelemetry receives: as the parts say, if they agree; else nothing."""
        modes = {part.otel for part in self.parts.values()}
        return modes.pop() if len(modes) == 1 else "off"

    @property
    def asked_wait(self) -> float:
        """The longest wait that one of the servers asked for, in seconds; 0 if none does, or not for long."""
        return max((part.retried.asked_wait for part in self.parts.values() if part.retried), default=0.0)

    @property
    def counters(self) -> tuple[UsageCounter, ...]:
        """The counters of the calls of all parts; none if they are made elsewhere."""
        return tuple(part.counter for part in self.parts.values())

    @property
    def keeps(self) -> bool:
        """Whether every part keeps its answers."""
        return all(part.keeps for part in self.parts.values())

    @property
    def calls_nobody(self) -> bool:
        """Whether every answer of every part is made without a call."""
        return all(states(part.backend, "calls_nobody") for part in self.parts.values())

    def counts(self) -> Counts:
        """Return what was done so far, in all and by route."""
        return Counts.total({route: part.counts() for route, part in self.parts.items()})

    def spent(self, start: Counts) -> float | None:
        """Return what was spent since `start` in US dollars; None where a price is not known."""
        parts = self.counts().parts
        usage = {route: counts.usage - start.parts.get(route, Counts()).usage for route, counts in parts.items()}
        costs = _known(self.parts[route].cost(each) for route, each in usage.items())
        return None if costs is None else sum(costs)

    def identities(self) -> dict[str, Identity | None]:
        """Return who answers, by route."""
        return {route: part.backend.identity for route, part in self.parts.items()}

    def cost_of(self, input_tokens: int, output_tokens: int) -> float | None:
        """Return what so many tokens cost with the dearest model; None if a price is not known."""
        costs = _known(part.cost(Usage(input_tokens, output_tokens)) for part in self.parts.values())
        return max(costs) if costs else None


def _known(costs: Iterable[float | None]) -> list[float] | None:
    known = list(costs)
    return None if None in known else [cost for cost in known if cost is not None]


def build_stack(models: str | Backend | Mapping[str, str | Backend], store: Store | None, options: Options) -> Stack:
    """Stack the wrappers around a model, or around each of several by route; a budget holds for all together."""
    if not isinstance(models, Mapping):
        part = _build_part(models, store, options)
        return Stack(part.backend, {"": part})
    if odd := sorted(set(options.members) - set(models)):
        raise ConfigError(f"no model for the route {odd[0]!r}; {advise(odd[0], sorted(models))}")
    own = {route: options.members.get(route, options).base_url for route in models}
    whose = {(split_model(m)[0], own[r]) for r, m in models.items() if isinstance(m, str)}
    if options.key_command and len(whose) > 1:
        raise ConfigError(
            f"{option('key_command')} prints the key of one provider, and several are named; write it as "
            f"key_command into [provider.NAME] of {user_config()}"
        )
    ledger, total = Ledger(), run_gate(options.concurrency)
    tape = Replay(options.replay) if options.replay is not None else None
    parts = {
        route: _build_part(
            model,
            store,
            replace(options.members.get(route, options), record=None, replay=options.replay),
            ledger=ledger,
            total=total,
            tape=tape and tape.of_route(route),
        )
        for route, model in models.items()
    }
    for part in list(parts.values())[1:]:
        if part.cached is not None:
            part.cached.tells_refused = False  # they share a store
    stack = Stack(Routed({route: part.backend for route, part in parts.items()}), parts)
    if options.record is not None:
        stack.backend = Recording(stack.backend, options.record, stack.identities())
    return stack


def _build_part(
    model: str | Backend,
    store: Store | None,
    options: Options,
    *,
    ledger: Ledger | None = None,
    total: QuotaGate | None = None,
    tape: Replay | None = None,
) -> ModelStack:
    """Stack the wrappers: recording, circuit breaker, cache, splitting, counting, spans, retry, budget, limit.

    The budget stands inside the retry, so that every attempt that may be billed counts; it may be a `ledger`
    shared with other models, as `total` bounds the calls in flight of all. A store of None caches nothing.
    With `options.replay` the `tape` is the part of the cassette that holds this model's answers.
    """
    retried = None
    inner: Backend
    if options.replay is not None:
        inner = tape or Replay(options.replay)
        check_recorded(inner.identity, model, options, "name the model that was recorded, or record it again")
    else:
        from judge_eval.llm.fake.fake_backend import FakeBackend

        folder = store.folder if isinstance(store, DiskStore) else None
        inner = server = create_backend(model, options, total, folder) if isinstance(model, str) else model
        fleet = isinstance(inner, LoadBalancer)  # its servers have a gate each; what is left is the user's limit
        remote = not states(inner, "calls_nobody")
        if remote and (not fleet or (options.rpm, options.tpm) != (None, None)):
            inner = Limited(
                inner, concurrency=options.concurrency, rpm=options.rpm, tpm=options.tpm, total=None if fleet else total
            )
        if not isinstance(server, FakeBackend):
            inner = SecretFences(inner, secret_beside(store))
        if (options.max_calls, options.max_tokens, options.max_cost) != (None, None, None):
            inner = Budgeted(
                inner,
                max_calls=options.max_calls,
                max_tokens=options.max_tokens,
                max_cost=options.max_cost,
                ledger=ledger,
            )
        inner = retried = Retried(inner, attempts=options.attempts)
    if options.otel != "off":
        inner = Traced(inner, content=options.otel == "content")
    counter = UsageCounter(inner)
    splitter = RequestSplitter(counter) if states(inner, "splits_requests") else None
    outer: Backend = splitter or counter
    cached = None
    if store is not None and options.replay is None:
        outer = cached = Cached(outer, store, offline=options.offline)
    if splitter is not None:
        splitter.parts = outer
    outer = breaker = CircuitBreaker(outer)
    if options.record is not None:
        outer = Recording(outer, options.record)
    return ModelStack(outer, counter, cached, retried, options.otel, breaker)


def check_recorded(recorded: Identity | None, model: object, options: Options, advice: str) -> None:
    """Check that a cassette holds the answers of the model, if one is named; addresses may differ."""
    if recorded is None or not isinstance(model, str) or is_unnamed(model):
        return
    named = create_backend(model, options).identity
    if named is not None and (named.provider, named.model, named.params) != (
        recorded.provider,
        recorded.model,
        recorded.params,
    ):
        raise ConfigError(f"the cassette holds the verdicts of {_who(recorded)}, and {_who(named)} is named; {advice}")


def _who(identity: Identity) -> str:
    params = ", ".join(f"{name}={value}" for name, value in identity.params)
    return f"{identity.provider}/{identity.model}" + (f" ({params})" if params else "")


def is_unnamed(model: object) -> bool:
    """Whether a model stands for the one that a cassette recorded: `replay/cassette`."""
    return isinstance(model, str) and model.startswith("replay/")


def recorded_model(path: Path) -> str:
    """Return the name of the model that a cassette recorded, `replay/cassette` if it does not name one."""
    identity = Replay(path).identity
    return UNNAMED if identity is None else f"{identity.provider}/{identity.model}"


UNNAMED = "replay/cassette"


def create_backend(model: str, options: Options, total: QuotaGate | None = None, folder: Path | None = None) -> Backend:
    """Make the backend of a model `provider/model`; `total` bounds the calls of a fleet and others."""
    provider = provider_of(model)
    refuse_credentials(options.params)
    made: list[Backend] = []
    addresses: tuple[str | None, ...] = (options.base_url, *options.fleet)
    name, named = split_model(model)
    server_of = provider.server_of or (lambda _: name)
    server = known_providers().get(server_of(named)) if any(addresses) else None
    if server is not None and not server.base_url_env:
        # OPENAI_BASE_URL is the address of an OpenAI model; the key of another provider must not go there.
        named_for_others = addresses_named()
        others = [each for each in addresses if each not in named_for_others]
        addresses = tuple(others) or (None,)
    for base_url in addresses:
        made.append(provider.make(model, replace(options, base_url=base_url, fleet=())))
        if (remember := getattr(made[-1], "remember_in", None)) is not None:
            remember(folder)
        if states(made[0], "calls_nobody"):
            return made[0]
    if len(made) == 1:
        return made[0]
    servers = [Limited(each, concurrency=options.concurrency, total=total) for each in made]
    return LoadBalancer(servers, most=options.concurrency)


def open_store(cache: str | Path, timeout: float = 60.0) -> Store:
    """Open a store of completions: a folder (`project`: one in the project), or a database in `timeout` s."""
    place = cache_place(cache)
    if isinstance(place, str):
        return PostgresStore(place, timeout=timeout)
    if is_address(cache):
        scheme = str(cache).partition(":")[0]
        raise ConfigError(
            f"{scheme}:// cannot hold the cache; give a folder, or a database as in postgresql://host:5432/name"
        )
    return DiskStore(place)


class Routed:
    """Sends each request to the backend that its `route` names.

    It stands outermost: each backend has its own cache, whose keys hold that backend's identity, so that no member of a
    panel gets the answers of another. It has no identity of its own, so a cache around it stores nothing.
    """

    identity = None

    def __init__(self, backends: Mapping[str, Backend]) -> None:
        if not backends:
            raise ConfigError("a panel of models needs at least one model")
        self.backends = dict(backends)

    def peek(self, requests: Sequence[Request]) -> list[Completion | None]:
        """Answer what is at hand with the backends, in the order of the requests."""
        completions: list[Completion | None] = [None] * len(requests)
        places: dict[str, list[int]] = {}
        for place, request in enumerate(requests):
            places.setdefault(request.route, []).append(place)
        for route, there in places.items():
            answers = peek(self._of(route), [requests[k] for k in there])
            for place, answer in zip(there, answers, strict=True):
                completions[place] = answer
        return completions

    async def complete(self, request: Request) -> Completion:
        """Answer one request by the backend of its route; raises `ConfigError` if there is none."""
        return await self._of(request.route).complete(request)

    async def aclose(self) -> None:
        """Close all of them, then raise the first error."""
        async with AsyncExitStack() as stack:
            for backend in self.backends.values():
                stack.push_async_callback(backend.aclose)

    def _of(self, route: str) -> Backend:
        backend = self.backends.get(route)
        if backend is None:
            raise ConfigError(f"no model for the route {route!r}; {advise(route, sorted(self.backends))}")
        return backend


class SecretFences(Wrapper):
    """A backend whose requests carry marks that no chunk's author can know.

    Its wrappers (cache, recording, spans) see marks that follow from the texts alone, so keys and
    recordings do not depend on the secret. `secret` returns it, from the first request on.
    """

    def __init__(self, inner: Backend, secret: Callable[[], bytes]) -> None:
        super().__init__(inner)
        self._secret = secret

    async def complete(self, request: Request) -> Completion:
        """Ask the backend inside, with fences that follow from the secret."""
        return await self.inner.complete(with_secret_fences(request, self._secret()))
