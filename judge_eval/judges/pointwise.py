"""Judging each chunk by itself: one wave, and a repair for what could not be read."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from string import Template
from typing import Any, Literal

from judge_eval.errors import CallError, PromptError, Why
from judge_eval.judges.base import Inquiry, Wave
from judge_eval.judges.confidence import Belief, belief_of
from judge_eval.judges.parsing import Problem, Reading, evidence_found, read_one, without_surrogates
from judge_eval.prompts import PromptForm, load_form
from judge_eval.record import trusted
from judge_eval.schema import Call, Chunk, Judgment, NoVerdict, Scale, Trace, Verdict
from judge_eval.wire import Completion, Message, Passage, Reply, Request

LARGER_CAP = 8
"""How many times the cap a truncated reply is asked again with."""

BLANK = "The chunk is blank."
"""The reason given for a chunk without text, which is never asked about."""


@dataclass(slots=True)
class Question:
    """One distinct passage of a trace, with the chunks that hold it and what has come of asking."""

    passage: Passage
    chunk_ids: list[str]
    reading: Reading | None = None
    problem: Problem | None = None
    call: Call | None = None
    belief: Belief | None = None
    tried: set[str] = field(default_factory=set)


class Pointwise:
    """Asks about each distinct chunk in a request of its own.

    Equal chunks are asked about once, blank ones never. A reply that cannot be read is asked for again
    once, with the problem named; a truncated one once, with a larger cap; a positive verdict that quotes
    nothing once. What then has no verdict is a `NoVerdict`.

    Args:
        prompt: A pointwise prompt: its id, the path of a file of your own, or a form made of one.
        relevant: The least grade that counts as relevant; the prompt's own threshold where None.
        max_tokens: The cap on each reply's tokens; the prompt's own where None.
        sample: Which sample to ask for; 0 is the first.

    Raises:
        PromptError: The prompt is listwise or unusable.
        UnknownNameError: There is no such prompt.
    """

    def __init__(
        self,
        prompt: str | Path | PromptForm = "support/binary",
        *,
        relevant: int | None = None,
        max_tokens: int | None = None,
        sample: int = 0,
    ) -> None:
        self.form = fit_form(prompt, "pointwise")
        self.scale: Scale = fit_scale(self.form, relevant)
        self.max_tokens = max_tokens or self.form.prompt.max_tokens
        self.sample = sample

    @property
    def needs(self) -> tuple[Literal["reference", "answer"], ...]:
        """What a trace must bring besides its question."""
        return self.form.prompt.needs

    def describe(self) -> dict[str, Any]:
        """Everything about the judge that could change a verdict."""
        prompt = self.form.prompt
        return {
            "mode": prompt.mode,
            "prompt": {"id": prompt.id, "version": prompt.version, "digest": self.form.digest.hex()},
            "scale": self.scale.model_dump(),
            "max_tokens": self.max_tokens,
            "sample": self.sample,
        }

    def inquire(self, trace: Trace, known: Mapping[str, Verdict] = {}) -> Inquiry:
        """Plan the judging of one trace: a wave of one request for each distinct chunk, then repairs."""
        questions = distinct(trace.chunks, known)
        yield from self.ask(trace, questions)
        return conclude(trace, questions, self.scale, known)

    def ask(self, trace: Trace, questions: Sequence[Question]) -> Generator[Wave, Sequence[Reply], None]:
        """Ask until every question has a reading or a problem."""
        asking = self._requests(trace, questions)
        while asking:
            replies = yield [request for _, request in asking]
            again = []
            for (question, request), reply in zip(asking, replies, strict=True):
                follow_up = self._take(question, request, reply)
                if follow_up is not None:
                    again.append((question, follow_up))
            asking = again

    def accepts(self, completion: Completion) -> bool:
        """Tell whether a verdict can be read from a completion."""
        return isinstance(read_one(completion, self.form.scale), Reading)

    def _requests(self, trace: Trace, questions: Sequence[Question]) -> list[tuple[Question, Request]]:
        if not questions:
            return []
        first = self._request(trace, questions[0])
        rest = [(q, first.about((q.passage,), tuple(q.chunk_ids))) for q in questions[1:]]
        return [(questions[0], first), *rest]

    def _request(self, trace: Trace, question: Question) -> Request:
        needs = self.form.prompt.needs
        return Request(
            form=self.form,
            query=trace.query,
            passages=(question.passage,),
            max_tokens=self.max_tokens,
            reference=trace.reference if "reference" in needs else None,
            answer=trace.answer if "answer" in needs else None,
            sample=self.sample,
            accepts=self.accepts,
            trace_id=trace.id,
            chunk_ids=tuple(question.chunk_ids),
        )

    def _take(self, question: Question, request: Request, reply: Reply) -> Request | None:
        """Take a reply in, and return the request that follows from it, if any."""
        if isinstance(reply, CallError):
            if question.reading is None:
                question.problem = Problem(reply.why, reply.detail)
            return None
        scale = self.form.scale
        read = read_one(reply, scale)
        if isinstance(read, Reading):
            question.reading, question.problem = read, None
            question.call = call_of(request, reply)
            if reply.logprobs:
                question.belief = belief_of(reply, self.scale, read.grade)
            bare = read.grade >= scale.relevant and not read.evidence.strip()
            if bare and "evidence" not in question.tried:
                question.tried.add("evidence")
                said = (Message("assistant", reply.text), Message("user", self.form.repair.evidence.strip()))
                return replace(request, follow_up=said, origin=None)
            return None
        if question.reading is not None:
            return None
        question.problem = read
        return repair(self.form, request, reply, read, question.tried)


def fit_form(prompt: str | Path | PromptForm, mode: Literal["pointwise", "listwise"]) -> PromptForm:
    """Load a prompt unless it is a form already.

    Raises:
        PromptError: It is a prompt of the other mode.
    """
    form = prompt if isinstance(prompt, PromptForm) else load_form(prompt)
    if form.prompt.mode != mode:
        raise PromptError(f"prompt {form.prompt.id!r} is {form.prompt.mode}; the mode asked for is {mode}")
    return form


def fit_scale(form: PromptForm, relevant: int | None) -> Scale:
    """Return the form's scale, with another threshold where one is given.

    Raises:
        DataError: The threshold is not on the scale.
    """
    return form.scale if relevant is None else Scale.parse({**form.scale.model_dump(), "relevant": relevant})


def repair(
    form: PromptForm, request: Request, reply: Completion, problem: Problem, tried: set[str]
) -> Request | None:
    """Return the request that may mend an unreadable reply; None where that was tried or cannot help."""
    origin = request.origin or request
    if problem.why in tried:
        return None
    tried.add(problem.why)
    if problem.why == "truncated":
        return replace(request, max_tokens=request.max_tokens * LARGER_CAP, origin=origin)
    if problem.why == "unparsable":
        asked = Template(form.repair.unreadable.strip()).substitute(problem=problem.detail)
        said = (Message("assistant", reply.text[:4000] or "(empty)"), Message("user", asked))
        return replace(request, follow_up=said, origin=origin)
    return None


def call_of(request: Request, completion: Completion) -> Call:
    """Record the completion that a verdict rests on, under the key it is stored by."""
    return trusted(
        Call,
        {
            "key": (request.origin or request).digest.hex(),
            "chunk_ids": request.chunk_ids,
            "model": without_surrogates(completion.model),
            "finish": completion.finish,
            "input_tokens": completion.usage.input_tokens,
            "output_tokens": completion.usage.output_tokens,
            "dropped": completion.dropped,
        },
    )


def distinct(chunks: Sequence[Chunk], known: Mapping[str, Verdict]) -> list[Question]:
    """Collect the distinct passages that have to be asked about, in rank order."""
    questions: dict[Passage, Question] = {}
    for chunk in chunks:
        text = chunk.text
        if chunk.id in known or not text or text.isspace():
            continue
        passage = Passage(text, chunk.title)
        question = questions.get(passage)
        if question is None:
            questions[passage] = Question(passage, [chunk.id])
        else:
            question.chunk_ids.append(chunk.id)
    return list(questions.values())


def conclude(
    trace: Trace, questions: Sequence[Question], scale: Scale, known: Mapping[str, Verdict]
) -> Judgment:
    """Put together a trace's judgment: one outcome for each chunk, in rank order."""
    by_id = {chunk_id: question for question in questions for chunk_id in question.chunk_ids}
    outcomes: list[Verdict | NoVerdict] = []
    for chunk in trace.chunks:
        question = by_id.get(chunk.id)
        if question is None:
            verdict = known.get(chunk.id)
            outcomes.append(verdict or Verdict(chunk_id=chunk.id, grade=0, relevant=False, reason=BLANK))
        elif (read := question.reading) is not None:
            outcomes.append(
                trusted(
                    Verdict,
                    {
                        "kind": "verdict",
                        "chunk_id": chunk.id,
                        "grade": read.grade,
                        "relevant": read.grade >= scale.relevant,
                        "reason": read.reason,
                        "evidence": read.evidence,
                        "evidence_found": evidence_found(read.evidence, question.passage),
                        "instruction_in_chunk": read.instruction_in_chunk,
                        "confidence": question.belief.confidence if question.belief else None,
                        "expected_grade": question.belief.expected_grade if question.belief else None,
                    },
                )
            )
        else:
            why: Why = question.problem.why if question.problem else "unreachable"
            detail = question.problem.detail if question.problem else "the judge was not asked"
            outcomes.append(NoVerdict(chunk_id=chunk.id, why=why, detail=without_surrogates(detail)))
    # One call may have judged several chunks; it is told once.
    calls = {id(question.call): question.call for question in questions if question.call is not None}
    return trusted(
        Judgment,
        {"trace_id": trace.id, "outcomes": tuple(outcomes), "calls": tuple(calls.values()), "votes": {}},
    )
