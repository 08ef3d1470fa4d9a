"""What a reader should know of a result: its kind with figures, of which views make a sentence."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from pydantic import Field, SerializationInfo, SerializerFunctionWrapHandler, model_serializer, model_validator

from judge_eval.record import PlainObject, Record
from judge_eval.runs.folder.describing import JudgeDifference
from judge_eval.runs.folder.records import SliceBy, Tally
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
    # of a probe
    "failed cases", "inverted", "no conversation", "no reference read", "not distinguished",
    # of an error's message, or read from JSON with sentences
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
