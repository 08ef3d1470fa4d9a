"""Judging by claims: each chunk is held against the things that the reference says."""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from judge_eval.errors import DataError
from judge_eval.judges.base import Inquiry, Wave
from judge_eval.judges.claim_cells import ByCells
from judge_eval.judges.parsing import Problem, without_surrogates
from judge_eval.judges.questions import (
    BLANK,
    claims_form,
    describe_form,
    distinct,
    fit_evidence,
    other_mode,
)
from judge_eval.judges.rowasking import AllAtOnce, ClaimRow, ClaimsMode, OneByOne, RowAsker, Together, Whole
from judge_eval.judges.ruling import NO_CLAIMS, checked_supports, outcome_of_row, ruled
from judge_eval.judges.splitting import Split, Splitting
from judge_eval.prompts import AnyForm, CellForm, ClaimsForm, load_form
from judge_eval.schema import (
    BINARY,
    GRADED,
    Call,
    Claim,
    ClaimsJudged,
    ClaimSupport,
    EvidencePolicy,
    Judgment,
    NoVerdict,
    Outcome,
    Scale,
    Trace,
    Verdict,
)
from judge_eval.wire import Completion, Reply, Request

MOST_TOGETHER = 200_000
"""Characters of the chunks that are asked about together: some 50,000 tokens."""
_SENTENCE = re.compile(r"(?<=[.!?。！？])\s+|\n+")


