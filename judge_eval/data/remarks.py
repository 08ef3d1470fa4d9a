"""Remarks on data that is read, counted by kind, and the ids that must be unique."""

import itertools
import re
from collections.abc import Callable
from typing import Literal, TypeAlias

from judge_eval.conversation import LIMIT, is_cut
from judge_eval.errors import DataError
from judge_eval.objects import IMAGE
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
        if sentence in self._counts or len(self._counts) < MOST or sentence == NO_PASSAGES:
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
        # In fewer than three traces it may be chance.
        if self._rising < 3 or self._rising * 10 < self._scored * 9:
            return ()
        which = f"all {self._scored:,}" if self._rising == self._scored else f"{self._rising:,} of {self._scored:,}"
        return (f"in {which} traces with scores the score rises with the rank: are the chunks best first?",)


CUT = f"the conversation is longer than the {LIMIT:,} characters that the judge sees of it: the newest"
UNNAMED = (
    "the conversation has no name (`metadata.session_id`), so intervals treat its questions as if they were independent"
)
EQUAL = "reads like an earlier one; its id was given a number"


FILE_NAME = re.compile(
    r"[^\n]{1,200}\.(?:pdf|docx?|txt|md|mdx|rst|html?|jsonl?|csv|tsv|xlsx?|pptx?|xml|ya?ml|parquet|py|png|jpe?g)",
    re.IGNORECASE,
)
REFERENCE = re.compile(
    r"(?:[a-z]+://|\.{0,2}[/\\])[!-~]+"  # a URL or a path
    r"|[!-~]+[/\\][!-~]+[/\\][!-~]+"
    r"|[0-9]+|[0-9a-f-]{16,}"  # a number, a hash, a UUID
    r"|(?=[!-~]*[a-z])(?=[!-~]*[0-9_])[a-z0-9]+(?:[-_.:/#@|][a-z0-9]+)*",  # doc_12, q1-c3, c7
    re.IGNORECASE,
)
"""What stands for a passage: one word in ASCII that is an address, a number or a name with digits."""
NO_PASSAGES = "the texts of its chunks look like ids or file names, not like passages"
IMAGES = "images are not supported: one without a text has no verdict; give its caption or what it reads"
REFERENCE_IS_FILE = "the reference looks like the name of a file, not like an answer"


def _has_image(trace: Trace) -> bool:
    """Tell whether a chunk of a trace is an image without a text, as far as its metadata say."""
    blank = (chunk.metadata for chunk in trace.chunks if chunk.metadata and chunk.is_blank)
    return any(
        IMAGE in str(key).lower() or str(value).startswith(f"{IMAGE}/")
        for metadata in blank
        for key, value in metadata.items()
    )


def looks_like_id(text: str) -> bool:
    """Tell whether a text looks like an id, a path or the name of a file; it may be a short answer."""
    text = text.strip()
    return len(text) <= 200 and (FILE_NAME.fullmatch(text) or REFERENCE.fullmatch(text)) is not None


def has_no_passage(trace: Trace) -> bool:
    """Tell whether a trace has chunks and each text of them looks like an id."""
    return bool(trace.chunks) and all(looks_like_id(chunk.text) for chunk in trace.chunks)


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
            if has_no_passage(trace):
                self._on_remark(NO_PASSAGES, number)
            if _has_image(trace):
                self._on_remark(IMAGES, number)
            if trace.history and not any(map(trace.metadata.get, ("cluster", "session_id"))):
                self._on_remark(UNNAMED, number)
            if trace.history and is_cut(trace.history):
                self._on_remark(CUT, number)
            if trace.reference is not None and FILE_NAME.fullmatch(trace.reference.strip()):
                self._on_remark(REFERENCE_IS_FILE, number)
        return trace
