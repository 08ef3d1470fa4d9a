"""The nouns: frozen, closed records of what is judged and what came of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import AfterValidator, Field, ValidationInfo, model_validator

from judge_eval import limits
from judge_eval.digest import digest_parts
from judge_eval.errors import Why
from judge_eval.objects import chunk_of
from judge_eval.record import PlainObject, Record, is_kept, json_weight


def _no_grade(label: int, info: ValidationInfo) -> int:
    if label < 0 and not is_kept(info):
        raise ValueError(
            f"{label} is no label; a label is 0 or more, and none at all where nobody judged the chunk "
            "(what a negative grade says in qrels)"
        )
    return label


class Chunk(Record):
    """One retrieved piece of text, at its rank in a `Trace`."""

    id: str = Field(default="", max_length=limits.ID)
    """Unique in its trace; a missing one is made from its position (`c1`, `c2`, ...)."""
    text: str
    """What the judge reads."""
    title: str | None = None
    """Shown to the judge with the text, where there is one."""
    score: float | None = None
    """The retriever's own score; kept, never judged by."""
    label: Annotated[int, Field(ge=-limits.NUMBER, le=limits.NUMBER), AfterValidator(_no_grade)] | None = None
    """A human grade on the scale of the dataset, 0 or more, where there is one; never shown to the judge."""
    metadata: PlainObject = Field(default_factory=dict)
    """Anything else; kept, never judged by."""


class Pool(Record):
    """What people have judged for a question, retrieved or not, as a collection's judgments (qrels) say."""

    grades: dict[
        Annotated[str, Field(max_length=limits.ID)], Annotated[int, Field(ge=0, le=limits.GRADE)]
    ] = Field(max_length=limits.POOL)
    """By chunk id; never shown to the judge."""
    maximum: int = Field(ge=1, le=limits.GRADE)
    """The highest grade of their scale; metrics use them where it is the judge's too."""

    @model_validator(mode="after")
    def _on_scale(self) -> Self:
        if self.grades and max(self.grades.values()) > self.maximum:
            raise ValueError(f"grades: one is above the scale's highest, {self.maximum}")
        return self


