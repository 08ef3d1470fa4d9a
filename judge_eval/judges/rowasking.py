"""Asking a model that writes which claims each chunk supports: chunk by chunk, or all chunks at once."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, TypeAlias

from judge_eval.errors import CallError
from judge_eval.judges.base import Wave
from judge_eval.judges.claim_replies import (
    RowReading,
    TogetherReading,
    read_row,
    read_rows,
    read_together,
)
from judge_eval.judges.parsing import Problem, evidence_found
from judge_eval.judges.questions import Question, call_of, describe_form, repair, request_for, rounds
from judge_eval.prompts import AnyForm, ClaimsForm
from judge_eval.schema import Call, Claim, Trace
from judge_eval.wire import Completion, Message, Passage, Reply, Request

FEW = 4
"""Chunks that are taken to support one claim, where the cap of a reply about many chunks is set."""
ClaimsMode: TypeAlias = Literal["claims", "claims-list", "claims-decision"]
"""How claims are asked about: chunk by chunk, all chunks of a trace at once, or by a decision model."""

Asking: TypeAlias = Generator[Wave, Sequence[Reply], None]


@dataclass
class ClaimRow:
    """A distinct passage, and what came of asking about the claims."""

    question: Question
    """The passage, the chunks that hold it, and why nothing was read."""
    reading: RowReading | None = None
    bare: bool = False
    """Whether a reply about many chunks gave support without a quote, so that it is asked about once more."""


@dataclass
class Whole:
    """All passages of a trace, asked about together, and what came of it."""

    passages: Sequence[Question]
    covered: dict[str, bool | None]
    """By claim that is asked about; None where nobody can tell."""
    call: Call | None = None
    tried: set[str] = field(default_factory=set)

    def told(self, call: Call) -> Call:
        """Return the call with the chunks that it is about."""
        held = tuple(chunk_id for question in self.passages for chunk_id in question.chunk_ids)
        return call.model_copy(update={"chunk_ids": held})


class RowAsker(Protocol):
    """A way of asking about claims."""

    mode: ClaimsMode
    """What it is called."""
    quotes: bool
    """Whether it brings quotes."""

    def forms(self) -> Mapping[str, AnyForm]:
        """The forms by what they are for; the first is the one the judge is known by."""
        ...

    def with_forms(self, forms: Mapping[str, AnyForm]) -> RowAsker:
        """Return the same way of asking by other forms."""
        ...

    def describe(self) -> dict[str, Any]:
        """What else could change a verdict."""
        ...

    def ask(self, trace: Trace, claims: Sequence[Claim], rows: Sequence[ClaimRow], sample: int) -> Asking:
        """Ask until every row has a reading or a problem."""
        ...

    def ask_together(self, trace: Trace, claims: Sequence[Claim], whole: Whole, sample: int) -> Asking:
        """Ask which claims all passages cover together."""
        ...


def about_claims(request: Request, claims: Sequence[Claim]) -> Request:
    """Return a request that holds its passages against claims."""
    return replace(request, claims=tuple(claim.text for claim in claims))


def about_whole(request: Request, claims: Sequence[Claim]) -> Request:
    """Return a request that holds all passages together against claims.

    It names no chunk, since no chunk's verdict waits for its answer.
    """
    return replace(about_claims(request, claims), chunk_ids=(), held_by=())


def _cap(form: ClaimsForm, claims: int, chunks: int = 0) -> int:
    """Return the cap on a reply's tokens."""
    each = form.prompt.claim_tokens * claims * max(1, min(chunks, FEW))
    return form.prompt.max_tokens * (chunks + 1 if form.prompt.mode == "claims-list" else 1) + each


