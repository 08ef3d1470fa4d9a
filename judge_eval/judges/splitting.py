"""Splitting a reference into its claims: once, whatever is retrieved for it."""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from judge_eval import limits, schema
from judge_eval.errors import CallError
from judge_eval.judges import parsing
from judge_eval.judges.judge import JudgingPlan, RequestRound
from judge_eval.judges.prompted import describe_form, fit_form
from judge_eval.judges.questions import call_of, failed_call, repair, rounds, second_look
from judge_eval.prompts import ClaimsForm
from judge_eval.quotes import stands_in, telling_words, uncovered
from judge_eval.wire import Completion, Reply, Request

SPLIT_FAILED = "the reference could not be split into claims: "
"""Stands before the reason in a `NoVerdict`."""
_LARGE = 0.5  # a second look is asked for if a greater share of the reference's words is in no quote


@dataclass
class Split:
    """The result of splitting one reference."""

    claims: tuple[schema.Claim, ...] | None = None
    """None if it could not be split."""
    problem: parsing.Problem | None = None
    """Why not."""
    call: schema.Call | None = None
    tried: set[str] = field(default_factory=set)
    rest: int = 0
    """How many telling words of the reference are in no quote."""

    @property
    def failure(self) -> parsing.Problem:
        """Why the chunks have no verdict."""
        problem = self.problem or parsing.NOT_ASKED
        return parsing.Problem(problem.why, SPLIT_FAILED + problem.detail)


class Splitting:
    """Asks for the claims of a reference: atomic, self-contained, vital or not, each quoting the reference.

    The request depends on question and reference alone, so all retrievers, depths and runs share the answer.
    A reply that cannot be read, or whose quotes are not in the reference, is asked for again once, with the
    problem named. If most of the reference is in no quote, a second look is asked for, and the more complete
    answer counts. A reference that still cannot be split has no claims, and the reason is kept.

    Args:
        prompt: A prompt that splits: its id, the path of a file of your own, or a form made of one.
        max_tokens: The cap on the reply's tokens, to which a reference adds its length; by default the prompt's.

    Raises:
        PromptError: The prompt is of another mode or unusable.
        UnknownNameError: There is no such prompt.
    """

    scale: schema.Scale = schema.BINARY
    needs: tuple[Literal["reference", "answer"], ...] = ("reference",)

    def __init__(self, prompt: str | Path | ClaimsForm = "claims/split", *, max_tokens: int | None = None) -> None:
        self.form = fit_form(prompt, ClaimsForm, "split")
        self.max_tokens = max_tokens or self.form.prompt.max_tokens

    def describe(self) -> dict[str, Any]:
        """Everything about it that could change a claim."""
        prompt = describe_form(self.form, self.scale)["prompt"]
        return {"mode": "split", "prompt": prompt, "max_tokens": self.max_tokens}

    def plan(self, trace: schema.Trace, known: Mapping[str, schema.Verdict] = {}) -> JudgingPlan:  # noqa: ARG002
        """Plan the splitting alone: no chunk is judged, so none has a verdict."""
        split = yield from self.split(trace)
        failure = split.failure
        if split.claims is not None:
            failure = parsing.Problem("unjudged", "the reference was split, nothing else")
        return schema.Judgment(
            trace_id=trace.id,
            outcomes=tuple(failure.no_verdict(chunk.id) for chunk in trace.chunks),
            claims=None if split.claims is None else schema.ClaimsJudged(claims=split.claims),
        )

    def split(self, trace: schema.Trace) -> Generator[RequestRound, Sequence[Reply], Split]:
        """Ask for the claims of a trace's reference; its chunks are not looked at."""
        split = Split()
        yield from rounds([(split, self.request(trace))], self._take)
        return split

    def request(self, trace: schema.Trace) -> Request:
        """Make the request that splits a trace's reference."""
        reference = trace.reference or ""
        return Request(
            form=self.form,
            query=trace.query,
            history=trace.conversation,
            passages=(),
            max_tokens=self.max_tokens + len(reference),
            reference=reference,
            accepts=lambda reply: not isinstance(read_split(reply, reference, trace.conversation), parsing.Problem),
            trace_id=trace.id,
            chunk_ids=tuple(chunk.id for chunk in trace.chunks),
        )

    def _take(self, split: Split, request: Request, reply: Reply) -> Request | None:
        if isinstance(reply, CallError):
            if split.claims is None:
                split.problem = failed_call(reply, split.problem)
            return None
        reference = request.reference or ""
        read = read_split(reply, reference, request.history)
        if isinstance(read, parsing.Problem):
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
            asked = self.form.second_look("; ".join(map(parsing.glanced, left[:5])))
            return second_look(request, reply, asked)
        return None


def read_split(completion: Completion, reference: str, history: str = "") -> tuple[schema.Claim, ...] | parsing.Problem:
    """Read the claims of a reference, whose quotes must stand in it; equal ones are one. Ids count from 1."""
    try:
        claims: dict[str, schema.Claim] = {}
        shown = parsing.holding_objects((reference, history))
        for number, item in enumerate(parsing.items_of(completion, "claims", shown), 1):
            parsing.check_fields(item, ("quote", "claim", "vital"), f"claim {number}")
            text, quote, vital = item["claim"], item["quote"], item["vital"]
            if type(text) is not str or type(quote) is not str or not text.strip():
                raise parsing.UnreadableError(f'"claim" and "quote" of claim {number} must be strings with words')
            vital = parsing.flag_of(vital, f'"vital" of claim {number}')
            if not stands_in(reference, quote):
                raise parsing.UnreadableError(
                    f"claim {number} quotes text that is not in the reference: {parsing.glanced(quote)}"
                )
            text = " ".join(parsing.without_surrogates(text).split())
            claim = schema.Claim(
                id=str(len(claims) + 1), text=text, vital=vital, quote=parsing.without_surrogates(quote)
            )
            claims.setdefault(text.casefold(), claim)
        if len(claims) > limits.CLAIMS:
            raise parsing.UnreadableError(f"there are more than {limits.CLAIMS:,} claims")
        return tuple(claims.values())
    except parsing.UnreadableError as error:
        return parsing.problem_of(completion, str(error))
