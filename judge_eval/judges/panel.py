"""How the grades of several judges become one."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias

from judge_eval import schema
from judge_eval.errors import ConfigError
from judge_eval.judges.judge import (
    Judge,
    JudgingPlan,
    ModelUse,
    RequestRound,
    as_begun,
    check_trace,
    judge_of_record,
    judges_by_claims,
    judges_chunks_alone,
    make_judge,
    models_asked,
    plan_of,
    route_plan,
    with_blank,
)
from judge_eval.registry import Kind
from judge_eval.wire import Reply

Vote: TypeAlias = Literal["majority", "median", "mean"]
"""`majority` decides relevance by vote, a tie being irrelevant, and takes the lower median of the winning
side; `median` takes the lower median of all; `mean` rounds the mean, halves upward."""


def combine(
    chunk_id: str, outcomes: Sequence[schema.Outcome], scale: schema.Scale, vote: Vote, quorum: int
) -> schema.Outcome:
    """Combine what the members of a panel say of one chunk, one outcome a member."""
    # Members without a verdict have no vote; with fewer than `quorum` verdicts there is a `NoVerdict` for the
    # first reason met. The words are those of the first member whose grade is nearest to the panel's, of
    # equally near ones the first that gives reasons. `expected_grade` is the members' mean, `confidence` the
    # mean of their own, each counting as 0 or 1 where it told none, and so the probability of each grade. An
    # instruction was seen where any member saw it; None where no member is asked for it.
    verdicts = [o for o in outcomes if o.kind == "verdict"]
    if len(verdicts) < quorum:
        first = next(o for o in outcomes if o.kind == "no_verdict")
        if first.why == "empty":
            return first
        detail = f"{len(verdicts)} of {len(outcomes)} members gave a verdict, {quorum} are needed: {first.detail}"
        return schema.NoVerdict(chunk_id=chunk_id, why=first.why, detail=detail)
    grade = _grade([v.grade for v in verdicts], scale, vote)
    relevant = grade >= scale.relevant
    nearest = min(verdicts, key=lambda v: (v.relevant != relevant, abs(v.grade - grade), v.reason is None))
    expected = [v.grade if v.expected_grade is None else v.expected_grade for v in verdicts]
    sure = [float(v.relevant) if v.confidence is None else v.confidence for v in verdicts]
    seen = [v.instruction_in_chunk for v in verdicts if v.instruction_in_chunk is not None]
    return schema.Verdict(
        chunk_id=chunk_id,
        grade=grade,
        relevant=relevant,
        reason=nearest.reason,
        evidence=nearest.evidence,
        evidence_found=nearest.evidence_found,
        instruction_in_chunk=any(seen) if seen else None,
        confidence=sum(sure) / len(sure),
        expected_grade=sum(expected) / len(expected),
        grade_probabilities=_mean_of_grades(verdicts, scale),
    )


def _mean_of_grades(verdicts: Sequence[schema.Verdict], scale: schema.Scale) -> tuple[float, ...] | None:
    """Return the mean probability of each grade; None on the scale 0-1, or where a member keeps no such."""
    if scale.binary:
        return None
    rows = []
    for verdict in verdicts:
        if verdict.grade_probabilities is not None:
            rows.append(verdict.grade_probabilities)
        elif verdict.expected_grade is None:
            rows.append(tuple(float(grade == verdict.grade) for grade in scale.grades))
        else:
            return None
    return tuple(sum(column) / len(rows) for column in zip(*rows, strict=True))


def _grade(grades: Sequence[int], scale: schema.Scale, vote: Vote) -> int:
    if vote == "mean":
        return int(sum(grades) / len(grades) + 0.5)
    ordered = sorted(grades)
    if vote == "majority":
        high = [g for g in ordered if g >= scale.relevant]
        ordered = high if 2 * len(high) > len(ordered) else [g for g in ordered if g < scale.relevant]
    return ordered[(len(ordered) - 1) // 2]


NO_CLAIMS = "a panel does not judge by claims: rows are not put to a vote"
"""Why a judge by claims cannot be a member."""


@dataclass(frozen=True, slots=True)
class Member:
    """One judge of a panel."""

    name: str
    """What its votes go by."""
    judge: Judge
    route: str = ""
    """Which model it asks, where the panel has several: a key of the evaluator's models."""


