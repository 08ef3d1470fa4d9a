"""The front door: an evaluator judges traces and returns runs."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from copy import copy
from dataclasses import dataclass, replace
from inspect import signature
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, TypedDict, Unpack, cast

from judge_eval.background_loop import background_loop
from judge_eval.data.catalog import likely_map
from judge_eval.data.options import ReadOptions
from judge_eval.data.reading import is_url
from judge_eval.data.remarks import OnRemark
from judge_eval.engine import Item, Judged, Plan, judge_one, plan
from judge_eval.errors import ConfigError, DataError, JudgeEvalError, brief
from judge_eval.eval_run import EvalRun
from judge_eval.judges import Judge, Vote
from judge_eval.judges.judge import (
    Mode,
    as_begun,
    asks_nobody,
    check_depth,
    check_models,
    check_trace,
    judges_by_claims,
    make_judge,
    mode_for,
    routes_to_tell,
    with_blank,
)
from judge_eval.judges.panel import repeated
from judge_eval.llm.backend import Backend
from judge_eval.llm.cache.store import cache_place
from judge_eval.llm.options import Options
from judge_eval.llm.stack import Stack, build_stack, is_unnamed, open_store, recorded_model
from judge_eval.metrics import Metric
from judge_eval.notebook import NotebookProgress, shown_by_default
from judge_eval.registry import kind_named
from judge_eval.runs.folder.records import CorpusSearch, Dataset, Intervals, Manifest, Tally, TraceResult
from judge_eval.runs.judging.retrieval import retrieve
from judge_eval.runs.judging.session import (
    Driver,
    RunContext,
    RunSession,
    begin,
    check_goes_on,
    emit,
    environment,
    open_journal,
    results_of,
    run_to_resume,
)
from judge_eval.runs.judging.sources import PassageCheck, Replayable, Traces, replayable, streamed
from judge_eval.runs.keeping.mirror import MIRRORS, check_place, place_of_runs, written
from judge_eval.runs.options import EVERY_TRACE, Keeping, KeepingKeywords, Selecting, Selection
from judge_eval.runs.scoring.counting import Progress
from judge_eval.runs.scoring.scorer import Scorer
from judge_eval.safe_text import counted, type_of
from judge_eval.schema import BlankPolicy, EvidencePolicy, Trace
from judge_eval.settings import check_names, check_ranges, divided, with_keywords
from judge_eval.spelling import option
from judge_eval.views.progress import progress_bar

DEFAULT_METRICS = ("AP@5", "MRR", "NDCG@5")


class RunKeywords(KeepingKeywords, Selecting, total=False):
    """What `Evaluator.evaluate` takes by keyword besides `watch` and `driver`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policies:
    """What becomes of verdicts without sound evidence and of chunks without text; None is the default."""

    evidence: EvidencePolicy | None = None
    blank: BlankPolicy | None = None


class PolicyKeywords(TypedDict, total=False):
    """The same as keywords of `Evaluator`."""

    evidence: EvidencePolicy | None
    blank: BlankPolicy | None


_RECORDS: Mapping[str, type] = {"options": Options, "intervals": Intervals, "reader": ReadOptions}


def default_cache() -> str | Path:
    """Return the place of completions by default.

    `JUDGE_EVAL_CACHE` if it is set (a folder, `project`, or the URL of a database), else `judge_eval` in the
    user's cache folder.
    """
    place = os.environ.get("JUDGE_EVAL_CACHE")
    if place:
        return cache_place(place)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "judge_eval"