class Claims:
    """Asks which claims of the reference each chunk supports: fully, partly, or by contradiction.

    The claims are those that the trace brings, else those that a first request splits its reference into.
    Each distinct chunk gets a row: the claims that it does not leave alone, with a quote each. Where no
    chunk covers a claim alone, but one covers a part of it, all chunks are asked about together. Grade,
    reason and evidence of a verdict follow from its row (`grade_of_supports`); the row stands in
    `Verdict.supports`, the claims in `Judgment.claims`. A trace whose reference cannot be split, or makes
    no claim, has no verdicts.

    Args:
        prompt: Asks about rows: the id of a prompt of the mode `claims` (one request a chunk), `claims-list`
            (one a trace) or `claims-decision` (one a chunk, to a decision model, which cannot split), the
            path of a file of your own, or a form made of one.
        scale: Whether verdicts are binary or graded; as the prompt says where None.
        split: Splits references.
        together: Asks about all chunks.
        relevant: The least grade that counts as relevant; the scale's own threshold where None.
        sample: Which sample to ask for; 0 is the first. References are split once, whatever the sample.
        evidence: What becomes of support whose quote is missing, too short or not in the chunk: `flag`
            counts it, `required` makes a row with such a claim a `NoVerdict`.

    Raises:
        PromptError: A prompt is of another mode or unusable.
        UnknownNameError: There is no such prompt.
    """

    by_claims = True
    """That its verdicts tell which claims each chunk supports."""

    def __init__(
        self,
        prompt: str | Path | ClaimsForm | CellForm = "claims/support",
        *,
        scale: Literal["binary", "graded"] | None = None,
        split: str | Path | ClaimsForm = "claims/split",
        together: str | Path | ClaimsForm = "claims/together",
        relevant: int | None = None,
        sample: int = 0,
        evidence: EvidencePolicy | None = None,
    ) -> None:
        form = load_form(prompt) if isinstance(prompt, str | Path) else prompt
        self.asker = _asker_of(form, together)
        self.splitting = None if isinstance(form, CellForm) else Splitting(split)
        named = scale or form.prompt.scale
        own: Scale = BINARY if named == "binary" else GRADED
        self.scale = own if relevant is None else Scale.parse({**own.model_dump(), "relevant": relevant})
        self.sample = sample
        self.evidence: EvidencePolicy = (
            fit_evidence(form, evidence) if isinstance(form, ClaimsForm) else "flag"
        )

    @property
    def mode(self) -> ClaimsMode:
        """How it asks."""
        return self.asker.mode

    @property
    def needs(self) -> tuple[Literal["reference", "answer"], ...]:
        """What every trace must bring besides its question: nothing; see `check_trace`."""
        return ()

    def check_trace(self, trace: Trace) -> None:
        """See that a trace brings claims, or a reference that can be split.

        Raises:
            DataError: It does not.
        """
        if trace.claims is not None:
            return
        if self.splitting is None:
            raise DataError(
                "a decision model cannot split a reference into claims; let a model that writes split them "
                "(judge-eval claims DATA -o claims.jsonl) and name the file with --claims",
                field="claims",
            )
        if not (trace.reference or "").strip():
            raise DataError("judging by claims needs the reference, or claims, and this trace has none")

    def describe(self) -> dict[str, Any]:
        """Everything about the judge that could change a verdict."""
        form = next(iter(self.asker.forms().values()))
        told = {
            **describe_form(form, self.scale),
            "sample": self.sample,
            "evidence": self.evidence,
            **self.asker.describe(),
        }
        return told if self.splitting is None else {**told, "split": self.splitting.describe()}

    def forms(self) -> Mapping[str, AnyForm]:
        """The forms of its prompts by what they are for, as `describe` names them."""
        forms = dict(self.asker.forms())
        return forms if self.splitting is None else {**forms, "split": self.splitting.form}

    def with_forms(self, forms: Mapping[str, AnyForm]) -> Claims:
        """Return the same judge with other prompts.

        Args:
            forms: By the names of `forms`, all of them.
        """
        other = object.__new__(Claims)
        other.__dict__.update(self.__dict__)
        other.asker = self.asker.with_forms(forms)
        if self.splitting is not None:
            form = forms["split"]
            assert isinstance(form, ClaimsForm)  # the versions of a prompt are of one mode
            other.splitting = Splitting(form, max_tokens=self.splitting.max_tokens)
        return other

    def inquire(self, trace: Trace, known: Mapping[str, Verdict] = {}) -> Inquiry:
        """Plan the judging of one trace: its claims, the rows of its chunks, what is covered together."""
        split = yield from self._claims_of(trace)
        rows = [ClaimRow(question) for question in distinct(trace.chunks, known)]
        if split.claims is None:
            failure = split.failure
            return _judgment(trace, [_unruled(c.id, known, failure) for c in trace.chunks], None, ())
        claims = split.claims
        if not claims:
            none = NoVerdict(chunk_id="", why="unjudged", detail=NO_CLAIMS)
            told = ClaimsJudged(claims=())
            outcomes = [_unruled(chunk.id, known, none) for chunk in trace.chunks]
            return _judgment(trace, outcomes, told, (split.call,))
        yield from self.asker.ask(trace, claims, rows, self.sample)
        supports = self._supports(rows, claims, known)
        whole = self._whole(trace, claims, supports)
        asked = [claim for claim in claims if claim.id in whole.covered]
        if asked:
            yield from self.asker.ask_together(trace, asked, whole, self.sample)
            if len(whole.passages) < len(distinct(trace.chunks, {})):  # those left out might cover more
                whole.covered |= {claim: None for claim, covered in whole.covered.items() if not covered}
        outcomes = self._outcomes(trace, rows, claims, supports, known)
        judged = ClaimsJudged(claims=claims, together=whole.covered)
        return _judgment(
            trace, outcomes, judged, (split.call, whole.call, *(row.question.call for row in rows))
        )

    def imagined_split(self, request: Request) -> Completion:
        """Answer a request that splits as if each sentence were a claim: to plan by, without a call."""
        sentences = [piece for piece in _SENTENCE.split(request.reference or "") if piece.strip()]
        rows = [{"quote": each, "claim": each, "vital": True} for each in sentences]
        return Completion(json.dumps({"claims": rows}, ensure_ascii=False))

    def _claims_of(self, trace: Trace) -> Generator[Wave, Sequence[Reply], Split]:
        if trace.claims is not None:
            return Split(claims=trace.claims)
        if self.splitting is None or not (trace.reference or "").strip():
            return Split(problem=Problem("unjudged", "there are no claims, and nothing that can be split"))
        return (yield from self.splitting.split(trace))

    def _supports(
        self, rows: Sequence[ClaimRow], claims: Sequence[Claim], known: Mapping[str, Verdict]
    ) -> dict[str, tuple[ClaimSupport, ...]]:
        """Return the rows that are there, by chunk."""
        found = {chunk_id: verdict.supports or () for chunk_id, verdict in known.items()}
        for row in rows:
            if row.reading is not None:
                passage = row.question.passage
                told = checked_supports(row.reading, claims, passage, quotes=self.asker.quotes)
                found |= dict.fromkeys(row.question.chunk_ids, told)
        return found

    def _whole(
        self, trace: Trace, claims: Sequence[Claim], supports: Mapping[str, Sequence[ClaimSupport]]
    ) -> Whole:
        """Choose what is asked about all chunks together: what none covers alone, and one covers in part.

        A decision model, which knows no parts, is asked about all that none covers alone.
        """
        every = [one for row in supports.values() for one in row]
        alone = {one.claim for one in every if one.support == "full"}
        in_part = {one.claim for one in every if one.support == "partial"}
        asked = [c.id for c in claims if c.id not in alone and (c.id in in_part or not self.asker.quotes)]
        passages, size = [], 0
        touching = {chunk for chunk, row in supports.items() if any(one.claim in asked for one in row)}
        every_passage = distinct(trace.chunks, {})
        for question in sorted(every_passage, key=lambda one: touching.isdisjoint(one.chunk_ids)):
            size += len(question.passage.text)
            if size <= MOST_TOGETHER:
                passages.append(question)
        ranks = {id(question): rank for rank, question in enumerate(every_passage)}
        passages.sort(key=lambda question: ranks[id(question)])
        return Whole(passages, dict.fromkeys(asked) if len(passages) > 1 else {})

    def _outcomes(
        self,
        trace: Trace,
        rows: Sequence[ClaimRow],
        claims: Sequence[Claim],
        supports: Mapping[str, tuple[ClaimSupport, ...]],
        known: Mapping[str, Verdict],
    ) -> list[Outcome]:
        by_id = {chunk_id: row for row in rows for chunk_id in row.question.chunk_ids}
        outcomes: list[Outcome] = []
        for chunk in trace.chunks:
            row = by_id.get(chunk.id)
            if row is None:
                blank = Verdict(chunk_id=chunk.id, grade=0, relevant=False, reason=BLANK, supports=())
                outcomes.append(known.get(chunk.id) or blank)
            elif row.reading is None:
                problem = row.question.problem
                why = problem.why if problem else "unreachable"
                detail = without_surrogates(problem.detail) if problem else "the judge was not asked"
                outcomes.append(NoVerdict(chunk_id=chunk.id, why=why, detail=detail))
            else:
                told = ruled(supports[chunk.id], claims, self.scale, quotes=self.asker.quotes)
                passage, steered = row.question.passage, row.reading.instruction_in_chunk
                outcomes.append(
                    outcome_of_row(chunk.id, told, self.scale, passage, self.evidence, steered=steered)
                )
        return outcomes


