"""What people read of a run before it is judged: calls, tokens, and money if prices are known."""

from collections.abc import Iterator

from judge_eval.engine import Plan
from judge_eval.llm.backend import caches_prompt_from
from judge_eval.llm.budget import price_of, why_unpriced
from judge_eval.llm.stack import Stack
from judge_eval.safe_text import counted
from judge_eval.schema import Stage
from judge_eval.wire import Usage


def plan_lines(stack: Stack, plan: Plan) -> Iterator[str]:
    """Say what judging would take: what is likely, where that is known from, and the worst case."""
    yield f"{counted(plan.calls, 'call')}, {plan.hits} answered without a call"
    if plan.splits:
        others = plan.calls - plan.splits
        yield f"{plan.splits} of the calls split references into claims; the other {others} are estimated"
    if not plan.calls:
        yield f"cost: nothing, {'every answer is in the cache' if plan.hits else 'there is nothing to ask'}"
        return
    likely, source = _likely_output(plan)
    yield f"about {plan.input_tokens:,} input tokens"
    some, every = caches_prompt_from(stack.backend)
    if plan.fixed_tokens < every:
        length = f"the fixed part of the prompt has about {plan.fixed_tokens:,} tokens"
        if plan.fixed_tokens < some:
            yield f"the server's prompt cache is not used: {length}, less than {some:,}"
        else:
            yield f"the server's prompt cache may not be used: {length}, and some models want {every:,}"
    if plan.output_tokens:
        yield f"about {likely:,} output tokens are likely ({source})"
        yield f"at most {plan.output_tokens:,} output tokens, unless an answer is asked for again"
    else:
        yield "no output tokens: a decision model generates no text"
    yield _money(stack, plan.input_tokens, likely, plan.output_tokens)


def stage_lines(stack: Stack, stage: Stage, plan: Plan) -> Iterator[str]:
    """Say what the calls to one model of a cascade would take."""
    yield f"{stage}: {plan.calls} calls, {plan.hits} answered without a call"
    if plan.calls:
        yield f"  {calls_cost(stack.part(stage), plan)}"


def escalation_lines(stack: Stack, stage: Stage, plan: Plan, share: float | None) -> Iterator[str]:
    """Say what a later judge of a cascade would take, if a share of the chunks reaches it (None: unknown)."""
    # The plan is of everything.
    if share == 1:
        yield f"{stage}: {plan.calls} calls, since everything is escalated"
    elif share is not None:
        yield (
            f"{stage}: about {round(share * plan.calls)} calls are likely ({share:.0%} of the sample the "
            f"cascade was fitted on were escalated), at most {plan.calls}"
        )
    else:
        yield f"{stage}: from 0 to {plan.calls} calls; the cheap judge decides how much is escalated"
    if plan.calls:
        yield f"  if everything is escalated: {calls_cost(stack.part(stage), plan)}"


def calls_cost(stack: Stack, plan: Plan) -> str:
    """Say what the calls of a plan would cost, in tokens and in money."""
    likely = _likely_output(plan)[0] if plan.output_tokens else 0
    tokens = f"input and {likely:,} output tokens" if likely else "input tokens"
    money = _money(stack, plan.input_tokens, likely, plan.output_tokens)
    return f"about {plan.input_tokens:,} {tokens} are likely; {money}"


_SHARE = 3  # if nothing is known, an answer is expected to use one part in so many of its cap
_LEAST = 10  # the fewest answers from which others are estimated


def _likely_output(plan: Plan) -> tuple[int, str]:
    """Estimate a run's output tokens from cached answers to its data, else from the cap; say from which."""
    if plan.answers < _LEAST or not plan.answered_passages:
        return plan.output_tokens // _SHARE, "a third of the cap, since no earlier answers are known"
    each = plan.answered_tokens / plan.answered_passages
    likely = min(plan.output_tokens, round(each * plan.passages))
    return likely, f"as the {plan.answers:,} answers to these data in the cache"


def _money(stack: Stack, input_tokens: int, likely: int, most: int) -> str:
    if stack.calls_nobody:
        return "cost: nothing, the judge calls no server"
    costs = [stack.cost_of(input_tokens, tokens) for tokens in (likely, most)]
    if costs[0] is None or costs[1] is None:
        models = stack.identities().values()
        unknown = next((each for each in models if each is None or price_of(each, Usage(1, 1)) is None), None)
        return f"cost: unknown, since {why_unpriced(unknown)}"
    if not most:
        return f"cost: {dollars(costs[0])} is likely, if what a call's questions share is billed once"
    return f"cost: {dollars(costs[0])} is likely, {dollars(costs[1])} if every answer were as long as its cap"


def dollars(cost: float) -> str:
    """Write a cost for people, to the cent."""
    return "under $0.01" if 0 < cost < 0.01 else f"about ${cost:.2f}"