class Evaluator:
    """Judges traces with one model and one prompt, and computes metrics.

    Plain verbs are sync and work anywhere, inside a running event loop too; those with an `a` in front
    are async. One evaluator may be used for many evaluations; it keeps its connections between them.

    Args:
        model: `provider/model`, such as `openai/NAME` or `fake/overlap`, or a backend of your own. For a
            panel of several models, or a cascade, a mapping from each one's route to its model.
        prompt: A prompt's id, or the `Path` of a file of your own.
        metrics: Names or values of metrics.
        mode: Whether chunks are judged one by one (`pointwise`), a trace at a time (`listwise`), or by a
            decision model (`decision`); None is `decision` for `decisions/NAME` and else `pointwise`. By the
            claims of the reference: `claims` (one by one) or `claims-list`.
        judge: A judge of your own, in place of `prompt` and `mode`; or the name under which an installed
            package registers one, which is given `prompt` and `relevant`.
        relevant: The least grade that counts as relevant, in place of the prompt's threshold.
        evidence: What becomes of a relevant verdict whose quote is missing, too short or not in the chunk:
            `flag` counts it, `required` makes it a `NoVerdict`; None takes the prompt's policy, else `flag`.
        blank: What a chunk without text counts as, without a call: `no_verdict` (if None) is a `NoVerdict`
            with the reason `empty`, `irrelevant` the lowest grade.
        repeat: How often each chunk is judged, in samples of their own, combined by `vote`.
        vote: How the grades of samples are combined: by `majority`, `median` or `mean`.
        cache: The folder of the cache, `project` for one in the project (`.judge_eval/cache` at its top), or
            a database as `postgresql://...`; True takes `default_cache()`, False caches nothing.
        options: How the judge is called: timeouts, limits, budgets.
        intervals: How the intervals of means are computed; None takes Student's t, robust to clusters if
            traces have `metadata.cluster`.

    Raises:
        ConfigError: A setting cannot be used; `UnknownNameError` if a name does not exist.
    """

    @with_keywords(Policies)
    def __init__(
        self,
        model: str | Backend | Mapping[str, str | Backend],
        *,
        prompt: str | Path = "support/binary",
        metrics: Sequence[str | Metric] = DEFAULT_METRICS,
        mode: Mode | None = None,
        judge: Judge | str | None = None,
        relevant: int | None = None,
        repeat: int = 1,
        vote: Vote = "majority",
        cache: str | Path | bool = True,
        options: Options | None = None,
        intervals: Intervals | None = None,
        **policies: Unpack[PolicyKeywords],
    ) -> None:
        check_names(policies, [*signature(Evaluator).parameters], **_RECORDS)
        policy = Policies(**policies)
        if isinstance(judge, str):
            mode, judge = kind_named(judge).name, None
        _require("model", "`provider/model`, such as 'openai/NAME', or a backend", model, str | Mapping, "complete")
        _require("prompt", "a prompt's id or the `Path` of a file", prompt, str | Path)
        if isinstance(prompt, str) and prompt.startswith("file:"):
            raise ConfigError(f"prompt {prompt!r}: in Python write prompt=Path({prompt.removeprefix('file:')!r})")
        _require("judge", "a judge, or the name of an installed kind", judge, NoneType, "describe")
        _require("cache", "a folder, a database's URL, True or False", cache, str | Path | bool | None)
        for name, record in (("options", options), ("intervals", intervals)):
            _require(name, f"`{_RECORDS[name].__name__}(...)`", record, _RECORDS[name] | None)
        self.options = options or Options()
        recorded = self.options.replay if judge is None and is_unnamed(model) else None
        mode = mode_for(model if recorded is None else recorded_model(recorded), mode)
        check_ranges({"repeat": repeat})
        if judge is None and repeat == 1:
            judge = make_judge(prompt, mode, relevant, evidence=policy.evidence)
        judge = judge or repeated(prompt, mode, relevant, repeat, vote, policy.evidence)
        self.chosen_judge: Judge = with_blank(judge, policy.blank)
        check_models(self.chosen_judge, model)
        for route in routes_to_tell(self.chosen_judge, model):
            self.options = self.options.with_logprobs(route)
        self.intervals = intervals or Intervals()
        self.scorer = Scorer(metrics, self.chosen_judge.scale, by_claims=judges_by_claims(self.chosen_judge))
        self.paid = Tally()
        """What was paid for its runs before they begin or go on: the replies of a batch."""
        self.watch: Callable[[Progress], None] | None = None
        """Called with the progress of evaluations that are given no `watch`."""
        self.run_id: str | None = None
        """The id of the next run; None makes a new one for each."""
        self.search: CorpusSearch | None = None
        """How the chunks of its runs were searched, if they are what another run may have missed."""
        self._model = model
        self._store_path = default_cache() if cache is True else None if cache is False else cache
        self._stack: Stack | None = None
        self._places: dict[asyncio.AbstractEventLoop, asyncio.Semaphore] = {}
        """By event loop: the places for the calls of `ajudge`."""

    @classmethod
    def from_file(
        cls,
        path: str | Path,
        *,
        metrics: Sequence[str | Metric] = DEFAULT_METRICS,
        cache: str | Path | bool = True,
        options: Options | None = None,
        intervals: Intervals | None = None,
    ) -> Evaluator:
        """Make the evaluator whose judge a judge file describes: one model, a panel or a cascade.

        Args:
            path: The file, as TOML, or what `cascade fit` wrote.
            metrics: As of `Evaluator`, like the following.
            cache: The folder of the cache.
            options: How the judge is called if the file does not say.
            intervals: How the intervals of means are made.

        Raises:
            ConfigError: The file cannot be read, has an unknown key, or a setting cannot be used.
        """
        from judge_eval.judge_file import read_judge

        judging = read_judge(Path(path)).keywords(options)
        return cls(**judging, metrics=metrics, cache=cache, intervals=intervals)

    @property
    def stack(self) -> Stack:
        """The backend with its wrappers, made at first use."""
        if self._stack is None:
            store = open_store(self._store_path) if self._store_path is not None else None
            self._stack = build_stack(self._model, store, self.options)
        return self._stack

    @with_keywords(Keeping, Selection)
    async def aevaluate(
        self,
        data: Traces,
        *,
        watch: Callable[[Progress], None] | None = None,
        driver: Driver | None = None,
        retriever: Any = None,
        **options: Unpack[RunKeywords],
    ) -> EvalRun:
        """Judge traces and return the run.

        Args:
            data: The path of a file or folder of any known format, or the same in memory: a pandas or Polars
                DataFrame, an Arrow table, a `datasets.Dataset`, a list of mappings, of `Trace`s or of
                `(query, reference, chunks)`, one of these alone, or an iterable or async iterable of them.
                Chunks may be texts, mappings, or documents and nodes of other libraries, also with scores.
            out: The folder of runs; the run is written there as it goes, in a folder of its own. For a URL it is
                written to a local folder and pushed as it goes and when it ends. None keeps the run in memory.
            label: What people call the run.
            href: Where it belongs: a pull request, a commit, a job.
            tags: Words to group and filter by.
            baseline: The id of the run that this one is judged to be compared with; reports and pages show
                differences from it.
            resume: A run's folder to continue; True continues the newest unfinished run of the same data
                in `out`, returns the newest as it is if it is done, or starts one if there is none.
            new_if_done: With `resume=True`: starts a run if the newest of the same data is done.
            watch: Called with the progress after each block of finished traces; if None, a notebook or the terminal of
                a script shows it.
            driver: Who drives the plans, such as `RayDriver`; None has it done in this process.
            retriever: Finds the chunks of questions, which then are the data: a function, sync or async, from a
                query to a list of texts, mappings, documents or `(text, score)`, or an object with `search`,
                `invoke` (LangChain) or `retrieve` (LlamaIndex). A question for which it fails is in no mean, and
                the run is incomplete; with `resume` only such questions are asked again.
            push_every: If `out` is a URL, seconds between pushes of what is judged; 0 pushes at the end.
            push_grace: Seconds that the last push may take if the evaluation is ended by a signal.
            limit: The most traces to judge.
            seed: With `limit`, judges a random sample instead of the first traces.
            shard: `(i, n)` judges part i of n, i from 1; `merge` puts the runs of all parts together.
            on_invalid: Whether an invalid record ends the evaluation before it starts, or is skipped.
            name: What to call the data in messages and in the run; a file's path by default.
            reader: How to read files and rows that do not say so themselves: format, field names, corpus.
            claims: A file with the claims of the references, which all traces must be in.

        Raises:
            DataError: A record is invalid, or the data are not those of the run to resume.
            FatalCallError: No call can succeed: a wrong key, an unknown model, an exhausted quota.
            RunError: The run's folder cannot be written or resumed.
            StoreError: The cache cannot be used.
        """
        _require("watch", "a function that takes the progress", watch, NoneType, "__call__")
        _require("driver", "a driver, such as `RayDriver(...)`", driver, NoneType, "judging_by")
        kept, selection = divided(options, Keeping, Selection)
        out, resume = kept.out, kept.resume
        root = None if out is None else place_of_runs(out) if is_url(out) else Path(out)
        retrieval = None
        if retriever is not None:
            check = self._check_needs
            asked = retrieve(data, retriever, selection, root, resume=bool(resume), check=check)
            data, selection, retrieval = await asked
        is_file = isinstance(data, str | Path)  # opening it may wait, as for a pipe or a URL
        source = await asyncio.to_thread(self.source, data, selection) if is_file else self.source(data, selection)
        if source is None:
            selection.check_stream(resume is True)
        dataset = await _surveyed(source)
        if source and not dataset.traces:
            left = (
                f"; {counted(dataset.skipped, 'invalid record was', 'invalid records were')} skipped"
                if dataset.skipped
                else ""
            )
            raise DataError(f"there is no trace to judge{left}", file=dataset.name)
        dataset = dataset.replace(retrieval=retrieval, search=self.search)
        if root in MIRRORS:
            await asyncio.to_thread(check_place, root)
        begun = await run_to_resume(dataset, root, resume, kept.new_if_done)
        context = self.calling(driver)
        if begun is not None:  # a run keeps the prompts it began with, unless a version was asked for
            context = replace(context, judge=as_begun(self.chosen_judge, begun.manifest.judge))
        named = {name: getattr(kept, name) for name in ("label", "href", "tags", "baseline")}
        manifest = begin(dataset, context, self.intervals).model_copy(update=named)
        keeping = written(root, grace=kept.push_grace) if root and is_url(out) else nullcontext()
        if begun is not None:
            check_goes_on(begun, manifest, newest=resume is True)
            if resume is True and begun.manifest.is_whole:
                with keeping:  # if only the push is missing, it is made now
                    done = EvalRun.at(begun.folder, begun.manifest)
                    return EvalRun.of(done, source.input if source else None)
        journal, rows = open_journal(manifest, root, begun, context)
        first = journal.manifest if journal else manifest
        with keeping, _watched(watch or self.watch) as shown:
            session = RunSession(first, context, journal, shown, rows=rows, push_every=kept.push_every)
            traces = self._traces(source, data, selection.reader, session.remarks.add)
            for last in (False, True):  # a few unreadable replies are asked for once more
                async for _ in session.results(traces):
                    pass
                if last or not source or driver is not None or (another := session.another()) is None:
                    break
                session, traces = another, source.numbered()
        return EvalRun.of(session.run(), source.input if source else None)

    evaluate = background_loop.blocking(aevaluate)
    """`aevaluate` for sync code: it waits for the run and returns it, with the same arguments."""

    async def ajudge(self, trace: Traces) -> TraceResult:
        """Judge one trace and return its result, as a service wants it: no run, no means and no folder are made.

        Calls of many traces at once share the evaluator's connections and its `concurrency`.

        Args:
            trace: A `Trace`, or one row of a shape that `evaluate` takes.

        Returns:
            The outcome of each chunk in rank order, the scores, and the calls; `failed` counts chunks without a
            verdict, and a score that they leave open is None, with `bounds`.

        Raises:
            DataError: The trace is invalid, or lacks what the prompt or the metrics need.
            FatalCallError: No call can succeed: a wrong key, an unknown model, an exhausted quota.
        """
        if not isinstance(trace, Trace):
            trace = self._only_trace(trace)
        self.check(trace)
        passages = PassageCheck(None, self._spends)
        passages.add(trace)
        passages.check()
        loop = asyncio.get_running_loop()
        if loop not in self._places:
            used = {each: places for each, places in self._places.items() if not each.is_closed()}
            self._places = {**used, loop: asyncio.Semaphore(self.options.concurrency)}
        stack = self.stack
        judgment = await judge_one(
            self.chosen_judge, stack.backend, trace, self._places[loop], lead=self.options.warm_prefix
        )
        results = results_of([Judged(0, trace, judgment)], self.scorer)
        emit(results, stack.otel)
        return results[0]

    judge = background_loop.blocking(ajudge)
    """`ajudge` for sync code: it waits for the result and returns it."""

    def _only_trace(self, data: Any) -> Trace:
        source = self.source(data)
        traces = [trace for _, trace in source.numbered()] if source else []
        if len(traces) != 1:
            held = counted(len(traces), "trace") if source else "a stream"
            raise DataError(f"`judge` takes one trace, and this is {held}; `evaluate` takes many")
        return traces[0]

    async def astream(self, data: Traces) -> AsyncIterator[TraceResult]:
        """Judge traces and yield each result when it is ready, in any order."""
        source = self.source(data)
        session = RunSession(self.begin(await _surveyed(source)), self.calling(), None, self.watch, keep=False)
        async for block in session.results(self._traces(source, data)):
            for result in block:
                yield result

    stream = background_loop.iterating(astream)
    """`astream` for sync code: an iterator over the results as they are ready, in no fixed order."""

    @with_keywords(Selection)
    def plan(self, data: Traces, **selecting: Unpack[Selecting]) -> tuple[Dataset, Plan]:
        """Count what evaluating the data would take, without a call; the keywords are those of `evaluate`.

        Raises:
            ConfigError: The data are a stream.
        """
        source = self.source(data, Selection(**selecting))
        if source is None:
            raise ConfigError("a stream can be read only once; give a list or a file to plan for")
        dataset = source.survey()
        items = (Item(position, trace) for position, trace in source.numbered())
        return dataset, plan(self.chosen_judge, self.stack.backend, items)

    def source(self, data: Traces, selection: Selection = EVERY_TRACE) -> Replayable | None:
        """Open data, as `evaluate` takes them, to be read twice with traces checked; None for a stream."""
        check_depth(self.chosen_judge, selection.reader.depth if selection.reader else None)
        return replayable(data, self.check, selection, self._spends, self.chosen_judge.scale)

    def _spends(self) -> bool:
        free = self.options.offline or self.options.replay is not None
        return not free and not self.stack.calls_nobody

    def begin(self, dataset: Dataset) -> Manifest:
        """Return the manifest of a new run of a dataset."""
        return begin(dataset, self.calling(), self.intervals)

    def with_judge(self, judge: Judge) -> Evaluator:
        """Return an evaluator with another judge of the same scale, and the same open connections."""
        other = copy(self)
        other.chosen_judge, other._stack = judge, self.stack
        return other

    def calling(self, driver: Driver | None = None) -> RunContext:
        """Return who judges and how calls are made, in this process or by a driver."""
        stack = (driver and driver.stack) or self.stack
        calls = self.options.concurrency, self.options.warm_prefix
        return RunContext(self.chosen_judge, stack, self.scorer, *calls, driver, self.paid, self.run_id)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_stack": None, "_places": {}}  # a worker opens connections of its own

    async def aclose(self) -> None:
        """Close connections and files."""
        if self._stack is not None:
            stack, self._stack = self._stack, None
            await stack.backend.aclose()

    def close(self) -> None:
        """`aclose` for sync code; if nothing was opened, it starts no event loop."""
        if self._stack is not None:
            background_loop.run(self.aclose())

    def __enter__(self) -> Evaluator:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        with _about_the_run_of(error):
            self.close()

    async def __aenter__(self) -> Evaluator:
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        with _about_the_run_of(error):
            await self.aclose()

    def check(self, trace: Trace) -> None:
        """Check that a trace has what the prompt and the metrics need.

        Raises:
            DataError: It does not.
        """
        if not asks_nobody(self.chosen_judge, trace):
            self._check_needs(trace)
            check_trace(self.chosen_judge, trace)
            self.scorer.check(trace)

    def _check_needs(self, trace: Trace) -> None:
        for need in () if asks_nobody(self.chosen_judge, trace) else self.chosen_judge.needs:
            if not (getattr(trace, need) or "").strip():
                fault = f"the prompt needs the {need}, and this trace has none"
                if need == "reference" and (key := likely_map([trace.metadata]).get(need)):
                    raise DataError(f"{fault}; perhaps with {option('map', {need: key})}", field=need)
                skip, prompt = option("on_invalid", "skip"), option("prompt", "relevance/binary")
                raise DataError(f"{fault}; {skip} leaves it out; if no trace has one, {prompt} needs none", field=need)

    def _traces(
        self, source: Replayable | None, data: Traces, reader: ReadOptions | None = None, on_remark: OnRemark = None
    ) -> Iterator[tuple[int, Trace]] | AsyncIterator[Trace]:
        if source:
            return source.numbered()
        return streamed(cast(Any, data), self.check, reader, on_remark, self._spends)


