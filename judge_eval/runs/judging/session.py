"""One session of a run: how it starts, anew or where an earlier one ended, judging a dataset, keeping what finishes."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import uuid
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from time import monotonic
from typing import Any, Protocol, Self

from pydantic import JsonValue

from judge_eval.data.remarks import Remarks, ScoreOrder
from judge_eval.engine import Engine, Item, Judged, Source
from judge_eval.errors import ConfigError, DataError, JudgeEvalError, MetricError, RunError
from judge_eval.installed import own_version
from judge_eval.judges.judge import Judge
from judge_eval.llm.backend import Identity
from judge_eval.llm.options import Otel
from judge_eval.llm.stack import Stack
from judge_eval.record import trusted
from judge_eval.runs.columns.verdict_table import ScoreColumns
from judge_eval.runs.folder.describing import differences
from judge_eval.runs.folder.journal import Journal, ResultsFile, missing_folder
from judge_eval.runs.folder.records import (
    FORMAT,
    JUDGED,
    RESULTS,
    Dataset,
    Intervals,
    Manifest,
    Status,
    Tally,
    TraceResult,
)
from judge_eval.runs.folder.run import Run, load_manifest
from judge_eval.runs.judging.sources import Fingerprint
from judge_eval.runs.keeping.lookup import newest_of
from judge_eval.runs.keeping.mirror import MIRRORS, is_pushed, pushing, until_left
from judge_eval.runs.scoring.aggregate import figures
from judge_eval.runs.scoring.counting import (
    Counting,
    Progress,
    every_second,
    remove_progress,
    tally_of_killed,
    with_paid,
)
from judge_eval.runs.scoring.rescore import scored_again
from judge_eval.runs.scoring.scorer import Scorer
from judge_eval.schema import Judgment, Trace
from judge_eval.spelling import option


class Driver(AbstractAsyncContextManager[Any], Protocol):
    """Runs a session's plans in place of the engine, such as over many machines."""

    @property
    def stack(self) -> Stack | None:
        """The stack that answers and counts its calls; None for the evaluator's own."""
        ...

    def judging_by(self, judge: Judge) -> Self:
        """Set the judge, which may differ from the evaluator's, before the start; return the driver."""
        ...

    def take(self) -> list[Judged]:
        """Return the finished traces that nobody has taken yet."""
        ...

    def results(self, source: Source) -> AsyncIterator[list[Judged]]:
        """Judge every trace of the source and yield blocks of them as they finish, in any order."""
        ...


@dataclass(frozen=True, slots=True)
class RunContext:
    """Who judges, and how calls are made."""

    judge: Judge
    stack: Stack
    scorer: Scorer
    concurrency: int
    """How many calls may be under way."""
    lead: bool
    """Whether a trace's first call goes ahead of its siblings."""
    driver: Driver | None = None
    """Who drives the plans; None has it done in this process."""
    paid: Tally = field(default_factory=Tally)
    """What was paid for before the run begins or goes on: the replies of a batch."""
    run_id: str | None = None
    """The id of a run that begins; None makes one."""

    def engine(self) -> Engine | Driver:
        """Return what runs the plans: the driver, or an engine in this process."""
        if self.driver:
            return self.driver.judging_by(self.judge)
        stack = self.stack
        return Engine(
            self.judge, stack.backend, concurrency=self.concurrency, lead=self.lead, salvage=lambda: not stack.keeps
        )


def results_of(block: Sequence[Judged], scorer: Scorer, failed: list[MetricError] | None = None) -> list[TraceResult]:
    """Score judgments into the results that a run keeps; `failed` collects errors, else they are raised."""
    scored = scorer.score(
        [(judged.trace, judged.judgment.outcomes) for judged in block],
        failed,
        [judged.judgment.claims for judged in block],
    )
    # Not checked again: of 100,000 traces with 10 chunks each that takes 1.4 seconds, this 0.2.
    return [
        trusted(
            TraceResult,
            {
                "v": FORMAT,
                "position": judged.position,
                "trace_id": judged.trace.id,
                "digest": judged.trace.digest,
                "outcomes": judged.judgment.outcomes,  # in the order in which a file is written
                "scores": scores,
                "bounds": bounds,
                **{name: getattr(judged.judgment, name) for name in JUDGED[1:]},
                "trace": judged.trace,
            },
        )
        for judged, (scores, bounds) in zip(block, scored, strict=True)
    ]


