"""Verdicts that were given elsewhere, made into a run."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias, Unpack

from judge_eval.backends.base import Identity
from judge_eval.backends.nobody import Nobody
from judge_eval.data.verdicts import RecordedVerdicts, read_verdicts, verdicts_of
from judge_eval.errors import ConfigError, DataError, RunError, brief
from judge_eval.eval_run import EvalRun
from judge_eval.evaluator import DEFAULT_METRICS, Evaluator
from judge_eval.judges.imported import ImportedVerdicts
from judge_eval.metrics import Metric
from judge_eval.runs.folder.files import MANIFEST, RESULTS
from judge_eval.runs.folder.records import IMPORT, Intervals
from judge_eval.runs.folder.run import Run, load_manifest
from judge_eval.runs.judging.selection import Selecting, Selection, selecting
from judge_eval.runs.judging.sources import Traces, replayable
from judge_eval.runs.scoring.rescore import scale_of
from judge_eval.schema import BINARY, GRADED, NoVerdict, Outcome, Scale, Verdict

Given: TypeAlias = str | Path | Mapping[tuple[str, str], int]
"""A file of verdicts, a run's folder or its results, or grades by trace and chunk id."""


@selecting
@brief
def import_verdicts(
    verdicts: Given,
    data: Traces,
    *,
    scale: Scale | str | None = None,
    relevant: int | None = None,
    metrics: Sequence[str | Metric] = DEFAULT_METRICS,
    intervals: Intervals | None = None,
    out: str | Path | None = None,
    label: str | None = None,
    href: str | None = None,
    tags: Sequence[str] = (),
    **selecting: Unpack[Selecting],
) -> EvalRun:
    """Make a run of verdicts that another judge, another tool or people gave; nobody is asked.

    The run says where its verdicts come from: its model is `import/FILE`, and its manifest holds the file's
    digest, how many verdicts it has, and how many are of chunks the data do not hold. A chunk without a
    verdict is a `NoVerdict` of the kind `unjudged`, counted like any failure.

    Args:
        verdicts: The verdicts: a file as `read_verdicts` takes it, a run's folder, or a mapping from
            `(trace id, chunk id)` to a grade.
        data: The traces they are about, as `Evaluator.evaluate` takes them, no stream.
        scale: The scale of the grades: `"binary"`, `"graded"` (0 to 3, relevant from 2), `"0-N"`, or a
            `Scale`. Where None that of the run the verdicts are from, else binary.
        relevant: The least grade that counts as relevant; needed where the scale is `"0-N"`.
        metrics: Names or values of metrics.
        intervals: How the intervals of means are made.
        out: The folder of runs, as in `Evaluator.evaluate`; None keeps the run in memory.
        label: What people call the run.
        href: Where it belongs.
        tags: Words to group and filter by.
        limit: The most traces to take.
        seed: With `limit`, takes a random sample instead of the first traces.
        shard: `(i, n)` takes part i of n, i from 1.
        on_invalid: Whether an invalid trace ends the import before it starts, or is skipped.
        name: What to call the data in messages and in the run; a file's path by default.
        reader: How the data are to be read, where they do not say so themselves.

    Raises:
        DataError: A file cannot be read, a grade is off the scale, or no verdict is of a chunk of the data.
        ConfigError: The scale cannot be used, or the data are a stream.
        RunError: The run's folder cannot be written.
    """
    given, known_scale = _read(verdicts)
    if isinstance(scale, Scale):
        scale = scale if relevant is None else Scale.parse({**scale.model_dump(), "relevant": relevant})
    else:
        scale = read_scale(scale, relevant, known_scale or BINARY)
    _check_grades(given, scale)
    how = Selection(**selecting)
    unmatched = _unmatched(given, data, replace(how, limit=None, seed=None, shard=None))
    source = {
        "file": given.file,
        "sha256": given.sha256,
        "verdicts": sum(each.grade is not None for each in given.by_chunk.values()),
        "unmatched": unmatched,
    }
    moved = known_scale is not None and known_scale.relevant != scale.relevant
    judge = ImportedVerdicts(_finder(given, scale, sure=not moved), scale, source)
    who = Identity(IMPORT, given.file, params=(("sha256", json.dumps(given.sha256)),))
    nobody = Nobody(who, given.file, "imported verdicts are asked of nobody")
    with Evaluator(nobody, judge=judge, metrics=metrics, cache=False, intervals=intervals) as evaluator:
        return evaluator.evaluate(data, out=out, label=label, href=href, tags=tags, **selecting)


