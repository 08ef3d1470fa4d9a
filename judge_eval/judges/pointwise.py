"""Judging each chunk by itself: one wave, and a repair for what could not be read."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from judge_eval.errors import CallError
from judge_eval.judges.base import Inquiry, Wave
from judge_eval.judges.confidence import belief_of
from judge_eval.judges.parsing import Problem, Reading, read_one
from judge_eval.judges.questions import (
    Question,
    call_of,
    conclude,
    describe_form,
    distinct,
    fit_evidence,
    fit_form,
    fit_scale,
    repair,
    request_for,
    rounds,
)
from judge_eval.prompts import PromptForm
from judge_eval.schema import EvidencePolicy, Scale, Trace, Verdict
from judge_eval.wire import Completion, Message, Reply, Request


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
        evidence: What becomes of a relevant verdict whose quote is missing, too short or not in the chunk;
            the prompt's own policy where None, else `flag`.

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
        evidence: EvidencePolicy | None = None,
    ) -> None:
        self.form = fit_form(prompt, "pointwise")
        self.scale: Scale = fit_scale(self.form, relevant)
        self.max_tokens = max_tokens or self.form.prompt.max_tokens
        self.sample = sample
        self.evidence = fit_evidence(self.form, evidence)

    @property
    def needs(self) -> tuple[Literal["reference", "answer"], ...]:
        """What a trace must bring besides its question."""
        return self.form.prompt.needs

    def describe(self) -> dict[str, Any]:
        """Everything about the judge that could change a verdict."""
        return {
            **describe_form(self.form, self.scale),
            "max_tokens": self.max_tokens,
            "sample": self.sample,
            "evidence": self.evidence,
        }

    def with_form(self, form: PromptForm) -> Pointwise:
        """Return the same judge with another prompt."""
        how: dict[str, Any] = {"relevant": self.scale.relevant, "max_tokens": self.max_tokens}
        return Pointwise(form, sample=self.sample, evidence=self.evidence, **how)

    def inquire(self, trace: Trace, known: Mapping[str, Verdict] = {}) -> Inquiry:
        """Plan the judging of one trace: a wave of one request for each distinct chunk, then repairs."""
        questions = distinct(trace.chunks, known)
        yield from self.ask(trace, questions)
        return conclude(trace, questions, self.scale, known, self.evidence)

    def ask(self, trace: Trace, questions: Sequence[Question]) -> Generator[Wave, Sequence[Reply], None]:
        """Ask until every question has a reading or a problem."""
        return rounds(self._requests(trace, questions), self._take)

    def accepts(self, completion: Completion) -> bool:
        """Tell whether a verdict can be read from a completion."""
        return isinstance(read_one(completion, self.form.scale), Reading)

    def _requests(self, trace: Trace, questions: Sequence[Question]) -> list[tuple[Question, Request]]:
        if not questions:
            return []
        first = request_for(
            self.form, trace, questions[:1], self.max_tokens, self.sample, accepts=self.accepts
        )
        rest = [(q, first.about((q.passage,), tuple(q.chunk_ids))) for q in questions[1:]]
        return [(questions[0], first), *rest]

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
            bare = read.grade >= scale.relevant and not (read.evidence or "").strip()
            if bare and "evidence" not in question.tried:
                question.tried.add("evidence")
                said = (Message("assistant", reply.text), Message("user", self.form.repair.evidence.strip()))
                return replace(request, follow_up=said, origin=None)
            return None
        if question.reading is not None:
            return None
        question.problem = read
        return repair(self.form, request, reply, read, question.tried)
