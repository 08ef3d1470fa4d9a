"""Frozen, closed records of what is judged and of the verdicts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self, TypeAlias, TypedDict, Unpack

from pydantic import (
    AfterValidator,
    Field,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    model_serializer,
    model_validator,
)

from judge_eval import conversation, limits
from judge_eval.confidence import side_confidence
from judge_eval.digest import digest_parts, with_history
from judge_eval.errors import NEVER_ASKED, NO_FAILURE, Why
from judge_eval.objects import chunk_of, number_text
from judge_eval.record import PlainObject, Record, is_kept, json_weight

Support: TypeAlias = Literal["full", "partial", "contradicts"]
"""How a chunk stands to a claim that it does not leave alone."""


class Claim(Record):
    """One statement of a reference answer, which can be understood by itself."""

    id: str = Field(min_length=1, max_length=limits.ID)
    """Unique among the claims of its reference."""
    text: str = Field(min_length=1)
    """The claim, in words that need no other claim."""
    vital: bool = True
    """Whether an answer to the question must say it."""
    quote: str = ""
    """The words of the reference that it comes from; empty if unknown."""


class ClaimSupport(Record):
    """What one chunk says of one claim."""

    claim: str
    """The claim's id."""
    support: Support
    quote: str = ""
    """The words of the chunk that show it."""
    quote_found: bool | None = None
    """Whether the quote stands in the chunk (after folding); None without a quote."""


class ClaimsJudged(Record):
    """The claims that a trace was judged by."""

    claims: tuple[Claim, ...]
    """Those of its reference; empty if it makes none."""
    together: dict[str, bool | None] = Field(default_factory=dict)
    """By claim that was asked about: whether the chunks cover it together; None without a verdict."""


