"""The requests of a batch that have no answer yet, and the evaluator that finds them."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from judge_eval.batch.orders import remote_class
from judge_eval.batch.replies import Answers, BatchBackend, Remembered
from judge_eval.batch.state import GIVEN, BatchSettings, BatchState, Folder
from judge_eval.data.files.opening import is_stream
from judge_eval.data.reading import is_url
from judge_eval.engine import BLOCK
from judge_eval.errors import CallError, ConfigError, RunError
from judge_eval.evaluator import DEFAULT_METRICS, Evaluator, default_cache
from judge_eval.judge_file import JudgeSpec
from judge_eval.judges.judge import Judge, JudgingPlan, RequestRound, as_begun, make_judge, plan_of, routes_to_tell
from judge_eval.judges.splitting import Splitting
from judge_eval.llm.backend import one_slash
from judge_eval.llm.budget import price_of
from judge_eval.llm.cache.cached import Cached, cache_key
from judge_eval.llm.cache.disk import secret_beside
from judge_eval.llm.cache.postgres import read_database_url
from judge_eval.llm.cache.store import PROJECT, is_postgres
from judge_eval.llm.http import client as endpoint
from judge_eval.llm.options import Options
from judge_eval.llm.stack import open_store
from judge_eval.metrics import Metric
from judge_eval.providers import entry_named
from judge_eval.registry import provider_of, split_model
from judge_eval.runs.folder.describing import who_judged
from judge_eval.runs.folder.records import Tally
from judge_eval.runs.judging.session import backends_record
from judge_eval.runs.judging.sources import Replayable
from judge_eval.safe_text import prompt_name, public_url, refuse_credentials
from judge_eval.schema import Trace
from judge_eval.spelling import option
from judge_eval.wire import Completion, Reply, Request, with_secret_fences

_TO_COME = CallError("the answer is to come")
"""Stands for an answer that is not there yet; what the plan asks on the strength of it is not open."""


class KnownAnswers:
    """Answers from the cache and from a batch's replies; caches replies, and counts what is open."""

    def __init__(self, cached: Cached, answers: Answers) -> None:
        self._cached, self.replies = cached, answers
        self.imported = 0
        """Replies that were written into the cache."""
        self.rejected = 0
        """Replies from which no verdict could be read; their repairs are open."""
        self.open = set[bytes]()
        """The keys of the requests without an answer."""
        self.request_ids: dict[bytes, str] = {}
        """By key of what was imported, the server's name of the request."""
        cached.request_id = self.request_id

    def request_id(self, key: bytes, completion: Completion) -> str:
        """Return the server's name of the request that brought a stored answer; "" if the batch did not."""
        return self.request_ids.get(key) or self.replies.request_id(key, completion)

    def __call__(self, requests: Sequence[Request]) -> list[Reply | None]:
        """Return the known answers, in the order of the requests."""
        replies: list[Reply | None] = list(self._cached.peek(requests))
        rows: dict[bytes, bytes] = {}
        for place, request in enumerate(requests):
            if replies[place] is not None or (identity := self._cached.identity) is None:
                continue
            replies[place] = reply = self.replies.find(cache_key(identity, request.digest))
            if isinstance(reply, Completion):
                kept, key = request.kept(reply), self._cached.key(request.first)
                if kept is None or key is None:  # the cache would refuse it
                    self.rejected += 1
                else:
                    rows[key] = kept.encode()
                    self.request_ids[key] = reply.request_id
        if rows:
            # Before anything further is asked on the strength of it.
            self._cached.store.put_many(list(rows.items()))
            self.imported += len(rows)
        return replies

    def open_requests(self, judge: Judge, traces: Iterable[Trace]) -> Iterator[tuple[bytes, Request]]:
        """Yield each request without an answer once, with its key, round after round.

        A block of traces is in memory at a time. If only a part of a round is answered, the plan continues with these
        answers, and what it asks about their chunks is open too: a repair need not wait for the answers about other
        chunks.
        """
        rest = iter(traces)
        while block := list(islice(rest, BLOCK)):
            going: list[tuple[JudgingPlan, RequestRound, frozenset[str]]] = []
            for trace in block:
                plan = plan_of(judge, trace)
                if (requests := next(plan, None)) is not None:
                    going.append((plan, requests, frozenset()))
            while going:
                replies = iter(self([request for _, requests, _ in going for request in requests]))
                following = []
                for plan, requests, waiting in going:
                    answers = list(islice(replies, len(requests)))
                    missing = [request for request, reply in zip(requests, answers, strict=True) if reply is None]
                    for request in missing:
                        key = self._cached.key(request)
                        assert key is not None  # such a backend has an identity
                        if key not in self.open and waiting.isdisjoint(request.chunk_ids):
                            self.open.add(key)
                            yield key, request
                    out = waiting.union(*(request.chunk_ids for request in missing))
                    with suppress(StopIteration):
                        requests = plan.send([_TO_COME if reply is None else reply for reply in answers])
                        following.append((plan, requests, out))
                going = following


