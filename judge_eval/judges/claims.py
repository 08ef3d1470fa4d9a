"""Judging by claims: which statements of the reference each chunk supports."""

import json
import re
from collections.abc import Generator, Mapping, Sequence
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self

from judge_eval import schema
from judge_eval.errors import DataError, JudgeEvalError
from judge_eval.judges import claim_questions, prompted
from judge_eval.judges.claim_questions import RowReading
from judge_eval.judges.decision import check_quotes
from judge_eval.judges.judge import JudgingPlan, RequestRound, resume_by_verdicts
from judge_eval.judges.parsing import NOT_ASKED, Problem, evidence_found, fault_of
from judge_eval.judges.questions import (
    Asking,
    Question,
    ask_listwise,
    ask_pointwise,
    blank_outcome,
    distinct,
    objects_shown,
)
from judge_eval.judges.splitting import Split, Splitting
from judge_eval.prompts import AnyForm, CellForm, ClaimsForm, load_form, scale_named
from judge_eval.registry import Kind
from judge_eval.safe_text import counted
from judge_eval.spelling import option
from judge_eval.wire import Completion, Passage, Reply, Request

COUNTED = "Counted: "
"""The beginning of these verdicts' reasons: they are made from the claims, not written by the judge."""
_NAMED = 3
_LENGTH = 60
_VERBS: tuple[tuple[str, schema.Support], ...] = (
    ("states", "full"),
    ("in part", "partial"),
    ("contradicts", "contradicts"),
)


def grade_of_supports(
    supports: Sequence[schema.ClaimSupport], claims: Sequence[schema.Claim], scale: schema.Scale
) -> int:
    """Return the grade that follows from a row."""
    # The highest grade if the chunk supports every vital claim fully (every claim, if none is vital); else
    # the least relevant one if it supports at least one claim, fully or partly; else, if it contradicts one,
    # the grade above the lowest if that is not relevant; else the lowest. On the scale 0-3 these are 3, 2, 1
    # and 0, on 0-1 they are 1 and 0.
    kinds = {cell.claim: cell.support for cell in supports}
    some = any(kind != "contradicts" for kind in kinds.values())
    needed = [claim.id for claim in claims if claim.vital] or [claim.id for claim in claims]
    if all(kinds.get(claim) == "full" for claim in needed):
        return scale.maximum
    return scale.relevant if some else min(scale.minimum + bool(kinds), scale.relevant - 1)


def reason_of_supports(supports: Sequence[schema.ClaimSupport], claims: Sequence[schema.Claim]) -> str:
    """Return the reason of a row in words."""
    texts = {claim.id: claim.text.rstrip(".。") for claim in claims}
    count = sum(cell.support != "contradicts" for cell in supports)
    parts = [f"supports {count or 'none'} of {counted(len(claims), 'claim')}"]
    for verb, kind in _VERBS:
        named = [texts[cell.claim] for cell in supports if cell.support == kind]
        cut = (text if len(text) <= _LENGTH else text[: _LENGTH - 3].rstrip() + "..." for text in named[:_NAMED])
        more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
        if named:
            parts.append(f"{verb} " + ", ".join(f'"{text}"' for text in cut) + more)
    return COUNTED + "; ".join(parts) + "."


NO_CLAIMS = "the reference makes no claim that a chunk could support"
"""Why no chunk of a trace without claims has a verdict."""
MOST_TOGETHER = 200_000
"""Characters of the chunks that are asked about together: some 50,000 tokens."""
_SENTENCE = re.compile(r"(?<=[.!?。！？])\s+|\n+")


