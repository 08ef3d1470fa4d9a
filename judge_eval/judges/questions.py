"""Questions about the passages of a trace: requests, repairs, replies and outcomes."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Generic, TypeAlias, TypeVar

from judge_eval import schema
from judge_eval.errors import CallError
from judge_eval.judges.judge import RequestRound
from judge_eval.judges.parsing import NOT_ASKED, Problem, evidence_found, fault_of, holding_objects, without_surrogates
from judge_eval.judges.token_confidence import Confidence
from judge_eval.prompts import AnyForm, ClaimsForm, PromptForm
from judge_eval.record import trusted
from judge_eval.wire import Completion, Message, Passage, Reply, Request

T = TypeVar("T")
R = TypeVar("R")

Asking: TypeAlias = Generator[RequestRound, Sequence[Reply], None]
"""Asks until every question has a reading or a problem."""

ASKED_AGAIN = ("unreachable", "budget")
"""Why a verdict is missing if asking again may bring one."""
LARGER_CAP = 2
"""How many times the cap a truncated reply that reasoned is asked again with."""

BLANK = "The chunk is blank."
"""The reason given for a chunk without text that counts as irrelevant."""
EMPTY = "the chunk has no text"
"""What is said of a chunk without text that has no verdict."""


@dataclass(slots=True)
class Question(Generic[R]):
    """A distinct passage of a trace, the chunks that hold it, and the result of asking about it."""

    passage: Passage
    chunk_ids: list[str]
    reading: R | None = None
    problem: Problem | None = None
    call: schema.Call | None = None
    token_confidence: Confidence | None = None
    tried: set[str] = field(default_factory=set)


def distinct(chunks: Sequence[schema.Chunk], known: Mapping[str, schema.Verdict]) -> list[Question[Any]]:
    """Collect the distinct passages that have to be asked about, in rank order."""
    questions: dict[Passage, Question[Any]] = {}
    for chunk in chunks:
        if chunk.id in known or chunk.is_blank:
            continue
        passage = Passage(chunk.text, chunk.title)
        question = questions.get(passage)
        if question is None:
            questions[passage] = Question(passage, [chunk.id])
        else:
            question.chunk_ids.append(chunk.id)
    return list(questions.values())


def objects_shown(trace: schema.Trace) -> tuple[str, ...]:
    """Return the texts of a trace that may hold a JSON object, which is not a judge's answer."""
    chunks = [text for chunk in trace.chunks for text in (chunk.text, chunk.title)]
    turns = [turn.content for turn in trace.history]
    return holding_objects((trace.query, trace.reference, trace.answer, *turns, trace.conversation, *chunks))


def request_for(
    form: AnyForm,
    trace: schema.Trace,
    questions: Sequence[Question[Any]],
    max_tokens: int,
    sample: int,
    *,
    accepts: Callable[[Completion], bool],
    claims: Sequence[schema.Claim] = (),
) -> Request:
    """Make the request that asks about passages of one trace, and claims, with what the prompt needs of it."""
    needs = form.prompt.needs
    return Request(
        form=form,
        query=trace.query,
        history=trace.conversation,
        passages=tuple(question.passage for question in questions),
        max_tokens=max_tokens,
        reference=trace.reference if "reference" in needs else None,
        answer=trace.answer if "answer" in needs else None,
        claims=tuple(claim.text for claim in claims),
        sample=sample,
        accepts=accepts,
        trace_id=trace.id,
        chunk_ids=tuple(chunk_id for question in questions for chunk_id in question.chunk_ids),
        held_by=tuple(len(question.chunk_ids) for question in questions),
    )


def repair(
    form: PromptForm | ClaimsForm, request: Request, reply: Completion, problem: Problem, tried: set[str]
) -> Request | None:
    """Return the request that repairs an unreadable reply; None if that was tried or cannot help."""
    origin = request.origin or request
    if reply.finish == "given_up" or not can_repair(problem, tried):
        return None
    tried.add(problem.why)
    if problem.why == "truncated":
        return replace(request, max_tokens=request.max_tokens * LARGER_CAP, origin=origin)
    asked = Message("user", form.unreadable(problem=problem.detail))
    follow_up = (Message("assistant", reply.text[:4000] or "(empty)"), asked)
    return replace(request, follow_up=follow_up, origin=origin)


def failed_call(error: CallError, before: Problem | None) -> Problem:
    """Say why a call brought no reading; if it was a repair, with what was wrong with the reply before."""
    if before is None:
        return Problem(error.why, error.detail)
    why = error.why if error.why in ASKED_AGAIN else before.why
    return Problem(why, f"{before.detail}; no repair: {error.detail}")


def can_repair(problem: Problem, tried: Container[str]) -> bool:
    """Tell whether a question is asked again: once after a reply cut in its thoughts, once after an unreadable one."""
    return problem.why in ("truncated", "unparsable") and problem.why not in tried and not problem.final


