"""Splitting a reference into its claims: once, whatever is retrieved for it."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from judge_eval.errors import CallError
from judge_eval.judges.base import Inquiry, Wave
from judge_eval.judges.claim_replies import read_split
from judge_eval.judges.parsing import Problem, glanced, without_surrogates
from judge_eval.judges.questions import call_of, claims_form, describe_form, repair, rounds
from judge_eval.prompts import ClaimsForm
from judge_eval.quotes import telling_words, uncovered
from judge_eval.schema import (
    BINARY,
    Call,
    Claim,
    ClaimsJudged,
    Judgment,
    NoVerdict,
    Scale,
    Trace,
    Verdict,
)
from judge_eval.wire import Completion, Message, Reply, Request

SPLIT_FAILED = "the reference could not be split into claims: "
"""What stands before the reason, in a verdict that is missing for it."""
_LARGE = 0.5
"""The share of a reference's words that stand in no quote from which on a second look is asked for."""


@dataclass
class Split:
    """What came of splitting one reference."""

    claims: tuple[Claim, ...] | None = None
    """None where it could not be split."""
    problem: Problem | None = None
    """Why not."""
    call: Call | None = None
    tried: set[str] = field(default_factory=set)
    rest: int = 0
    """How many telling words of the reference stand in no quote."""

    @property
    def failure(self) -> NoVerdict:
        """What is said of a chunk, of whatever id, for want of claims."""
        why = self.problem.why if self.problem else "unreachable"
        detail = self.problem.detail if self.problem else "the judge was not asked"
        return NoVerdict(chunk_id="", why=why, detail=SPLIT_FAILED + without_surrogates(detail))


class Splitting:
    """Asks for the claims of a reference: atomic, self-contained, vital or not, each quoting the reference.

    What is asked follows from question and reference alone, so all retrievers, depths and runs share the
    answer. A reply that cannot be read, or that quotes what does not stand in the reference, is asked for
    again once, with the problem named; where most of the reference stands in no quote a second look is
    asked for, and the more complete answer taken. Nothing is ever made up: what then cannot be split has
    no claims, and says why.

    Args:
        prompt: A prompt that splits: its id, the path of a file of your own, or a form made of one.
        max_tokens: The cap on the reply's tokens, to which a reference adds its length; the prompt's own
            where None.

    Raises:
        PromptError: The prompt is of another mode or unusable.
        UnknownNameError: There is no such prompt.
    """

    scale: Scale = BINARY
    needs: tuple[Literal["reference", "answer"], ...] = ("reference",)

    def __init__(
        self, prompt: str | Path | ClaimsForm = "claims/split", *, max_tokens: int | None = None
    ) -> None:
        self.form = claims_form(prompt, "split")
        self.max_tokens = max_tokens or self.form.prompt.max_tokens

    def describe(self) -> dict[str, Any]:
        """Everything about it that could change a claim."""
        told = describe_form(self.form, self.scale)
        return {"mode": "split", "prompt": told["prompt"], "max_tokens": self.max_tokens}

    def inquire(self, trace: Trace, known: Mapping[str, Verdict] = {}) -> Inquiry:  # noqa: ARG002
        """Plan the splitting alone: no chunk is judged, so none has a verdict."""
        split = yield from self.split(trace)
        failure = split.failure
        if split.claims is not None:
            failure = NoVerdict(chunk_id="", why="unjudged", detail="the reference was split, nothing else")
        return Judgment(
            trace_id=trace.id,
            outcomes=tuple(failure.model_copy(update={"chunk_id": chunk.id}) for chunk in trace.chunks),
            claims=None if split.claims is None else ClaimsJudged(claims=split.claims),
        )

    def split(self, trace: Trace) -> Generator[Wave, Sequence[Reply], Split]:
        """Ask for the claims of a trace's reference; its chunks are not looked at."""
        split = Split()
        yield from rounds([(split, self.request(trace))], self._take)
        return split

    def request(self, trace: Trace) -> Request:
        """Make the request that splits a trace's reference."""
        reference = trace.reference or ""
        return Request(
            form=self.form,
            query=trace.query,
            passages=(),
            max_tokens=self.max_tokens + len(reference),
            reference=reference,
            accepts=partial(_is_split, reference),
            trace_id=trace.id,
            chunk_ids=tuple(chunk.id for chunk in trace.chunks),
        )

    def _take(self, split: Split, request: Request, reply: Reply) -> Request | None:
        """Take a reply in, and return the request that follows from it, if any."""
        if isinstance(reply, CallError):
            if split.claims is None:
                split.problem = Problem(reply.why, reply.detail)
            return None
        reference = request.reference or ""
        read = read_split(reply, reference)
        if isinstance(read, Problem):
            if split.claims is not None:  # the second look brought nothing
                return None
            split.problem = read
            return repair(self.form, request, reply, read, split.tried)
        left = uncovered(reference, [claim.quote for claim in read])
        rest = sum(map(telling_words, left))
        if split.claims is None or rest < split.rest:
            split.claims, split.problem, split.rest = read, None, rest
            split.call = call_of(request, reply)
        large = rest > _LARGE * telling_words(reference)
        if large and "second look" not in split.tried and self.form.prompt.second_look:
            split.tried.add("second look")
            asked = self.form.second_look("; ".join(map(glanced, left[:5])))
            said = (Message("assistant", reply.text), Message("user", asked))
            return replace(request, follow_up=said, origin=None)
        return None


def _is_split(reference: str, completion: Completion) -> bool:
    return not isinstance(read_split(completion, reference), Problem)
