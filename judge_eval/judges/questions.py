"""Questions that judges put to a model: from distinct passages to requests, repairs and outcomes."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from judge_eval.errors import ConfigError, PromptError, Why, advise
from judge_eval.judges.base import Wave
from judge_eval.judges.confidence import Belief
from judge_eval.judges.parsing import Problem, Reading, evidence_found, fault_of, without_surrogates
from judge_eval.prompts import AnyForm, ClaimsForm, PromptForm, load_form
from judge_eval.record import trusted
from judge_eval.schema import Call, Chunk, EvidencePolicy, Judgment, NoVerdict, Scale, Trace, Verdict
from judge_eval.wire import Completion, Message, Passage, Reply, Request

T = TypeVar("T")

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


def fit_form(prompt: str | Path | PromptForm, mode: Literal["pointwise", "listwise"]) -> PromptForm:
    """Load a prompt unless it is a form already.

    Raises:
        PromptError: It is a prompt of another mode.
    """
    form = prompt if isinstance(prompt, PromptForm) else load_form(prompt)
    if not isinstance(form, PromptForm) or form.prompt.mode != mode:
        raise other_mode(form, mode)
    return form


def claims_form(prompt: str | Path | ClaimsForm, mode: str) -> ClaimsForm:
    """Load a prompt about claims unless it is a form already.

    Raises:
        PromptError: It is a prompt of another mode.
    """
    form = prompt if isinstance(prompt, ClaimsForm) else load_form(prompt)
    if not isinstance(form, ClaimsForm) or form.prompt.mode != mode:
        raise other_mode(form, mode)
    return form


def other_mode(form: AnyForm, mode: str) -> PromptError:
    """Make the error of a prompt that is not of the mode asked for."""
    prompt = form.prompt
    return PromptError(f"prompt {prompt.id!r} is {prompt.mode}; the mode asked for is {mode}")


def fit_scale(form: AnyForm, relevant: int | None) -> Scale:
    """Return the form's scale, with another threshold where one is given.

    Raises:
        DataError: The threshold is not on the scale.
    """
    return form.scale if relevant is None else Scale.parse({**form.scale.model_dump(), "relevant": relevant})


def describe_form(form: AnyForm, scale: Scale) -> dict[str, Any]:
    """Return what a judge says of its prompt and scale, for a run's manifest."""
    prompt = form.prompt
    return {
        "mode": prompt.mode,
        "prompt": {"id": prompt.id, "version": prompt.version, "digest": form.digest.hex()},
        "scale": scale.model_dump(),
    }


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


def request_for(
    form: AnyForm,
    trace: Trace,
    questions: Sequence[Question],
    max_tokens: int,
    sample: int,
    *,
    accepts: Callable[[Completion], bool],
) -> Request:
    """Make the request that asks about passages of one trace, with what the prompt needs of it."""
    needs = form.prompt.needs
    return Request(
        form=form,
        query=trace.query,
        passages=tuple(question.passage for question in questions),
        max_tokens=max_tokens,
        reference=trace.reference if "reference" in needs else None,
        answer=trace.answer if "answer" in needs else None,
        sample=sample,
        accepts=accepts,
        trace_id=trace.id,
        chunk_ids=tuple(chunk_id for question in questions for chunk_id in question.chunk_ids),
        held_by=tuple(len(question.chunk_ids) for question in questions),
    )


def repair(
    form: PromptForm | ClaimsForm, request: Request, reply: Completion, problem: Problem, tried: set[str]
) -> Request | None:
    """Return the request that may mend an unreadable reply; None where that was tried or cannot help."""
    origin = request.origin or request
    if problem.why in tried:
        return None
    tried.add(problem.why)
    if problem.why == "truncated":
        return replace(request, max_tokens=request.max_tokens * LARGER_CAP, origin=origin)
    if problem.why == "unparsable":
        asked = Message("user", form.unreadable(problem.detail))
        said = (Message("assistant", reply.text[:4000] or "(empty)"), asked)
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


def fit_evidence(form: PromptForm | ClaimsForm, evidence: EvidencePolicy | None) -> EvidencePolicy:
    """Return what becomes of verdicts without evidence: as given, else as the prompt says, else `flag`.

    Raises:
        ConfigError: There is no such policy.
    """
    policies = get_args(EvidencePolicy)
    if evidence is not None and evidence not in policies:
        raise ConfigError(f"evidence is {evidence!r}; {advise(evidence, policies)}")
    return evidence or form.prompt.evidence or "flag"


def conclude(
    trace: Trace,
    questions: Sequence[Question],
    scale: Scale,
    known: Mapping[str, Verdict],
    evidence: EvidencePolicy = "flag",
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
            found = None if read.evidence is None else evidence_found(read.evidence, question.passage)
            relevant, quote = read.grade >= scale.relevant, read.evidence
            if evidence == "required" and relevant and quote is not None and not found:
                detail = f"relevant, but {fault_of(quote, question.passage)}"
                outcomes.append(NoVerdict(chunk_id=chunk.id, why="unsupported", detail=detail))
                continue
            outcomes.append(
                trusted(
                    Verdict,
                    {
                        "kind": "verdict",
                        "chunk_id": chunk.id,
                        "grade": read.grade,
                        "relevant": relevant,
                        "reason": read.reason,
                        "evidence": read.evidence,
                        "evidence_found": found,
                        "instruction_in_chunk": read.instruction_in_chunk,
                        "confidence": question.belief.confidence if question.belief else None,
                        "expected_grade": question.belief.expected_grade if question.belief else None,
                        "grade_probabilities": question.belief.grades if question.belief else None,
                        "stage": None,
                        "supports": None,
                    },
                )
            )
        else:
            why: Why = question.problem.why if question.problem else "unreachable"
            detail = question.problem.detail if question.problem else "the judge was not asked"
            outcomes.append(NoVerdict(chunk_id=chunk.id, why=why, detail=without_surrogates(detail)))
    # One call may have judged several chunks; it is told once.
    calls = {id(question.call): question.call for question in questions if question.call is not None}
    fields = {"trace_id": trace.id, "outcomes": tuple(outcomes), "calls": tuple(calls.values())}
    return trusted(Judgment, {**fields, "votes": {}, "claims": None})


def rounds(
    asking: Sequence[tuple[T, Request]], take: Callable[[T, Request, Reply], Request | None]
) -> Generator[Wave, Sequence[Reply], None]:
    """Ask in waves until no reply makes another request.

    Args:
        asking: What is asked about, each with its request.
        take: Takes a reply in, and returns the request that follows from it, if any.
    """
    while asking:
        replies = yield [request for _, request in asking]
        taken = zip(asking, replies, strict=True)
        again = [(about, take(about, request, reply)) for (about, request), reply in taken]
        asking = [(about, request) for about, request in again if request is not None]
