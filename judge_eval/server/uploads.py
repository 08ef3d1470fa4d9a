"""What a submission or an uploaded run must keep before the server takes it."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from judge_eval.errors import ConfigError, DataError, RunError
from judge_eval.eval_run import EvalRun
from judge_eval.runs.folder.records import Manifest, TraceResult
from judge_eval.runs.scoring.rescore import rescore
from judge_eval.server.models import Submission, Upload
from judge_eval.server.settings import ServerLimits


class TooLargeError(DataError):
    """More traces or chunks than the server takes."""


def check_size(given: Submission, limits: ServerLimits) -> None:
    """See that a submission is within the limits.

    Raises:
        TooLargeError: It is not.
    """
    if len(given.traces) > limits.traces:
        raise TooLargeError(f"{len(given.traces)} traces; this server takes {limits.traces} at a time")
    for number, trace in enumerate(given.traces):
        if len(trace.chunks) > limits.chunks:
            raise TooLargeError(
                f"{len(trace.chunks)} chunks; this server takes {limits.chunks} a trace",
                field=f"traces[{number}].chunks",
            )


def checked_upload(given: Upload) -> tuple[Manifest, Sequence[TraceResult]]:
    """See that an uploaded run holds together, and compute its scores from its verdicts.

    Raises:
        DataError: It does not.
    """
    manifest = given.manifest
    try:
        run_id = str(UUID(manifest.id))
    except ValueError:
        raise DataError("not a UUID", field="manifest.id") from None
    if manifest.created.tzinfo is None:
        raise DataError("a time without its zone", field="manifest.created")
    if manifest.status in ("submitted", "running"):
        raise DataError("only a run that has ended can be uploaded", field="manifest.status")
    seen: set[str] = set()
    for number, result in enumerate(given.results):
        where = f"results[{number}]"
        if [o.chunk_id for o in result.outcomes] != [chunk.id for chunk in result.trace.chunks]:
            raise DataError("there must be one outcome for each chunk, in order", field=f"{where}.outcomes")
        if result.trace_id != result.trace.id or result.trace_id in seen or result.position != number:
            raise DataError("trace ids must be unique and positions count from 0", field=where)
        seen.add(result.trace_id)
    try:
        run = rescore(EvalRun(manifest.model_copy(update={"id": run_id}), given.results), manifest.metrics)
        return run.manifest, list(run.results)
    except (RunError, ConfigError, ValueError, OverflowError) as error:
        raise DataError(str(error).splitlines()[0], field="manifest") from None