class Trace(Record):
    """One retrieval to judge: a question, its reference and the chunks in rank order."""

    id: str = Field(default="", max_length=limits.ID)
    """Unique in its dataset; a missing one is made from the content (`t-` and 12 digits of its digest)."""
    query: str
    """The question that was asked."""
    reference: str | None = None
    """The reference answer; prompts of the `support` family need it."""
    answer: str | None = None
    """The generated answer; prompts of the `utilisation` family need it."""
    chunks: tuple[Chunk, ...] = ()
    """What was retrieved, best first; may be empty."""
    relevant_total: int | None = Field(default=None, ge=0, le=limits.TOTAL)
    """How many relevant chunks exist in the whole pool, where that is known; `Recall@K` needs it."""
    pool: Pool | None = None
    """The grades of all judged chunks, where they are known; `bpref` and graded `ndcg` need it."""
    tags: tuple[Annotated[str, Field(max_length=limits.ID)], ...] = ()
    """Words to group and filter by."""
    metadata: PlainObject = Field(default_factory=dict)
    """Anything else; kept, never judged by."""

    @model_validator(mode="before")
    @classmethod
    def _accept_other_shapes(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        chunks = data.get("chunks")
        if isinstance(chunks, list | tuple) and not all(map(_is_canonical, chunks)):
            data = {**data, "chunks": [_chunk_data(chunk, rank) for rank, chunk in enumerate(chunks, 1)]}
        return data

    @model_validator(mode="after")
    def _unique_ids(self) -> Self:
        if len({chunk.id for chunk in self.chunks}) != len(self.chunks):
            seen: set[str] = set()
            for chunk in self.chunks:
                if chunk.id in seen:
                    raise ValueError(
                        f"chunks: the id {chunk.id!r} stands twice; ids must be unique in a trace"
                    )
                seen.add(chunk.id)
        if not self.query.strip():
            raise ValueError("the query is empty; a judge needs the question")
        if not self.id:
            object.__setattr__(self, "id", f"t-{self.digest[:12]}")
        return self

    @model_validator(mode="after")
    def _within_limits(self, info: ValidationInfo) -> Self:
        if not is_kept(info):
            check_limits(self)
        return self

    @cached_property
    def digest(self) -> str:
        """64 hexadecimal digits over all that a judge may see, in order (not id, tags, labels, metadata)."""
        parts: list[str] = [self.query, *_maybe(self.reference), *_maybe(self.answer)]
        for chunk in self.chunks:
            parts += (chunk.id, *_maybe(chunk.title), chunk.text)
        return digest_parts(parts).hex()


def repeats_of(chunks: Sequence[Chunk]) -> list[bool]:
    """Tell of each chunk whether an earlier one reads the same: title and text, to the letter.

    Judges ask about such chunks once and grade them alike, wherever they stand.
    """
    seen: set[tuple[str, str | None]] = set()
    repeats = []
    for chunk in chunks:
        reads = chunk.text, chunk.title
        repeats.append(reads in seen)
        seen.add(reads)
    return repeats


def check_limits(trace: Trace) -> None:
    """Hold a trace to the limits as it is now, however it was made.

    Raises:
        ValueError: It is beyond one; the message names it.
    """
    if len(trace.chunks) > limits.CHUNKS:
        raise ValueError(f"chunks: more than {limits.CHUNKS:,}; read fewer of each trace (--depth)")
    if len(trace.tags) > limits.TAGS:
        raise ValueError(f"tags: more than {limits.TAGS:,}")
    weight = len(trace.query) + len(trace.reference or "") + len(trace.answer or "")
    for tag in trace.tags:
        weight += len(tag)
    if trace.metadata:
        weight += json_weight(trace.metadata)
    if trace.pool is not None:
        weight += sum(map(len, trace.pool.grades)) + 5 * len(trace.pool.grades)
    for chunk in trace.chunks:
        weight += len(chunk.text) + len(chunk.id)
        if chunk.title:
            weight += len(chunk.title)
        if chunk.metadata:
            weight += json_weight(chunk.metadata)
    # Only what could be too long is written to be measured.
    if weight * limits.ESCAPED > limits.LINE // 2 and len(trace.model_dump_json().encode()) >= limits.LINE:
        raise ValueError(
            f"more than {limits.LINE // 2**20} MiB written as JSON; shorten its texts, or give fewer chunks"
        )


def _maybe(text: str | None) -> tuple[str, str]:
    """Spell an optional text so that None and "" differ."""
    return ("", "") if text is None else ("1", text)


def _is_canonical(chunk: Any) -> bool:
    """Tell whether a chunk is plain data that need not be looked at any closer."""
    return type(chunk) is dict and "text" in chunk and bool(chunk.get("id"))


def _chunk_data(chunk: Any, rank: int) -> Any:
    """Accept a `Chunk`, its plain data, a string, or the document object of another library."""
    if isinstance(chunk, Chunk):
        return chunk if chunk.id else chunk.model_copy(update={"id": f"c{rank}"})
    if isinstance(chunk, str):
        return {"id": f"c{rank}", "text": chunk}
    if not isinstance(chunk, Mapping):
        read = chunk_of(chunk)
        if read is None:
            return chunk
        chunk = read
    if "document" in chunk and "text" not in chunk:
        chunk = dict(chunk)
        chunk["text"] = chunk.pop("document")
        if "relevance" in chunk:
            chunk.setdefault("score", chunk.pop("relevance"))
    if chunk.get("id") in (None, ""):
        chunk = {**chunk, "id": f"c{rank}"}
    return chunk


class Scale(Record):
    """The grades a judge may give, from 0 to `maximum`, and the least that counts as relevant."""

    name: Literal["binary", "graded"] = "binary"
    maximum: int = Field(default=1, ge=1, le=limits.GRADE)
    relevant: int = Field(default=1, ge=1, le=limits.GRADE)

    @model_validator(mode="after")
    def _threshold_on_scale(self) -> Self:
        if self.relevant > self.maximum:
            raise ValueError(f"relevant: {self.relevant} is above the highest grade {self.maximum}")
        return self


BINARY = Scale(name="binary", maximum=1, relevant=1)
GRADED = Scale(name="graded", maximum=3, relevant=2)


EvidencePolicy: TypeAlias = Literal["flag", "required"]
"""What becomes of a relevant verdict without sound evidence: `flag` counts it, in the means and by itself;
`required` makes it a `NoVerdict` with the reason `unsupported`."""


class Verdict(Record):
    """What the judge said of one chunk, in a form that can be read and checked."""

    kind: Literal["verdict"] = "verdict"
    chunk_id: str
    grade: int = Field(ge=0, le=limits.GRADE)
    """On the prompt's scale: 0 or 1 where it is binary, 0 to 3 where it is graded."""
    relevant: bool
    """Whether the grade reaches the scale's threshold."""
    reason: str = ""
    """Why, in the judge's words."""
    evidence: str = ""
    """The quote the judge rests on; empty where it gave none."""
    evidence_found: bool | None = None
    """Whether the quote stands in the chunk (after folding) and is long enough; None without a quote."""
    instruction_in_chunk: bool = False
    """Whether the judge saw an attempt to instruct it inside the chunk."""
    confidence: float | None = Field(default=None, ge=0, le=1)
    """The probability that the chunk is relevant, where the server told; else None."""
    expected_grade: float | None = Field(default=None, ge=0)
    """The mean grade under the server's probabilities, where it told; else None."""

    @property
    def unsupported(self) -> bool:
        """Whether it is relevant without evidence that was found in the chunk."""
        return self.relevant and not self.evidence_found


class NoVerdict(Record):
    """A chunk that could not be judged, with the reason; never a grade, never left out of a count."""

    kind: Literal["no_verdict"] = "no_verdict"
    chunk_id: str
    why: Why
    detail: str = ""
    """What happened, safe to show."""


Outcome = Annotated[Verdict | NoVerdict, Field(discriminator="kind")]


class Call(Record):
    """One completion that a judgment rests on: what it was asked under and what it took."""

    key: str
    """64 hexadecimal digits: the digest of the request."""
    chunk_ids: tuple[str, ...]
    """The chunks it was asked about."""
    model: str = ""
    """The model's name as the server gave it."""
    finish: str = "stop"
    input_tokens: int = Field(default=0, ge=0)
    output_tokens: int = Field(default=0, ge=0)
    dropped: tuple[str, ...] = ()
    """What the server would not take and was left out (`strict`, `json_schema`, `temperature`, ...)."""


class Judgment(Record):
    """A trace's outcomes, one per chunk in rank order, always as many as there are chunks."""

    trace_id: str
    outcomes: tuple[Outcome, ...]
    calls: tuple[Call, ...] = ()
    votes: dict[str, tuple[int | None, ...]] = Field(default_factory=dict)
    """Of a panel: by member its grade of each chunk, in rank order; None where it gave none."""

    @cached_property
    def failed(self) -> int:
        """How many chunks have no verdict."""
        return sum(outcome.kind == "no_verdict" for outcome in self.outcomes)
