"""What an uploaded run must keep before the server takes it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from uuid import UUID

from judge_eval import limits
from judge_eval.errors import ConfigError, DataError, RunError
from judge_eval.eval_run import EvalRun
from judge_eval.runs.folder.integrity import fits, with_digests
from judge_eval.runs.folder.records import Manifest, TraceResult
from judge_eval.runs.folder.results import encode
from judge_eval.runs.judging.fingerprint import Fingerprint
from judge_eval.runs.scoring.rescore import rescore
from judge_eval.server.models import Upload

AHEAD = timedelta(days=1)
"""How far the clock of whoever judged may be ahead of the server's."""


def checked_upload(given: Upload) -> tuple[Manifest, list[bytes]]:
    """See that an uploaded run holds together, and compute its scores and means from its verdicts.

    Returns:
        Its manifest, with the digest of the results, and these as lines.

    Raises:
        DataError: It does not hold together; the message names the field.
    """
    manifest, results = given.manifest, given.results
    try:
        run_id = str(UUID(manifest.id))
    except ValueError:
        raise DataError("not a UUID", field="manifest.id") from None
    if manifest.status in ("submitted", "running"):
        raise DataError("only a run that has ended can be uploaded", field="manifest.status")
    _check_results(results)
    for field, fault in _faults(manifest, results):
        raise DataError(fault, field=f"manifest.{field}")
    try:
        plain = manifest.model_copy(update={"id": run_id, "results": None})
        run = rescore(EvalRun(plain, results), manifest.metrics)
        lines = [encode(result) for result in run.results]
    except (RunError, ConfigError, ValueError, OverflowError) as error:
        raise DataError(str(error).splitlines()[0], field="manifest") from None
    return with_digests(run.manifest, lines, len(lines)), lines


def _is_uuid(text: str) -> bool:
    with suppress(ValueError):
        return str(UUID(text)) == text
    return False


def _check_results(results: Sequence[TraceResult]) -> None:
    seen: set[str] = set()
    last = -1
    for number, result in enumerate(results):
        where = f"results[{number}]"
        if [o.chunk_id for o in result.outcomes] != [chunk.id for chunk in result.trace.chunks]:
            raise DataError("there must be one outcome for each chunk, in order", field=f"{where}.outcomes")
        if result.trace_id != result.trace.id or result.trace_id in seen:
            raise DataError("ids must be those of the traces, each once", field=f"{where}.trace_id")
        if result.position <= last:
            raise DataError("positions must go up", field=f"{where}.position")
        if result.digest != result.trace.digest:
            raise DataError("not the digest of the trace", field=f"{where}.digest")
        seen.add(result.trace_id)
        last = result.position


def _faults(manifest: Manifest, results: Sequence[TraceResult]) -> Iterator[tuple[str, str]]:
    """Yield the fields of a manifest that do not fit each other or the results, with what is wrong."""
    if manifest.created > datetime.now(UTC) + AHEAD:
        yield "created", "lies in the future"
    if manifest.finished is None:
        yield "finished", "is missing, and the run has ended"
    elif not manifest.created <= manifest.finished <= datetime.now(UTC) + AHEAD:
        yield "finished", "lies before the run's start, or in the future"
    if len(manifest.tags) > limits.RUN_TAGS or any(len(tag) > limits.ID for tag in manifest.tags):
        yield "tags", f"there may be {limits.RUN_TAGS} tags of {limits.ID:,} characters"
    if manifest.baseline is not None and not _is_uuid(manifest.baseline):
        yield "baseline", "is not a UUID"
    if len(manifest.label or "") > limits.LABEL:
        yield "label", f"is longer than {limits.LABEL} characters"
    if len(manifest.href or "") > limits.HREF:
        yield "href", f"is longer than {limits.HREF:,} characters"
    yield from _miscounted(manifest, results)
    dataset = manifest.dataset
    part = dataset.shard.traces if dataset.shard is not None else dataset.traces
    ended = manifest.counted is not None
    known = ended or dataset.digest  # of a stream that was stopped nobody knows how long it is
    if known and (len(results) > part or (ended and len(results) != part)):
        yield "dataset", f"counts {part:,} traces, and there are {len(results):,} results"
    elif known and any(result.position >= dataset.traces for result in results):
        yield "dataset", "a result's position lies behind the last trace"
    if dataset.digest and dataset.shard is None and len(results) == dataset.traces:
        fingerprint = Fingerprint()
        for result in results:
            fingerprint.add(result.trace)
        if (fingerprint.hexdigest(), fingerprint.chunks) != (dataset.digest, dataset.chunks):
            yield "dataset", "its digest or its count of chunks is not that of the traces"
    if manifest.seal is not None:
        sent = with_digests(manifest, map(encode, results), len(results)).results
        if sent is None or not fits(manifest, sent.sha256, len(results)):
            yield "results", "the digest is not that of the results"
        elif (sent.figures, sent.origin) != (manifest.seal.figures, manifest.seal.origin):
            yield "results", "the digests of the figures and their origin are not those of the manifest"


def _miscounted(manifest: Manifest, results: Sequence[TraceResult]) -> Iterator[tuple[str, str]]:
    """Yield the counts that are not those of the results."""
    tally = manifest.tally
    whys = Counter(o.why for result in results for o in result.outcomes if o.kind == "no_verdict")
    counted = {
        "traces": len(results),
        "verdicts": sum(len(result.outcomes) for result in results) - whys.total(),
        "failed_verdicts": whys.total(),
        "failed_traces": sum(result.failed > 0 for result in results),
    }
    for name, count in counted.items():
        if getattr(tally, name) != count:
            yield f"tally.{name}", f"is {getattr(tally, name):,}, and the results give {count:,}"
    if tally.failures != dict(whys):
        yield "tally.failures", "is not what the results give"
    stages = Counter(
        o.stage for result in results for o in result.outcomes if o.kind == "verdict" and o.stage
    )
    if tally.stages != dict(stages):
        yield "tally.stages", "is not what the results give"
    paid = (tally.calls, tally.hits, tally.input_tokens, tally.output_tokens, *tally.retries.values())
    if min(paid) < 0 or (tally.cost or 0.0) < 0:
        yield "tally", "counts below 0"
    if (manifest.status == "done" and whys) or (manifest.status == "incomplete" and not whys):
        yield "status", f"is {manifest.status}, and {whys.total():,} verdicts failed"
