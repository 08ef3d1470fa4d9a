"""Asking a decision model which claims each chunk supports: one question a claim and chunk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from judge_eval.errors import CallError
from judge_eval.judges.claim_replies import CellReading, RowReading
from judge_eval.judges.parsing import Problem
from judge_eval.judges.questions import Question, call_of, request_for, rounds
from judge_eval.judges.rowasking import Asking, ClaimRow, ClaimsMode, Whole, about_claims, about_whole
from judge_eval.prompts import AnyForm, CellForm
from judge_eval.schema import Claim, Trace
from judge_eval.wire import Completion, Reply, Request, sums_up

MOST_CLAIMS = 100
"""Claims in one request to a decision model: servers take 200 to 400 questions."""


class ByCells:
    """Asks a decision model about each claim and each passage; the claims of a passage share a request.

    A claim is fully supported where that is more likely than not; partial support and contradictions do
    not exist here. Nothing is quoted. A passage of which one claim has no answer has no reading.

    Args:
        form: Of a prompt of the mode `claims-decision`.
    """

    mode: ClaimsMode = "claims-decision"
    quotes = False

    def __init__(self, form: CellForm) -> None:
        self.form = form
        self._whole = CellForm(form.prompt, together=True, pinned=form.pinned)

    def forms(self) -> Mapping[str, AnyForm]:
        """The forms by what they are for."""
        return {"prompt": self.form}

    def with_forms(self, forms: Mapping[str, AnyForm]) -> ByCells:
        """Return the same way of asking by other forms."""
        form = forms["prompt"]
        assert isinstance(form, CellForm)  # the versions of a prompt are of one mode
        return ByCells(form)

    def describe(self) -> dict[str, Any]:
        """What else could change a verdict."""
        return {"most": MOST_CLAIMS}

    def ask(self, trace: Trace, claims: Sequence[Claim], rows: Sequence[ClaimRow], sample: int) -> Asking:
        """Ask until every row has a reading or a problem."""
        cells: dict[int, dict[int, float]] = {place: {} for place in range(len(rows))}
        asking = []
        for place, row in enumerate(rows):
            for first in range(0, len(claims), MOST_CLAIMS):
                some = claims[first : first + MOST_CLAIMS]
                asking.append(((place, first), self._request(self.form, trace, some, [row.question], sample)))

        def take(about: tuple[int, int], request: Request, reply: Reply) -> None:
            place, first = about
            question = rows[place].question
            shares = _shares(reply, len(request.claims))
            if isinstance(shares, Problem):
                question.problem = shares
                return
            assert not isinstance(reply, CallError)  # of which nothing was read
            question.call = call_of(request, reply)
            cells[place] |= {first + number: share for number, share in enumerate(shares, 1)}

        yield from rounds(asking, take)
        for place, row in enumerate(rows):
            if row.question.problem is None:
                full = (number for number, share in sorted(cells[place].items()) if share > 0.5)
                row.reading = RowReading(tuple(CellReading(number, "full", "") for number in full))

    def ask_together(self, trace: Trace, claims: Sequence[Claim], whole: Whole, sample: int) -> Asking:
        """Ask which claims all passages cover together."""
        asking = []
        for first in range(0, len(claims), MOST_CLAIMS):
            some = claims[first : first + MOST_CLAIMS]
            made = self._request(self._whole, trace, some, whole.passages, sample)
            asking.append((some, about_whole(made, some)))

        def take(some: Sequence[Claim], request: Request, reply: Reply) -> None:
            shares = _shares(reply, len(some))
            if isinstance(shares, Problem) or isinstance(reply, CallError):
                return
            whole.call = whole.told(call_of(request, reply))
            whole.covered |= {claim.id: share > 0.5 for claim, share in zip(some, shares, strict=True)}

        yield from rounds(asking, take)

    def _request(
        self, form: CellForm, trace: Trace, claims: Sequence[Claim], asked: Sequence[Question], sample: int
    ) -> Request:
        count = len(claims)
        made = request_for(
            form,
            trace,
            asked,
            0,
            sample,
            accepts=lambda completion: _is_row(completion, count),
        )
        return about_claims(made, claims)


def _shares(reply: Reply, count: int) -> list[float] | Problem:
    """Return the probability that each statement is true, or why that of one is not known."""
    if isinstance(reply, CallError):
        return Problem(reply.why, reply.detail)
    if len(reply.answers) != count:
        return Problem("unparsable", f"{len(reply.answers)} answers to {count} questions")
    shares = []
    for number, answer in enumerate(reply.answers, 1):
        told = answer.probabilities
        if len(told) != 2 or not sums_up(told):
            detail = answer.detail or f"{list(told)[:12]} are no probabilities of false and true"
            return Problem(answer.why or "unparsable", f"claim {number}: {detail}")
        shares.append(told[1] / sum(told))
    return shares


def _is_row(completion: Completion, count: int) -> bool:
    """Tell whether every cell can be read from a completion: with one missing there is no verdict."""
    return not isinstance(_shares(completion, count), Problem)
