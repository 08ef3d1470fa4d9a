"""Remarks on data that is read, counted by kind, and the ids that must be unique."""

import itertools
from collections.abc import Callable
from typing import Literal, TypeAlias

from judge_eval.conversation import LIMIT, is_cut
from judge_eval.data.shapes import chunks
from judge_eval.errors import DataError
from judge_eval.schema import Scale, Trace, made_id
from judge_eval.spelling import option

OnRemark: TypeAlias = Callable[[str, int | None], None] | None
"""Called with a remark on a record, a sentence, and with its line or row if that is known."""

Place: TypeAlias = Literal["on line", "in row"]
"""What stands before the number of a place: lines of files count from 1, rows in memory from 0."""

MOST = 20
"""How many different sentences are kept."""


class Remarks:
    """Counts remarks that apply to many records."""

    def __init__(self, place: Place = "on line") -> None:
        self._place = place
        self._counts: dict[str, tuple[int, int | None]] = {}

    def add(self, sentence: str, number: int | None = None) -> None:
        """Count a sentence about the record at this line or row."""
        if sentence in self._counts or len(self._counts) < MOST or sentence == chunks.NO_PASSAGES:
            count, first = self._counts.get(sentence, (0, number))
            self._counts[sentence] = count + 1, first

    def sentences(self) -> tuple[str, ...]:
        """Return each sentence once, with the number of its records."""
        sentences = []
        for sentence, (count, first) in self._counts.items():
            records = "1 record" if count == 1 else f"{count} records, the first"
            place = "" if first is None else f" {self._place} {first}"
            sentences.append(f"{sentence} ({records}{place})")
        return tuple(sentences)


FEW_RISING = 3
"""In fewer traces rising scores may be chance."""


class ScoreOrder:
    """Counts the traces whose scores rise with the rank, as if the worst chunk stood first."""

    def __init__(self) -> None:
        self._scored = self._rising = 0

    def add(self, trace: Trace) -> None:
        """Count a trace, if all its chunks have scores and these differ."""
        if len(trace.chunks) < 2 or trace.chunks[0].score is None:
            return
        scores = [chunk.score for chunk in trace.chunks if chunk.score is not None]
        if len(scores) == len(trace.chunks) and min(scores) < max(scores):
            self._scored += 1
            self._rising += all(a <= b for a, b in itertools.pairwise(scores))

    def sentences(self) -> tuple[str, ...]:
        """Return a question about the order if scores rise in at least nine of ten traces; else nothing."""
        if self._rising < FEW_RISING or self._rising * 10 < self._scored * 9:
            return ()
        which = f"all {self._scored:,}" if self._rising == self._scored else f"{self._rising:,} of {self._scored:,}"
        return (f"in {which} traces with scores the score rises with the rank: are the chunks best first?",)


CUT = f"the conversation is longer than the {LIMIT:,} characters that the judge sees of it: the newest"
CONVERSATION = ("cluster", "session_id")
UNNAMED = (
    "the conversation has no name (`metadata.session_id`), so intervals treat its questions as if they were independent"
)
EQUAL = "reads like an earlier one; its id was given a number"


def label_above(trace: Trace, scale: Scale) -> str | None:
    """Say that a label of a trace is above the scale of a graded judge; None if none is."""
    if scale.binary or max((chunk.label or 0 for chunk in trace.chunks), default=0) <= scale.maximum:
        return None
    return (
        f"a label is above the judge's scale, which ends at {scale.maximum}; if the labels have a scale of their own, "
        f"`agree` needs {option('label_relevant')}"
    )


class TraceIds:
    """The ids of the traces that were read so far, each with its place."""

    def __init__(self, place: Place, on_remark: OnRemark) -> None:
        self._place, self._on_remark = place, on_remark
        self._first: dict[str, int | None] = {}
        self._equal: dict[str, int] = {}

    def admit(self, trace: Trace, number: int | None) -> Trace:
        """Take a trace in; one that has no id of its own and equals an earlier one is numbered."""
        if trace.id in self._first:
            if trace.id != made_id(trace):
                before = self._first[trace.id]
                first = "earlier" if before is None else f"{self._place} {before}"
                raise DataError(f"the trace id {trace.id!r} occurs twice, here and {first}; ids are unique", field="id")
            count = self._equal.get(trace.id, 1) + 1
            while f"{trace.id}-{count}" in self._first:
                count += 1
            self._equal[trace.id] = count
            digest = trace.digest
            trace = trace.replace(id=f"{trace.id}-{count}")
            trace.__dict__["digest"] = digest
            if self._on_remark is not None:
                self._on_remark(EQUAL, number)
        self._first[trace.id] = number
        if self._on_remark is not None:
            if chunks.has_no_passage(trace):
                self._on_remark(chunks.NO_PASSAGES, number)
            if chunks.has_image(trace):
                self._on_remark(chunks.IMAGES, number)
            if trace.history and not any(trace.metadata.get(name) for name in CONVERSATION):
                self._on_remark(UNNAMED, number)
            if trace.history and is_cut(trace.history):
                self._on_remark(CUT, number)
            if chunks.looks_like_file(trace.reference):
                self._on_remark(chunks.REFERENCE_IS_FILE, number)
        return trace
