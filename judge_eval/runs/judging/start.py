"""How a run starts: its manifest, and its folder, a new one or that of a run to resume."""

import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from judge_eval.errors import ConfigError, RunError
from judge_eval.runs.folder.describing import differences
from judge_eval.runs.folder.journal import Journal
from judge_eval.runs.folder.records import Dataset, Intervals, Manifest
from judge_eval.runs.folder.run import load_manifest
from judge_eval.runs.judging.counting import with_paid
from judge_eval.runs.judging.provenance import backends_record, environment
from judge_eval.runs.judging.session import EarlierRows, RunContext
from judge_eval.runs.keeping.lookup import newest_of
from judge_eval.runs.keeping.mirror import until_left, url_of
from judge_eval.spelling import option


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
    return Begun(newest[0], newest[1] if url_of(newest[0]) is None else load_manifest(newest[0]))


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
