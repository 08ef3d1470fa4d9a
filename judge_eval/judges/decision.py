"""Judging by a decision model: one question a chunk, many in a request, each answered by probabilities."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from judge_eval.errors import CallError
from judge_eval.judges.base import Inquiry
from judge_eval.judges.confidence import Belief
from judge_eval.judges.parsing import Problem, Reading
from judge_eval.judges.questions import (
    Question,
    call_of,
    conclude,
    describe_form,
    distinct,
    fit_scale,
    other_mode,
    request_for,
    rounds,
)
from judge_eval.prompts import DecisionForm, DecisionLayout, load_form
from judge_eval.ranges import check_ranges
from judge_eval.schema import Scale, Trace, Verdict
from judge_eval.wire import Completion, DecisionAnswer, Reply, Request, sums_up

MOST_QUESTIONS = 100
"""Questions in one request unless told otherwise: servers take 200 to 400, and long requests fail as one."""
MOST_CHARACTERS = 400_000
"""Characters of chunks in one request: some 100,000 tokens, of the 600,000 at which gateways give up."""


@dataclass
class _Packet:
    """Questions that are asked in one request."""

    questions: Sequence[Question]
    again: bool = False
    """Whether they are asked once more, for want of an answer that could be used."""


class Decision:
    """Asks a decision model about each distinct chunk, the chunks of a trace together.

    The grade is the median of the probabilities, the lower of two: so a chunk is relevant where it is more
    likely relevant than not, at every threshold of the scale. There is no reason and no quote. A question
    that was declined has no verdict; one whose answer cannot be used is asked once more.

    Args:
        prompt: A prompt for decision models: its id, the path of a file of your own, or a form made of one.
        layout: Where a chunk stands: in its own `question`, in the shared `input`, or alone in a `request`;
            a form keeps its own.
        relevant: The least grade that counts as relevant; the prompt's own threshold where None.
        most: The most questions in one request, >= 1.
        sample: Which sample to ask for; 0 is the first.

    Raises:
        PromptError: The prompt is for models that write, or unusable.
        UnknownNameError: There is no such prompt.
        ConfigError: There is no such layout, or `most` is out of its range.
    """

    def __init__(
        self,
        prompt: str | Path | DecisionForm = "support/decision",
        *,
        layout: DecisionLayout = "question",
        relevant: int | None = None,
        most: int = MOST_QUESTIONS,
        sample: int = 0,
    ) -> None:
        check_ranges({"most": most})
        self.form = prompt if isinstance(prompt, DecisionForm) else _load(prompt, layout)
        self.scale: Scale = fit_scale(self.form, relevant)
        self.most, self.sample = most, sample

    @property
    def needs(self) -> tuple[Literal["reference", "answer"], ...]:
        """What a trace must bring besides its question."""
        return self.form.prompt.needs

    def describe(self) -> dict[str, Any]:
        """Everything about the judge that could change a verdict."""
        return {
            **describe_form(self.form, self.scale),
            "layout": self.form.layout,
            "most": self.most,
            "sample": self.sample,
        }

    def with_form(self, form: DecisionForm) -> Decision:
        """Return the same judge with another prompt."""
        return Decision(form, relevant=self.scale.relevant, most=self.most, sample=self.sample)

    def inquire(self, trace: Trace, known: Mapping[str, Verdict] = {}) -> Inquiry:
        """Plan the judging of one trace: one wave of requests, and another for answers of no use."""
        questions = distinct(trace.chunks, known)
        packets = [_Packet(packed) for packed in self._packed(questions)]
        yield from rounds([(packet, self._request(trace, packet)) for packet in packets], self._take)
        left = [question for question in questions if question.reading is None and question.problem is None]
        if left:
            packets = [_Packet(packed, again=True) for packed in self._packed(left)]
            yield from rounds([(packet, self._request(trace, packet)) for packet in packets], self._take)
        return conclude(trace, questions, self.scale, known)

    def accepts(self, completion: Completion) -> bool:
        """Tell whether a verdict can be read from a completion, and none is still to be had."""
        return completion.whole and any(self._can_use(answer) for answer in completion.answers)

    def _packed(self, questions: Sequence[Question]) -> Iterator[Sequence[Question]]:
        """Part questions into requests, by count and by size."""
        most = 1 if self.form.layout == "request" else self.most
        start = size = 0
        for place, question in enumerate(questions):
            length = len(question.passage.text) + len(question.passage.title or "")
            if place > start and (place - start == most or size + length > MOST_CHARACTERS):
                yield questions[start:place]
                start, size = place, 0
            size += length
        if start < len(questions):
            yield questions[start:]

    @property
    def _grades(self) -> int:
        return self.scale.maximum + 1

    def _can_use(self, answer: DecisionAnswer) -> bool:
        return len(answer.probabilities) == self._grades and sums_up(answer.probabilities)

    def _request(self, trace: Trace, packet: _Packet) -> Request:
        return request_for(self.form, trace, packet.questions, 0, self.sample, accepts=self.accepts)

    def _take(self, packet: _Packet, request: Request, reply: Reply) -> None:
        """Take a reply in."""
        if isinstance(reply, CallError):
            for question in packet.questions:
                question.problem = Problem(reply.why, reply.detail)
            return
        if len(reply.answers) != len(packet.questions):
            odd = f"{len(reply.answers)} answers to {len(packet.questions)} questions"
            reply = replace(reply, answers=(DecisionAnswer((), "unparsable", odd),) * len(packet.questions))
        call, answers = call_of(request, reply), reply.answers
        for question, answer in zip(packet.questions, answers, strict=True):
            if self._can_use(answer):
                grade, question.belief = weighed(answer.probabilities, self.scale)
                question.reading, question.call = Reading(grade, None, None, False), call
            elif answer.why not in (None, "unparsable") or packet.again:
                shares = answer.probabilities
                odd = answer.detail or f"{list(shares)[:12]} are no probabilities of {self._grades} grades"
                question.problem = Problem(answer.why or "unparsable", odd)


def weighed(probabilities: Sequence[float], scale: Scale) -> tuple[int, Belief]:
    """Return the median grade under probabilities, the lower of two, and how sure they are.

    Args:
        probabilities: By grade from 0 on; their sum is > 0, and 1 in all but for rounding.
        scale: The grades, with the threshold in force.
    """
    total = sum(probabilities)
    below, grade = probabilities[0], 0
    while 2 * below < total - _TIE and grade < scale.maximum:
        grade += 1
        below += probabilities[grade]
    return grade, Belief.of(probabilities, scale)


_TIE = 1e-9  # two decimals, summed up, may miss a half by the last bits of a float


def _load(prompt: str | Path, layout: DecisionLayout) -> DecisionForm:
    form = load_form(prompt)
    if not isinstance(form, DecisionForm):
        raise other_mode(form, "decision")
    return DecisionForm(form.prompt, layout, pinned=form.pinned)