def read_scale(text: str | None, relevant: int | None = None, known: Scale = BINARY) -> Scale:
    """Read a scale: `binary`, `graded`, or `0-N` with the least relevant grade.

    Args:
        text: The scale; None takes the one that is known.
        relevant: The least grade that counts as relevant; the scale's own where None.
        known: The scale where the text says none.

    Raises:
        ConfigError: It is none of these, or a threshold is missing.
        DataError: The threshold is not on the scale.
    """
    scale = {None: known, "binary": BINARY, "graded": GRADED}.get(text)
    if scale is None:
        wide = re.fullmatch(r"0-([1-9])", text or "")
        if wide is None:
            raise ConfigError(f"--scale {text!r}: write binary (0-1), graded (0-3) or 0-N with N up to 9")
        highest = int(wide[1])
        if relevant is None and highest > 1:
            raise ConfigError(
                f"--scale {text}: say which grade is the least relevant one (--relevant, relevant=)"
            )
        scale = Scale(name="binary" if highest == 1 else "graded", maximum=highest)
    return scale if relevant is None else Scale.parse({**scale.model_dump(), "relevant": relevant})


def _read(verdicts: Given) -> tuple[RecordedVerdicts, Scale | None]:
    """Read verdicts; those of a run come with its scale."""
    if isinstance(verdicts, Mapping):
        return verdicts_of(verdicts), None
    path = Path(verdicts)
    if path.is_dir():
        path /= RESULTS
    scale = None
    if path.name == RESULTS and (path.parent / MANIFEST).is_file():
        try:
            scale = scale_of(Run(load_manifest(path.parent), ()))
        except RunError as error:
            raise DataError(f"the manifest beside it cannot be read: {error}", file=str(path)) from None
    given = read_verdicts(path)
    if scale is not None:  # every run's results bear one name; its folder tells them apart
        given = replace(given, file=f"{path.resolve().parent.name}/{given.file}")
    return given, scale


def _check_grades(given: RecordedVerdicts, scale: Scale) -> None:
    for (trace, chunk), each in given.by_chunk.items():
        if each.grade is not None and not 0 <= each.grade <= scale.maximum:
            raise DataError(
                f"chunk {chunk!r} of trace {trace!r} has the grade {each.grade}, which is off the scale "
                f"0-{scale.maximum}; name the scale of these grades (--scale graded, or --scale 0-N "
                "--relevant R)",
                file=each.where,
            )


def _unmatched(given: RecordedVerdicts, data: Traces, selection: Selection) -> int:
    """Count the verdicts of chunks that the data do not hold.

    Raises:
        DataError: That is all of them.
        ConfigError: The data are a stream.
    """
    source = replayable(data, lambda _: None, selection)
    if source is None:
        raise ConfigError("a stream can be read only once; give a list or a file to import verdicts for")
    judged = {key for key, each in given.by_chunk.items() if each.grade is not None}
    first, found = None, 0
    for trace in source:
        for chunk in trace.chunks:
            first = first or (trace.id, chunk.id)
            found += (trace.id, chunk.id) in judged
    if not found and first is not None:
        theirs = min(judged)
        raise DataError(
            f"no verdict is of a chunk of the data; the file names chunk {theirs[1]!r} of trace "
            f"{theirs[0]!r}, the data begin with chunk {first[1]!r} of trace {first[0]!r}: check the ids",
            file=given.file,
        )
    return len(judged) - found


def _finder(given: RecordedVerdicts, scale: Scale, sure: bool) -> Callable[[str, str], Outcome]:
    """Return what looks a chunk up; `sure` keeps the chances of relevance, which go with one threshold."""

    def find(trace: str, chunk: str) -> Outcome:
        each = given.by_chunk.get((trace, chunk))
        if each is None:
            return NoVerdict(chunk_id=chunk, why="unjudged", detail=f"{given.file} has no verdict of it")
        if each.grade is None:
            silent = f"{given.file} names it, but has no verdict of it"
            return NoVerdict(chunk_id=chunk, why=each.why, detail=each.reason or silent)
        return Verdict(
            chunk_id=chunk,
            grade=each.grade,
            relevant=each.grade >= scale.relevant,
            reason=each.reason,
            evidence=each.evidence,
            confidence=each.confidence if sure else None,
        )

    return find