def _require(name: str, wanted: str, value: object, kind: type | UnionType, method: str = "") -> None:
    """Raise `ConfigError` unless a value is of a kind, or has the method of what else it may be."""
    if not (isinstance(value, kind) or (method and hasattr(value, method))):
        raise ConfigError(f"{name} must be {wanted}, not {type_of(value)}")


async def _surveyed(source: Replayable | None) -> Dataset:
    """Read the data once, off the event loop, as git is asked for the revision, once in a process."""

    def survey() -> Dataset:
        environment()
        return source.survey() if source else Dataset(name="stream")

    return await asyncio.to_thread(survey)


@contextmanager
def _watched(watch: Callable[[Progress], None] | None) -> Iterator[Callable[[Progress], None] | None]:
    """Show the progress that nobody watches: in the cell of a notebook, or on the terminal of a script."""
    if watch is None and "IPython" in sys.modules:
        watch = shown_by_default()
    if isinstance(watch, NotebookProgress):
        with watch.until_interrupted():
            yield watch
    elif watch is None and sys.stderr is not None and sys.stderr.isatty() and not _SPEAKERS & sys.modules.keys():
        with progress_bar(after=1.0) as watch:
            yield watch
    else:
        yield watch


_SPEAKERS = {"judge_eval.cli", "judge_eval.server", "_pytest"}
"""Programs that say themselves how far they are."""
_log = logging.getLogger("judge_eval")


