"""What a run would take, before it is judged: calls, tokens, and money where prices are known."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from judge_eval.backends.around.prices import price_of, why_unpriced
from judge_eval.backends.expecting import Asked, Expected, expect_output
from judge_eval.backends.stack import Stacks
from judge_eval.cli.printing.door import remark, tell
from judge_eval.wire import Usage

if TYPE_CHECKING:
    from judge_eval.backends.stack import Stack
    from judge_eval.engine import Plan
    from judge_eval.evaluator import Evaluator
    from judge_eval.judges import Cascade
    from judge_eval.runs.judging.selection import Selecting
    from judge_eval.schema import Stage


def show_plan(evaluator: Evaluator, path: Path | str, selected: Selecting) -> None:
    """Print what judging the data would take: what is likely and whence that is known, and the worst case."""
    from judge_eval.judges import Cascade as TwoJudges

    dataset, plan = evaluator.plan(path, **selected)
    tell(f"{selected['name']}: {plan.traces} traces, {plan.chunks} chunks")
    if dataset.skipped:
        tell(f"{dataset.skipped} invalid records would be skipped")
    for each in dataset.remarks:
        remark(each)
    if isinstance(evaluator.judge, TwoJudges):
        _show_stages(evaluator, evaluator.judge, plan, path, selected)
        return
    tell(f"{plan.calls} calls, {plan.hits} answered without one")
    if plan.splits:
        others = plan.calls - plan.splits
        tell(f"{plan.splits} of the calls split references into claims; the other {others} are estimated")
    if plan.calls:
        likely = _likely(evaluator.stack, plan)
        tell(f"about {plan.input_tokens:,} input tokens")
        if plan.output_tokens:
            tell(f"about {likely.output_tokens:,} output tokens are likely ({likely.source})")
            tell(f"at most {plan.output_tokens:,} output tokens, where no answer has to be repaired")
        else:
            tell("no output tokens: a decision model writes nothing")
        tell(_money(evaluator.stack, plan.input_tokens, likely.output_tokens, plan.output_tokens))
    else:
        tell("cost: nothing, every answer is at hand")
    remark("nobody was asked")


def _likely(stack: Stack | Stacks, plan: Plan) -> Expected:
    asked = Asked(
        plan.passages,
        plan.output_tokens,
        plan.listwise,
        plan.answers,
        plan.answered_passages,
        plan.answered_tokens,
    )
    return expect_output(stack, asked)


def stage_cost(evaluator: Evaluator, stage: Stage, plan: Plan) -> str:
    """Say what the calls to one model of a cascade would take, in tokens and in money."""
    stacks = evaluator.stack
    stack = stacks.parts[stage] if isinstance(stacks, Stacks) else stacks
    likely = _likely(stack, plan).output_tokens if plan.output_tokens else 0
    made = f" and {likely:,} output tokens are likely" if likely else " are likely"
    money = _money(stack, plan.input_tokens, likely, plan.output_tokens)
    return f"about {plan.input_tokens:,} input{made if likely else ' tokens' + made}; {money}"


def _show_stages(
    evaluator: Evaluator, judge: Cascade, cheap: Plan, path: Path | str, selected: Selecting
) -> None:
    """Print what both judges of a cascade would take; the strong one is asked only in part."""
    from judge_eval.judges.routing import OnRoute

    tell(f"cheap: {cheap.calls} calls, {cheap.hits} answered without one")
    if cheap.calls:
        tell(f"  {stage_cost(evaluator, 'cheap', cheap)}")
    _, strong = evaluator.with_judge(OnRoute(judge.strong, judge.routes[1])).plan(path, **selected)
    rests = judge.guarantee
    if judge.threshold is None:
        tell(f"strong: {strong.calls} calls, since everything is escalated")
    elif rests is not None and not judge.explain_positives and not strong.listwise:
        expected = round((1 - rests.coverage) * strong.calls)
        tell(
            f"strong: about {expected} calls are likely ({1 - rests.coverage:.0%} of the sample the cascade "
            f"was fitted on were escalated), at most {strong.calls}"
        )
    else:
        tell(f"strong: from 0 to {strong.calls} calls; how much is escalated, the cheap judge will tell")
    if strong.calls:
        tell(f"  if everything is escalated: {stage_cost(evaluator, 'strong', strong)}")
    remark("nobody was asked")


def _money(stack: Stack | Stacks, given: int, likely: int, most: int) -> str:
    identities = list(stack.identities().values())
    if all(identity is not None and identity.provider == "fake" for identity in identities):
        return "cost: nothing, a fake judge calls nobody"
    costs = [stack.cost_of(given, tokens) for tokens in (likely, most)]
    if costs[0] is None or costs[1] is None:
        one = Usage(1, 1)
        unknown = next((each for each in identities if each is None or price_of(each, one) is None), None)
        return f"cost: unknown, since {why_unpriced(unknown)}"
    if not most:
        return f"cost: {_dollars(costs[0])} is likely, if what a call's questions share is billed once"
    return (
        f"cost: {_dollars(costs[0])} is likely, {_dollars(costs[1])} if every answer were as long as its cap"
    )


def _dollars(cost: float) -> str:
    return "under $0.01" if 0 < cost < 0.01 else f"about ${cost:.2f}"