def emit(results: Sequence[TraceResult], otel: Otel) -> None:
    """Emit the scores of results as telemetry, if the user turned it on."""
    if otel != "off":
        from judge_eval.runs.judging.telemetry import emit_scores

        emit_scores(results, content=otel == "content")


class EarlierRows:
    """The rows of a resumed run, read once; `killed` is its folder if it could not write how it ended."""

    def __init__(self, context: RunContext, manifest: Manifest, killed: Path | None = None) -> None:
        self.counting = Counting(context.stack, manifest, context.judge)
        self.scores = ScoreColumns(manifest.metrics, manifest.intervals.cluster)
        self._judged: dict[str, tuple[str, Judgment | None]] = {}
        """By id of a trace its digest, and its judgment if something is missing in it."""
        self._context, self._names, self._answered = context, set(context.scorer.names), False
        self._paid = None if killed is None else tally_of_killed(killed, manifest)

    def take(self, result: TraceResult) -> TraceResult:
        """Take in a row, and return it with the scores of the run's metrics."""
        if result.scores.keys() != self._names:
            (result,) = scored_again([result], self._context.scorer)
        if not self._answered and any(outcome.kind == "verdict" for outcome in result.outcomes):
            self._answered = True
            self._context.stack.note_answered()
        self.scores.add(result)
        complete = self.counting.add(result)
        self._judged[result.trace_id] = result.digest, None if complete else result.judgment
        return result

    def item(self, position: int, trace: Trace) -> Item | None:
        """Return what is left to judge of a trace, which must be the judged one; None if it is complete."""
        if trace.id not in self._judged:
            return Item(position, trace)
        digest, judgment = self._judged.pop(trace.id)
        if digest != trace.digest:
            raise DataError(f"trace {trace.id!r} is not the one this run judged: its text or chunks have changed")
        return None if judgment is None else Item(position, trace, judgment)

    def check_all_seen(self) -> None:
        """Check that every trace that was judged is still in the data."""
        if self._judged:
            names = ", ".join(map(repr, list(self._judged)[:3]))
            raise RunError(f"{len(self._judged)} traces of this run are not in the data any more: {names}, ...")

    def settle(self, manifest: Manifest) -> Manifest:
        """Complete the manifest, after all rows, with what a kill left out."""
        if self._paid is not None:
            self.counting.before = with_paid(self._paid, self._context.paid)
            manifest = manifest.replace(tally=self.counting.tally())
        return manifest


NOTE_EVERY = 5.0
"""Seconds between manifests that say what a run has taken so far."""


