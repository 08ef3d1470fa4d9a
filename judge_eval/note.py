"""What a reader should know of a result: its kind with figures, of which views make a sentence."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from pydantic import Field, SerializationInfo, SerializerFunctionWrapHandler, model_serializer, model_validator

from judge_eval.record import PlainObject, Record
from judge_eval.registry import parts_of, stated_of
from judge_eval.runs.folder.describing import JudgeDifference, as_judged, backends_by_route
from judge_eval.runs.folder.records import Manifest, SliceBy, Tally
from judge_eval.runs.scoring.slices import SliceFigure

NoteKind = Literal[
    # of a comparison, of a pool
    "another judge", "cascade", "failed verdicts", "no value", "not compared", "other chunks",
    "other chunks or claims", "other claims", "other questions", "other retriever", "unanswerable", "unfinished",
    "unpaired", "joined by text", "left out",
    # of a run, of slices, of labels
    "not in the mean", "unsliced", "judge made binary", "judgments below 0", "labels made binary", "ties",
    # of a calibration, of a cascade
    "binary judge", "by probability", "clusters", "expected grades", "no gain", "no probability", "not probable",
    "unjudged", "unsupported", "whole traces",
    # of a correction
    "empty traces", "every look", "failed traces", "metrics of claims", "no expected value", "partly labelled",
    "split labels", "unlabelled chunks",
    # of a metric that is not corrected (`judge_eval.study.refusals`)
    "too few whole traces", "only whole traces", "some probabilities", "some chunk probabilities",
    "unequal chances", "no limits", "too few clusters", "too few chunk clusters", "rank without label",
    # of a corrected figure (`judge_eval.stats.correction.Doubt`)
    "no better than chance", "low youden", "clipped", "few labels", "few labelled clusters", "few labelled chunks",
    # of a probe
    "failed cases", "inverted", "no conversation", "no reference read", "not distinguished",
    # of a judge whose threshold nobody has calibrated
    "token without probability", "graded token", "yes or no token", "uncalibrated model",
    # read from JSON with sentences
    "in words",
]  # fmt: skip
MOST_NAMED = 3
"""How many of the traces that it is of a note names, of each run."""


def _only_if_set(default: Any) -> Any:
    return Field(default=default, exclude_if=lambda value: value == default)


class Note(Record):
    """What a reader should know of a result; `judge_eval.views.note_sentences.note_sentence` says it."""

    kind: NoteKind
    candidate: int | None = _only_if_set(None)
    """Of which run, by its place in `Comparison.runs`; None if it is of one run, or of all."""
    count: int = _only_if_set(0)
    """How many there are of what the kind names."""
    other: int = _only_if_set(0)
    """A second count: of how many, or how many on the other side."""
    least: int = _only_if_set(0)
    """How many there should be."""
    value: float | None = _only_if_set(None)
    names: tuple[str, ...] = _only_if_set(())
    """Of what: a run, metrics, some of the traces."""
    differs: JudgeDifference | None = _only_if_set(None)
    judge: PlainObject | None = _only_if_set(None)
    """The record of a cascade, and what came of it."""
    tally: Tally | None = _only_if_set(None)

    @model_validator(mode="before")
    @classmethod
    def _of_words(cls, data: Any) -> Any:
        return {"kind": "in words", "names": [data]} if isinstance(data, str) else data

    @model_serializer(mode="wrap")
    def _in_words(self, handler: SerializerFunctionWrapHandler, info: SerializationInfo) -> Any:
        write = (info.context or {}).get("note")
        return handler(self) if write is None else write(self)


def unsliced(figures: Sequence[SliceFigure], by: Iterable[SliceBy]) -> list[Note]:
    """Note each kind of slices that was asked for if the traces make none."""
    there = {figure.by for figure in figures}
    return [Note(kind="unsliced", names=(kind,)) for kind in dict.fromkeys(by) if kind not in there]


def without_claims(kind: NoteKind, undefined: Mapping[str, int], candidate: int | None = None) -> list[Note]:
    """Note how many traces have no claim that a metric could measure, once for all metrics with the same count."""
    by_count: dict[int, list[str]] = {}
    for name, count in undefined.items():
        by_count.setdefault(count, []).append(name)
    return [
        Note(kind=kind, candidate=candidate, count=count, names=tuple(names))
        for count, names in sorted(by_count.items())
        if count
    ]


def uncalibrated(m: Manifest) -> Iterator[Note]:
    """Note each judge whose threshold nobody has calibrated."""
    judged = as_judged(m)
    if "calibration" in m.judge or "calibration" in judged.judge:
        return
    if any(judge.get("contract") == "verdict" for judge in (judged.judge, *parts_of(judged.judge))):
        yield _of_single_tokens(judged)
    backend = judged.backend
    model = f"{backend.get('provider')}/{backend.get('model')}"
    # What a server's models give is not looked up.
    if not backend.get("base_url") and stated_of(model).uncalibrated:
        params = backend.get("params")
        score = "cosine" if isinstance(params, dict) and "pooling" in params else "probability"
        yield Note(kind="uncalibrated model", names=(model, score))


def _of_single_tokens(m: Manifest) -> Note:
    params = [backend.get("params") for backend in backends_by_route(m.backend).values()]
    if "logprobs" in m.tally.dropped or not any(isinstance(each, dict) and "logprobs" in each for each in params):
        return Note(kind="token without probability")
    scale = m.judge.get("scale")
    if isinstance(scale, dict) and scale.get("maximum") != 1:
        return Note(kind="graded token", names=(str(scale.get("relevant")),))
    return Note(kind="yes or no token")
