"""Asking about claims: each chunk in its row, and all chunks together, of chat and of decision models."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple, get_args

from judge_eval.errors import CallError
from judge_eval.judges import parsing
from judge_eval.judges.decision import read_answers
from judge_eval.judges.parsing import Problem, evidence_found
from judge_eval.judges.questions import (
    Asking,
    Contract,
    Question,
    call_of,
    can_repair,
    objects_shown,
    repair,
    request_for,
    rounds,
)
from judge_eval.prompts import CellForm, ClaimsForm
from judge_eval.schema import Call, Claim, Support, Trace
from judge_eval.wire import Completion, Reply, Request

_SUPPORTS = get_args(Support)


class CellReading(NamedTuple):
    """What was read about one claim and one chunk."""

    number: int
    """The claim's, from 1."""
    support: Support
    quote: str


class RowReading(NamedTuple):
    """What was read about one chunk: the claims that it supports or contradicts, in their order."""

    cells: tuple[CellReading, ...]
    instruction_in_chunk: bool | None = False


class TogetherReading(NamedTuple):
    """What was read about one claim and all chunks."""

    covered: bool
    quotes: tuple[str, ...]


def read_together(
    completion: Completion, claims: int, shown: Sequence[str] = ()
) -> dict[int, TogetherReading] | parsing.Problem:
    """Read which claims the chunks cover together: a reading for every claim, or a problem."""
    try:
        readings: dict[int, TogetherReading] = {}
        for item in parsing.items_of(completion, "claims", shown):
            parsing.check_fields(item, ("id", "quotes", "covered"), "an entry")
            number = parsing.number_of(item["id"], claims)
            quotes, covered = item["quotes"], item["covered"]
            if number in readings:
                raise parsing.UnreadableError(f"claim {number} occurs twice")
            if not isinstance(quotes, list) or any(type(quote) is not str for quote in quotes):
                raise parsing.UnreadableError(f'"quotes" of claim {number} must be a list of strings')
            covered = parsing.flag_of(covered, f'"covered" of claim {number}')
            readings[number] = TogetherReading(covered, tuple(map(parsing.without_surrogates, quotes)))
        if len(readings) < claims:
            missing = next(number for number in range(1, claims + 1) if number not in readings)
            raise parsing.UnreadableError(f"there is no entry for claim {missing}")
        return readings
    except parsing.UnreadableError as error:
        return parsing.problem_of(completion, str(error))


def _row(item: dict[str, Any], claims: int) -> RowReading:
    parsing.check_fields(item, ("instruction_in_chunk", "claims"), "the object")
    cells, steered = item["claims"], item["instruction_in_chunk"]
    steered = parsing.flag_of(steered, '"instruction_in_chunk"')
    if not isinstance(cells, list):
        raise parsing.UnreadableError('"claims" must be a list')
    readings: dict[int, CellReading] = {}
    for cell in cells:
        if not isinstance(cell, dict):
            raise parsing.UnreadableError('an entry of "claims" is not an object')
        parsing.check_fields(cell, ("id", "quote", "support"), "an entry")
        number = parsing.number_of(cell["id"], claims)
        if number in readings:
            raise parsing.UnreadableError(f"claim {number} occurs twice")
        if type(cell["quote"]) is not str:
            raise parsing.UnreadableError(f'"quote" of claim {number} must be a string')
        if cell["support"] not in _SUPPORTS:
            known = ", ".join(_SUPPORTS)
            raise parsing.UnreadableError(
                f'"support" of claim {number} is {parsing.glanced(cell["support"])}, none of {known}'
            )
        readings[number] = CellReading(number, cell["support"], parsing.without_surrogates(cell["quote"]))
    return RowReading(tuple(readings[number] for number in sorted(readings)), steered)


MOST_CLAIMS = 100
"""Claims in one request to a decision model: servers take 200 to 400 questions."""
WINDOW = 20
"""The most passages in one request."""
FEW = 4
"""How many chunks of a list are expected to support one claim, for the cap of the reply."""


@dataclass
class RowContract(Contract[RowReading]):
    """Asks which claims passages support: one passage, or several in a list."""

    form: ClaimsForm
    """Of a prompt of the mode `claims` or `claims-list`."""
    sample: int
    claims: Sequence[Claim] = ()
    shown: Sequence[str] = ()
    """The texts of the trace that may hold a JSON object, which is not an answer."""

    @property
    def second_look(self) -> str:
        """The text that asks for the quotes that support lacks; empty if the prompt has none."""
        return self.form.second_look() if self.form.prompt.second_look else ""

    def cap(self, passages: int) -> int:
        """Return the most tokens of a reply about so many passages."""
        chunks = passages if self.form.listwise else 0
        cap = self.form.prompt.max_tokens * (chunks + 1)
        return cap + self.form.prompt.claim_tokens * len(self.claims) * max(1, min(chunks, FEW))

    def read(self, reply: Completion) -> RowReading | Problem:
        """Read a reply about one passage."""
        try:
            return _row(parsing.reply_object(reply.text, self.shown), len(self.claims))
        except parsing.UnreadableError as error:
            return parsing.problem_of(reply, str(error))

    def read_list(self, reply: Completion, count: int) -> dict[int, RowReading] | Problem:
        """Read a reply about several passages."""
        return parsing.read_entries(reply, "chunks", count, partial(_row, claims=len(self.claims)), self.shown)

    def is_bare(self, reading: RowReading) -> bool:
        """Tell whether a row supports a claim without a quote."""
        return any(cell.support != "contradicts" and not cell.quote.strip() for cell in reading.cells)