@dataclass
class RunSession:
    """Judges traces into a run, from its start or after an earlier session.

    Without a journal results are in memory, if `keep` says so, beside those `remembered` of an earlier
    session. `watch` is called with the progress after each block of finished traces. `fingerprint`, `remarks`
    and `order` are of a stream, which cannot be surveyed.
    """

    manifest: Manifest
    context: RunContext
    journal: Journal | None = None
    watch: Callable[[Progress], None] | None = None
    keep: bool = True
    rows: EarlierRows | None = None
    remembered: Collection[TraceResult] = ()
    fingerprint: Fingerprint = field(default_factory=Fingerprint)
    remarks: Remarks = field(default_factory=lambda: Remarks("in row"))
    order: ScoreOrder = field(default_factory=ScoreOrder)
    push_every: float = 0
    """Seconds between pushes of a run behind a URL; 0 pushes nothing before it ends."""

    def __post_init__(self) -> None:
        self._memory = {result.position: result for result in self.remembered}
        self._before = self.rows or EarlierRows(self.context, self.manifest)
        self._counting, self._scores = self._before.counting, self._before.scores
        self._noted = monotonic()

    @property
    def folder(self) -> Path | None:
        """Where the run is kept; None in memory."""
        return self.journal.folder if self.journal else None

    async def results(
        self, traces: Iterator[tuple[int, Trace]] | AsyncIterator[Trace]
    ) -> AsyncIterator[list[TraceResult]]:
        """Judge the traces and yield results as they finish; finished traces are skipped."""
        # Each trace comes with its position in the dataset; those of a stream are numbered as they come. If
        # the run ends early, its folder says so and can be resumed.
        engine = self.context.engine()
        source = self._items(traces) if isinstance(traces, Iterator) else self._aitems(traces)
        mirrored = self.folder if self.folder and self.folder.parent in MIRRORS and self.push_every else None
        async with pushing(mirrored, self.push_every) if mirrored else nullcontext(), every_second(self._tell):
            try:
                with self._counting.noting_requests(self.folder):
                    async with engine:
                        async for block in engine.results(source):
                            yield self._keep(block)
            except BaseException as error:
                self._keep(engine.take(), quietly=True)
                failed, journal = isinstance(error, Exception), self.journal
                if failed and journal and journal.is_new and not self._asked and not is_pushed(journal.folder):
                    journal.discard()
                    raise
                self._close("failed" if failed else "interrupted", quietly=True)
                if isinstance(error, JudgeEvalError) and self.folder is not None:
                    error.run_folder = str(self.folder)
                raise
            self._before.check_all_seen()
            self._close(self._counting.status)

    def run(self) -> Run:
        """Return the run as it is after `results` has ended."""
        if self.folder is not None:
            return Run(self.manifest, ResultsFile(self.folder / RESULTS, self.manifest), self.folder)
        return Run(self.manifest, [self._memory[place] for place in sorted(self._memory)])

    def another(self) -> RunSession | None:
        """Return a session that continues after this one; None if it could correct nothing."""
        if self.manifest.imported or not self._counting.few_unreadable:
            return None
        manifest = self.manifest.replace(status="running", finished=None)
        rows, memory = EarlierRows(self.context, manifest), self._memory.values()
        for result in memory:
            rows.take(result)
        journal = None if self.folder is None else Journal(self.folder, manifest, rows.take, rows.settle)
        return replace(self, manifest=manifest, journal=journal, rows=rows, remembered=memory)

    @property
    def _asked(self) -> bool:
        """Whether anything was answered, also by the cache; if not, a run that fails leaves no folder."""
        taken = self._counting.taken()
        return bool(len(self._scores) or taken.calls or taken.hits)

    def _tell(self) -> None:
        """Write the progress; call `watch` while a server's wait holds calls up, for then no trace may finish."""
        self._counting.write(self.folder)
        if self.watch is not None and self.context.stack.asked_wait:
            self.watch(self._counting.progress(self.folder))

    def _items(self, traces: Iterator[tuple[int, Trace]]) -> Iterator[Item]:
        for position, trace in traces:
            if (item := self._item(position, trace)) is not None:
                yield item

    async def _aitems(self, traces: AsyncIterator[Trace]) -> AsyncIterator[Item]:
        position = 0
        async for trace in traces:
            if (item := self._item(position, trace)) is not None:
                yield item
            position += 1

    def _item(self, position: int, trace: Trace) -> Item | None:
        if not self.manifest.dataset.digest:  # a stream: nobody has surveyed it
            self.fingerprint.add(trace)
            self.order.add(trace)
        return self._before.item(position, trace)

    def _keep(self, block: Sequence[Judged], quietly: bool = False) -> list[TraceResult]:
        if not block:
            return []
        undefined: list[MetricError] = []
        results = results_of(block, self.context.scorer, undefined)
        try:
            if self.journal is not None:
                self._counting.cover_calls(self.journal.folder)  # before the results that they brought
                self.journal.append(results)
            elif self.keep:
                self._memory |= {result.position: result for result in results}
        except RunError:
            if quietly:
                return results
            raise
        for result in results:
            self._scores.add(result)
            self._counting.add(result)
        emit(results, self.context.stack.otel)
        if self.watch is not None:
            self.watch(self._counting.progress(self.folder))
        if self.journal is not None and monotonic() - self._noted > NOTE_EVERY:
            self._noted = monotonic()
            self.manifest = self.manifest.replace(tally=self._counting.tally())
            self.journal.write_manifest(self.manifest)
        if undefined and not quietly:  # what was paid for is kept by now
            raise MetricError(f"{undefined[0]}; every verdict is kept: `score` computes other metrics of them")
        return results

    def _close(self, status: Status, quietly: bool = False) -> None:
        try:
            if self.journal is not None:
                self.journal.sort()
            dataset = self.manifest.dataset
            if not dataset.digest and status in ("done", "incomplete"):
                seen, remarks = self.fingerprint, (*self.remarks.sentences(), *self.order.sentences())
                dataset = dataset.replace(
                    digest=seen.hexdigest(), traces=seen.traces, chunks=seen.chunks, remarks=remarks
                )
            self.manifest = self.manifest.replace(
                status=status,
                finished=datetime.now(UTC),
                tally=self._counting.tally(),
                dataset=dataset,
                **figures(self._scores.done().in_order(), self.context.scorer, self.manifest.intervals),
            )
            if self.journal is not None:
                self.manifest = self.journal.finish(self.manifest)
                remove_progress(self.journal.folder)
        except RunError as error:
            if not quietly:
                raise (self.folder and missing_folder(self.folder)) or error from None
        finally:
            if self.journal is not None:
                self.journal.close()