class Claims(prompted.PromptJudge):
    """Asks which claims of the reference each chunk supports: fully, partly, or by contradiction.

    The claims are those of the trace, else those that a first request splits its reference into. Each
    distinct chunk gets a row: the claims that it supports or contradicts, each with a quote. If no chunk
    covers a claim alone, but one covers a part of it, all chunks are asked about together. Grade, reason and
    evidence of a verdict follow from its row (`grade_of_supports`); the row is `Verdict.supports`, the claims
    are `Judgment.claims`. A trace whose reference cannot be split, or makes no claim, has no verdicts.

    Args:
        prompt: Asks about rows: the id of a prompt of the mode `claims` (one request a chunk), `claims-list`
            (one a trace) or `claims-decision` (one a chunk, to a decision model, which cannot split), the
            path of a file of your own, or a form made of one.
        scale: The name of a shipped scale; the prompt's own if None.
        split: Splits references.
        together: Asks about all chunks.
        relevant: The least grade that counts as relevant; by default the scale's threshold.
        sample: Which sample to ask for; 0 is the first. References are split once, whatever the sample.
        evidence: What becomes of support whose quote is missing, too short or not in the chunk: `flag`
            counts it, `required` makes a row with such a claim a `NoVerdict`.

    Raises:
        PromptError: A prompt is of another mode or unusable.
        UnknownNameError: There is no such prompt.
    """

    form: ClaimsForm | CellForm
    settings = ("sample", "evidence")
    needs = ()
    """A trace without claims needs a reference; see `check_trace`."""
    by_claims = True
    """Its verdicts say which claims each chunk supports."""

    def __init__(
        self,
        prompt: str | Path | ClaimsForm | CellForm = "claims/support",
        *,
        scale: Literal["binary", "graded"] | None = None,
        split: str | Path | ClaimsForm = "claims/split",
        together: str | Path | ClaimsForm = "claims/together",
        relevant: int | None = None,
        sample: int = 0,
        evidence: schema.EvidencePolicy | None = None,
    ) -> None:
        self.form = form = _form_of_modes(prompt, *_MODES)
        self._forms: dict[str, Any] = {"prompt": form}
        """The forms of all prompts, by the part of the record they are in."""
        if isinstance(form, ClaimsForm):
            if form.listwise:
                own = form.prompt.id.removesuffix("-list")
                self._forms["pointwise"] = prompted.fit_form(own, ClaimsForm, "claims")
            self._forms["together"] = prompted.fit_form(together, ClaimsForm, "together")
        self.quotes = isinstance(form, ClaimsForm)
        """Whether its model quotes: a decision model does not."""
        self.splitting = Splitting(split) if self.quotes else None
        self.graded_by: schema.Scale = form.prompt.grades if scale is None else scale_named(scale)
        self.scale = self.graded_by.relevant_from(relevant)
        self.sample = sample
        self.evidence: schema.EvidencePolicy = (
            prompted.fit_evidence(form, evidence) if isinstance(form, ClaimsForm) else "flag"
        )

    def check_trace(self, trace: schema.Trace) -> None:
        """Raise `DataError` unless a trace has claims, or a reference that can be split."""
        if trace.claims is not None:
            return
        if self.splitting is None:
            raise DataError(
                "a decision model cannot split a reference into claims; let a model that writes split them "
                f"(judge-eval claims DATA -o claims.jsonl) and name the file with {option('claims')}",
                field="claims",
            )
        if not (trace.reference or "").strip():
            raise DataError("judging by claims needs the reference, or claims, and this trace has none")

    def describe(self) -> dict[str, Any]:
        """Everything about the judge that could change a verdict."""
        record = super().describe()
        if isinstance(self.form, CellForm):
            record["most"] = claim_questions.MOST_CLAIMS
        elif self.form.listwise:
            record["window"] = claim_questions.WINDOW
        for name in ("pointwise", "together"):
            if (form := self._forms.get(name)) is not None:
                record[name] = {"prompt": prompted.describe_form(form, form.scale)["prompt"]}
        return record if self.splitting is None else {**record, "split": self.splitting.describe()}

    def forms(self) -> Mapping[str, AnyForm]:
        """The forms of its prompts by what they are for, as `describe` names them."""
        return self._forms if self.splitting is None else {**self._forms, "split": self.splitting.form}

    def with_forms(self, forms: Mapping[str, AnyForm]) -> Self:
        """Return the same judge with other prompts, by the names of `forms`, all of them."""
        other = copy(self)
        other._forms = {name: _form_of_modes(forms[name], *_MODES, "together") for name in self._forms}
        other.form = other._forms["prompt"]
        if self.splitting is not None:
            split = prompted.fit_form(forms["split"], ClaimsForm, "split")
            other.splitting = Splitting(split, max_tokens=self.splitting.max_tokens)
        return other

    def _ask(self, trace: schema.Trace, claims: Sequence[schema.Claim], rows: Sequence[Question[RowReading]]) -> Asking:
        if isinstance(self.form, CellForm):
            return claim_questions.ask_cells(self.form, trace, claims, rows, self.sample)
        shown = objects_shown(trace)
        own = claim_questions.RowContract(self.form, self.sample, claims, shown)
        if not self.form.listwise:
            return ask_pointwise(own, trace, rows)
        alone = claim_questions.RowContract(self._forms["pointwise"], self.sample, claims, shown)
        return ask_listwise(own, alone, trace, rows, claim_questions.WINDOW)

    def _ask_together(
        self, trace: schema.Trace, claims: Sequence[schema.Claim], whole: claim_questions.Together
    ) -> Asking:
        if isinstance(self.form, CellForm):
            return claim_questions.ask_cells_together(self.form, trace, claims, whole, self.sample)
        return claim_questions.ask_together(self._forms["together"], trace, claims, whole, self.sample)

    @classmethod
    def from_record(cls, record: Mapping[str, Any], **more: Any) -> Self:
        """Make the judge again that `describe` returned this record of; raises as for other judges."""
        prompt = record["prompt"]
        ref = f"{prompt.get('id')}@{prompt.get('version')}"
        settings = prompted.settings_of_record(record, *cls.settings)
        judge = cls(ref, scale=record["scale"]["name"], **settings, **more)
        again = judge.describe()
        if again != {name: record.get(name) for name in again}:
            raise JudgeEvalError(f"the prompt {ref}, or one that goes with it, is not the one this run used")
        return judge

    def plan(self, trace: schema.Trace, known: Mapping[str, schema.Verdict] = {}) -> JudgingPlan:
        """Plan the judging of one trace: its claims, the rows of its chunks, what is covered together."""
        return (yield from self._plan(trace, known))

    def is_complete(self, trace: schema.Trace, earlier: schema.Judgment) -> bool:
        """Tell whether every chunk has a verdict, and every question about all chunks an answer.

        If not all chunks fit into such a question, its "no" is unknown, and asking again changes nothing.
        """
        judged = earlier.claims
        if earlier.open or judged is None or None not in judged.together.values():
            return not earlier.open
        whole = self._whole(trace, judged.claims, self._supports((), judged.claims, earlier.known))
        asked = {chunk_id for question in whole.passages for chunk_id in question.chunk_ids}
        partial_set = len(whole.passages) < len(distinct(trace.chunks, {}))
        return partial_set and any(set(call.chunk_ids) == asked for call in earlier.calls)

    def resume(self, trace: schema.Trace, earlier: schema.Judgment) -> JudgingPlan:
        """Plan what is missing: rows, and claims that all chunks were asked about without an answer."""
        together = earlier.claims.together if earlier.claims else {}
        return resume_by_verdicts(partial(self._plan, together=together), trace, earlier)

    def _plan(
        self, trace: schema.Trace, known: Mapping[str, schema.Verdict], together: Mapping[str, bool | None] = {}
    ) -> JudgingPlan:
        split = yield from self._claims_of(trace)
        rows = distinct(trace.chunks, known)
        claims = split.claims
        if not claims:
            failure = split.failure if claims is None else Problem("unjudged", NO_CLAIMS)
            judged = None if claims is None else schema.ClaimsJudged(claims=())
            outcomes = [known.get(chunk.id) or failure.no_verdict(chunk.id) for chunk in trace.chunks]
            return _judgment(trace, outcomes, judged, (split.call,))
        yield from self._ask(trace, claims, rows)
        supports = self._supports(rows, claims, known)
        whole = self._whole(trace, claims, supports)
        if together.keys() == whole.covered.keys():
            whole.covered = dict(together)
        asked = [claim for claim in claims if whole.covered.get(claim.id, True) is None]
        if asked:
            yield from self._ask_together(trace, asked, whole)
            if len(whole.passages) < len(distinct(trace.chunks, {})):  # those left out might cover more
                whole.covered |= {claim: None for claim, covered in whole.covered.items() if not covered}
        outcomes = self._outcomes(trace, rows, claims, supports, known)
        judged = schema.ClaimsJudged(claims=claims, together=whole.covered)
        return _judgment(trace, outcomes, judged, (split.call, whole.call, *(row.call for row in rows)))

    def imagined_split(self, request: Request) -> Completion:
        """Answer a request that splits as if each sentence were a claim, to plan without a call."""
        sentences = [piece for piece in _SENTENCE.split(request.reference or "") if piece.strip()]
        rows = [{"quote": each, "claim": each, "vital": True} for each in sentences]
        return Completion(json.dumps({"claims": rows}, ensure_ascii=False))

    def _claims_of(self, trace: schema.Trace) -> Generator[RequestRound, Sequence[Reply], Split]:
        if trace.claims is not None:
            return Split(claims=trace.claims)
        if self.splitting is None or not (trace.reference or "").strip():
            return Split(problem=Problem("unjudged", "there are no claims, and nothing that can be split"))
        return (yield from self.splitting.split(trace))

    def _supports(
        self, rows: Sequence[Question[RowReading]], claims: Sequence[schema.Claim], known: Mapping[str, schema.Verdict]
    ) -> dict[str, tuple[schema.ClaimSupport, ...]]:
        supports = {chunk_id: verdict.supports or () for chunk_id, verdict in known.items()}
        for row in rows:
            if row.reading is None:
                continue
            cells = tuple(
                schema.ClaimSupport(
                    claim=claims[cell.number - 1].id,
                    support=cell.support,
                    quote=cell.quote,
                    quote_found=evidence_found(cell.quote, row.passage) if self.quotes else None,
                )
                for cell in row.reading.cells
            )
            supports |= dict.fromkeys(row.chunk_ids, cells)
        return supports

    def _whole(
        self, trace: schema.Trace, claims: Sequence[schema.Claim], supports: Mapping[str, Sequence[schema.ClaimSupport]]
    ) -> claim_questions.Together:
        """Choose the claims for all chunks together: no chunk covers them alone, and one covers a part."""
        # A decision model does not know parts; it is asked about all that no chunk covers alone.
        cells = [cell for row in supports.values() for cell in row]
        alone = {cell.claim for cell in cells if cell.support == "full"}
        in_part = {cell.claim for cell in cells if cell.support == "partial"}
        asked = [c.id for c in claims if c.id not in alone and (c.id in in_part or not self.quotes)]
        passages, size = [], 0
        touching = {chunk for chunk, row in supports.items() if any(cell.claim in asked for cell in row)}
        every_passage = distinct(trace.chunks, {})
        for question in sorted(every_passage, key=lambda each: touching.isdisjoint(each.chunk_ids)):
            size += len(question.passage.text)
            if size <= MOST_TOGETHER:
                passages.append(question)
        ranks = {id(question): rank for rank, question in enumerate(every_passage)}
        passages.sort(key=lambda question: ranks[id(question)])
        return claim_questions.Together(passages, dict.fromkeys(asked) if len(passages) > 1 else {})

    def _outcomes(
        self,
        trace: schema.Trace,
        rows: Sequence[Question[RowReading]],
        claims: Sequence[schema.Claim],
        supports: Mapping[str, tuple[schema.ClaimSupport, ...]],
        known: Mapping[str, schema.Verdict],
    ) -> list[schema.Outcome]:
        by_id = {chunk_id: row for row in rows for chunk_id in row.chunk_ids}
        outcomes: list[schema.Outcome] = []
        for chunk in trace.chunks:
            row = by_id.get(chunk.id)
            if row is None:
                outcomes.append(known.get(chunk.id) or blank_outcome(chunk, self.scale, self.blank, supports=()))
            elif row.reading is None:
                outcomes.append((row.problem or NOT_ASKED).no_verdict(chunk.id))
            else:
                outcomes.append(self._outcome(chunk.id, row.passage, row.reading, supports[chunk.id], claims))
        return outcomes

    def _outcome(
        self,
        chunk_id: str,
        passage: Passage,
        row: RowReading,
        supports: tuple[schema.ClaimSupport, ...],
        claims: Sequence[schema.Claim],
    ) -> schema.Outcome:
        """Return the verdict that follows from a row; a `NoVerdict` if required evidence for a claim is missing."""
        for cell in supports:
            if self.evidence == "required" and cell.support != "contradicts" and not cell.quote_found:
                detail = f"supports claim {cell.claim}, but {fault_of(cell.quote, passage)}"
                return schema.NoVerdict(chunk_id=chunk_id, why="unsupported", detail=detail)
        # The evidence is the first quote for a claim that is in the chunk, else the first quote; of a chunk that
        # supports nothing, a quote that contradicts.
        by_weight = sorted(supports, key=lambda cell: (cell.support == "contradicts", not cell.quote_found))
        evidence = next((cell for cell in by_weight if cell.quote.strip()), None)
        grade = grade_of_supports(supports, claims, self.graded_by)
        return schema.Verdict(
            chunk_id=chunk_id,
            grade=grade,
            relevant=grade >= self.scale.relevant,
            reason=reason_of_supports(supports, claims),
            evidence=(evidence.quote if evidence else "") if self.quotes else None,
            evidence_found=evidence.quote_found if evidence else None,
            instruction_in_chunk=row.instruction_in_chunk,
            supports=supports,
        )


