"""The front door: an evaluator judges traces and returns runs."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack, cast

from judge_eval.backends.base import Backend
from judge_eval.backends.stack import Options, Stack, Stacks, build_stack, build_stacks, open_store
from judge_eval.backends.storing.places import cache_place
from judge_eval.data.options import ReadOptions
from judge_eval.data.remarks import OnRemark
from judge_eval.data.remote import is_url
from judge_eval.engine import Item, Plan, plan
from judge_eval.errors import ConfigError, DataError, JudgeEvalError, brief
from judge_eval.eval_run import EvalRun
from judge_eval.given import check_text
from judge_eval.judges import Judge, Vote
from judge_eval.judges.choose import Mode, as_begun, check_models, mode_for, repeated, route_to_tell
from judge_eval.metrics import Metric
from judge_eval.portal import portal
from judge_eval.registry import find
from judge_eval.runs.folder.records import Dataset, Intervals, Manifest, TraceResult
from judge_eval.runs.folder.run import load_manifest
from judge_eval.runs.judging.calling import Calling, Driver
from judge_eval.runs.judging.counting import Progress
from judge_eval.runs.judging.objects import streamed
from judge_eval.runs.judging.opening import begin, check_goes_on, folder_to_resume, open_journal
from judge_eval.runs.judging.selection import EVERY_TRACE, Selecting, Selection, selecting
from judge_eval.runs.judging.sitting import Sitting
from judge_eval.runs.judging.sources import Replayable, Traces, replayable
from judge_eval.runs.keeping.mirroring import place_of_runs, written
from judge_eval.runs.keeping.pushing import PUSH_EVERY, pushing, until_left
from judge_eval.runs.scoring.scorer import Scorer
from judge_eval.schema import EvidencePolicy, Trace

DEFAULT_METRICS = ("AP@5", "MRR", "NDCG@5")


def default_cache() -> str | Path:
    """Return where completions are kept unless told otherwise.

    `JUDGE_EVAL_CACHE` where it is set (a folder, `project`, or the URL of a database), else `judge_eval` in
    the user's cache folder.
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
            `flag` counts it, `required` makes it a `NoVerdict`; as the prompt says where None, else `flag`.
        repeat: How often each chunk is judged, in samples of their own, combined by `vote`.
        vote: How the grades of samples are combined: by `majority`, `median` or `mean`.
        cache: The folder of the cache, `project` for one in the project (`.judge_eval/cache` at its top), or
            a database as `postgresql://...`; True takes `default_cache()`, False caches nothing.
        options: How the judge is called: timeouts, limits, budgets.
        intervals: How the intervals of means are made; Student's t where None, robust to clusters where
            traces carry `metadata.cluster`.

    Raises:
        ConfigError: A setting cannot be used; `UnknownNameError` where a name does not exist.
    """

    def __init__(
        self,
        model: str | Backend | Mapping[str, str | Backend],
        *,
        prompt: str | Path = "support/binary",
        metrics: Sequence[str | Metric] = DEFAULT_METRICS,
        mode: Mode | None = None,
        judge: Judge | str | None = None,
        relevant: int | None = None,
        evidence: EvidencePolicy | None = None,
        repeat: int = 1,
        vote: Vote = "majority",
        cache: str | Path | bool = True,
        options: Options | None = None,
        intervals: Intervals | None = None,
    ) -> None:
        if isinstance(judge, str):
            if evidence is not None:
                raise ConfigError(f"the judge {judge!r} has a policy of its own; leave `evidence` out")
            judge = cast(Judge, find("judges", judge, "judge")(prompt, relevant=relevant))
        mode = mode_for(model, mode)
        self.judge: Judge = judge or repeated(prompt, mode, relevant, repeat, vote, evidence)
        check_models(self.judge, model)
        self.options = options or Options()
        if (route := route_to_tell(self.judge, model)) is not None:
            self.options = self.options.telling(route)
        self.intervals = intervals or Intervals()
        by_claims = bool(getattr(self.judge, "by_claims", False))
        self.scorer = Scorer(metrics, self.judge.scale, by_claims=by_claims)
        self._model = model
        self._store_path = default_cache() if cache is True else None if cache is False else cache
        self._stack: Stack | Stacks | None = None

    @property
    def stack(self) -> Stack | Stacks:
        """The backend with its wrappers, made at first use."""
        if self._stack is None:
            store = open_store(self._store_path) if self._store_path is not None else None
            if isinstance(self._model, Mapping):
                self._stack = build_stacks(self._model, store, self.options)
            else:
                self._stack = build_stack(self._model, store, self.options)
        return self._stack

    @selecting
    async def aevaluate(
        self,
        data: Traces,
        *,
        out: str | Path | None = None,
        label: str | None = None,
        href: str | None = None,
        tags: Sequence[str] = (),
        baseline: str | None = None,
        resume: str | Path | bool = False,
        or_new: bool = False,
        watch: Callable[[Progress], None] | None = None,
        driver: Driver | None = None,
        push_every: float = PUSH_EVERY,
        **selecting: Unpack[Selecting],
    ) -> EvalRun:
        """Judge traces and return the run.

        Args:
            data: The path of a file or folder of any known format, or the same in memory: a pandas or Polars
                DataFrame, an Arrow table, a `datasets.Dataset`, a list of mappings, of `Trace`s or of
                `(query, reference, chunks)`, one of these alone, or an iterable or async iterable of them.
                Chunks may be texts, mappings, or documents and nodes of other libraries, also with scores.
            out: The folder of runs; the run is written there as it goes, in a folder of its own. Of a URL
                a folder that stands for it, from which the run is pushed as it goes and when it ends. None
                keeps the run in memory.
            label: What people call the run.
            href: Where it belongs: a pull request, a commit, a job.
            tags: Words to group and filter by.
            baseline: The id of the run that this one is judged to be compared with; reports and pages show
                differences from it.
            resume: A run's folder to continue; True continues the newest unfinished run of the same data
                in `out`, returns the newest as it is where it is done, or starts one where there is none.
            or_new: With `resume=True`: starts a run where the newest of the same data is done.
            watch: Called with the progress after each block of finished traces.
            driver: Who drives the inquiries, such as `RayDriver`; None has it done in this process.
            push_every: Where `out` is a URL, seconds between pushes of what is judged; 0 pushes at the end.
            limit: The most traces to judge.
            seed: With `limit`, judges a random sample instead of the first traces.
            shard: `(i, n)` judges part i of n, i from 1; `merge` puts the runs of all parts together.
            on_invalid: Whether an invalid record ends the evaluation before it starts, or is skipped.
            name: What to call the data in messages and in the run; a file's path by default.
            reader: How files and rows are to be read, where they do not say so themselves: format, field
                names, corpus.
            claims: A file with the claims of the references, which all traces must be in.

        Raises:
            DataError: A record is invalid, or the data are not those of the run to resume.
            FatalCallError: No call can succeed: a wrong key, an unknown model, an exhausted quota.
            RunError: The run's folder cannot be written or resumed.
            StoreError: The cache cannot be used.
        """
        selection = Selection(**selecting)
        told = (("label", label), ("href", href), ("baseline", baseline))
        for what, text in (*told, *(("tag", tag) for tag in tags)):
            check_text(what, text)
        source = self.source(data, selection)
        if source is None:
            selection.check_stream(resume is True)
        dataset = await _surveyed(source)
        if source and not dataset.traces:
            left = f"; {dataset.skipped} invalid ones were skipped" if dataset.skipped else ""
            raise DataError(f"there is no trace to judge{left}", file=dataset.name)
        root = None if out is None else place_of_runs(out)
        folder = folder_to_resume(dataset, root, resume, or_new)
        calling = self.calling(driver)
        if folder is not None:  # a run keeps the prompts it began with, unless a version was asked for
            await until_left(folder)
            calling = replace(calling, judge=as_begun(self.judge, load_manifest(folder).judge))
        named = {"label": label, "href": href, "tags": tuple(tags), "baseline": baseline}
        manifest = begin(dataset, calling, self.intervals).model_copy(update=named)
        keeping = written(root) if root is not None and is_url(out) else nullcontext()
        if folder is not None:
            check_goes_on(folder, manifest, newest=resume is True)
            if resume is True and load_manifest(folder).status == "done":
                with keeping:  # where the push is what is missing, it is made now
                    return EvalRun.of(EvalRun.load(folder), source.input if source else None)
        journal = open_journal(manifest, root, folder, self.scorer)
        first = journal.manifest if journal else manifest
        sitting = Sitting(first, calling, journal, watch)
        with keeping:
            async with pushing(sitting.folder, push_every):
                traces = self._traces(source, data, selection.reader, sitting.remarks.add)
                async for _ in sitting.results(traces):
                    pass
            if source and driver is None and (another := sitting.another()):
                sitting = another
                async with pushing(sitting.folder, push_every):
                    async for _ in sitting.results(source.numbered()):
                        pass
        return EvalRun.of(sitting.run(), source.input if source else None)

    evaluate = portal.blocking(aevaluate)
    """`aevaluate` for sync code: it waits for the run and returns it, with the same arguments."""

    async def astream(self, data: Traces) -> AsyncIterator[TraceResult]:
        """Judge traces and yield each result as it is there, in no fixed order."""
        source = self.source(data)
        sitting = Sitting(self.begin(await _surveyed(source)), self.calling(), keep=False)
        async for block in sitting.results(self._traces(source, data)):
            for result in block:
                yield result

    stream = portal.iterating(astream)
    """`astream` for sync code: an iterator over each result as it is there, in no fixed order."""

    @selecting
    def plan(self, data: Traces, **selecting: Unpack[Selecting]) -> tuple[Dataset, Plan]:
        """Tell what evaluating the data would take, without a call; the keywords are those of `evaluate`.

        Raises:
            ConfigError: The data are a stream.
        """
        source = self.source(data, Selection(**selecting))
        if source is None:
            raise ConfigError("a stream can be read only once; give a list or a file to plan for")
        dataset = source.survey()
        items = (Item(position, trace, {}) for position, trace in source.numbered())
        return dataset, plan(self.judge, self.stack.backend, items)

    def source(self, data: Traces, selection: Selection = EVERY_TRACE) -> Replayable | None:
        """Open data so that they can be read twice, traces checked; None for a stream; see `evaluate`."""
        return replayable(data, self.check, selection)

    def begin(self, dataset: Dataset) -> Manifest:
        """Write the manifest of a run of a dataset that begins now."""
        return begin(dataset, self.calling(), self.intervals)

    def with_judge(self, judge: Judge) -> Evaluator:
        """Return an evaluator with another judge of the same scale, and the connections that are open."""
        other = copy(self)
        other.judge, other._stack = judge, self._stack
        return other

    def calling(self, driver: Driver | None = None) -> Calling:
        """Tell who judges and how calls are made, in this process or by a driver."""
        stack = (driver and driver.stack) or self.stack
        options = self.options
        return Calling(self.judge, stack, self.scorer, options.concurrency, options.lead, driver)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_stack": None}  # a worker opens connections of its own

    async def aclose(self) -> None:
        """Give back connections and files."""
        if self._stack is not None:
            stack, self._stack = self._stack, None
            await stack.backend.aclose()

    def close(self) -> None:
        """`aclose` for sync code; where nothing was opened it starts no loop either."""
        if self._stack is not None:
            portal.run(self.aclose())

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
        """See that a trace brings what prompt and metrics need.

        Raises:
            DataError: It does not.
        """
        for need in self.judge.needs:
            if not (getattr(trace, need) or "").strip():
                raise DataError(f"the prompt needs the {need}, and this trace has none", field=need)
        if (own := getattr(self.judge, "check_trace", None)) is not None:
            own(trace)
        self.scorer.check(trace)

    def _traces(
        self,
        source: Replayable | None,
        data: Traces,
        reader: ReadOptions | None = None,
        on_remark: OnRemark = None,
    ) -> Iterator[tuple[int, Trace]] | AsyncIterator[Trace]:
        return source.numbered() if source else streamed(cast(Any, data), self.check, reader, on_remark)


async def _surveyed(source: Replayable | None) -> Dataset:
    return await asyncio.to_thread(source.survey) if source else Dataset(name="stream")


@contextmanager
def _about_the_run_of(error: BaseException | None) -> Iterator[None]:
    """Let an error in closing, which hides the one that came before, say which run that one ended."""
    try:
        yield
    except JudgeEvalError as closing:
        closing.run_folder = closing.run_folder or getattr(error, "run_folder", None)
        raise


@brief
def evaluate(data: Traces, model: str | Backend, **settings: Any) -> EvalRun:
    """Judge traces with a model and return the run: `Evaluator(model, ...).evaluate(data)` in one call.

    Args:
        data: See `Evaluator.evaluate`.
        model: See `Evaluator`.
        settings: Keyword arguments of `Evaluator`.
    """
    with Evaluator(model, **settings) as evaluator:
        return evaluator.evaluate(data)
