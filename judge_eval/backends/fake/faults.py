"""The faults a fake judge can show: unreadable, refused, truncated or failed replies."""

from __future__ import annotations

from typing import Final

from judge_eval.backends.fake import claiming, rules
from judge_eval.errors import CallError, ConfigError, TransientError, Why
from judge_eval.wire import Completion, DecisionAnswer, Request

_MALFORMED: Final = (
    "I looked at the passage and I think it might help, but I am not sure.",
    '{"evidence": "", "reason": "cut short", "instruction_in_chunk": false, "verdict": "maybe"}',
    '{"evidence": "", "reason": "no verdict at all"}',
    "[1, 2, 3]",
    "",
)


def refused(request: Request) -> Completion:
    """Decline: a completion without text, as servers send it; or every question of the request."""
    if request.questionnaire is None:
        return Completion("", "refusal")
    return _unanswered(request, "refused", "declined")


def malformed(request: Request) -> str | Completion:
    """Write one of several replies from which no verdict can be read."""
    if request.questionnaire is not None:
        return _unanswered(request, "unparsable", "no probability")
    return _MALFORMED[request.digest[0] % len(_MALFORMED)]


class Flaky:
    """Overlap behind faults drawn from the request, so that a run fails the same way every time."""

    def __init__(self, *, seed: int, transient: float, malformed: float, truncated: float) -> None:
        shares = (transient, malformed, truncated)
        if not (all(0 <= part <= 1 for part in shares) and sum(shares) <= 1 + 1e-9):
            raise ConfigError(
                f"the shares of faults must be from 0 to 1 and at most 1 together, not {shares}"
            )
        self._seed, self._transient, self._malformed, self._truncated = seed, *shares
        self._failed: dict[bytes, int] = {}  # attempts that failed, of requests that have not succeeded yet

    def __call__(self, request: Request) -> str | Completion | CallError:
        """Answer, or fail as drawn for this attempt at this request."""
        attempt = self._failed.pop(request.digest, 0)
        drawn = rules.share(request, self._seed, attempt)
        if drawn < self._transient:
            self._failed[request.digest] = attempt + 1
            return _fault(int(drawn * 1e9))
        if drawn < self._transient + self._malformed:
            return malformed(request)
        text = claiming.answer_by(request, rules.by_overlap)
        if isinstance(text, Completion):
            return text
        if drawn < self._transient + self._malformed + self._truncated:
            return Completion(text[: len(text) // 2], "length")
        return text


def _unanswered(request: Request, why: Why, detail: str) -> Completion:
    return Completion(
        "", answers=(DecisionAnswer((), why, detail),) * (len(request.claims) or len(request.passages))
    )


def _fault(draw: int) -> CallError:
    faults = (
        TransientError("fake: too many requests", kind="rate_limit", retry_after=0.0, sent=False),
        TransientError("fake: the server is overloaded", kind="server"),
        TransientError("fake: the connection was reset", kind="connection"),
    )
    return faults[draw % len(faults)]