class Together:
    """Asks a model that writes about all passages of a trace at once.

    Args:
        form: Of a prompt of the mode `together`.
    """

    def __init__(self, form: ClaimsForm) -> None:
        self.form = form

    def ask(self, trace: Trace, claims: Sequence[Claim], whole: Whole, sample: int) -> Asking:
        """Ask once, and once more where the reply cannot be read or quotes what stands nowhere."""
        passages = [question.passage for question in whole.passages]

        def read(completion: Completion) -> dict[int, TogetherReading] | Problem:
            found = read_together(completion, len(claims))
            for number, one in () if isinstance(found, Problem) else found.items():
                lost = not one.quotes or not all(_stands(quote, passages) for quote in one.quotes)
                if one.covered and lost:
                    return Problem("unparsable", f"claim {number} is covered, but its quotes are in no chunk")
            return found

        def take(_: Whole, request: Request, reply: Reply) -> Request | None:
            found = Problem(reply.why, reply.detail) if isinstance(reply, CallError) else read(reply)
            if isinstance(reply, CallError):
                return None
            if isinstance(found, Problem):
                return repair(self.form, request, reply, found, whole.tried)
            whole.call = whole.told(call_of(request, reply))
            whole.covered |= {claim.id: found[number].covered for number, claim in enumerate(claims, 1)}
            return None

        cap = _cap(self.form, len(claims))
        first = request_for(
            self.form, trace, whole.passages, cap, sample, accepts=lambda c: not isinstance(read(c), Problem)
        )
        yield from rounds([(whole, about_whole(first, claims))], take)


def _stands(quote: str, passages: Sequence[Passage]) -> bool:
    return any(evidence_found(quote, passage) for passage in passages)


class OneByOne:
    """Asks a model that writes about each passage in a request of its own.

    Args:
        form: Of a prompt of the mode `claims`.
        together: Asks about all passages.
    """

    mode: ClaimsMode = "claims"
    quotes = True

    def __init__(self, form: ClaimsForm, together: Together) -> None:
        self.form, self.together = form, together

    def forms(self) -> Mapping[str, AnyForm]:
        """The forms by what they are for."""
        return {"prompt": self.form, "together": self.together.form}

    def with_forms(self, forms: Mapping[str, AnyForm]) -> OneByOne:
        """Return the same way of asking by other forms."""
        return OneByOne(_written(forms["prompt"]), Together(_written(forms["together"])))

    def describe(self) -> dict[str, Any]:
        """What else could change a verdict."""
        return {"together": _of_prompt(self.together.form)}

    def ask(self, trace: Trace, claims: Sequence[Claim], rows: Sequence[ClaimRow], sample: int) -> Asking:
        """Ask until every row has a reading or a problem."""
        if not rows:
            return
        count = len(claims)
        made = request_for(
            self.form,
            trace,
            [rows[0].question],
            _cap(self.form, count),
            sample,
            accepts=lambda completion: isinstance(read_row(completion, count), RowReading),
        )
        first = about_claims(made, claims)
        asked = [first.about((row.question.passage,), tuple(row.question.chunk_ids)) for row in rows]
        yield from rounds(list(zip(rows, asked, strict=True)), self._take)

    def ask_together(self, trace: Trace, claims: Sequence[Claim], whole: Whole, sample: int) -> Asking:
        """Ask which claims all passages cover together."""
        return self.together.ask(trace, claims, whole, sample)

    def _take(self, row: ClaimRow, request: Request, reply: Reply) -> Request | None:
        question = row.question
        if isinstance(reply, CallError):
            if row.reading is None:
                question.problem = Problem(reply.why, reply.detail)
            return None
        read = read_row(reply, len(request.claims))
        if isinstance(read, Problem):
            if row.reading is not None:
                return None
            question.problem = read
            return repair(self.form, request, reply, read, question.tried)
        row.reading, question.problem, question.call = read, None, call_of(request, reply)
        if is_bare(read) and "evidence" not in question.tried and self.form.prompt.second_look:
            question.tried.add("evidence")
            said = (Message("assistant", reply.text), Message("user", self.form.second_look()))
            return replace(request, follow_up=said, origin=None)
        return None


