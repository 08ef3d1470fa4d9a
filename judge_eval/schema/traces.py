"""What is judged: traces and their chunks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, ValidationInfo, model_validator

from judge_eval import limits
from judge_eval.digest import digest_parts
from judge_eval.objects import chunk_of, number_text
from judge_eval.record import PlainObject, Record, is_kept, json_weight
from judge_eval.schema.claims import Claim


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
    """Unique in its dataset; a missing one is made from the content (`t-` and 12 digits of its digest).

    Of equal traces without an id in one dataset the second is told apart as `t-...-2`, and so on.
    """
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
    claims: tuple[Claim, ...] | None = None
    """What the reference says, piece by piece, where somebody has split it; None where nobody has."""
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
        key = data.get("id", "")
        if key.__class__ is not str:
            data = {**data, "id": number_text(key)}
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
        if self.claims and len({claim.id for claim in self.claims}) != len(self.claims):
            raise ValueError("claims: an id stands twice; ids must be unique in a trace")
        if not self.query.strip():
            raise ValueError("the query is empty; a judge needs the question")
        if not self.id:
            object.__setattr__(self, "id", made_id(self))
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
        for claim in self.claims or ():
            parts += ("claim", claim.id, claim.text, str(claim.vital))
        if self.claims == ():
            parts.append("no claims")
        return digest_parts(parts).hex()


def made_id(trace: Trace) -> str:
    """Return the id that a trace has where nobody gave it one."""
    return f"t-{trace.digest[:12]}"


def has_made_id(trace: Trace) -> bool:
    """Tell whether a trace's id was made from its content, because none was given; it may be numbered."""
    if not trace.id.startswith("t-"):
        return False
    made = made_id(trace)
    return trace.id == made or trace.id.removeprefix(f"{made}-").isdecimal()


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
    if trace.claims is not None and len(trace.claims) > limits.CLAIMS:
        raise ValueError(f"claims: more than {limits.CLAIMS:,}")
    if len(trace.tags) > limits.TAGS:
        raise ValueError(f"tags: more than {limits.TAGS:,}")
    weight = len(trace.query) + len(trace.reference or "") + len(trace.answer or "")
    for tag in trace.tags:
        weight += len(tag)
    for claim in trace.claims or ():
        weight += len(claim.id) + len(claim.text) + len(claim.quote)
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
    if type(chunk) is not dict or "text" not in chunk:
        return False
    key = chunk.get("id")
    return key.__class__ is str and bool(key)


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
    key = chunk.get("id")
    if key is None or key == "":
        return {**chunk, "id": f"c{rank}"}
    return chunk if key.__class__ is str else {**chunk, "id": number_text(key)}
