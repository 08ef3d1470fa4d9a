"""Inquiries whose requests go to a model of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from judge_eval.judges.base import Inquiry, Judge
from judge_eval.schema import Judgment, Scale, Trace, Verdict
from judge_eval.wire import Reply, Request


def route_request(request: Request, route: str) -> Request:
    """Return a request that goes to the model of a route; the same where there is no route."""
    if not route:
        return request
    origin = request.origin and route_request(request.origin, route)
    return replace(request, route=route, origin=origin)


def route_inquiry(inquiry: Inquiry, route: str) -> Inquiry:
    """Lead an inquiry on as it is, its requests sent to the model of a route."""
    replies: Sequence[Reply] | None = None
    while True:
        try:
            wave = next(inquiry) if replies is None else inquiry.send(replies)
        except StopIteration as stop:
            judgment: Judgment = stop.value
            return judgment
        replies = yield [route_request(request, route) for request in wave]


@dataclass(frozen=True, slots=True)
class OnRoute:
    """A judge whose requests all go to one of the evaluator's several models."""

    judge: Judge
    route: str
    """The key of the model."""

    @property
    def scale(self) -> Scale:
        """The judge's."""
        return self.judge.scale

    @property
    def needs(self) -> tuple[Literal["reference", "answer"], ...]:
        """What the judge needs of a trace."""
        return self.judge.needs

    def describe(self) -> dict[str, Any]:
        """What the judge says of itself, with the route."""
        return {**self.judge.describe(), "route": self.route}

    def inquire(self, trace: Trace, known: Mapping[str, Verdict] = {}) -> Inquiry:
        """Plan the judging of one trace, as the judge does."""
        return route_inquiry(self.judge.inquire(trace, known), self.route)