SPLIT = "split"
"""The mode of a batch that splits references into claims and judges nothing."""


class Session:
    """The judge, the cache, the traces and the replies of one step of a batch.

    `options` without `base_url` take that of the settings, and add to their `params`; `metrics` are of the run
    that is made, by default those of the settings. `online`: whether a run may request what the batch did not bring.
    A batch that was `begun` before keeps its prompts.
    """

    def __init__(
        self,
        settings: BatchSettings,
        options: Options | None = None,
        *,
        files: Sequence[Path] = (),
        metrics: Sequence[str | Metric] = (),
        online: bool = True,
        begun: BatchState | None = None,
    ) -> None:
        base, kept = options or Options(), settings.options
        options = replace(
            base,
            base_url=base.server or kept.base_url,
            params={**kept.params, **base.params},
            key_env=base.key_env or kept.key_env,
            unsupported=(*dict.fromkeys((*kept.unsupported, *base.unsupported)),),
        )
        split = settings.mode == SPLIT
        prompt, mode = prompt_name(settings.prompt), settings.mode
        judge = Splitting(prompt) if split else make_judge(prompt, mode, settings.relevant, evidence=settings.evidence)
        for route in routes_to_tell(judge, settings.model):
            options = options.with_logprobs(route)
        self.settings, self.backend = settings, _batch_backend(settings.model, options)
        self.base_url, self.key_env = options.base_url, options.key_env
        self.answers = Answers(files, self.backend, remote_class(settings).reply)
        self._brought = any(path.name.startswith(GIVEN) for path in files)
        cache = settings.cache or default_cache()
        self._secret = secret_beside(open_store(cache))
        self.evaluator = Evaluator(
            self.backend,
            judge=judge,
            blank=settings.blank,
            metrics=metrics or settings.metrics or DEFAULT_METRICS,
            cache=cache,
            options=options,
        )
        if begun is not None:
            self.evaluator.chosen_judge = as_begun(self.evaluator.chosen_judge, begun.judge)
        # Outside the meter: a reply of the batch is not a call made now.
        self.cached.inner = Remembered(self.cached.inner, self.answers, online=online)

    @property
    def cached(self) -> Cached:
        """The cache around the backend whose requests go into files."""
        cached = self.evaluator.stack.parts[""].cached
        assert cached is not None  # a batch always has a cache
        return cached

    def stored(self) -> BatchSettings:
        """Return the settings with all that later steps need to find the same judge, and nothing secret."""
        calling: dict[str, Any] = {**self.settings.calling, "base_url": storable_url(self.base_url)}
        if self.key_env:
            calling["key_env"] = self.key_env
        return self.settings.model_copy(update={"calling": calling, "cache": storable_cache(self.settings.cache)})

    def paid(self, asked: Iterable[bytes] | None = None) -> Tally:
        """Return what was paid for the replies to what was asked, before the run is made."""
        # The cost is known if a server's Batch API brought all replies and the price list has the model.
        calls, usage = self.answers.paid(asked)
        cost, identity = None, self.backend.identity
        if identity is not None and not self._brought:
            price = price_of(identity, usage)
            cost = None if price is None else price / 2  # what a server's Batch API takes
        return Tally(calls=calls, input_tokens=usage.input_tokens, output_tokens=usage.output_tokens, cost=cost)

    def open_requests(self) -> tuple[KnownAnswers, Iterator[tuple[bytes, Request]]]:
        """Return the known answers, whose counts are whole at the end of the open requests, and these with keys."""
        known = KnownAnswers(self.cached, self.answers)
        return known, known.open_requests(self.evaluator.chosen_judge, self.source)

    def body(self, request: Request) -> bytes:
        """Return the JSON body of a request as it is sent."""
        return self.backend.body(with_secret_fences(request, self._secret()))

    @property
    def source(self) -> Replayable:
        """The traces to judge."""
        source = self.evaluator.source(self.settings.data, self.settings.selection)
        assert source is not None  # a path can be read twice
        return source

    def new_state(self) -> BatchState:
        """Survey the data, and return the state of a batch that starts now."""
        return BatchState(
            settings=self.settings,
            dataset=self.source.survey(),
            judge=self.evaluator.chosen_judge.describe(),
            backend=backends_record(self.evaluator.stack.identities()),
        )

    def close(self) -> None:
        """Close connections and files."""
        self.evaluator.close()


