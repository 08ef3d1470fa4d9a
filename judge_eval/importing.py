"""Make a run from verdicts that were given elsewhere."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias, Unpack

from judge_eval import limits
from judge_eval.data.labels import RecordedVerdict, RecordedVerdicts, read_verdicts, verdicts_of
from judge_eval.errors import ConfigError, DataError, RunError, brief
from judge_eval.eval_run import EvalRun
from judge_eval.evaluator import DEFAULT_METRICS, Evaluator
from judge_eval.judges.imported import ImportedVerdicts, Recorded
from judge_eval.llm.backend import Identity, Unavailable
from judge_eval.llm.options import Options
from judge_eval.metrics import Metric
from judge_eval.runs.folder.journal import MANIFEST
from judge_eval.runs.folder.records import IMPORT, RESULTS, Intervals
from judge_eval.runs.folder.run import Run
from judge_eval.runs.judging.sources import Traces, replayable
from judge_eval.runs.options import Selecting, Selection
from judge_eval.runs.scoring.rescore import Threshold, scale_of
from judge_eval.runs.scoring.scorer import Scorer
from judge_eval.schema import BINARY, GRADED, NoVerdict, Outcome, Scale, Verdict
from judge_eval.settings import with_keywords
from judge_eval.spelling import option

Given: TypeAlias = str | Path | Mapping[tuple[str, str], int]
"""A file of verdicts, a run's folder or its results, or grades by trace and chunk id."""
Outcomes: TypeAlias = dict[tuple[str, str], Outcome]
"""By trace and chunk id."""


@with_keywords(Selection)
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
    """Make a run from verdicts of another judge, another tool or people, without asking a judge.

    The run says where its verdicts come from: its model is `import/FILE`, and its manifest holds the file's
    digest, how many verdicts it has, and how many are of chunks the data do not hold. A chunk without a
    verdict is a `NoVerdict` of the kind `unjudged`, counted like any failure. Of a run everything is kept:
    outcomes with their probabilities and stages, votes, claims and calls; the manifest says who judged it.

    Args:
        verdicts: The verdicts: a file as `read_verdicts` takes it, a run's folder, or a mapping from
            `(trace id, chunk id)` to a grade.
        data: The traces they are about, as `Evaluator.evaluate` takes them, no stream.
        scale: The scale of the grades: `"binary"`, `"graded"` (0 to 3, relevant from 2), `"0-4"`, `"1-5"`,
            or a `Scale`. Where None that of the run the verdicts are from, else binary.
        relevant: The least grade that counts as relevant; needed for a scale such as `"0-4"`.
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
        RunError: The run's folder cannot be written, or the run that is imported was changed.
        MetricError: A metric is over probabilities, and the run has none for another threshold.
    """
    recorded, run = _read(verdicts)
    known_scale = None if run is None else scale_of(run)
    if isinstance(scale, Scale):
        scale = scale.relevant_from(relevant)
    else:
        scale = read_scale(scale, relevant, known_scale or BINARY)
    _check_grades(recorded, scale)
    how = Selection(**selecting)
    unmatched = _unmatched(recorded, data, replace(how, limit=None, seed=None, shard=None))
    source = {
        "file": recorded.file,
        "sha256": recorded.sha256,
        "verdicts": sum(each.grade is not None for each in recorded.by_chunk.values()),
        "unmatched": unmatched,
    }
    judgments: dict[str, Recorded] = {}
    if run is None:
        outcomes = _outcomes_of(recorded, scale)
    else:
        manifest = run.manifest
        source["run"] = {"id": manifest.id, "judge": manifest.judge, "backend": manifest.backend}
        outcomes, judgments = _kept(run, Scorer(metrics, scale))

    def find(trace: str, chunk: str) -> Outcome:
        silent = f"{recorded.file} has no verdict of it"
        return outcomes.get((trace, chunk)) or NoVerdict(chunk_id=chunk, why="unjudged", detail=silent)

    judge = ImportedVerdicts(find, scale, source, judgments)
    who = Identity(IMPORT, recorded.file, params=(("sha256", json.dumps(recorded.sha256)),))
    backend = Unavailable(who, recorded.file, "imported verdicts need no call")
    with Evaluator(
        backend, judge=judge, metrics=metrics, cache=False, options=Options(offline=True), intervals=intervals
    ) as evaluator:
        return evaluator.evaluate(data, out=out, label=label, href=href, tags=tags, **selecting)


def read_scale(text: str | None, relevant: int | None = None, known: Scale = BINARY) -> Scale:
    """Read a scale: `binary`, `graded`, or its ends, such as `0-4`; None is `known`. `relevant` is its threshold.

    Raises:
        ConfigError: It is not one of these, or a threshold is missing.
        DataError: The threshold is not on the scale.
    """
    scale = {None: known, "binary": BINARY, "graded": GRADED}.get(text)
    if scale is None:
        ends = re.fullmatch(r"([0-9]{1,2})-([0-9]{1,2})", text or "")
        if ends is None or not int(ends[1]) < int(ends[2]) <= limits.GRADE:
            raise ConfigError(
                f"the scale {text!r}: write binary (0-1), graded (0-3) or its lowest and highest grade, such "
                f"as 1-5, up to {limits.GRADE}"
            )
        if relevant is None and text != "0-1":
            raise ConfigError(f"the scale {text}: say which grade is the least relevant one ({option('relevant')})")
        lowest, highest = int(ends[1]), int(ends[2])
        name = "graded" if not lowest and highest > 1 else ""  # as runs were always imported
        fields = {"name": name, "minimum": lowest, "maximum": highest, "relevant": relevant or 1}
        return Scale.parse(fields)
    return scale.relevant_from(relevant)