def begin(dataset: Dataset, context: RunContext, intervals: Intervals) -> Manifest:
    """Return the manifest of a new run of a dataset."""
    return Manifest.parse(
        {
            "id": context.run_id or str(uuid.uuid4()),
            "created": datetime.now(UTC),
            "dataset": dataset,
            "judge": context.judge.describe(),
            "backend": backends_record(context.stack.identities()),
            "metrics": context.scorer.names,
            "intervals": intervals,
            "environment": environment(),
            "tally": context.paid,
        },
        file="the run's manifest",
    )


@dataclass(frozen=True, slots=True)
class Begun:
    """A run to resume, with its manifest, which is read once."""

    folder: Path
    manifest: Manifest


async def run_to_resume(
    dataset: Dataset, out: Path | None, resume: str | Path | bool, new_if_done: bool = False
) -> Begun | None:
    """Find the run to resume; None if a new one starts."""
    # `resume` is a run's folder; True resumes the newest unfinished run of the same data in `out`, else takes
    # the newest that is done, unless `new_if_done`. If there is none of the data, a new one starts.
    if not resume:
        return None
    if resume is not True:
        await until_left(Path(resume))
        return Begun(Path(resume), load_manifest(Path(resume)))
    if out is None:
        raise ConfigError("resume=True looks for the run in `out`; give the folder of runs")
    newest = newest_of(out, dataset.digest, dataset.shard, done=not new_if_done)
    if newest is None:
        return None
    await until_left(newest[0])
    # What stands behind a URL was brought here since.
    return Begun(newest[0], load_manifest(newest[0]) if out in MIRRORS else newest[1])


def check_goes_on(begun: Begun, manifest: Manifest, *, newest: bool) -> None:
    """Check that a run has the data, the judge and, if done, the metrics of the run that would start."""
    folder, before = begun.folder, begun.manifest
    if before.imported:
        fault = "cannot resume an imported run; import the file again (`runs import`), or judge the data in a new run"
        raise RunError(fault, file=folder)
    # A run that has all its verdicts stays as it is; of any other the metrics may be what ended it.
    if different := differences(before, manifest, metrics=before.is_whole):
        advice = ""
        if newest and before.status == "done":
            another = option("new_if_done", True)
            advice = f" (it is the newest run of these data, and done; {another} begins another)"
        raise RunError(f"cannot resume: {different}{advice}", file=folder)


def open_journal(
    manifest: Manifest, out: Path | None, begun: Begun | None, context: RunContext
) -> tuple[Journal | None, EarlierRows]:
    """Open the folder that a run is written to (no journal: a run in memory), and read its rows once."""
    if begun is None:
        rows = EarlierRows(context, manifest)
        return (None if out is None else Journal(out / folder_name(manifest), manifest)), rows
    before = begun.manifest
    manifest = before.replace(
        status="running",
        finished=None,
        intervals=manifest.intervals,
        metrics=manifest.metrics,
        baseline=manifest.baseline or before.baseline,
        aggregates=before.aggregates if before.metrics == manifest.metrics else {},
        tally=before.tally if before.status == "running" else with_paid(before.tally, context.paid),
    )
    rows = EarlierRows(context, manifest, begun.folder if before.status == "running" else None)
    return Journal(begun.folder, manifest, rows.take, rows.settle), rows


