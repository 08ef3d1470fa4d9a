"""Judging by two judges: a cheap one first, a strong one where the cheap one is not sure."""

from collections.abc import Iterator, Mapping, Set
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, Self

from judge_eval import schema
from judge_eval.confidence import CONFIDENCE_GRID, is_sure
from judge_eval.errors import ConfigError
from judge_eval.judges.judge import (
    Judge,
    JudgeAround,
    JudgeStage,
    JudgingPlan,
    ModelUse,
    as_begun,
    check_trace,
    join_calls,
    judge_in_words,
    judge_of_record,
    judges_by_claims,
    judges_chunks_alone,
    make_judge,
    mode_for,
    models_asked,
    plan_of,
    route_plan,
    with_blank,
)
from judge_eval.prompts import DecisionLayout
from judge_eval.registry import Kind, kind_named
from judge_eval.spelling import option

CHEAP: schema.Stage = "cheap"
STRONG: schema.Stage = "strong"
NO_CLAIMS = "a cascade does not judge by claims; use another mode, or no cascade"
"""Why a judge by claims cannot be in one."""


@dataclass(frozen=True, slots=True)
class Guarantee:
    """What the threshold of a cascade rests on, where it was fitted to a sample and not just named."""

    digest: str
    """64 hexadecimal digits: of the file that says it."""
    target: Literal["strong", "people"]
    """Whose answer is right: the strong judge's, or people's."""
    alpha: float
    """The greatest risk that was wanted: the share of the cascade's answers that are not the target's."""
    level: float
    """How sure it is that the risk is within the bound."""
    bound: float
    """What the risk is at most, at that level."""
    traces: int
    """How many traces it was fitted on."""
    coverage: float
    """The share of these whose cheap verdict stood."""
    cluster: str | None = None
    """The key of the metadata that names clusters, where traces of the data share one: the risk is of a
    random trace of a random cluster."""
    explain_positives: bool = False
    """Whether it was fitted with all relevant verdicts of the cheap judge escalated."""
    depth: int | None = None
    """The most chunks of a trace that were read; None if all were."""

    def record(self) -> dict[str, Any]:
        """Return it as a manifest keeps it; what is at its default is left out."""
        return {name: value for name, value in asdict(self).items() if value is not None and value is not False}


class WholeTraces(JudgeAround):
    """A judge that is always asked about all chunks of a trace, also where some verdicts are known.

    The verdicts of a judge that reads several chunks at once depend on which ones it reads. In a cascade it
    reads all of them: in the fit, and in use whenever a chunk is escalated.
    """

    def describe(self) -> dict[str, Any]:
        """What the judge says of itself, with what it reads."""
        return {**self.judge.describe(), "reads": "trace"}

    def plan(self, trace: schema.Trace, known: Mapping[str, schema.Verdict] = {}) -> JudgingPlan:
        """Plan the judging of one trace: of all chunks if one has no verdict, else of none."""
        if all(chunk.id in known or chunk.is_blank for chunk in trace.chunks):
            return (yield from self.judge.plan(trace, known))
        judgment = yield from self.judge.plan(trace, {})
        return _filled(judgment, known)

    def resume(self, trace: schema.Trace, earlier: schema.Judgment) -> JudgingPlan:
        """Plan what is missing: all chunks are asked about again, and verdicts that are there stand."""
        if earlier.parts or not earlier.open:
            return (yield from plan_of(self.judge, trace, earlier))
        judgment = yield from self.plan(trace, earlier.known)
        return judgment.replace(calls=join_calls(trace, earlier.calls, judgment.calls))