def _judgment(
    trace: schema.Trace,
    outcomes: Sequence[schema.Outcome],
    claims: schema.ClaimsJudged | None,
    calls: Sequence[schema.Call | None],
) -> schema.Judgment:
    # One call may have judged several chunks; it is listed once. A call of a trace without chunks is not.
    listed = {id(call): call for call in calls if call is not None and call.chunk_ids}
    return schema.Judgment(trace_id=trace.id, outcomes=tuple(outcomes), calls=tuple(listed.values()), claims=claims)


_MODES = ("claims", "claims-list", "claims-decision")


def _form_of_modes(prompt: str | Path | AnyForm, *modes: str) -> ClaimsForm | CellForm:
    form = load_form(prompt) if isinstance(prompt, str | Path) else prompt
    if not isinstance(form, ClaimsForm | CellForm) or form.prompt.mode not in modes:
        raise prompted.other_mode(form, modes[0])
    return form


def _kind(mode: str, prompt: str, **stated: Any) -> Kind:
    """Return the kind that asks in one mode; `support/binary` and `support/graded` name its scale alone."""
    own = prompt

    def make(
        prompt: str | Path, *, relevant: int | None, sample: int, evidence: schema.EvidencePolicy | None
    ) -> Claims:
        if mode == "claims-decision":
            check_quotes(evidence)
        scale: Literal["binary", "graded"] | None = None
        if prompt == "support/binary" or prompt == "support/graded":
            scale, prompt = "binary" if prompt == "support/binary" else "graded", own
        form = _form_of_modes(prompt, mode)
        return Claims(form, scale=scale, relevant=relevant, sample=sample, evidence=evidence)

    return Kind(make, Claims.from_record, by_claims=True, **stated)


KIND = _kind("claims", "claims/support", asks="text", for_decisions="claims-decision")
LIST_KIND = _kind("claims-list", "claims/support-list", asks="text")
DECISION_KIND = _kind("claims-decision", "claims/decision", asks="questions")