def folder_name(manifest: Manifest) -> str:
    """Return the name of a run's folder: when it was created, and the start of its id."""
    stamp = manifest.created.astimezone(UTC).strftime("%Y%m%d-%H%M%S")
    return f"{stamp}-{uuid.UUID(manifest.id).hex[:8]}"


def backends_record(identities: Mapping[str, Identity | None]) -> dict[str, JsonValue]:
    """Write down who answers, by route; a single model stands for itself, and a scripted one has no name."""
    records: dict[str, dict[str, JsonValue]] = {}
    for route, identity in identities.items():
        who = identity or Identity("custom", "")
        records[route] = {
            "provider": who.provider,
            "model": who.model,
            "base_url": who.base_url,
            "params": dict(who.params),
            **({"variant": who.variant} if who.variant else {}),
        }
    if list(records) == [""]:
        return records[""]
    models = ", ".join(f"{r['provider']}/{r['model']}" for r in records.values())
    return {"provider": "panel", "model": models, "members": dict(records)}


def place_in_ci(variables: Mapping[str, str]) -> tuple[str | None, str | None]:
    """Read off a label and an address from what GitHub and GitLab tell their jobs."""
    # A pull request is labelled by its branch and number, `feature-x (#12)`, on GitLab `feature-x (!12)`, and linked;
    # a branch's name cannot hold a blank, so that a fork's branch is never taken for one of `label:main`. Elsewhere
    # the label is the branch or tag and the address its commit, or the job. One that is not http or https is None.
    get = variables.get
    label = href = None
    if get("GITHUB_ACTIONS"):
        home = f"{get('GITHUB_SERVER_URL', 'https://github.com')}/{get('GITHUB_REPOSITORY', '')}"
        pull = re.fullmatch(r"refs/pull/([0-9]+)/(merge|head)", get("GITHUB_REF", ""))
        if pull:
            label, href = _label(get("GITHUB_HEAD_REF"), "PR", f"#{pull[1]}"), f"{home}/pull/{pull[1]}"
        else:
            label = get("GITHUB_REF_NAME")
            job = f"{home}/actions/runs/{get('GITHUB_RUN_ID')}" if get("GITHUB_RUN_ID") else None
            href = f"{home}/commit/{get('GITHUB_SHA')}" if get("GITHUB_SHA") else job
    elif get("GITLAB_CI"):
        home, number = get("CI_PROJECT_URL", ""), get("CI_MERGE_REQUEST_IID", "")
        if number.isdecimal():
            label = _label(get("CI_MERGE_REQUEST_SOURCE_BRANCH_NAME"), "MR", f"!{number}")
            href = f"{get('CI_MERGE_REQUEST_PROJECT_URL') or home}/-/merge_requests/{number}"
        else:
            commit = f"{home}/-/commit/{get('CI_COMMIT_SHA')}" if get("CI_COMMIT_SHA") else None
            label, href = get("CI_COMMIT_REF_NAME"), commit or get("CI_JOB_URL")
    if href is not None and not re.match(r"https?://[^/\s]", href):
        href = None
    return label or None, href


def _label(branch: str | None, kind: str, number: str) -> str:
    return f"{branch} ({number})" if branch else f"{kind} {number}"


@cache
def environment() -> dict[str, JsonValue]:
    """Return the versions of this package and of Python, and the git revision of the working folder.

    They are read once in a process: what is loaded does not change, and git may take long.
    """
    versions: dict[str, JsonValue] = {"judge_eval": own_version(), "python": platform.python_version()}
    if git := shutil.which("git"):
        with suppress(OSError, subprocess.SubprocessError):
            head = subprocess.run(  # noqa: S603  a fixed command
                [git, "rev-parse", "HEAD"], capture_output=True, text=True, timeout=5, check=True
            )
            versions["git"] = head.stdout.strip()
    return versions
