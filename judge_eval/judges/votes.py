"""How the grades of several judges become one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from judge_eval.schema import NoVerdict, Outcome, Scale, Verdict

Vote: TypeAlias = Literal["majority", "median", "mean"]
"""`majority` decides relevance by vote, a tie being irrelevant, and takes the lower median of the winning
side; `median` takes the lower median of all; `mean` rounds the mean, halves upward."""


def combine(chunk_id: str, outcomes: Sequence[Outcome], scale: Scale, vote: Vote, quorum: int) -> Outcome:
    """Combine what the members of a panel say of one chunk.

    Members without a verdict have no vote. The words are those of the first member whose grade is nearest
    to the panel's, of equally near ones the first that gives reasons.

    Args:
        chunk_id: The chunk.
        outcomes: One a member.
        scale: The members' common scale.
        vote: How grades are combined.
        quorum: How many verdicts there must be; with fewer there is none.

    Returns:
        A verdict whose `expected_grade` is the members' mean and whose `confidence` is the mean of their
        own, each counting as 0 or 1 where it told none, and so the probability of each grade; or a
        `NoVerdict` for the first reason met.
    """
    verdicts = [o for o in outcomes if o.kind == "verdict"]
    if len(verdicts) < quorum:
        first = next(o for o in outcomes if o.kind == "no_verdict")
        detail = (
            f"{len(verdicts)} of {len(outcomes)} members gave a verdict, {quorum} are needed: {first.detail}"
        )
        return NoVerdict(chunk_id=chunk_id, why=first.why, detail=detail)
    grade = _grade([v.grade for v in verdicts], scale, vote)
    relevant = grade >= scale.relevant
    nearest = min(verdicts, key=lambda v: (v.relevant != relevant, abs(v.grade - grade), v.reason is None))
    expected = [v.grade if v.expected_grade is None else v.expected_grade for v in verdicts]
    sure = [float(v.relevant) if v.confidence is None else v.confidence for v in verdicts]
    return Verdict(
        chunk_id=chunk_id,
        grade=grade,
        relevant=relevant,
        reason=nearest.reason,
        evidence=nearest.evidence,
        evidence_found=nearest.evidence_found,
        instruction_in_chunk=any(v.instruction_in_chunk for v in verdicts),
        confidence=sum(sure) / len(sure),
        expected_grade=sum(expected) / len(expected),
        grade_probabilities=_mean_of_grades(verdicts, scale),
    )


def _mean_of_grades(verdicts: Sequence[Verdict], scale: Scale) -> tuple[float, ...] | None:
    """Return the mean probability of each grade; None on a binary scale, or where a member keeps no such."""
    if scale.maximum == 1:
        return None
    rows = []
    for verdict in verdicts:
        if verdict.grade_probabilities is not None:
            rows.append(verdict.grade_probabilities)
        elif verdict.expected_grade is None:
            rows.append(tuple(float(grade == verdict.grade) for grade in range(scale.maximum + 1)))
        else:
            return None
    return tuple(sum(column) / len(rows) for column in zip(*rows, strict=True))


def _grade(grades: Sequence[int], scale: Scale, vote: Vote) -> int:
    if vote == "mean":
        return int(sum(grades) / len(grades) + 0.5)
    ordered = sorted(grades)
    if vote == "majority":
        high = [g for g in ordered if g >= scale.relevant]
        ordered = high if 2 * len(high) > len(ordered) else [g for g in ordered if g < scale.relevant]
    return ordered[(len(ordered) - 1) // 2]
