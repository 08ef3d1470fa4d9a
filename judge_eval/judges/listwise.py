"""Judging all chunks of a trace in one request, and one by one whatever that leaves open."""

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self, cast

from judge_eval.errors import ConfigError, PromptError, UnknownNameError
from judge_eval.judges import prompted
from judge_eval.judges.judge import JudgingPlan
from judge_eval.judges.pointwise import Pointwise, VerdictContract
from judge_eval.judges.questions import ask_listwise, conclude, distinct, objects_shown
from judge_eval.prompts import AnyForm, PromptForm, form_of_version, prompt_ids
from judge_eval.registry import Kind
from judge_eval.schema import BlankPolicy, EvidencePolicy, Scale, Trace, Verdict


class Listwise(prompted.PromptJudge):
    """Asks about all distinct chunks of a trace in one request.

    A reply with foreign ids is repaired once as a whole; entries that are missing, repeated or off the scale
    are asked again pointwise. No entry ever shifts another's rank.

    Args:
        prompt: A listwise prompt: its id, the path of a file of your own, or a form made of one.
        pointwise: The pointwise prompt for chunks that are left open; by default the listwise prompt's id
            without its first part, in the same version (`listwise/support/binary@1` goes with
            `support/binary@1`). If there is none on its scale, the listwise prompt asks about each alone.
        relevant: As of `Pointwise`, like `evidence`.
        max_tokens: The cap on a reply's tokens for each chunk; by default the prompt's.
        window: The most chunks in one request, >= 2; longer lists are asked in several.
        sample: Which sample to ask for; 0 is the first. Each later one sees the passages in an order of its own.

    Raises:
        ConfigError: The window is below 2.
        PromptError: A prompt is of the other mode or unusable.
        UnknownNameError: There is no such prompt.
    """

    form: PromptForm
    settings = ("max_tokens", "window", "sample", "evidence")

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
        self.form = prompted.fit_form(prompt, PromptForm, "listwise")
        self.evidence = prompted.fit_evidence(self.form, evidence)
        self.scale: Scale = self.form.scale.relevant_from(relevant)
        fallback = pointwise or _fallback(self.form)
        self.pointwise: Pointwise | None = None
        if fallback is not None:
            self.pointwise = Pointwise(fallback, relevant=relevant, sample=sample, evidence=self.evidence)
            if self.pointwise.scale.grades != self.scale.grades:
                raise PromptError(
                    f"prompt {self.form.prompt.id!r} is on the scale {self.scale.span}, its pointwise prompt "
                    f"{self.pointwise.form.prompt.id!r} on {self.pointwise.scale.span}; they must be equal"
                )
        self.max_tokens = max_tokens or self.form.prompt.max_tokens
        self.window = window
        self.sample = sample

    def describe(self) -> dict[str, Any]:
        """Everything about the judge that could change a verdict."""
        return super().describe() | ({} if self.pointwise is None else {"pointwise": self.pointwise.describe()})

    @classmethod
    def from_record(cls, record: Mapping[str, Any], **more: Any) -> Self:
        """Make the judge again that `describe` returned this record of; raises as for other judges."""
        if isinstance(pointwise := record.get("pointwise"), Mapping):
            more["pointwise"] = prompted.form_of_record(pointwise, PromptForm)
        return super().from_record(record, **more)

    def forms(self) -> Mapping[str, AnyForm]:
        """The forms of both prompts."""
        return {"prompt": self.form} | ({} if self.pointwise is None else {"pointwise": self.pointwise.form})

    def with_forms(self, forms: Mapping[str, AnyForm]) -> Self:
        """Return the same judge with other prompts."""
        other = super().with_forms(forms)
        if self.pointwise is None:
            return other
        form = cast(PromptForm, forms["pointwise"])  # the versions of a prompt are of one mode
        settings: dict[str, Any] = {"relevant": self.scale.relevant, "evidence": self.evidence}
        other.pointwise = Pointwise(form, sample=self.sample, **settings)
        return other.with_blank(self.blank)

    def with_blank(self, rule: BlankPolicy) -> Self:
        """Return the same judge that treats chunks without text so."""
        other = super().with_blank(rule)
        other.pointwise = self.pointwise and self.pointwise.with_blank(rule)
        return other

    def plan(self, trace: Trace, known: Mapping[str, Verdict] = {}) -> JudgingPlan:
        """Plan the judging of one trace: a round of lists, their repair, then pointwise what is open."""
        questions = distinct(trace.chunks, known)
        contract = VerdictContract(self.form, self.scale, self.max_tokens, self.sample, objects_shown(trace))
        alone = None if self.pointwise is None else self.pointwise.contract(trace)
        asked = [questions[place] for place in order_of_sample(trace, len(questions), self.sample)]
        yield from ask_listwise(contract, alone, trace, asked, self.window)
        return conclude(trace, questions, self.scale, known, self.blank, self.evidence)


def order_of_sample(trace: Trace, count: int, sample: int) -> list[int]:
    """Return the order in which a sample sees `count` passages: their own for sample 0, else one at random by trace."""
    order = list(range(count))
    if sample:
        random.Random(f"{sample} {trace.digest}").shuffle(order)  # noqa: S311  no secret
    return order


def _fallback(form: PromptForm) -> PromptForm | None:
    """Return the pointwise prompt that goes with a listwise one; None if there is none on its scale."""
    prompt = form.prompt
    try:
        own = form_of_version(prompt.id.removeprefix("listwise/"), prompt.version, pinned=form.pinned)
    except UnknownNameError:
        return None
    pointwise = prompted.fit_form(own, PromptForm, "pointwise")
    return pointwise if pointwise.scale == form.scale else None


def _make(prompt: str | Path, *, relevant: int | None, sample: int, evidence: EvidencePolicy | None) -> Listwise:
    if isinstance(prompt, str) and not prompt.startswith("listwise/"):
        own, prompt = prompt, f"listwise/{prompt}"
        if own.partition("@")[0] in prompt_ids() and prompt.partition("@")[0] not in prompt_ids():
            prompt = own  # the error says what it is
    return Listwise(prompt, relevant=relevant, sample=sample, evidence=evidence)


KIND = Kind(_make, Listwise.from_record, asks="text", shows_list=True)