def _read(verdicts: Given) -> tuple[RecordedVerdicts, Run | None]:
    if isinstance(verdicts, Mapping):
        return verdicts_of(verdicts), None
    path = Path(verdicts)
    if path.is_dir():
        path /= RESULTS
    if path.name != RESULTS or not (path.parent / MANIFEST).is_file():
        return read_verdicts(path), None
    try:
        run = Run.at(path.parent)
    except RunError as error:
        raise DataError(f"the manifest beside it cannot be read: {error}", file=str(path)) from None
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    # The results of all runs have one file name; the folder tells them apart.
    recorded = RecordedVerdicts(f"{path.resolve().parent.name}/{path.name}", digest)
    for result in run.results:
        for outcome in result.outcomes:
            grade = outcome.grade if outcome.kind == "verdict" else None
            verdict = RecordedVerdict(grade, where=str(path))
            recorded.by_chunk[result.trace_id, outcome.chunk_id] = verdict
    if all(each.grade is None for each in recorded.by_chunk.values()):
        raise DataError("holds no verdict", file=str(path))
    return recorded, run


def _kept(run: Run, scorer: Scorer) -> tuple[Outcomes, dict[str, Recorded]]:
    """Return the outcomes of a run on the scale and at the threshold of its import, and its judgments by trace."""
    outcomes: Outcomes = {}
    judgments: dict[str, Recorded] = {}
    threshold, before = Threshold.moved(run, scorer), scale_of(run)
    for result in run.results:
        for outcome in result.outcomes:
            if outcome.kind == "verdict":
                outcome = _on_scale(outcome, before, scorer.scale)
                if threshold is not None:
                    outcome = threshold.decide(outcome)
            outcomes[result.trace_id, outcome.chunk_id] = outcome
        judgments[result.trace_id] = Recorded(result.digest, result.judgment.replace(parts={}))
    return outcomes, judgments


def _on_scale(verdict: Verdict, before: Scale, scale: Scale) -> Verdict:
    """Return a verdict on a scale with other grades; a grade that is lost may have no probability."""
    shares = verdict.grade_probabilities
    if shares is None or before.grades == scale.grades:
        return verdict
    by_grade = dict(zip(before.grades, shares, strict=True))
    if any(share for grade, share in by_grade.items() if grade not in scale.grades):
        raise ConfigError(
            f"the run was judged on the scale {before.span}, and its verdicts have probabilities of these "
            f"grades; the scale {scale.span} lacks some of them"
        )
    shares = tuple(by_grade.get(grade, 0.0) for grade in scale.grades)
    return verdict.model_copy(update={"grade_probabilities": shares})


def _check_grades(recorded: RecordedVerdicts, scale: Scale) -> None:
    for (trace, chunk), each in recorded.by_chunk.items():
        if each.grade is not None and each.grade not in scale.grades:
            raise DataError(
                f"chunk {chunk!r} of trace {trace!r} has the grade {each.grade}, which is off the scale "
                f"{scale.span}; name the scale of these grades "
                f"({option('scale', 'graded')}, or its ends, as in {option('scale', '1-5')}, with "
                f"{option('relevant')})",
                file=each.where,
            )


def _unmatched(recorded: RecordedVerdicts, data: Traces, selection: Selection) -> int:
    """Count the verdicts of chunks that the data, not a stream, do not have; all of them are an error."""
    source = replayable(data, lambda _: None, selection)
    if source is None:
        raise ConfigError("a stream can be read only once; give a list or a file to import verdicts for")
    judged = {key for key, each in recorded.by_chunk.items() if each.grade is not None}
    first, matched = None, 0
    for trace in source:
        for chunk in trace.chunks:
            first = first or (trace.id, chunk.id)
            matched += (trace.id, chunk.id) in judged
    if judged and not matched and first is not None:
        theirs = min(judged)
        raise DataError(
            f"no verdict matches a chunk of the data; the file names chunk {theirs[1]!r} of trace "
            f"{theirs[0]!r}, the data begin with chunk {first[1]!r} of trace {first[0]!r}: check the ids",
            file=recorded.file,
        )
    return len(judged) - matched


def _outcomes_of(recorded: RecordedVerdicts, scale: Scale) -> Outcomes:
    outcomes: Outcomes = {}
    for (trace, chunk), each in recorded.by_chunk.items():
        if each.grade is None:
            silent = f"{recorded.file} names it, but has no verdict of it"
            outcomes[trace, chunk] = NoVerdict(chunk_id=chunk, why=each.why, detail=each.reason or silent)
        else:
            outcomes[trace, chunk] = Verdict(
                chunk_id=chunk,
                grade=each.grade,
                relevant=each.grade >= scale.relevant,
                reason=each.reason,
                evidence=each.evidence,
                confidence=each.confidence,
            )
    return outcomes