def _batch_backend(model: str, options: Options) -> BatchBackend:
    provider = provider_of(model)
    backend = provider.make(model, options) if provider.takes_batches else None
    if not isinstance(backend, BatchBackend):
        raise ConfigError(f"{model} takes no batches; use openai/NAME with {option('base_url')}")
    identity = backend.identity
    name, named = split_model(model)
    entry = entry_named(name)
    place = one_slash(endpoint.address_of(options.base_url, entry, named).public)
    if identity is not None and identity.base_url not in ("", place):
        raise ConfigError(f"{model} is served at {identity.base_url}; name it with {option('base_url')}")
    return backend


def check_same(folder: Folder, new: BatchState) -> None:
    """Check that a folder's batch is the current one."""
    old = folder.known
    different = [
        f"the {name} differ{'' if name == 'data' else 's'}"
        for name, before, now in (
            ("data", old.dataset.digest, new.dataset.digest),
            ("judge", who_judged(old.judge), who_judged(new.judge)),
            ("model", old.backend, new.backend),
        )
        if before != now
    ]
    if different:
        raise RunError(f"{folder.path} holds another batch: {'; '.join(different)}; use another folder")


def storable_cache(cache: str | None) -> str | None:
    """Return a cache's place as later steps find it; None if it contains a password."""
    if not cache or cache == PROJECT:
        return cache
    if is_postgres(cache):
        return None if read_database_url(cache).secrets else cache
    return str(Path(cache).absolute())


def storable_data(data: str) -> str:
    """Return the place of data as later steps find it."""
    if data == "-" or is_stream(Path(data)):
        raise ConfigError(f"a batch reads its data again at every step; give a file or a URL, not {data}")
    if not is_url(data):
        return str(Path(data).absolute())
    if public_url(data) != data:
        raise ConfigError(f"{public_url(data)}: leave credentials out of the URL; its driver takes them from elsewhere")
    return data


def storable_judge(spec: JudgeSpec) -> JudgeSpec:
    """Return a judge as later steps find it: with absolute paths, and nothing secret."""
    refuse_credentials(spec.params)
    if spec.base_url is not None and storable_url(spec.base_url) is None:
        raise ConfigError(
            f"the judge's base URL {public_url(spec.base_url)} is stored with the batch: leave credentials out of it"
        )
    prompt = spec.prompt
    if prompt is not None and prompt.startswith("file:"):
        prompt = f"file:{Path(prompt[5:]).absolute()}"
    return spec.replace(prompt=prompt)


def storable_url(url: str | None) -> str | None:
    """Return a base URL if it may be stored; None if it contains a secret and must be given again."""
    if url is None:
        return None
    address = endpoint.Address.parse(url)
    return None if address.secrets else address.url
