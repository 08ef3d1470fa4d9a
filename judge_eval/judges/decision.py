"""Judging by a decision model: one question a chunk, many in a request, each answered by probabilities."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from judge_eval.errors import CallError, ConfigError
from judge_eval.judges import prompted
from judge_eval.judges.judge import JudgingPlan
from judge_eval.judges.parsing import Problem, Reading
from judge_eval.judges.questions import Question, call_of, conclude, distinct, request_for, rounds
from judge_eval.judges.token_confidence import Confidence
from judge_eval.prompts import DecisionForm, DecisionLayout
from judge_eval.registry import Kind
from judge_eval.schema import EvidencePolicy, Scale, Trace, Verdict
from judge_eval.settings import check_ranges
from judge_eval.wire import Completion, Reply, Request, sums_up

MOST_QUESTIONS = 100
"""Questions in one request by default: servers take 200 to 400, and a long request fails as a whole."""
MOST_CHARACTERS = 400_000
"""Characters of chunks in one request: some 100,000 tokens, of the 600,000 at which gateways give up."""


class Decision(prompted.PromptJudge):
    """Asks a decision model about each distinct chunk, the chunks of a trace together, `most` (>= 1) at once.

    The grade is the lower median of the probabilities: a chunk is relevant if it is more likely relevant than
    not, at every threshold of the scale. There is no reason and no quote. A declined question has no verdict;
    one whose answer cannot be used is asked once more.

    The prompt (an id, the path of a file of your own, or a form, which keeps its layout) must be for decision
    models. `layout`: a chunk stands in its own `question`, in the shared `input`, or alone in a `request`.
    `sample` says which sample to ask for; 0 is the first.
    """

    form: DecisionForm
    form_type = DecisionForm
    settings = ("layout", "most", "sample")

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
        self.form = prompted.fit_form(prompt, DecisionForm, "decision")
        if self.form is not prompt:
            self.form = DecisionForm(self.form.prompt, layout, pinned=self.form.pinned)
        self.scale: Scale = self.form.scale.relevant_from(relevant)
        self.layout: DecisionLayout = self.form.layout
        self.chunks_alone = self.layout == "request"
        """Whether each chunk is asked about in a request of its own."""
        self.most, self.sample = most, sample

    def plan(self, trace: Trace, known: Mapping[str, Verdict] = {}) -> JudgingPlan:
        """Plan the judging of one trace: a round of requests, and one for answers that cannot be used."""
        questions = distinct(trace.chunks, known)
        for again in (False, True):
            left = [q for q in questions if q.reading is None and q.problem is None]
            packed = self._packed(left)
            asking = [(q, request_for(self.form, trace, q, 0, self.sample, accepts=self.accepts)) for q in packed]
            yield from rounds(asking, partial(self._take, again))
        return conclude(trace, questions, self.scale, known, self.blank)

    def accepts(self, completion: Completion) -> bool:
        """Tell whether a verdict can be read from a completion, and no answer is missing for now."""
        read = read_answers(completion, len(completion.answers), len(self.scale.grades))
        return completion.whole and any(not isinstance(answer, Problem) for answer in read)

    def _packed(self, questions: Sequence[Question[Reading]]) -> Iterator[Sequence[Question[Reading]]]:
        most = 1 if self.chunks_alone else self.most
        start = size = 0
        for place, question in enumerate(questions):
            length = len(question.passage.text) + len(question.passage.title or "")
            if place > start and (place - start == most or size + length > MOST_CHARACTERS):
                yield questions[start:place]
                start, size = place, 0
            size += length
        if start < len(questions):
            yield questions[start:]

    def _take(self, again: bool, questions: Sequence[Question[Reading]], request: Request, reply: Reply) -> None:
        """Process a reply; an answer that cannot be used is left open the first time."""
        if isinstance(reply, CallError):
            for question in questions:
                question.problem = Problem(reply.why, reply.detail)
            return
        call = call_of(request, reply)
        answers = read_answers(reply, len(questions), len(self.scale.grades))
        for question, answer in zip(questions, answers, strict=True):
            if not isinstance(answer, Problem):
                grade, question.token_confidence = weighed(answer, self.scale)
                question.reading, question.call = Reading(grade, None, None, None), call
            elif again or answer.why != "unparsable":
                question.problem = answer


def read_answers(reply: Completion, count: int, grades: int) -> list[Sequence[float] | Problem]:
    """Return the `grades` probabilities of each of `count` answers, or why an answer cannot be used."""
    if len(reply.answers) != count:
        return [Problem("unparsable", f"{len(reply.answers)} answers to {count} questions")] * count
    answers: list[Sequence[float] | Problem] = []
    for answer in reply.answers:
        shares = answer.probabilities
        if len(shares) == grades and sums_up(shares):
            answers.append(shares)
        else:
            odd = answer.detail or f"{list(shares)[:12]} are not probabilities of {grades} grades"
            answers.append(Problem(answer.why or "unparsable", odd))
    return answers


def weighed(probabilities: Sequence[float], scale: Scale) -> tuple[int, Confidence]:
    """Return the lower median grade under probabilities by grade, whose sum is > 0, and how sure they are."""
    total = sum(probabilities)
    below, place = probabilities[0], 0
    while 2 * below < total - _TIE and place < len(scale.grades) - 1:
        place += 1
        below += probabilities[place]
    return scale.grades[place], Confidence.of(probabilities, scale)


_TIE = 1e-9  # two decimals, summed up, may miss a half by the last bits of a float


def _make(
    prompt: str | Path, *, relevant: int | None, sample: int, evidence: EvidencePolicy | None, layout: DecisionLayout
) -> Decision:
    check_quotes(evidence)
    if isinstance(prompt, str):
        name, at, version = prompt.partition("@")
        family, _, scale = name.rpartition("/")
        if scale in ("binary", "graded"):
            prompt = f"{family}/decision{'-graded' if scale == 'graded' else ''}{at}{version}"
    return Decision(prompt, relevant=relevant, sample=sample, layout=layout)


def check_quotes(evidence: EvidencePolicy | None) -> None:
    """Raise `ConfigError` if a decision model is required to quote."""
    if evidence == "required":
        raise ConfigError("evidence=required cannot be kept: a decision model quotes nothing")


KIND = Kind(_make, Decision.from_record, asks="questions")
