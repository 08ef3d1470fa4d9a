"""Several judges on the same trace, merged into one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from judge_eval.errors import ConfigError
from judge_eval.judges.base import Inquiry, Judge
from judge_eval.judges.routing import route_request
from judge_eval.judges.votes import Vote, combine
from judge_eval.schema import Judgment, Outcome, Scale, Trace, Verdict
from judge_eval.wire import Reply, Request


@dataclass(frozen=True, slots=True)
class Member:
    """One judge of a panel."""

    name: str
    """What its votes go by."""
    judge: Judge
    route: str = ""
    """Which model it asks, where the panel has several: a key of the evaluator's models."""


class Panel:
    """A judge made of judges: their waves are asked as one, their verdicts combined chunk by chunk.

    A member that fails on a chunk has no vote there; the others decide. What each member said is kept in
    the judgment's `votes`.

    Args:
        members: Two or more, on one scale with one threshold.
        vote: How grades are combined (see `judges.votes`).
        quorum: How many members must give a verdict for there to be one.

    Raises:
        ConfigError: There are too few members, names are not unique, or scales differ.
    """

    def __init__(self, members: Sequence[Member], *, vote: Vote = "majority", quorum: int = 1) -> None:
        if len(members) < 2:
            raise ConfigError("a panel needs two members or more")
        if vote not in ("majority", "median", "mean"):
            raise ConfigError(f"no vote {vote!r}; known: majority, mean, median")
        if not 1 <= quorum <= len(members):
            raise ConfigError(f"the quorum is {quorum}; it lies between 1 and {len(members)}")
        names = [member.name for member in members]
        if len(set(names)) < len(names):
            raise ConfigError(f"the members of a panel need names of their own, not {', '.join(names)}")
        scales = {member.judge.scale for member in members}
        if len(scales) > 1:
            named = ", ".join(
                f"{m.name} 0-{m.judge.scale.maximum} (relevant from {m.judge.scale.relevant})"
                for m in members
            )
            raise ConfigError(f"the members of a panel must grade on one scale, not {named}")
        self.members, self.vote, self.quorum = tuple(members), vote, quorum

    @classmethod
    def of_samples(cls, make: Callable[[int], Judge], count: int, *, vote: Vote = "majority") -> Panel:
        """Make a panel of one judge that is asked several times.

        Args:
            make: Makes the judge for a sample, counted from 0.
            count: How many samples, >= 2.
            vote: How grades are combined.
        """
        return cls([Member(f"sample {k + 1}", make(k)) for k in range(count)], vote=vote)

    @property
    def scale(self) -> Scale:
        """The members' common scale."""
        return self.members[0].judge.scale

    @property
    def needs(self) -> tuple[Literal["reference", "answer"], ...]:
        """What any member needs of a trace."""
        return tuple(dict.fromkeys(need for member in self.members for need in member.judge.needs))

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

    def inquire(self, trace: Trace, known: Mapping[str, Verdict] = {}) -> Inquiry:
        """Plan the judging of one trace: the waves of all members, side by side."""
        inquiries = [member.judge.inquire(trace, known) for member in self.members]
        judgments: list[Judgment | None] = [None] * len(inquiries)
        replies: list[Sequence[Reply] | None] = [None] * len(inquiries)
        while True:
            wave: list[Request] = []
            shares: list[tuple[int, int]] = []
            for place, inquiry in enumerate(inquiries):
                if judgments[place] is not None:
                    continue
                answer = replies[place]
                try:
                    asked = next(inquiry) if answer is None else inquiry.send(answer)
                except StopIteration as stop:
                    judgments[place] = stop.value
                    continue
                wave += [route_request(request, self.members[place].route) for request in asked]
                shares.append((place, len(asked)))
            if not wave:
                break
            answers = yield wave
            at = 0
            for place, count in shares:
                replies[place] = answers[at : at + count]
                at += count
        return self._conclude(trace, known, [judgment for judgment in judgments if judgment is not None])

    def _conclude(
        self, trace: Trace, known: Mapping[str, Verdict], judgments: Sequence[Judgment]
    ) -> Judgment:
        outcomes: list[Outcome] = []
        votes: list[list[int | None]] = [[] for _ in judgments]
        for place, chunk in enumerate(trace.chunks):
            said = [judgment.outcomes[place] for judgment in judgments]
            before = known.get(chunk.id)
            for column, outcome in zip(votes, said, strict=True):
                # What an earlier sitting decided is the panel's verdict, not a vote of each member.
                counted = outcome.kind == "verdict" and before is None
                column.append(outcome.grade if counted and outcome.kind == "verdict" else None)
            outcomes.append(before or combine(chunk.id, said, self.scale, self.vote, self.quorum))
        return Judgment(
            trace_id=trace.id,
            outcomes=tuple(outcomes),
            calls=tuple(call for judgment in judgments for call in judgment.calls),
            votes={m.name: tuple(column) for m, column in zip(self.members, votes, strict=True)},
        )