@dataclass
class Together:
    """All passages of a trace, asked about together, and the result."""

    passages: Sequence[Question[RowReading]]
    covered: dict[str, bool | None]
    """By claim that is asked about; None if it is not known."""
    call: Call | None = None
    tried: set[str] = field(default_factory=set)

    def take(self, covered: Mapping[str, bool], request: Request, reply: Completion) -> None:
        """Store what a reply says; its call is about all chunks."""
        chunk_ids = tuple(chunk_id for question in self.passages for chunk_id in question.chunk_ids)
        self.call = call_of(request, reply).replace(chunk_ids=chunk_ids)
        self.covered |= covered

    def request(
        self,
        form: ClaimsForm | CellForm,
        trace: Trace,
        claims: Sequence[Claim],
        sample: int,
        accepts: Callable[[Completion], bool],
    ) -> Request:
        """Make the request about all passages; it names no chunk: no chunk's verdict depends on it."""
        cap = 0
        if isinstance(form, ClaimsForm):
            cap = form.prompt.max_tokens + form.prompt.claim_tokens * len(claims)
        made = request_for(form, trace, self.passages, cap, sample, accepts=accepts, claims=claims)
        return replace(made, chunk_ids=(), held_by=())


def ask_together(form: ClaimsForm, trace: Trace, claims: Sequence[Claim], whole: Together, sample: int) -> Asking:
    """Ask a model that writes which claims all passages cover together, twice if a reply is unusable."""
    passages = [question.passage for question in whole.passages]
    shown = objects_shown(trace)

    def read(reply: Completion) -> dict[int, TogetherReading] | Problem:
        readings = read_together(reply, len(claims), shown)
        for number, reading in () if isinstance(readings, Problem) else readings.items():
            quotes = reading.quotes
            lost = not quotes or not all(any(evidence_found(q, p) for p in passages) for q in quotes)
            if reading.covered and lost:
                return Problem("unparsable", f"claim {number} is covered, but its quotes are in no chunk")
        return readings

    def take(_: Together, request: Request, reply: Reply) -> Request | None:
        if isinstance(reply, CallError):
            return None
        readings = read(reply)
        if isinstance(readings, Problem):
            return repair(form, request, reply, readings, whole.tried)
        covered = {claim.id: readings[number].covered for number, claim in enumerate(claims, 1)}
        whole.take(covered, request, reply)
        return None

    def gives_up(reply: Completion) -> bool:
        readings = read(reply)
        return isinstance(readings, Problem) and not can_repair(readings, whole.tried)

    request = whole.request(form, trace, claims, sample, lambda reply: not isinstance(read(reply), Problem))
    yield from rounds([(whole, replace(request, gives_up=gives_up))], take)


def ask_cells(
    form: CellForm, trace: Trace, claims: Sequence[Claim], rows: Sequence[Question[RowReading]], sample: int
) -> Asking:
    """Ask a decision model about each claim and each passage; the claims of a passage share a request."""
    # A claim is fully supported if that is more likely than not; partial support and contradictions do not
    # exist here. Nothing is quoted. A passage has no reading if one claim has no answer.
    cells: dict[int, list[float]] = {id(row): [] for row in rows}

    def take(row: Question[RowReading], request: Request, reply: Reply) -> None:
        shares = _shares(reply, len(request.claims))
        if isinstance(shares, Problem):
            row.problem = shares
        elif not isinstance(reply, CallError):
            row.call = call_of(request, reply)
            cells[id(row)] += shares

    asking = []
    for row in rows:
        for some in _by_request(claims):
            accepts = partial(_is_row, len(some))
            asking.append((row, request_for(form, trace, [row], 0, sample, accepts=accepts, claims=some)))
    yield from rounds(asking, take)
    for row in rows:
        if row.problem is None:
            full = (number for number, share in enumerate(cells[id(row)], 1) if share > 0.5)
            row.reading = RowReading(tuple(CellReading(number, "full", "") for number in full), None)


def ask_cells_together(form: CellForm, trace: Trace, claims: Sequence[Claim], whole: Together, sample: int) -> Asking:
    """Ask a decision model which claims all passages cover together."""
    form = CellForm(form.prompt, together=True, pinned=form.pinned)

    def take(some: Sequence[Claim], request: Request, reply: Reply) -> None:
        shares = _shares(reply, len(some))
        if not isinstance(shares, Problem) and not isinstance(reply, CallError):
            covered = {claim.id: share > 0.5 for claim, share in zip(some, shares, strict=True)}
            whole.take(covered, request, reply)

    asking = [
        (some, whole.request(form, trace, some, sample, partial(_is_row, len(some)))) for some in _by_request(claims)
    ]
    yield from rounds(asking, take)


def _by_request(claims: Sequence[Claim]) -> Iterator[Sequence[Claim]]:
    for first in range(0, len(claims), MOST_CLAIMS):
        yield claims[first : first + MOST_CLAIMS]


def _shares(reply: Reply, count: int) -> list[float] | Problem:
    if isinstance(reply, CallError):
        return Problem(reply.why, reply.detail)
    shares = []
    for number, answer in enumerate(read_answers(reply, count, 2), 1):
        if isinstance(answer, Problem):
            return Problem(answer.why, f"claim {number}: {answer.detail}")
        shares.append(answer[1] / sum(answer))
    return shares


def _is_row(count: int, reply: Completion) -> bool:
    """Tell whether every answer can be read; if one is missing, there is no verdict."""
    return not isinstance(_shares(reply, count), Problem)