def _unruled(chunk_id: str, known: Mapping[str, Verdict], failure: NoVerdict) -> Outcome:
    return known.get(chunk_id) or failure.model_copy(update={"chunk_id": chunk_id})


def _judgment(
    trace: Trace, outcomes: Sequence[Outcome], claims: ClaimsJudged | None, calls: Sequence[Call | None]
) -> Judgment:
    # One call may have judged several chunks; it is told once. One for a trace without chunks is not.
    told = {id(call): call for call in calls if call is not None and call.chunk_ids}
    return Judgment(trace_id=trace.id, outcomes=tuple(outcomes), calls=tuple(told.values()), claims=claims)


def _asker_of(form: AnyForm, together: str | Path | ClaimsForm) -> RowAsker:
    """Return the way of asking that a prompt is for.

    Raises:
        PromptError: It is not about claims.
    """
    if isinstance(form, CellForm):
        return ByCells(form)
    if not isinstance(form, ClaimsForm) or form.prompt.mode not in ("claims", "claims-list"):
        raise other_mode(form, "claims")
    whole = Together(claims_form(together, "together"))
    if form.prompt.mode == "claims":
        return OneByOne(form, whole)
    one = form.prompt.id.removesuffix("-list")
    return AllAtOnce(form, OneByOne(claims_form(one, "claims"), whole))
