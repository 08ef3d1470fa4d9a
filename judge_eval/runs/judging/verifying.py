"""Whether a run is what was written, and what was changed where it is not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from judge_eval.errors import RunError
from judge_eval.record import Record
from judge_eval.runs.folder.files import LABELS, MANIFEST, RESULTS, TRACES, VERDICTS
from judge_eval.runs.folder.integrity import figures_of, origin_of, sha256_of
from judge_eval.runs.folder.labels import given_labels
from judge_eval.runs.folder.records import Manifest
from judge_eval.runs.folder.run import read_manifest
from judge_eval.runs.judging.rereading import Finding, Reread

Condition = Literal["whole", "unverified", "unfinished", "changed"]
"""`whole`: every byte is what was written; `unverified`: the manifest holds no digest, and nothing
contradicts it; `unfinished`: it is still written, or was cut short; `changed`: something does not fit."""


class Verification(Record):
    """What became of a run since it was written."""

    folder: str
    id: str | None
    condition: Condition
    results: int
    """How many results were read."""
    findings: tuple[Finding, ...] = ()


def verify(folder: Path) -> Verification:
    """Read all of a run, compute its scores, means and digests again, and name what does not fit.

    A digest tells of changes, not of who wrote the run: whoever changes all of it can write new ones.

    Raises:
        RunError: There is no run in the folder.
    """
    try:
        manifest = read_manifest(folder)
    except RunError as error:
        if not (folder / MANIFEST).exists():
            raise
        return Verification(
            folder=str(folder),
            id=None,
            condition="changed",
            results=0,
            findings=(Finding(file=MANIFEST, what=error.message), *_beside(folder, None)),
        )
    reading = Reread(folder / RESULTS, manifest)
    findings = reading.findings()
    if manifest.seal is not None and manifest.seal.figures != figures_of(manifest):
        findings.append(Finding(file=MANIFEST, what="what it says of metrics, means or counts was changed"))
    if manifest.seal is not None and manifest.seal.origin != origin_of(manifest):
        findings.append(Finding(file=MANIFEST, what="what it says of judge, model or data was changed"))
    if not reading.changed:  # of other results nothing follows for the manifest
        findings += reading.contradictions()
    findings += _beside(folder, manifest)
    condition: Condition = "whole"
    if findings:
        condition = "changed"
    elif manifest.seal is None:
        condition = "unverified" if manifest.counted is not None else "unfinished"
    return Verification(
        folder=str(folder),
        id=manifest.id,
        condition=condition,
        results=reading.lines,
        findings=tuple(findings),
    )


def _beside(folder: Path, manifest: Manifest | None) -> Iterator[Finding]:
    """Name what is wrong with the other files of a run."""
    for path in sorted(folder.iterdir()):
        if path.is_symlink() and path.name not in (MANIFEST, RESULTS):
            yield Finding(file=path.name, what="it is a link, which is never followed")
    if not (folder / LABELS).is_symlink():
        try:
            given_labels(folder)
        except RunError as error:
            lines = None if error.line is None else (error.line, error.line)
            yield Finding(file=LABELS, lines=lines, what=error.message)
    parts = manifest.results.parts if manifest is not None and manifest.results is not None else {}
    for name in (TRACES, VERDICTS):
        if name in parts and not (folder / name).is_symlink():
            try:
                same = sha256_of(folder / name) == parts[name]
            except FileNotFoundError:  # the results say the same
                continue
            except OSError as error:
                yield Finding(file=name, what=f"cannot be read: {error.strerror or error}")
                continue
            if not same:
                yield Finding(file=name, what="not what was written; it is passed over")
