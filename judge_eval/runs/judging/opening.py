"""Where a run begins: its manifest, and its folder, a new one or that of a run to go on with."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from pathlib import Path

from judge_eval.errors import ConfigError, RunError
from judge_eval.runs.folder.differing import differences
from judge_eval.runs.folder.journal import Journal
from judge_eval.runs.folder.records import Dataset, Intervals, Manifest
from judge_eval.runs.folder.run import load_manifest
from judge_eval.runs.judging.calling import Calling
from judge_eval.runs.judging.provenance import backends_record, environment
from judge_eval.runs.keeping.finding import newest_done, newest_unfinished
from judge_eval.runs.scoring.rescore import scored_again
from judge_eval.runs.scoring.scorer import Scorer


def begin(dataset: Dataset, calling: Calling, intervals: Intervals) -> Manifest:
    """Write the manifest of a new run of a dataset.

    Raises:
        DataError: What judge or model say of themselves is beyond the limits of a record.
    """
    return Manifest.parse(
        {
            "id": str(uuid.uuid4()),
            "created": datetime.now(UTC),
            "dataset": dataset,
            "judge": calling.judge.describe(),
            "backend": backends_record(calling.stack.identities()),
            "metrics": calling.scorer.names,
            "intervals": intervals,
            "environment": environment(),
        },
        file="the run's manifest",
    )


def folder_to_resume(
    dataset: Dataset, out: Path | None, resume: str | Path | bool, or_new: bool = False
) -> Path | None:
    """Find the run to go on with; None where a new one begins.

    Args:
        dataset: What would be judged.
        out: The folder of runs.
        resume: A run's folder to go on with; True goes on with the newest unfinished run of the same data
            in `out`. Where there is none, the newest run that is done is found, which leaves nothing to
            judge; where there is no run of the data at all, one begins.
        or_new: Whether a new one begins where the newest is done.

    Raises:
        ConfigError: `resume` is True without a folder to look in.
    """
    if resume is not True:
        return Path(resume) if resume else None
    if out is None:
        raise ConfigError("resume=True looks for the run in `out`; give the folder of runs")
    folder = newest_unfinished(out, dataset.digest, dataset.shard)
    if folder is None and not or_new:
        folder = newest_done(out, dataset.digest, dataset.shard)
    return folder


def check_goes_on(folder: Path, manifest: Manifest, *, newest: bool) -> None:
    """See that a run can be gone on with.

    Args:
        folder: Of the run to go on with.
        manifest: Of the run as it would begin.
        newest: Whether it was found as the newest of its data.

    Raises:
        RunError: It had other data, another judge; or it is done, and had other metrics.
    """
    before = load_manifest(folder)
    if before.imported:
        raise RunError(
            "cannot resume: its verdicts were imported, and nobody was asked; import the file again "
            "(`runs import`), or judge the data in a run of its own",
            file=folder,
        )
    # A run that has all its verdicts stays as it is; of any other the metrics may be what ended it.
    if different := differences(before, manifest, metrics=before.status == "done"):
        advice = ""
        if newest and before.status == "done":
            advice = " (it is the newest run of these data, and done; --or-new, or_new=True, begins another)"
        raise RunError(f"cannot resume: {different}{advice}", file=folder)


def open_journal(manifest: Manifest, out: Path | None, folder: Path | None, scorer: Scorer) -> Journal | None:
    """Open the folder that a run is written to; None where it stays in memory.

    Args:
        manifest: Of the run as it would begin.
        out: The folder of runs.
        folder: That of a run to go on with.
        scorer: The metrics of the manifest, for what earlier sittings have judged under others.

    Raises:
        RunError: The folder cannot be written.
    """
    if folder is not None:
        before = load_manifest(folder)
        going_on = {
            "status": "running",
            "finished": None,
            "intervals": manifest.intervals,
            "metrics": manifest.metrics,
            "baseline": manifest.baseline or before.baseline,
            "aggregates": before.aggregates if before.metrics == manifest.metrics else {},
        }
        return Journal(
            folder,
            before.model_copy(update=going_on),
            lambda result: scored_again([result], scorer)[0],
        )
    if out is None:
        return None
    return Journal(out / folder_name(manifest), manifest)


def folder_name(manifest: Manifest) -> str:
    """Return what the folder of a run is called: when it was made, and the start of its id."""
    stamp = manifest.created.astimezone(UTC).strftime("%Y%m%d-%H%M%S")
    return f"{stamp}-{uuid.UUID(manifest.id).hex[:8]}"