class Scale(Record):
    """The grades a judge may give, and the least that counts as relevant.

    `levels` may also be a table of all grades with their descriptions (`{"1": "off topic", "2": ...}`), as in
    prompt files.
    """

    name: str = Field(default="", max_length=100)
    """What people call it; `binary`, `graded` or its range, such as `1-5`, if it is not named."""
    minimum: int = Field(default=0, ge=0, le=limits.GRADE)
    """The lowest grade."""
    maximum: int = Field(default=1, ge=1, le=limits.GRADE)
    """The highest grade."""
    relevant: int = Field(default=1, ge=1, le=limits.GRADE)
    """The least grade that counts as relevant."""
    levels: tuple[str, ...] = ()
    """A description of each grade, the lowest first; empty if the prompt's texts alone describe them."""

    @model_validator(mode="before")
    @classmethod
    def _from_table(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        fields = dict(data)
        levels = fields.get("levels")
        if isinstance(levels, Mapping):
            grades = sorted(int(name) for name in levels if re.fullmatch("[0-9]{1,2}", str(name)))
            if len(grades) < max(2, len(levels)) or grades != [*range(grades[0], grades[-1] + 1)]:
                raise ValueError(
                    "levels: describe each grade under its number, from the lowest to the highest without "
                    f'a gap, as in 0 = "off topic"; here are {", ".join(map(str, levels)) or "none"}'
                )
            for name, grade in (("minimum", grades[0]), ("maximum", grades[-1])):
                if fields.setdefault(name, grade) != grade:
                    raise ValueError(f"{name}: {fields[name]!r} is not that of the levels, {grade}")
            if "relevant" not in fields:
                raise ValueError("relevant: say which grade is the least that counts as relevant")
            texts = {int(name): text for name, text in levels.items()}
            fields["levels"] = [texts[grade] for grade in grades]
        if not fields.get("name"):
            span = fields.get("minimum", 0), fields.get("maximum", 1)
            shipped = {(0, 1): "binary", (0, 3): "graded"}
            fields["name"] = shipped.get(span) or "-".join(map(str, span))
        return fields

    @model_validator(mode="after")
    def _threshold_on_scale(self) -> Self:
        if self.relevant > self.maximum:
            raise ValueError(f"relevant: {self.relevant} is above the highest grade {self.maximum}")
        if self.relevant <= self.minimum:
            raise ValueError(
                f"relevant: {self.relevant} is not above the lowest grade {self.minimum}, so every chunk "
                "would be relevant"
            )
        if self.levels and len(self.levels) != len(self.grades):
            raise ValueError(f"levels: {len(self.levels)} describe the {len(self.grades)} grades {self.span}")
        return self

    @model_serializer(mode="wrap")
    def _written(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields: dict[str, Any] = write(self)
        if not self.minimum:
            fields.pop("minimum", None)  # not there if defaults are excluded
        levels = list(fields.pop("levels", ()))  # a list, as in the JSON of a manifest
        return {**fields, "levels": levels} if levels else fields

    @property
    def grades(self) -> range:
        """All grades, the lowest first."""
        return range(self.minimum, self.maximum + 1)

    @property
    def binary(self) -> bool:
        """Whether the grades are 0 and 1, which judges give as true and false."""
        return self.maximum == 1 and self.minimum == 0

    @property
    def span(self) -> str:
        """Its lowest and highest grade, as `1-5`."""
        return f"{self.minimum}-{self.maximum}"

    @property
    def words(self) -> str:
        """Its grades and its threshold, for messages."""
        return f"{self.span} (relevant from {self.relevant})"

    def relevant_from(self, grade: int | None) -> Scale:
        """Return the scale with another threshold; the same if None.

        Raises:
            DataError: The threshold is not on the scale.
        """
        return self if grade is None else Scale.parse({**self.model_dump(), "relevant": grade})


BINARY = Scale(name="binary", maximum=1, relevant=1)
GRADED = Scale(name="graded", maximum=3, relevant=2)


EvidencePolicy: TypeAlias = Literal["flag", "required"]
"""What becomes of a relevant verdict without sound evidence: `flag` counts it, in the means and by itself;
`required` makes it a `NoVerdict` with the reason `unsupported`."""

BlankPolicy: TypeAlias = Literal["no_verdict", "irrelevant"]
"""What a chunk without text is: `no_verdict` gives it a `NoVerdict` with the reason `empty`, `irrelevant` the
lowest grade. Nobody is asked about it."""


Stage: TypeAlias = Literal["cheap", "strong"]
"""The two judges of a cascade: the cheap one is asked first, the strong one where that is not sure."""

NO_REASON = "no reason: the judge gives none"
"""What people read where a judge gives no reason."""


def sign_of(grade: int, relevant: bool) -> str:
    """Return the sign of a grade: `+` relevant, `.` not, a digit if graded, `X` for 10."""
    if grade > 1 or (grade == 1 and not relevant):
        return "X" if grade == 10 else str(grade)
    return "+" if relevant else "."


class Verdict(Record):
    """The judge's verdict on one chunk."""

    kind: Literal["verdict"] = "verdict"
    chunk_id: str
    grade: int = Field(ge=0, le=limits.GRADE)
    """On the scale of the prompt."""
    relevant: bool
    """Whether the grade reaches the scale's threshold."""
    reason: str | None = ""
    """Why, in the judge's words; None if the judge gives no reasons (a decision model, a verdict alone)."""
    evidence: str | None = ""
    """The quote the judge rests on; empty if it gave none, None if the judge never quotes."""
    evidence_found: bool | None = None
    """Whether the quote stands in the chunk (after folding) and is long enough; None without a quote."""
    instruction_in_chunk: bool | None = False
    """Whether the judge saw an attempt to instruct it inside the chunk; None if it is not asked."""
    confidence: float | None = Field(default=None, ge=0, le=1)
    """The probability that the chunk is relevant; None if the server did not give it."""
    expected_grade: float | None = Field(default=None, ge=0)
    """The mean grade under the server's probabilities; None without them."""
    grade_probabilities: tuple[Annotated[float, Field(ge=0, le=1)], ...] | None = None
    """The server's probability of each grade, the lowest first; None if it gave none, or on the scale 0-1."""
    stage: Stage | None = None
    """Which judge of a cascade gave it; None without a cascade."""
    supports: tuple[ClaimSupport, ...] | None = None
    """Its support of the reference's claims, without those it leaves alone; None if nobody asked."""

    @property
    def sign(self) -> str:
        """Its sign in the strip of a trace's ranks; see `sign_of`."""
        return sign_of(self.grade, self.relevant)

    @property
    def unsupported(self) -> bool:
        """Whether it is relevant without evidence in the chunk, from a judge that quotes."""
        return self.relevant and self.evidence is not None and not self.evidence_found

    @property
    def side_confidence(self) -> float | None:
        """The probability of its own side, relevant or not; None if unknown."""
        return None if self.confidence is None else side_confidence(self.confidence, self.relevant)

    @property
    def explanation(self) -> str:
        """The reason, or the statement that there is none, for people."""
        return NO_REASON if self.reason is None else self.reason

    @property
    def quote(self) -> str:
        """The evidence; empty if there is none."""
        return self.evidence or ""


class NoVerdict(Record):
    """A chunk that could not be judged, with the reason; never a grade, never left out of a count."""

    kind: Literal["no_verdict"] = "no_verdict"
    chunk_id: str
    why: Why
    detail: str = ""
    """What happened, safe to show."""

    @property
    def sign(self) -> str:
        """`!`, as in the strip of a trace's ranks."""
        return "!"

    @property
    def explanation(self) -> str:
        """What happened, as `Verdict.explanation` says why."""
        return self.detail

    @property
    def quote(self) -> str:
        """Always empty."""
        return ""


Outcome = Annotated[Verdict | NoVerdict, Field(discriminator="kind")]


class Call(Record):
    """One completion that a judgment rests on."""

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
    """What was left out because the server refused it (`strict`, `json_schema`, `temperature`, ...)."""
    request_id: str = ""
    """The server's name of the request; empty if it sent none, or a cache answered."""


class Judgment(Record):
    """A trace's outcomes, one per chunk in rank order, always as many as there are chunks."""

    trace_id: str
    outcomes: tuple[Outcome, ...]
    calls: tuple[Call, ...] = ()
    votes: dict[str, tuple[int | None, ...]] = Field(default_factory=dict)
    """By member of a panel or stage of a cascade: its grade of each chunk, in rank order; None for none."""
    claims: ClaimsJudged | None = None
    """The claims it was judged by; None where it was not judged by claims."""
    parts: dict[str, Judgment] = Field(default_factory=dict)
    """By member of a panel or stage of a cascade, its judgment: a resume needs it until all is complete."""

    @property
    def known(self) -> dict[str, Verdict]:
        """The verdicts by chunk id."""
        return {outcome.chunk_id: outcome for outcome in self.outcomes if outcome.kind == "verdict"}

    @cached_property
    def failed(self) -> int:
        """How many chunks have no verdict."""
        return sum(outcome.kind == "no_verdict" and outcome.why != NO_FAILURE for outcome in self.outcomes)

    @cached_property
    def open(self) -> int:
        """How many chunks have no verdict that asking again may bring; see `NEVER_ASKED`."""
        return sum(outcome.kind == "no_verdict" and outcome.why not in NEVER_ASKED for outcome in self.outcomes)


def _no_grade(label: int, info: ValidationInfo) -> int:
    if label < 0 and not is_kept(info):
        raise ValueError(
            f"{label} is not a label; a label is 0 or more, and is left out if nobody judged the chunk "
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

    @property
    def is_blank(self) -> bool:
        """Whether it has no text, so that nobody is ever asked about it."""
        return not self.text or self.text.isspace()


class TracePool(Record):
    """What people have judged for a question, retrieved or not, as a collection's judgments (qrels) say."""

    grades: dict[Annotated[str, Field(max_length=limits.ID)], Annotated[int, Field(ge=0, le=limits.GRADE)]] = Field(
        max_length=limits.POOL
    )
    """By chunk id; never shown to the judge."""
    maximum: int = Field(ge=1, le=limits.GRADE)
    """The highest grade of their scale; metrics use them where it is the judge's too."""

    @model_validator(mode="after")
    def _on_scale(self) -> Self:
        if self.grades and max(self.grades.values()) > self.maximum:
            raise ValueError(f"grades: one is above the scale's highest, {self.maximum}")
        return self


class Turn(Record):
    """One message of the conversation before a question."""

    role: conversation.Role
    """Who speaks: `user` or `assistant`."""
    content: str
    """What was said."""


_ELSEWHERE: Final[Mapping[str, str]] = {
    **dict.fromkeys(("question", "user_input", "input"), "query"),
    **dict.fromkeys(("contexts", "retrieved_contexts", "retrieval_context", "documents"), "chunks"),
    **dict.fromkeys(("ground_truth", "expected_output", "expected_response"), "reference"),
    **dict.fromkeys(("response", "actual_output"), "answer"),
}
"""What the fields of a trace are called in other libraries."""


class _Others(TypedDict, total=False):
    """What type checkers are told that the other fields of a trace take."""

    id: str
    history: Sequence[Turn | Mapping[str, str]]
    reference: str | None
    answer: str | None
    relevant_total: int | None
    claims: Sequence[Claim | str | Mapping[str, Any]] | None
    answerable: bool | None
    search_query: str | None
    pool: TracePool | None
    tags: Sequence[str]
    origin: Mapping[str, str]
    metadata: Mapping[str, Any]


class Trace(Record):
    """One retrieval to judge: a question, its reference and the chunks in rank order."""

    id: str = Field(default="", max_length=limits.ID)
    """Unique in its dataset; a missing one is made from the content (`t-` and 12 digits of its digest).

    The second of equal traces without an id in one dataset becomes `t-...-2`, and so on.
    """
    query: str
    """The question that was asked; in a conversation the user's last turn, as it was written."""
    history: tuple[Turn, ...] = Field(default=(), max_length=limits.TURNS)
    """The conversation before the question, oldest turn first; shown to the judge, which needs it to understand the
    question. The messages of other tools are read too; those of the system and of tools are left out."""
    reference: str | None = None
    """The reference answer; prompts of the `support` family need it."""
    answer: str | None = None
    """The generated answer; prompts of the `utilisation` family need it."""
    chunks: tuple[Chunk, ...]
    """What was retrieved, best first; `[]` if nothing was, and never left out."""
    relevant_total: int | None = Field(default=None, ge=0, le=limits.TOTAL)
    """How many relevant chunks exist in the whole pool, where that is known; `Recall@K` needs it."""
    claims: tuple[Claim, ...] | None = None
    """What the reference says, piece by piece, where somebody has split it; None where nobody has. A text alone is a
    vital claim whose id is its place, from 1."""
    answerable: bool | None = None
    """Whether the corpus holds an answer, as the dataset says; None if unknown. If False, the trace is in no mean, and
    a judge that needs a reference or an answer is not asked. Never shown to the judge."""
    search_query: str | None = None
    """What the retriever was given, if not `query`: a rewrite, or a keyword query. Never shown to the judge."""
    pool: TracePool | None = None
    """The grades of all judged chunks, where they are known; `bpref` and graded `ndcg` need it."""
    tags: tuple[Annotated[str, Field(max_length=limits.ID)], ...] = ()
    """Words to group and filter by."""
    origin: dict[Literal["reference", "answer", "reranker"], Annotated[str, Field(max_length=limits.ID)]] = Field(
        default_factory=dict
    )
    """Which model wrote the reference or the answer, or put the chunks in order; kept, never judged by."""
    metadata: PlainObject = Field(default_factory=dict)
    """Anything else; kept, never judged by."""

    if TYPE_CHECKING:

        def __init__(
            self, *, query: str, chunks: Sequence[Chunk | str | Mapping[str, Any]], **others: Unpack[_Others]
        ) -> None: ...

    @model_validator(mode="before")
    @classmethod
    def _accept_other_shapes(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        if elsewhere := [name for name in _ELSEWHERE if name in data]:
            pointers = ", ".join(f"`{_ELSEWHERE[name]}` for {name!r}" for name in elsewhere)
            raise ValueError(f"a trace has other names here: write {pointers}")
        key = data.get("id", "")
        if key.__class__ is not str:
            data = {**data, "id": number_text(key)}
        if (answerable := data.get("answerable")) is not None and answerable.__class__ is not bool:
            data = {**data, "answerable": answerable_of(answerable)}
        if "history" in data:
            data = {**data, "history": _turns(data["history"])}
        claims = data.get("claims")
        if isinstance(claims, list | tuple) and any(isinstance(claim, str) for claim in claims):
            data = {**data, "claims": [_claim_data(claim, place) for place, claim in enumerate(claims, 1)]}
        chunks = data.get("chunks")
        if chunks is None and "chunks" in data:
            data = {key: value for key, value in data.items() if key != "chunks"}
        if isinstance(chunks, list | tuple) and not all(map(_is_canonical, chunks)):
            data = {**data, "chunks": [_chunk_data(chunk, rank) for rank, chunk in enumerate(chunks, 1)]}
        return data

    @model_validator(mode="after")
    def _unique_ids(self) -> Self:
        if len({chunk.id for chunk in self.chunks}) != len(self.chunks):
            (twice, _), *_ = Counter(chunk.id for chunk in self.chunks).most_common(1)
            raise ValueError(f"chunks: the id {twice!r} occurs twice; ids must be unique in a trace")
        if self.claims and len({claim.id for claim in self.claims}) != len(self.claims):
            raise ValueError("claims: an id occurs twice; ids must be unique in a trace")
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
        return with_history(digest_parts(parts), self.history).hex()

    @cached_property
    def conversation(self) -> str:
        """Its history as judges see it: the newest turns, up to 8,000 characters; empty if it has none."""
        return conversation.transcript(self.history) if self.history else ""


def made_id(trace: Trace) -> str:
    """Return the id of a trace that came without one."""
    return f"t-{trace.digest[:12]}"


def has_made_id(trace: Trace) -> bool:
    """Return whether a trace's id was made from its content; it may be numbered."""
    if not trace.id.startswith("t-"):
        return False
    made = made_id(trace)
    return trace.id == made or trace.id.removeprefix(f"{made}-").isdecimal()


def repeats_of(chunks: Sequence[Any]) -> list[bool]:
    """Return for each chunk (or line of one) whether an earlier one has the same title and text."""
    keys = [(chunk.text, chunk.title) for chunk in chunks]
    if len(set(keys)) == len(keys):  # as nearly always
        return [False] * len(keys)
    first = {key: place for place, key in reversed([*enumerate(keys)])}
    return [first[key] < place for place, key in enumerate(keys)]


def check_limits(trace: Trace) -> None:
    """Raise a `ValueError` that names the limit if a trace is beyond one."""
    if len(trace.chunks) > limits.CHUNKS:
        raise ValueError(f"chunks: more than {limits.CHUNKS:,}; read fewer of each trace (option `depth`)")
    if trace.claims is not None and len(trace.claims) > limits.CLAIMS:
        raise ValueError(f"claims: more than {limits.CLAIMS:,}")
    if len(trace.tags) > limits.TAGS:
        raise ValueError(f"tags: more than {limits.TAGS:,}")
    weight = len(trace.query) + len(trace.reference or "") + len(trace.answer or "") + len(trace.search_query or "")
    for turn in trace.history:
        weight += len(turn.content)
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
    # Only a trace that could be too long is written to be measured.
    if weight * limits.ESCAPED > limits.LINE // 2 and len(trace.model_dump_json().encode()) >= limits.LINE:
        raise ValueError(
            f"more than {limits.LINE // 2**20} MiB written as JSON; shorten its texts, or give fewer chunks"
        )


ANSWERABLE: Mapping[str, bool | None] = {
    **dict.fromkeys(("true", "yes", "1", "answerable", "partial"), True),
    **dict.fromkeys(("false", "no", "0", "unanswerable", "conversational"), False),
    "underspecified": None,
}
"""The words of datasets for whether a question can be answered; None for unknown."""


def answerable_of(value: Any) -> bool | None:
    """Read whether a question is answerable from a word of a dataset; raises `ValueError` with all words."""
    word = str(value).strip().lower()
    if word not in ANSWERABLE:
        raise ValueError(f"answerable: {value!r} is not one of {', '.join(ANSWERABLE)}")
    return ANSWERABLE[word]


def _turns(value: Any) -> Any:
    """Accept turns, or the messages of another tool."""
    if value is None:
        return ()
    if isinstance(value, list | tuple) and all(map(_is_turn, value)):
        return value
    read = conversation.turns_of(value)
    if read is None:
        raise ValueError(f"history: {NO_CONVERSATION}")
    return [turn._asdict() for turn in read.turns]


NO_CONVERSATION = 'not a conversation; give its turns, oldest first, as [{"role": "user", "content": "..."}, ...]'


def _is_turn(item: Any) -> bool:
    if isinstance(item, Turn):
        return True
    if type(item) is not dict or item.keys() != {"role", "content"}:
        return False
    content = item["content"]
    return item["role"] in ("user", "assistant") and isinstance(content, str) and bool(content.strip())


def _maybe(text: str | None) -> tuple[str, str]:
    """Spell an optional text so that None and "" differ."""
    return ("", "") if text is None else ("1", text)


def _is_canonical(chunk: Any) -> bool:
    if type(chunk) is not dict or "text" not in chunk:
        return False
    key = chunk.get("id")
    return key.__class__ is str and bool(key)


def _claim_data(claim: Any, place: int) -> Any:
    return {"id": str(place), "text": claim} if isinstance(claim, str) else claim


def _chunk_data(chunk: Any, rank: int) -> Any:
    """Accept a `Chunk`, its plain data, a string, or the document object of another library."""
    if isinstance(chunk, Chunk):
        return chunk if chunk.id else chunk.replace(id=f"c{rank}")
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