@dataclass
class _Window:
    """Rows that are asked about in one request."""

    rows: Sequence[ClaimRow]
    tried: set[str] = field(default_factory=set)


class AllAtOnce:
    """Asks a model that writes about all passages of a trace in one request, and one by one what that leaves.

    Args:
        form: Of a prompt of the mode `claims-list`.
        one_by_one: Asks about what is left open.
        window: The most passages in one request, >= 2.
    """

    mode: ClaimsMode = "claims-list"
    quotes = True

    def __init__(self, form: ClaimsForm, one_by_one: OneByOne, window: int = 20) -> None:
        self.form, self.one_by_one, self.window = form, one_by_one, window

    def forms(self) -> Mapping[str, AnyForm]:
        """The forms by what they are for."""
        others = self.one_by_one.forms()
        return {"prompt": self.form, "pointwise": others["prompt"], "together": others["together"]}

    def with_forms(self, forms: Mapping[str, AnyForm]) -> AllAtOnce:
        """Return the same way of asking by other forms."""
        left = self.one_by_one.with_forms({"prompt": forms["pointwise"], "together": forms["together"]})
        return AllAtOnce(_written(forms["prompt"]), left, self.window)

    def describe(self) -> dict[str, Any]:
        """What else could change a verdict."""
        pointwise = _of_prompt(self.one_by_one.form)
        return {"window": self.window, "pointwise": pointwise, **self.one_by_one.describe()}

    def ask(self, trace: Trace, claims: Sequence[Claim], rows: Sequence[ClaimRow], sample: int) -> Asking:
        """Ask until every row has a reading or a problem."""
        asking = []
        for at in range(0, len(rows), self.window):
            window = _Window(rows[at : at + self.window])
            asking.append((window, self._request(trace, claims, window, sample)))
        yield from rounds(asking, self._take)
        left = [row for row in rows if row.bare or (row.reading is None and row.question.problem is None)]
        yield from self.one_by_one.ask(trace, claims, left, sample)

    def ask_together(self, trace: Trace, claims: Sequence[Claim], whole: Whole, sample: int) -> Asking:
        """Ask which claims all passages cover together."""
        return self.one_by_one.ask_together(trace, claims, whole, sample)

    def _request(self, trace: Trace, claims: Sequence[Claim], window: _Window, sample: int) -> Request:
        chunks, count = len(window.rows), len(claims)
        made = request_for(
            self.form,
            trace,
            [row.question for row in window.rows],
            _cap(self.form, count, chunks),
            sample,
            accepts=lambda completion: not isinstance(read_rows(completion, chunks, count), Problem),
        )
        return about_claims(made, claims)

    def _take(self, window: _Window, request: Request, reply: Reply) -> Request | None:
        if isinstance(reply, CallError):
            for row in window.rows:
                row.question.problem = Problem(reply.why, reply.detail)
            return None
        read = read_rows(reply, len(window.rows), len(request.claims))
        if isinstance(read, Problem):
            follow_up = repair(self.form, request, reply, read, window.tried)
            if follow_up is None and read.why == "refused":
                for row in window.rows:
                    row.question.problem = read
            return follow_up
        call = call_of(request, reply)
        for number, row in enumerate(window.rows, 1):
            if number in read:
                row.reading, row.question.call = read[number], call
                row.bare = is_bare(read[number])
        return None


def is_bare(row: RowReading) -> bool:
    """Tell whether a row supports a claim without a quote."""
    return any(cell.support != "contradicts" and not cell.quote.strip() for cell in row.cells)


def _written(form: AnyForm) -> ClaimsForm:
    assert isinstance(form, ClaimsForm)  # the versions of a prompt are of one mode
    return form


def _of_prompt(form: AnyForm) -> dict[str, Any]:
    return {"prompt": describe_form(form, form.scale)["prompt"]}