class Panel:
    """A judge made of judges: their rounds are asked as one, their verdicts combined chunk by chunk.

    A member that fails on a chunk has no vote there; the others decide. What each member said is kept in
    the judgment's `votes`.

    Args:
        members: Two or more, on one scale with one threshold.
        vote: How grades are combined (see `judges.panel`).
        quorum: How many members must give a verdict for there to be one.

    Raises:
        ConfigError: There are too few members, names are not unique, scales differ, or one judges by claims.
    """

    def __init__(self, members: Sequence[Member], *, vote: Vote = "majority", quorum: int = 1) -> None:
        if len(members) < 2:
            raise ConfigError("a panel needs two members or more")
        if vote not in ("majority", "median", "mean"):
            raise ConfigError(f"no vote {vote!r}; known: majority, mean, median")
        if not 1 <= quorum <= len(members):
            raise ConfigError(f"the quorum must be between 1 and {len(members)}, got {quorum}")
        if any(judges_by_claims(member.judge) for member in members):
            raise ConfigError(NO_CLAIMS)
        names = [member.name for member in members]
        if len(set(names)) < len(names):
            raise ConfigError(f"the members of a panel need names of their own, not {', '.join(names)}")
        if len({member.judge.scale.words for member in members}) > 1:
            named = ", ".join(f"{member.name} {member.judge.scale.words}" for member in members)
            raise ConfigError(f"the members of a panel must grade on one scale, not {named}")
        self.members, self.vote, self.quorum = tuple(members), vote, quorum
        judges = [member.judge for member in members]
        self.scale: schema.Scale = judges[0].scale
        self.needs: tuple[Literal["reference", "answer"], ...] = tuple(
            dict.fromkeys(need for judge in judges for need in judge.needs)
        )
        """What any member needs of a trace."""
        self.chunks_alone = all(map(judges_chunks_alone, judges))
        """Whether every member judges each chunk without the others."""

    def check_trace(self, trace: schema.Trace) -> None:
        """Check that a trace has what each member needs. Raises `DataError` if it does not."""
        for member in self.members:
            check_trace(member.judge, trace)

    def describe(self) -> dict[str, Any]:
        """Everything about the panel that could change a verdict."""
        members = [{"name": m.name, "route": m.route, **m.judge.describe()} for m in self.members]
        return {
            "mode": "panel",
            "vote": self.vote,
            "quorum": self.quorum,
            "scale": self.scale.model_dump(),
            "members": members,
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """Make the panel again that `describe` returned this record of; raises as for other judges."""
        members = [Member(str(m["name"]), judge_of_record(m), str(m["route"])) for m in record["members"]]
        return cls(members, vote=record["vote"], quorum=record["quorum"])

    def models_asked(self) -> Iterator[ModelUse]:
        """Return the models that the members ask."""
        for member in self.members:
            yield from models_asked(member.judge, member.route)

    def as_begun(self, record: Mapping[str, Any]) -> Panel:
        """Return the panel with the versions of prompts that a record names, where none was asked for."""
        records = {part.get("name"): part for part in record.get("members") or () if isinstance(part, Mapping)}
        members = [replace(m, judge=as_begun(m.judge, records.get(m.name))) for m in self.members]
        return Panel(members, vote=self.vote, quorum=self.quorum)

    def with_blank(self, rule: schema.BlankPolicy) -> Panel:
        """Return the panel whose members treat chunks without text so."""
        members = [replace(m, judge=with_blank(m.judge, rule)) for m in self.members]
        return Panel(members, vote=self.vote, quorum=self.quorum)

    def plan(self, trace: schema.Trace, known: Mapping[str, schema.Verdict] = {}) -> JudgingPlan:
        """Plan the judging of one trace: the rounds of all members, side by side."""
        plans = [member.judge.plan(trace, known) for member in self.members]
        judgments = yield from self._side_by_side(plans)
        return self._conclude(trace, known, judgments)

    def is_complete(self, trace: schema.Trace, earlier: schema.Judgment) -> bool:  # noqa: ARG002
        """Tell whether every member has voted on every chunk with a text."""
        return not earlier.open and not earlier.parts

    def resume(self, trace: schema.Trace, earlier: schema.Judgment) -> JudgingPlan:
        """Plan the votes that are missing: each member goes on from its own."""
        plans = [plan_of(member.judge, trace, earlier.parts.get(member.name)) for member in self.members]
        judgments = yield from self._side_by_side(plans)
        return self._conclude(trace, {}, judgments)

    def _side_by_side(
        self, plans: Sequence[JudgingPlan]
    ) -> Generator[RequestRound, Sequence[Reply], list[schema.Judgment]]:
        """Lead the members' plans on, their rounds asked as one; return their judgments."""
        led = {m.name: route_plan(plan, m.route) for m, plan in zip(self.members, plans, strict=True)}
        judgments: dict[str, schema.Judgment] = {}
        replies: dict[str, Sequence[Reply]] = {}
        while len(judgments) < len(led):
            asked: dict[str, RequestRound] = {}
            for name, plan in led.items():
                if name not in judgments:
                    try:
                        asked[name] = plan.send(replies[name]) if name in replies else next(plan)
                    except StopIteration as stop:
                        judgments[name] = stop.value
            if asked:
                answers = iter((yield [request for requests in asked.values() for request in requests]))
                replies = {name: list(islice(answers, len(requests))) for name, requests in asked.items()}
        return [judgments[name] for name in led]

    def _conclude(
        self, trace: schema.Trace, known: Mapping[str, schema.Verdict], judgments: Sequence[schema.Judgment]
    ) -> schema.Judgment:
        by_chunk = zip(*(judgment.outcomes for judgment in judgments), strict=True)
        outcomes = tuple(
            known.get(chunk.id) or combine(chunk.id, by_member, self.scale, self.vote, self.quorum)
            for chunk, by_member in zip(trace.chunks, by_chunk, strict=True)
        )
        by_name = {member.name: part for member, part in zip(self.members, judgments, strict=True)}
        # What an earlier session decided is the panel's verdict, not a vote of each member.
        votes = {
            name: tuple(o.grade if o.kind == "verdict" and o.chunk_id not in known else None for o in part.outcomes)
            for name, part in by_name.items()
        }
        return schema.Judgment(
            trace_id=trace.id,
            outcomes=outcomes,
            calls=tuple(call for judgment in judgments for call in judgment.calls),
            votes=votes,
            parts=by_name if any(part.open or part.parts for part in judgments) else {},
        )


def repeated(
    prompt: str | Path,
    mode: str = "pointwise",
    relevant: int | None = None,
    repeat: int = 2,
    vote: Vote = "majority",
    evidence: schema.EvidencePolicy | None = None,
) -> Judge:
    """Make a panel of samples of the judge for a prompt, which is asked several times."""
    samples = [make_judge(prompt, mode, relevant, sample, evidence) for sample in range(repeat)]
    if judges_by_claims(samples[0]):
        raise ConfigError("judging by claims is not repeated: its rows are not put to a vote")
    return Panel([Member(f"sample {number}", judge) for number, judge in enumerate(samples, 1)], vote=vote)


def _in_words(record: Mapping[str, Any]) -> str:
    return f"a panel of {len(record['members'])} ({record.get('vote')})"


KIND = Kind(None, Panel.from_record, parts="members", words=_in_words)
