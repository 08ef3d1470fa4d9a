"""Judging all chunks of a trace in one request, and one by one whatever that leaves open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from judge_eval.errors import CallError, ConfigError
from judge_eval.judges.base import Inquiry
from judge_eval.judges.confidence import belief_of
from judge_eval.judges.parsing import Problem, read_many
from judge_eval.judges.pointwise import Pointwise
from judge_eval.judges.questions import (
    Question,
    call_of,
    conclude,
    describe_form,
    distinct,
    fit_evidence,
    fit_form,
    fit_scale,
    other_mode,
    repair,
    request_for,
    rounds,
)
from judge_eval.prompts import PromptForm, form_of_version
from judge_eval.schema import EvidencePolicy, Scale, Trace, Verdict
from judge_eval.wire import Completion, Reply, Request


@dataclass
class _Window:
    """Questions that are asked in one request."""

    questions: Sequence[Question]
    tried: set[str] = field(default_factory=set)


class Listwise:
    """Asks about all distinct chunks of a trace in one request.

    A reply whose ids are not those asked about is repaired once as a whole; entries that are missing,
    doubled or off the scale are asked again pointwise. No entry ever shifts another's rank.

    Args:
        prompt: A listwise prompt: its id, the path of a file of your own, or a form made of one.
        pointwise: The pointwise prompt for what is left open; by default the listwise prompt's id without
            its first part, in the same version (`listwise/support/binary@1` goes with `support/binary@1`).
        relevant: The least grade that counts as relevant; the prompt's own threshold where None.
        max_tokens: The cap on a reply's tokens for each chunk; the prompt's own where None.
        window: The most chunks in one request, >= 2; longer lists are asked in several.
        sample: Which sample to ask for; 0 is the first.
        evidence: What becomes of a relevant verdict whose quote is missing, too short or not in the chunk;
            the prompt's own policy where None, else `flag`.

    Raises:
        ConfigError: The window is below 2.
        PromptError: A prompt is of the other mode or unusable.
        UnknownNameError: There is no such prompt.
    """

    def __init__(
        self,
        prompt: str | Path | PromptForm = "listwise/support/binary",
        *,
        pointwise: str | Path | PromptForm | None = None,
        relevant: int | None = None,
        max_tokens: int | None = None,
        window: int = 20,
        sample: int = 0,
        evidence: EvidencePolicy | None = None,
    ) -> None:
        if window < 2:
            raise ConfigError(f"window must be at least 2 chunks, not {window}; one by one is `Pointwise`")
        self.form = fit_form(prompt, "listwise")
        fallback = pointwise or _fallback(self.form)
        self.evidence = fit_evidence(self.form, evidence)
        self.pointwise = Pointwise(fallback, relevant=relevant, sample=sample, evidence=self.evidence)
        self.scale: Scale = fit_scale(self.form, relevant)
        self.max_tokens = max_tokens or self.form.prompt.max_tokens
        self.window = window
        self.sample = sample

    @property
    def needs(self) -> tuple[Literal["reference", "answer"], ...]:
        """What a trace must bring besides its question."""
        return self.form.prompt.needs

    def describe(self) -> dict[str, Any]:
        """Everything about the judge that could change a verdict."""
        return {
            **describe_form(self.form, self.scale),
            "max_tokens": self.max_tokens,
            "window": self.window,
            "sample": self.sample,
            "evidence": self.evidence,
            "pointwise": self.pointwise.describe(),
        }

    def with_form(self, form: PromptForm, pointwise: PromptForm) -> Listwise:
        """Return the same judge with other prompts."""
        how: dict[str, Any] = {"relevant": self.scale.relevant, "max_tokens": self.max_tokens}
        how |= {"window": self.window, "sample": self.sample, "evidence": self.evidence}
        return Listwise(form, pointwise=pointwise, **how)

    def inquire(self, trace: Trace, known: Mapping[str, Verdict] = {}) -> Inquiry:
        """Plan the judging of one trace: a listwise wave, its repair, then pointwise what is open."""
        questions = distinct(trace.chunks, known)
        windows = [questions[at : at + self.window] for at in range(0, len(questions), self.window)]
        asking = [(_Window(window), self._request(trace, window)) for window in windows]
        yield from rounds(asking, self._take)
        left = [q for q in questions if "bare" in q.tried or (q.reading is None and q.problem is None)]
        if left:
            yield from self.pointwise.ask(trace, left)
        return conclude(trace, questions, self.scale, known, self.evidence)

    def _request(self, trace: Trace, window: Sequence[Question]) -> Request:
        count = len(window)

        def accepts(completion: Completion) -> bool:
            return not isinstance(read_many(completion, self.form.scale, count), Problem)

        cap = self.max_tokens * (count + 1)
        return request_for(self.form, trace, window, cap, self.sample, accepts=accepts)

    def _take(self, window: _Window, request: Request, reply: Reply) -> Request | None:
        if isinstance(reply, CallError):
            for question in window.questions:
                question.problem = Problem(reply.why, reply.detail)
            return None
        read = read_many(reply, self.form.scale, len(window.questions))
        if isinstance(read, Problem):
            follow_up = repair(self.form, request, reply, read, window.tried)
            if follow_up is None and read.why == "refused":
                for question in window.questions:
                    question.problem = read
            return follow_up
        call = call_of(request, reply)
        for number, question in enumerate(window.questions, 1):
            reading = read.get(number)
            if reading is None:
                continue
            question.reading, question.call = reading, call
            question.belief = belief_of(reply, self.scale, reading.grade, number)
            if reading.grade >= self.form.scale.relevant and not (reading.evidence or "").strip():
                question.tried.add("bare")
        return None


def _fallback(form: PromptForm) -> PromptForm:
    prompt = form.prompt
    one = form_of_version(prompt.id.removeprefix("listwise/"), prompt.version, pinned=form.pinned)
    if not isinstance(one, PromptForm):
        raise other_mode(one, "pointwise")
    return one
