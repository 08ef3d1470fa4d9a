"""Judges with verdicts that are there already: one that asks nobody, and one that asks about the other chunks."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from judge_eval.errors import ConfigError
from judge_eval.judges.judge import Judge, JudgeAround, JudgingPlan, judges_by_claims, resume_by_verdicts
from judge_eval.judges.parsing import evidence_found
from judge_eval.record import trusted
from judge_eval.schema import Chunk, Judgment, Outcome, Scale, Trace, Verdict
from judge_eval.wire import Passage


@dataclass(frozen=True, slots=True)
class Recorded:
    """The judgment of a trace in another run."""

    digest: str
    """Of the trace that was judged."""
    judgment: Judgment


class ImportedVerdicts:
    """Answers from verdicts that are there already, without a round of requests.

    `find` returns what is known of a chunk, by trace id and chunk id; its quote is checked here. Judgments of
    another run (`recorded`, by trace id) are kept whole: with votes, claims and calls.
    """

    needs: tuple[Literal["reference", "answer"], ...] = ()

    def __init__(
        self,
        find: Callable[[str, str], Outcome],
        scale: Scale,
        source: Mapping[str, Any],
        recorded: Mapping[str, Recorded] | None = None,
    ) -> None:
        self._find, self.scale, self._source = find, scale, dict(source)
        self._recorded = recorded or {}
        self.by_claims = any(record.judgment.claims is not None for record in self._recorded.values())

    def describe(self) -> dict[str, Any]:
        """Where the verdicts come from, and their scale."""
        return {"mode": "imported", "imported": self._source, "scale": self.scale.model_dump()}

    def plan(self, trace: Trace, known: Mapping[str, Verdict] = {}) -> JudgingPlan:
        """Look up every chunk of a trace; nothing is ever asked."""
        yield from ()
        recorded = self._recorded.get(trace.id)
        same = recorded is not None and recorded.digest == trace.digest
        outcomes = tuple(known.get(chunk.id) or self._outcome(trace, chunk, same) for chunk in trace.chunks)
        fields: dict[str, Any] = {"trace_id": trace.id, "outcomes": outcomes}
        fields |= {"calls": (), "votes": {}, "claims": None, "parts": {}}
        if recorded is not None:
            fields |= _beside(recorded.judgment, trace)
        return trusted(Judgment, fields)

    def _outcome(self, trace: Trace, chunk: Chunk, same: bool) -> Outcome:
        """Look a chunk up; a quote that was checked in the same trace is not checked again."""
        outcome = self._find(trace.id, chunk.id)
        if same or outcome.kind == "no_verdict" or not outcome.evidence:
            return outcome
        stands = evidence_found(outcome.evidence, Passage(chunk.text, chunk.title))
        return outcome.replace(evidence_found=stands)


def _beside(judgment: Judgment, trace: Trace) -> dict[str, Any]:
    """Return what a judgment holds beside its outcomes, for a trace that may have other chunks by now."""
    ranks = {outcome.chunk_id: rank for rank, outcome in enumerate(judgment.outcomes)}
    places = [ranks.get(chunk.id) for chunk in trace.chunks]
    there = {chunk.id for chunk in trace.chunks}
    return {
        "calls": tuple(c for c in judgment.calls if not c.chunk_ids or there & set(c.chunk_ids)),
        "votes": {
            name: tuple(None if place is None else grades[place] for place in places)
            for name, grades in judgment.votes.items()
        },
        "claims": judgment.claims,
    }


class KeptVerdicts(JudgeAround):
    """Takes over the verdicts that are known, with their votes and claims, and asks the judge about the other chunks.

    What is `known` of a trace, by its id, is a judgment with an outcome of each chunk; `source` says in the manifest
    where it is from. A `ConfigError` says that the scales differ, or that the judge judges by claims and the known
    verdicts of a trace are not by one set of claims.
    """

    def __init__(
        self, judge: Judge, known: Mapping[str, Judgment], source: Mapping[str, Any], scale: Scale | None = None
    ) -> None:
        super().__init__(judge)
        self._known, self._source = known, dict(source)
        if scale is not None and (scale.grades, scale.relevant) != (judge.scale.grades, judge.scale.relevant):
            raise ConfigError(f"the known verdicts are on the scale {scale.words}, the judge's on {judge.scale.words}")
        if judges_by_claims(judge):
            for trace, kept in known.items():
                if kept.open and kept.known and kept.claims is None:
                    raise ConfigError(
                        f"the known verdicts of trace {trace!r} are not by one set of claims, so no verdict by claims "
                        "can stand beside them; judge the missing chunks in another mode, or all runs by the claims "
                        "of one file"
                    )

    def describe(self) -> dict[str, Any]:
        """What the judge says of itself, and where the other verdicts are from."""
        return {**self.judge.describe(), **self._source}

    def plan(self, trace: Trace, known: Mapping[str, Verdict] = {}) -> JudgingPlan:
        """Plan the judging of the chunks without a verdict."""
        kept = self._known[trace.id]
        outcomes: tuple[Outcome, ...] = tuple([known.get(each.chunk_id, each) for each in kept.outcomes])
        kept = kept.replace(outcomes=outcomes)
        if not kept.open:
            return kept
        judgment = yield from resume_by_verdicts(self.judge.plan, trace, kept)
        unasked = {name: votes for name, votes in kept.votes.items() if name not in judgment.votes}
        return judgment.replace(parts={}, votes={**unasked, **judgment.votes}, claims=judgment.claims or kept.claims)

    def check_depth(self, depth: int | None) -> None:
        """Accept lists of any length: a run with kept verdicts promises nothing of what the judge was fitted to."""

    def is_complete(self, trace: Trace, earlier: Judgment) -> bool:  # noqa: ARG002
        """Tell whether each chunk has a verdict."""
        return not earlier.open

    def resume(self, trace: Trace, earlier: Judgment) -> JudgingPlan:
        """Plan what is missing in an earlier judgment."""
        return resume_by_verdicts(self.plan, trace, earlier)