def second_look(request: Request, reply: Completion, asked: str) -> Request:
    """Return the request that asks for what a readable reply lacks; the reply counts if nothing comes."""
    follow_up = (Message("assistant", reply.text), Message("user", asked))
    return replace(request, follow_up=follow_up, origin=None, gives_up=lambda _: True)


def call_of(request: Request, completion: Completion) -> schema.Call:
    """Record the completion that a verdict rests on, under the key it is stored by."""
    return trusted(
        schema.Call,
        {
            "key": (request.origin or request).digest.hex(),
            "chunk_ids": request.chunk_ids,
            "model": without_surrogates(completion.model),
            "finish": completion.finish,
            "input_tokens": completion.usage.input_tokens,
            "output_tokens": completion.usage.output_tokens,
            "dropped": completion.dropped,
            "request_id": completion.request_id,
        },
    )


def conclude(
    trace: schema.Trace,
    questions: Sequence[Question[Any]],
    scale: schema.Scale,
    known: Mapping[str, schema.Verdict],
    blank: schema.BlankPolicy,
    evidence: schema.EvidencePolicy = "flag",
) -> schema.Judgment:
    """Put together a trace's judgment: one outcome for each chunk, in rank order."""
    by_id = {chunk_id: question for question in questions for chunk_id in question.chunk_ids}
    outcomes: list[schema.Verdict | schema.NoVerdict] = []
    least = scale.relevant
    for chunk in trace.chunks:
        question = by_id.get(chunk.id)
        if question is None:
            outcomes.append(known.get(chunk.id) or blank_outcome(chunk, scale, blank))
        elif (reading := question.reading) is not None:
            quote, relevant, token_confidence = reading.evidence, reading.grade >= least, question.token_confidence
            is_found = None if quote is None else evidence_found(quote, question.passage)
            if evidence == "required" and relevant and quote is not None and not is_found:
                detail = f"relevant, but {fault_of(quote, question.passage)}"
                outcomes.append(schema.NoVerdict(chunk_id=chunk.id, why="unsupported", detail=detail))
                continue
            outcomes.append(
                trusted(
                    schema.Verdict,
                    {
                        "kind": "verdict",
                        "chunk_id": chunk.id,
                        "grade": reading.grade,
                        "relevant": relevant,
                        "reason": reading.reason,
                        "evidence": quote,
                        "evidence_found": is_found,
                        "instruction_in_chunk": reading.instruction_in_chunk,
                        "confidence": token_confidence.confidence if token_confidence else None,
                        "expected_grade": token_confidence.expected_grade if token_confidence else None,
                        "grade_probabilities": token_confidence.grades if token_confidence else None,
                        "stage": None,
                        "supports": None,
                    },
                )
            )
        else:
            outcomes.append((question.problem or NOT_ASKED).no_verdict(chunk.id))
    # One call may have judged several chunks; it is listed once.
    calls = {id(question.call): question.call for question in questions if question.call is not None}
    fields = {"trace_id": trace.id, "outcomes": tuple(outcomes), "calls": tuple(calls.values())}
    return trusted(schema.Judgment, {**fields, "votes": {}, "claims": None, "parts": {}})


def blank_outcome(chunk: schema.Chunk, scale: schema.Scale, blank: schema.BlankPolicy, **fields: Any) -> schema.Outcome:
    """Return what a chunk without text gets; `fields` are further ones of a verdict."""
    if blank == "irrelevant":
        return schema.Verdict(chunk_id=chunk.id, grade=scale.minimum, relevant=False, reason=BLANK, **fields)
    return schema.NoVerdict(chunk_id=chunk.id, why="empty", detail=EMPTY)


def rounds(asking: Sequence[tuple[T, Request]], take: Callable[[T, Request, Reply], Request | None]) -> Asking:
    """Ask about subjects in rounds; `take` processes each reply and returns the next request, if any."""
    while asking:
        replies = yield [request for _, request in asking]
        taken = zip(asking, replies, strict=True)
        again = [(about, take(about, request, reply)) for (about, request), reply in taken]
        asking = [(about, request) for about, request in again if request is not None]


class Contract(ABC, Generic[R]):
    """What a chat model is asked about a passage, and how its replies are read."""

    form: PromptForm | ClaimsForm
    sample: int
    claims: Sequence[schema.Claim] = ()
    """What passages are held against, if the prompt asks about claims."""

    @property
    @abstractmethod
    def second_look(self) -> str:
        """The text that asks for the quote a reading lacks; empty if the prompt has none."""

    @abstractmethod
    def cap(self, passages: int) -> int:
        """Return the most tokens of a reply about so many passages."""

    @abstractmethod
    def read(self, reply: Completion) -> R | Problem:
        """Read a reply about one passage."""

    @abstractmethod
    def read_list(self, reply: Completion, count: int) -> dict[int, R] | Problem:
        """Read a reply about several passages, by number from 1; unreadable ones are missing."""

    @abstractmethod
    def is_bare(self, reading: R) -> bool:
        """Tell whether a reading lacks a quote."""

    def token_confidence(self, reply: Completion, reading: R, number: int | None = None) -> Confidence | None:  # noqa: ARG002
        """Return how sure the model is of a reading; in a list, of the passage with that number."""
        return None

    def accepts(self, reply: Completion) -> bool:
        """Tell whether a reply about one passage can be read."""
        return not isinstance(self.read(reply), Problem)

    def request(
        self, trace: schema.Trace, questions: Sequence[Question[R]], accepts: Callable[[Completion], bool]
    ) -> Request:
        """Make the request that asks about passages of one trace."""
        cap = self.cap(len(questions))
        return request_for(self.form, trace, questions, cap, self.sample, accepts=accepts, claims=self.claims)


