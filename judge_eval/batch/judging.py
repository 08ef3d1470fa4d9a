"""The evaluator of a batch: the one an ordinary run would use, with the batch's replies at hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from judge_eval.backends.base import Backend
from judge_eval.backends.chat import endpoint
from judge_eval.backends.chat.openai import OpenAI
from judge_eval.backends.stack import Options, Stacks, open_store
from judge_eval.backends.storing.cached import Cached
from judge_eval.backends.storing.databaseurl import is_postgres, read_database_url
from judge_eval.backends.storing.places import PROJECT
from judge_eval.backends.storing.secret import secret_beside
from judge_eval.batch.answers import Answers, Remembered
from judge_eval.batch.cheap import Cheap, TwoJudges
from judge_eval.batch.drive import AtHand
from judge_eval.batch.state import BatchSettings, BatchState, Folder
from judge_eval.data.files.opening import is_stream
from judge_eval.data.remote import is_url
from judge_eval.errors import ConfigError, RunError
from judge_eval.evaluator import DEFAULT_METRICS, Evaluator, default_cache
from judge_eval.given import prompt_name
from judge_eval.judges.cascade import Cascade
from judge_eval.judges.choose import as_begun
from judge_eval.metrics import Metric
from judge_eval.registry import find, split_model
from judge_eval.runs.folder.differing import as_told_now
from judge_eval.runs.judging.counting import Progress
from judge_eval.runs.judging.provenance import backends_record
from judge_eval.runs.judging.sources import Replayable
from judge_eval.urls import public_url
from judge_eval.wire import Request, sealed


class Session:
    """What every step needs: the judge, the cache, the traces and the replies that are there.

    Args:
        settings: What was asked for.
        options: How to call, where calls are made; `base_url` and `params` come from the settings unless
            they are given here.
        files: The files of replies.
        metrics: What to compute when the run is made; what the settings name where empty.
        online: Whether a run may ask for what the batch did not bring.
        begun: The batch's state, where it was begun before: it keeps the prompts of that time.
        cascade: Makes the two judges of a cascade, given how they are called; the strong one's requests go
            into files, the cheap one is asked at once. None has one model judge alone.

    Raises:
        ConfigError: A setting cannot be used, or the model is not one whose server takes batches.
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
        cascade: Callable[[Options], TwoJudges] | None = None,
    ) -> None:
        given = options or Options()
        options = replace(
            given, base_url=given.base_url or settings.base_url, params=given.params or settings.params
        )
        two = cascade and cascade(options)
        if two:
            options = two.options
        self._route = two.judge.routes[1] if two else ""
        own = options.members.get(self._route, options)
        model = two.models[self._route] if two else settings.model
        provider, name = split_model(model)
        factory = find("backends", provider, "provider")
        if provider == "fake":
            raise ConfigError(f"{model} takes no batches; name a model that a server judges with")
        backend = factory(
            name,
            base_url=own.base_url,
            timeout=own.timeout,
            concurrency=own.concurrency,
            params=own.params,
            lacking=settings.lacking,
            max_reply=own.max_reply,
        )
        if not isinstance(backend, OpenAI):
            raise ConfigError(f"{model} takes no batches; use openai/NAME with a --base-url")
        self.settings, self.backend = settings.model_copy(update={"model": model}), backend
        self.base_url = own.base_url
        self.answers = Answers(files, backend)
        cache = settings.cache or default_cache()
        self._secret = secret_beside(open_store(cache))
        asked: Backend | dict[str, str | Backend] = backend
        if two:
            asked = {**two.models, self._route: backend}
        self.evaluator = Evaluator(
            asked,
            judge=two.judge if two else None,
            prompt=prompt_name(settings.prompt),
            mode=settings.mode,
            relevant=settings.relevant,
            evidence=settings.evidence,
            metrics=metrics or settings.metrics or DEFAULT_METRICS,
            cache=cache,
            options=options,
        )
        if begun is not None:
            self.evaluator.judge = as_begun(self.evaluator.judge, begun.judge)
        judge = self.evaluator.judge
        self.cheap = Cheap(self.evaluator, judge) if isinstance(judge, Cascade) else None
        # Outside the meter: a reply of the batch is no call that was made now.
        self.cached.inner = Remembered(self.cached.inner, self.answers, online=online)

    @property
    def cached(self) -> Cached:
        """The cache around the backend whose requests go into files."""
        stack = self.evaluator.stack
        one = stack.parts[self._route] if isinstance(stack, Stacks) else stack
        assert one.cached is not None  # a batch always has a cache
        return one.cached

    def at_hand(self, watch: Callable[[Progress], None] | None = None) -> AtHand:
        """Return what answers without a file; a cascade's cheap judge has been asked about everything then.

        Args:
            watch: Called with the progress of the cheap judge.

        Raises:
            RunError: The cheap judge could not be asked about everything.
            FatalCallError: It cannot be asked at all.
        """
        if self.cheap is not None:
            self.cheap.judge_all(self.source, watch)
        return AtHand(self.cached, self.answers, self.cheap)

    def body(self, request: Request) -> bytes:
        """Write the JSON body of a request as it is sent."""
        return self.backend.body(sealed(request, self._secret()))

    @property
    def source(self) -> Replayable:
        """The traces to judge."""
        source = self.evaluator.source(self.settings.data, self.settings.selection)
        assert source is not None  # a path can be read twice
        return source

    def new_state(self) -> BatchState:
        """Survey the data, and write down what is asked of whom."""
        return BatchState(
            settings=self.settings,
            dataset=self.source.survey(),
            judge=self.evaluator.judge.describe(),
            backend=backends_record(self.evaluator.stack.identities()),
        )

    def close(self) -> None:
        """Give back connections and files."""
        self.evaluator.close()


def check_same(folder: Folder, new: BatchState) -> None:
    """See that a folder's batch is the one asked for now.

    Raises:
        RunError: It is another: other data, another judge, another model.
    """
    old = folder.known
    different = [
        f"the {name} differ{'' if name in ('data', 'settings') else 's'}"
        for name, before, now in (
            ("data", old.dataset.digest, new.dataset.digest),
            ("shard", str(old.dataset.shard), str(new.dataset.shard)),
            ("judge", as_told_now(old.judge), as_told_now(new.judge)),
            ("model", old.backend, new.backend),
        )
        if before != now
    ]
    if different:
        raise RunError(f"{folder.path} holds another batch: {'; '.join(different)}; use another folder")


def storable_cache(cache: str | None) -> str | None:
    """Return a cache's place as every later step finds it; None where it holds a password."""
    if not cache or cache == PROJECT:
        return cache
    if is_postgres(cache):
        return None if read_database_url(cache).secrets else cache
    return str(Path(cache).absolute())


def storable_data(data: str) -> str:
    """Return the place of data as every later step can read it again.

    Raises:
        ConfigError: It is standard input, or a URL that holds a secret.
    """
    if data == "-" or is_stream(Path(data)):
        raise ConfigError(f"a batch reads its data again at every step; give a file or a URL, not {data}")
    if not is_url(data):
        return str(Path(data).absolute())
    if public_url(data) != data:
        raise ConfigError(
            f"{public_url(data)}: leave credentials out of the URL; its driver takes them from elsewhere"
        )
    return data


def storable_url(url: str | None) -> str | None:
    """Return a base URL if it may be written down; None where it holds a secret, and must be given again."""
    if url is None:
        return None
    address = endpoint.Address.parse(url)
    return None if address.secrets else address.url
