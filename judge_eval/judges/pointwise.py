"""Judging each chunk by itself: one round, and a repair for what could not be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from judge_eval.judges import prompted
from judge_eval.judges.judge import JudgingPlan
from judge_eval.judges.parsing import Problem, Reading, read_many, read_one, read_word
from judge_eval.judges.questions import Contract, ask_pointwise, conclude, distinct, objects_shown
from judge_eval.judges.token_confidence import Confidence, likely_word, read_confidence, read_word_confidence
from judge_eval.prompts import PromptForm
from judge_eval.registry import Kind
from judge_eval.schema import EvidencePolicy, Scale, Trace, Verdict
from judge_eval.wire import Completion


class Pointwise(prompted.PromptJudge):
    """Asks about each distinct chunk in a request of its own.

    Equal chunks are asked about once, ones without text never. An unreadable reply is asked for again once,
    with the problem named; a truncated one that reasoned once, with a larger cap; a relevant verdict without a
    quote once.
    A chunk that still has no verdict gets a `NoVerdict`. A prompt with the contract `verdict` asks for one word,
    whose probability is the verdict's confidence.

    Args:
        prompt: A pointwise prompt: its id, the path of a file of your own, or a form made of one.
        relevant: The least grade that counts as relevant; by default the prompt's threshold.
        max_tokens: The cap on each reply's tokens; by default the prompt's.
        sample: Which sample to ask for; 0 is the first.
        evidence: What becomes of a relevant verdict whose quote is missing, too short or not in the chunk;
            by default the prompt's policy, else `flag`.

    Raises:
        PromptError: The prompt is listwise or unusable.
        UnknownNameError: There is no such prompt.
    """

    form: PromptForm
    chunks_alone = True
    """A verdict does not depend on which other chunks are asked about."""

    def __init__(
        self,
        prompt: str | Path | PromptForm = "support/binary",
        *,
        relevant: int | None = None,
        max_tokens: int | None = None,
        sample: int = 0,
        evidence: EvidencePolicy | None = None,
    ) -> None:
        self.form = prompted.fit_form(prompt, PromptForm, "pointwise")
        self.scale: Scale = self.form.scale.relevant_from(relevant)
        self.max_tokens = max_tokens or self.form.prompt.max_tokens
        self.sample = sample
        self.evidence = prompted.fit_evidence(self.form, evidence)

    def plan(self, trace: Trace, known: Mapping[str, Verdict] = {}) -> JudgingPlan:
        """Plan the judging of one trace: a round of one request for each distinct chunk, then repairs."""
        questions = distinct(trace.chunks, known)
        yield from ask_pointwise(self.contract(trace), trace, questions)
        return conclude(trace, questions, self.scale, known, self.blank, self.evidence)

    def contract(self, trace: Trace) -> VerdictContract:
        """Return what is asked about a chunk of a trace, and how replies are read."""
        return VerdictContract(self.form, self.scale, self.max_tokens, self.sample, objects_shown(trace))


@dataclass
class VerdictContract(Contract[Reading]):
    """Asks for verdicts."""

    form: PromptForm
    scale: Scale
    """The grades, with the threshold in force."""
    max_tokens: int
    """The cap for each passage; a list gets one more."""
    sample: int
    shown: Sequence[str] = ()
    """The texts of the trace that may hold a JSON object, which is not an answer."""

    @property
    def second_look(self) -> str:
        """The text that asks for the quote of a relevant verdict."""
        return self.form.repair.evidence.strip()

    def cap(self, passages: int) -> int:
        """Return the most tokens of a reply about so many passages."""
        return self.max_tokens * (passages + 1) if self.form.listwise else self.max_tokens

    def read(self, reply: Completion) -> Reading | Problem:
        """Read a reply about one passage."""
        if self.form.prompt.verdict_alone:
            return self._read_word(reply)
        return read_one(reply, self.form.scale, self.shown)

    def _read_word(self, reply: Completion) -> Reading | Problem:
        reading = read_word(reply, self.form.scale)
        if isinstance(reading, Problem) and reading.why in ("truncated", "unparsable"):
            likely = likely_word(reply, self.form.scale)
            return reading if likely is None else Reading(likely, None, None, None)
        return reading

    def read_list(self, reply: Completion, count: int) -> dict[int, Reading] | Problem:
        """Read a reply about several passages."""
        return read_many(reply, self.form.scale, count, self.shown)

    def is_bare(self, reading: Reading) -> bool:
        """Tell whether a relevant verdict lacks a quote."""
        quotes = not self.form.prompt.verdict_alone
        return quotes and reading.grade >= self.form.scale.relevant and not (reading.evidence or "").strip()

    def token_confidence(self, reply: Completion, reading: Reading, number: int | None = None) -> Confidence | None:
        """Return how sure the model is of a verdict."""
        if self.form.prompt.verdict_alone:
            return read_word_confidence(reply, self.scale)
        return read_confidence(reply, self.scale, reading.grade, number)


KIND = Kind(Pointwise, asks="text")