@contextmanager
def _about_the_run_of(error: BaseException | None) -> Iterator[None]:
    try:
        yield
    except JudgeEvalError as closing:
        closing.run_folder = closing.run_folder or getattr(error, "run_folder", None)
        if error is None or isinstance(error, Exception):
            raise
        _log.warning("%s", closing)  # an interrupt stays one


class EvaluateKeywords(PolicyKeywords, RunKeywords, total=False):
    """What `evaluate` takes by keyword: what `Evaluator` and its `evaluate` take."""

    prompt: str | Path
    metrics: Sequence[str | Metric]
    mode: Mode | None
    judge: Judge | str | None
    relevant: int | None
    repeat: int
    vote: Vote
    cache: str | Path | bool
    options: Options | None
    intervals: Intervals | None
    watch: Callable[[Progress], None] | None
    driver: Driver | None
    retriever: Any


@with_keywords(Evaluator, Evaluator.evaluate)
@brief
def evaluate(data: Traces, model: str | Backend, **settings: Unpack[EvaluateKeywords]) -> EvalRun:
    """Judge traces with a model and return the run: `Evaluator(model, ...).evaluate(data)` in one call.

    Args:
        data: See `Evaluator.evaluate`.
        model: See `Evaluator`.
        settings: Keyword arguments of `Evaluator` and of `Evaluator.evaluate`.
    """
    own: dict[str, Any] = dict(settings)
    check_names(own, [*signature(evaluate).parameters], **_RECORDS)
    of_run = {name: own.pop(name) for name in [*own] if name in signature(Evaluator.evaluate).parameters}
    with Evaluator(model, **own) as evaluator:
        return evaluator.evaluate(data, **of_run)