@dataclass(frozen=True, slots=True)
class Cascade:
    """A judge made of two: what the cheap one is sure of stands, the strong one is asked about the rest.

    A verdict of the cheap judge stands where the probability of its side (relevant or not) is the threshold
    or more. A chunk that it gave no verdict or no probability goes to the strong judge, whose outcome
    stands, even if it is a failure. Each verdict says which stage gave it; the judgment's `votes` keep what
    both said. `cascade_of` makes one for two models.

    Args:
        cheap: Asked about every chunk.
        strong: Asked about what the cheap judge is not sure of. If it does not judge each chunk alone, it is
            asked about the whole trace whenever a chunk of it is escalated (`WholeTraces`).
        threshold: One of .50, .51, ... 1.00 (`CONFIDENCE_GRID`); None sends everything to the strong judge.
        explain_positives: Whether relevant verdicts of the cheap judge go to the strong one too, for a
            reason and a quote; then its verdict stands.
        routes: Which model each asks, where they are two: keys of the evaluator's models.
        guarantee: What the threshold rests on; None where it was named, and nothing is known of the risk.

    Raises:
        ConfigError: The threshold is not on the grid, the scales differ, a judge goes by claims, evidence is
            required of the strong judge alone while relevant verdicts of the cheap one stand, or the
            guarantee was fitted with another `explain_positives`: with it, it does not hold without; without
            it and with people as the target, it does not hold where positives are explained.
    """

    cheap: Judge
    strong: Judge
    threshold: float | None
    explain_positives: bool = False
    routes: tuple[str, str] = (CHEAP, STRONG)
    guarantee: Guarantee | None = None

    def __post_init__(self) -> None:
        if self.threshold is not None and self.threshold not in CONFIDENCE_GRID:
            raise ConfigError(f"a cascade's threshold is {self.threshold}; it is one of .50, .51, ... 1.00")
        if judges_by_claims(self.cheap) or judges_by_claims(self.strong):
            raise ConfigError(NO_CLAIMS)
        if self.cheap.scale.words != self.strong.scale.words:
            scales = [
                f"{name} {scale.words}" for name, scale in ((CHEAP, self.cheap.scale), (STRONG, self.strong.scale))
            ]
            raise ConfigError(f"both judges of a cascade must grade on one scale, not {', '.join(scales)}")
        policies = [judge.describe().get("evidence") for judge in (self.cheap, self.strong)]
        if policies[1] == "required" != policies[0] and not self.explain_positives:
            raise ConfigError(
                "evidence=required cannot be kept: relevant verdicts of the cheap judge would have "
                "no quote; send them to the strong one (explain_positives), or use evidence=flag"
            )
        if not judges_chunks_alone(self.strong) and not isinstance(self.strong, WholeTraces):
            object.__setattr__(self, "strong", WholeTraces(self.strong))
        fitted = self.guarantee
        if fitted is not None and fitted.explain_positives and not self.explain_positives:
            raise ConfigError(
                "the threshold was fitted with positives explained, and does not hold without; add "
                "explain_positives=True, or fit it again"
            )
        people = fitted is not None and fitted.target == "people" and not fitted.explain_positives
        if self.explain_positives and people:
            raise ConfigError(
                "a threshold that was fitted to labels does not hold where positives are explained: the "
                "strong judge's verdict takes their place; leave it out, fit with "
                "explain_positives=True, or fit to the strong judge"
            )

    @property
    def scale(self) -> schema.Scale:
        """The scale of both."""
        return self.strong.scale

    @property
    def needs(self) -> tuple[Literal["reference", "answer"], ...]:
        """What either needs of a trace."""
        return tuple(dict.fromkeys((*self.cheap.needs, *self.strong.needs)))

    def describe(self) -> dict[str, Any]:
        """Everything about the cascade that could change a verdict."""
        return {
            "mode": "cascade",
            "threshold": self.threshold,
            "explain_positives": self.explain_positives,
            "guarantee": None if self.guarantee is None else self.guarantee.record(),
            "scale": self.scale.model_dump(),
            CHEAP: {"route": self.routes[0], **self.cheap.describe()},
            STRONG: {"route": self.routes[1], **self.strong.describe()},
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """Make the cascade of a record of `describe` again, without its guarantee; raises as for other judges."""
        cheap, strong = record[CHEAP], record[STRONG]
        return cls(
            judge_of_record(cheap),
            judge_of_record(strong),
            record["threshold"],
            record["explain_positives"],
            (str(cheap["route"]), str(strong["route"])),
        )

    def stages(self) -> tuple[JudgeStage, ...]:
        """Return both judges, with the share of chunks that the strong one was asked about in the fit."""
        fitted = self.guarantee
        holds = fitted is not None and fitted.explain_positives == self.explain_positives
        share = 1 - fitted.coverage if fitted and holds and judges_chunks_alone(self.strong) else None
        escalated = 1.0 if self.threshold is None else share
        return JudgeStage(CHEAP, self.cheap, self.routes[0]), JudgeStage(STRONG, self.strong, self.routes[1], escalated)

    def models_asked(self) -> Iterator[ModelUse]:
        """Return the models that both judges ask; a verdict of the cheap one counts by its probability."""
        for use in models_asked(self.cheap, self.routes[0]):
            yield use._replace(confidence=True)
        yield from models_asked(self.strong, self.routes[1])

    def as_begun(self, record: Mapping[str, Any]) -> Self:
        """Return the cascade with the versions of prompts that a record names, where none was asked for."""
        cheap, strong = as_begun(self.cheap, record.get(CHEAP)), as_begun(self.strong, record.get(STRONG))
        return replace(self, cheap=cheap, strong=strong)

    def with_blank(self, rule: schema.BlankPolicy) -> Self:
        """Return the cascade whose judges treat chunks without text so."""
        cheap, strong = with_blank(self.cheap, rule), with_blank(self.strong, rule)
        return replace(self, cheap=cheap, strong=strong)

    @property
    def chunks_alone(self) -> bool:
        """Whether both judge each chunk without the others."""
        return judges_chunks_alone(self.cheap) and judges_chunks_alone(self.strong)

    def check_depth(self, depth: int | None) -> None:
        """Raise `ConfigError` unless as many chunks of a trace are read as in the fit: the risk is of these ranks."""
        if self.guarantee is not None and self.guarantee.depth != depth:
            fitted = self.guarantee.depth
            read = "all chunks of a trace" if fitted is None else f"the first {fitted} chunks of a trace"
            advice = f"leave {option('depth')} out" if fitted is None else f"give {option('depth', fitted)}"
            raise ConfigError(f"the cascade was fitted to {read}; {advice}, or fit it again (`cascade fit`)")

    def check_trace(self, trace: schema.Trace) -> None:
        """Check that a trace has what each judge needs. Raises `DataError` if it does not."""
        check_trace(self.cheap, trace)
        check_trace(self.strong, trace)

    def plan(self, trace: schema.Trace, known: Mapping[str, schema.Verdict] = {}) -> JudgingPlan:
        """Plan the judging of one trace: the cheap judge's rounds, then the strong one's."""
        first = yield from route_plan(self.cheap.plan(trace, known), self.routes[0])
        kept = {
            outcome.chunk_id: outcome for outcome in first.outcomes if outcome.kind == "verdict" and self.keeps(outcome)
        }
        second = yield from route_plan(self.strong.plan(trace, {**kept, **known}), self.routes[1])
        return self._conclude(trace, first, second, kept, known)

    def is_complete(self, trace: schema.Trace, earlier: schema.Judgment) -> bool:  # noqa: ARG002
        """Tell whether each chunk has a verdict, and each panel inside all votes on its verdicts."""
        return not earlier.open and not earlier.parts

    def resume(self, trace: schema.Trace, earlier: schema.Judgment) -> JudgingPlan:
        """Plan what is missing: verdicts of the cheap judge are never asked for again.

        A cheap judge that looks at several chunks at once is asked about all of them, as the threshold was
        fitted, unless it has told of every chunk that is open. Verdicts that stood before stand, except those
        of a cheap panel that some members did not vote on: the late votes may change or escalate them.
        """
        cheap = earlier.parts.get(CHEAP)
        by_cheap = {chunk_id for chunk_id, verdict in earlier.known.items() if verdict.stage == CHEAP}
        reopened = set() if cheap is None else _short_of_votes(cheap) & by_cheap
        stands = {chunk_id: verdict for chunk_id, verdict in earlier.known.items() if chunk_id not in reopened}
        first = yield from self._cheap_again(trace, earlier, stands)
        kept: dict[str, schema.Verdict] = {}
        for outcome in first.outcomes:
            before = stands.get(outcome.chunk_id)
            if before is not None and before.stage != STRONG:
                kept[outcome.chunk_id] = before
            elif before is None and outcome.kind == "verdict" and self.keeps(outcome):
                kept[outcome.chunk_id] = outcome
        if (part := earlier.parts.get(STRONG)) is not None:
            escalated = {id_: schema.NoVerdict(chunk_id=id_, why="unjudged") for id_ in reopened - kept.keys()}
            plan = plan_of(self.strong, trace, _filled(part, {**escalated, **kept}))
        else:
            plan = self.strong.plan(trace, {**stands, **kept})
        second = yield from route_plan(plan, self.routes[1])
        judgment = self._conclude(trace, first, second, kept, {})
        votes = {stage: self._votes(stage, earlier, column, reopened) for stage, column in judgment.votes.items()}
        return judgment.replace(votes=votes)

    def _cheap_again(
        self, trace: schema.Trace, earlier: schema.Judgment, stands: Mapping[str, schema.Verdict]
    ) -> JudgingPlan:
        """Return what the cheap judge said, asked about what it did not tell of."""
        part = earlier.parts.get(CHEAP)
        verdicts = {} if part is None else part.known
        asked = [chunk.id for chunk in trace.chunks if chunk.id not in stands and not chunk.is_blank]
        complete = verdicts.keys() >= set(asked)
        if part is not None and complete and not _short_of_votes(part) & set(asked):
            return part
        if judges_chunks_alone(self.cheap) or complete:
            before = part or schema.Judgment(
                trace_id=trace.id,
                outcomes=tuple(schema.NoVerdict(chunk_id=chunk.id, why="unjudged") for chunk in trace.chunks),
            )
            known = {chunk_id: verdict for chunk_id, verdict in stands.items() if chunk_id not in verdicts}
            return (yield from route_plan(plan_of(self.cheap, trace, _filled(before, known)), self.routes[0]))
        first = yield from route_plan(self.cheap.plan(trace, {}), self.routes[0])
        calls = join_calls(trace, () if part is None else part.calls, first.calls)
        return _filled(first, verdicts).replace(calls=calls)

    def _votes(
        self, stage: str, earlier: schema.Judgment, column: tuple[int | None, ...], reopened: Set[str]
    ) -> tuple[int | None, ...]:
        before = earlier.votes.get(stage, ())
        if len(before) != len(column):
            return column
        return tuple(
            vote
            if outcome.kind == "no_verdict" or outcome.chunk_id in reopened or stage == outcome.stage == STRONG
            else old
            for outcome, old, vote in zip(earlier.outcomes, before, column, strict=True)
        )

    def _conclude(
        self,
        trace: schema.Trace,
        first: schema.Judgment,
        second: schema.Judgment,
        kept: Mapping[str, schema.Verdict],
        known: Mapping[str, schema.Verdict],
    ) -> schema.Judgment:
        unasked = {chunk.id for chunk in trace.chunks if chunk.is_blank} | known.keys()
        outcomes = tuple(
            outcome
            if outcome.chunk_id in unasked
            else _of_stage(kept[outcome.chunk_id], CHEAP)
            if outcome.chunk_id in kept
            else _of_stage(outcome, STRONG)
            for outcome in second.outcomes
        )
        asked_once = unasked | kept.keys()
        is_open = bool(second.open or second.parts or _short_of_votes(first) & kept.keys())
        return schema.Judgment(
            trace_id=trace.id,
            outcomes=outcomes,
            calls=(*first.calls, *second.calls),
            votes={
                CHEAP: tuple(_vote(o, o.chunk_id not in unasked) for o in first.outcomes),
                STRONG: tuple(_vote(o, o.chunk_id not in asked_once) for o in second.outcomes),
            },
            parts={CHEAP: first, STRONG: second} if is_open else {},
        )

    def keeps(self, verdict: schema.Verdict) -> bool:
        """Tell whether a verdict of the cheap judge stands."""
        if self.explain_positives and verdict.relevant:
            return False
        return is_sure(verdict.side_confidence, self.threshold)


def _of_stage(outcome: schema.Outcome, stage: schema.Stage) -> schema.Outcome:
    return outcome.replace(stage=stage) if outcome.kind == "verdict" else outcome


def _short_of_votes(judgment: schema.Judgment) -> set[str]:
    return {o.chunk_id for part in judgment.parts.values() for o in part.outcomes if o.kind == "no_verdict"}


def _filled(judgment: schema.Judgment, known: Mapping[str, schema.Outcome]) -> schema.Judgment:
    parts = {name: _filled(part, known) for name, part in judgment.parts.items()}
    outcomes = tuple(known.get(outcome.chunk_id, outcome) for outcome in judgment.outcomes)
    return judgment.replace(outcomes=outcomes, parts=parts)


def _vote(outcome: schema.Outcome, asked: bool) -> int | None:
    return outcome.grade if asked and outcome.kind == "verdict" else None


def cascade_of(
    cheap_model: object,
    strong_model: object,
    *,
    prompt: str | Path = "support/binary",
    threshold: float | None,
    cheap_prompt: str | Path | None = None,
    cheap_mode: str | None = None,
    mode: str | None = None,
    relevant: int | None = None,
    evidence: schema.EvidencePolicy | None = None,
    layout: DecisionLayout = "question",
    blank: schema.BlankPolicy | None = None,
    explain_positives: bool = False,
) -> Cascade:
    """Make the cascade of two models: `Evaluator({"cheap": A, "strong": B}, judge=cascade_of(A, B, ...))`.

    Args:
        cheap_model: Who is asked first: `decisions/NAME`, or a chat model, whom the evaluator asks for
            log-probabilities; without a probability nothing it says stands.
        strong_model: Who is asked where that is not sure.
        prompt: For both; a decision model is given the one for such models of the same family.
        threshold: The confidence from which a cheap verdict stands; None sends all to the strong judge. One
            that is named here comes without a guarantee: `cascade fit` finds one that has it.
        cheap_prompt: For the cheap judge, where that is another.
        cheap_mode: How the cheap model is asked; None is `decision` for `decisions/NAME`, else `pointwise`.
        mode: How the strong model is asked, likewise.
        relevant: The least grade that counts as relevant.
        evidence: What becomes of a verdict without sound evidence, by judges that quote.
        layout: Where a decision model finds a chunk.
        blank: What a chunk without text is: without a verdict (None), or `irrelevant`.
        explain_positives: Whether what the cheap judge finds relevant goes to the strong one too.

    Raises:
        ConfigError: A setting cannot be used, or both judges are the same.
    """
    first, second = cheap_mode or mode_for(cheap_model), mode or mode_for(strong_model)
    quoting = evidence if kind_named(first).asks == "text" else None
    cheap = with_blank(make_judge(cheap_prompt or prompt, first, relevant, 0, quoting, layout), blank)
    strong = with_blank(make_judge(prompt, second, relevant, 0, evidence, layout), blank)
    if cheap_model == strong_model and cheap.describe() == strong.describe():
        raise ConfigError(f"both judges of the cascade are {cheap_model} asked alike; one would do")
    return Cascade(cheap, strong, threshold, explain_positives)


def _in_words(record: Mapping[str, Any]) -> str:
    threshold = record.get("threshold")
    where = f"below {threshold:.2f}" if isinstance(threshold, float) else "for every chunk"
    positives = " and for relevant ones" if record.get("explain_positives") else ""
    first, then = (judge_in_words(record[stage]) or "a custom judge" for stage in (CHEAP, STRONG))
    return f"a cascade ({first} first, {then} {where}{positives})"


KIND = Kind(None, Cascade.from_record, stages=(CHEAP, STRONG), words=_in_words)
