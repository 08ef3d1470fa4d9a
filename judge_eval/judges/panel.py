"""How the grades of several judges become one."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
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
    route_request,
    with_blank,
)
from judge_eval.registry import Kind
from judge_eval.wire import Reply, Request

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

    @classmethod
    def of_samples(cls, make: Callable[[int], Judge], count: int, *, vote: Vote = "majority") -> Panel:
        """Make a panel of `count` samples, >= 2, of one judge; `make` makes it for a sample, from 0."""
        return cls([Member(f"sample {k + 1}", make(k)) for k in range(count)], vote=vote)

    @property
    def scale(self) -> schema.Scale:
        """The members' common scale."""
        return self.members[0].judge.scale

    @property
    def needs(self) -> tuple[Literal["reference", "answer"], ...]:
        """What any member needs of a trace."""
        return tuple(dict.fromkeys(need for member in self.members for need in member.judge.needs))

    @property
    def chunks_alone(self) -> bool:
        """Whether every member judges each chunk without the others."""
        return all(judges_chunks_alone(member.judge) for member in self.members)

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
    ) -> Generator[RequestRound, Sequence[Reply], Sequence[schema.Judgment]]:
        """Lead the members' plans on, their rounds asked as one; return their judgments."""
        judgments: list[schema.Judgment | None] = [None] * len(plans)
        replies: list[Sequence[Reply] | None] = [None] * len(plans)
        while True:
            requests: list[Request] = []
            shares: list[tuple[int, int]] = []
            for place, plan in enumerate(plans):
                if judgments[place] is not None:
                    continue
                answer = replies[place]
                try:
                    asked = next(plan) if answer is None else plan.send(answer)
                except StopIteration as stop:
                    judgments[place] = stop.value
                    continue
                requests += [route_request(request, self.members[place].route) for request in asked]
                shares.append((place, len(asked)))
            if not requests:
                break
            answers = yield requests
            at = 0
            for place, count in shares:
                replies[place] = answers[at : at + count]
                at += count
        return [judgment for judgment in judgments if judgment is not None]

    def _conclude(
        self, trace: schema.Trace, known: Mapping[str, schema.Verdict], judgments: Sequence[schema.Judgment]
    ) -> schema.Judgment:
        outcomes: list[schema.Outcome] = []
        votes: list[list[int | None]] = [[] for _ in judgments]
        parts = {member.name: part for member, part in zip(self.members, judgments, strict=True)}
        for place, chunk in enumerate(trace.chunks):
            by_member = [judgment.outcomes[place] for judgment in judgments]
            before = known.get(chunk.id)
            for column, outcome in zip(votes, by_member, strict=True):
                # What an earlier session decided is the panel's verdict, not a vote of each member.
                counted = outcome.kind == "verdict" and before is None
                column.append(outcome.grade if counted and outcome.kind == "verdict" else None)
            outcomes.append(before or combine(chunk.id, by_member, self.scale, self.vote, self.quorum))
        return schema.Judgment(
            trace_id=trace.id,
            outcomes=tuple(outcomes),
            calls=tuple(call for judgment in judgments for call in judgment.calls),
            votes={m.name: tuple(column) for m, column in zip(self.members, votes, strict=True)},
            parts=parts if any(part.open or part.parts for part in judgments) else {},
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
    judge = make_judge(prompt, mode, relevant, evidence=evidence)
    if judges_by_claims(judge):
        raise ConfigError("judging by claims is not repeated: its rows are not put to a vote")
    return Panel.of_samples(lambda k: make_judge(prompt, mode, relevant, k, evidence), repeat, vote=vote)


def _in_words(record: Mapping[str, Any]) -> str:
    return f"a panel of {len(record['members'])} ({record.get('vote')})"


KIND = Kind(None, Panel.from_record, parts="members", words=_in_words)