def ask_pointwise(contract: Contract[R], trace: schema.Trace, questions: Sequence[Question[R]]) -> Asking:
    """Ask about each passage in a request of its own."""
    # A reply that cannot be read is asked for again once, with the problem named; a truncated one that reasoned
    # once, with a larger cap; a reading without a quote once.
    if not questions:
        return
    first = contract.request(trace, questions[:1], contract.accepts)
    rest = [(q, first.about((q.passage,), tuple(q.chunk_ids))) for q in questions[1:]]
    yield from rounds([(questions[0], first), *rest], partial(_take_one, contract))


def _take_one(contract: Contract[R], question: Question[R], request: Request, reply: Reply) -> Request | None:
    if isinstance(reply, CallError):
        if question.reading is None:
            question.problem = failed_call(reply, question.problem)
        return None
    reading = contract.read(reply)
    if isinstance(reading, Problem):
        if question.reading is not None:
            return None
        question.problem = reading
        return repair(contract.form, request, reply, reading, question.tried)
    question.reading, question.problem = reading, None
    question.call = call_of(request, reply)
    if reply.logprobs:
        question.token_confidence = contract.token_confidence(reply, reading)
    if "evidence" not in question.tried and contract.is_bare(reading) and contract.second_look:
        question.tried.add("evidence")
        return second_look(request, reply, contract.second_look)
    return None


@dataclass
class _Window(Generic[R]):
    """Questions that are asked in one request."""

    questions: Sequence[Question[R]]
    last: bool = False
    """Whether questions that its reply leaves open have no verdict."""
    tried: set[str] = field(default_factory=set)
    problem: Problem | None = None
    """What was wrong with its last reply."""


def ask_listwise(
    contract: Contract[R], alone: Contract[R] | None, trace: schema.Trace, questions: Sequence[Question[R]], window: int
) -> Asking:
    """Ask about `window` passages a request, each repaired once as a whole; then one by one what is open."""
    # `alone` asks about one passage; if None, `contract` asks about a list of one.
    parts = [questions[at : at + window] for at in range(0, len(questions), window)]
    windows = [_Window(part, last=alone is None and len(part) == 1) for part in parts]
    yield from _ask_windows(contract, trace, windows)
    asked = [question for each in windows if not each.last for question in each.questions]
    left = [q for q in asked if "bare" in q.tried or (q.reading is None and q.problem is None)]
    if alone is not None:
        yield from ask_pointwise(alone, trace, left)
    else:
        yield from _ask_windows(contract, trace, [_Window([question], last=True) for question in left])


def _ask_windows(contract: Contract[R], trace: schema.Trace, windows: Sequence[_Window[R]]) -> Asking:
    asking = [(each, _request_of(contract, trace, each)) for each in windows]
    yield from rounds(asking, partial(_take_many, contract))


def _request_of(contract: Contract[R], trace: schema.Trace, window: _Window[R]) -> Request:
    count = len(window.questions)

    def accepts(reply: Completion) -> bool:
        return not isinstance(contract.read_list(reply, count), Problem)

    def gives_up(reply: Completion) -> bool:
        read = contract.read_list(reply, count)
        return isinstance(read, Problem) and read.why != "refused" and not can_repair(read, window.tried)

    return replace(contract.request(trace, window.questions, accepts), gives_up=gives_up)


def _take_many(contract: Contract[R], window: _Window[R], request: Request, reply: Reply) -> Request | None:
    if isinstance(reply, CallError):
        for question in window.questions:
            question.problem = failed_call(reply, window.problem)
        return None
    readings = contract.read_list(reply, len(window.questions))
    if isinstance(readings, Problem):
        window.problem = readings
        follow_up = repair(contract.form, request, reply, readings, window.tried)
        if follow_up is None and (window.last or readings.why == "refused"):
            for question in window.questions:
                question.problem = readings
        return follow_up
    call = call_of(request, reply)
    for number, question in enumerate(window.questions, 1):
        if number in readings:
            question.reading, question.call = readings[number], call
            question.token_confidence = contract.token_confidence(reply, readings[number], number)
            if contract.is_bare(readings[number]):
                question.tried.add("bare")
    return None
