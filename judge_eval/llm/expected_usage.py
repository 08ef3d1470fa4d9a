"""What a run would ask, and its likely output tokens by the answers in the cache."""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from judge_eval.errors import StoreError
from judge_eval.llm.cache.store import Sealer, Store
from judge_eval.llm.stack import ModelStack, Stack
from judge_eval.wire import Completion

SHARE = 3
"""If nothing is known, an answer is expected to use one part in so many of its cap."""
_LEAST = 10  # the fewest answers from which others are estimated
_ENOUGH = 1_000  # the most answers that are used
_READ = 20_000  # the most rows of a cache that are read
_VERSION = re.compile(r"[-@:.](?:\d{4}-?\d{2}-?\d{2}|\d{4,8}|v\d+|latest)")
"""What a server may add to the name of a model."""


@dataclass(slots=True)
class Plan:
    """What a run would ask, counted without a call."""

    traces: int = 0
    chunks: int = 0
    calls: int = 0
    """Requests of the first round without a known answer; repairs are not included."""
    splits: int = 0
    """How many of them split a reference into claims; the other counts are then estimates."""
    hits: int = 0
    input_tokens: int = 0
    """Estimated as a quarter of the characters."""
    output_tokens: int = 0
    """The most that the calls may return."""
    passages: int = 0
    """Passages in the calls."""
    listwise: bool = False
    """Whether a call is about several passages."""
    answers: int = 0
    """Known answers whose token counts are known."""
    answered_passages: int = 0
    """Passages that those answers judged."""
    answered_tokens: int = 0
    """Output tokens of those answers."""
    fixed_tokens: int = 0
    """The longest fixed part (system text) of the calls, estimated as a quarter of the characters."""


@dataclass(frozen=True, slots=True)
class Expected:
    """How many output tokens are likely."""

    output_tokens: int
    source: str
    """Where that comes from, in words."""


def expect_output(stack: Stack, plan: Plan) -> Expected:
    """Estimate a run's output tokens from cached answers of the run, else of its model, else from the cap."""
    if plan.answers >= _LEAST and plan.answered_passages:
        each = plan.answered_tokens / plan.answered_passages
        return _likely(plan, each, f"as the {plan.answers:,} answers to these data in the cache")
    counts, means = [], []
    for part in stack.parts.values():
        answers = _of_model(part, plan.listwise)
        if len(answers) < _LEAST:
            break
        counts.append(len(answers))
        means.append(sum(tokens for _, tokens in answers) / sum(passages for passages, _ in answers))
    else:
        models = "this model" if len(means) == 1 else "these models"
        source = f"as the {sum(counts):,} answers of {models} in the cache"
        return _likely(plan, sum(means) / len(means), source)
    return Expected(plan.output_tokens // SHARE, "a third of the cap, since no earlier answers are known")


def _likely(plan: Plan, each: float, source: str) -> Expected:
    return Expected(min(plan.output_tokens, round(each * plan.passages)), source)


def _of_model(stack: ModelStack, listwise: bool) -> Sequence[tuple[int, int]]:
    identity = stack.backend.identity
    answers: list[tuple[int, int]] = []
    if stack.cached is None or identity is None:
        return answers
    with suppress(StoreError):
        for answer in _answers(stack.cached.store):
            many = '"verdicts"' in answer.text[:40]
            passages = answer.text.count('"evidence"')
            if many == listwise and passages and is_model(identity.model, answer.model):
                answers.append((passages, answer.usage.output_tokens))
                if len(answers) >= _ENOUGH:
                    break
    return answers


def _answers(store: Store) -> Iterator[Completion]:
    blocks = getattr(store, "blocks", None)
    sealer, read = Sealer.from_environment(), 0
    for block in blocks() if blocks is not None else ():
        for key, row in block:
            value = sealer.unseal(key, row)
            if value is not None:
                with suppress(ValueError):
                    yield Completion.decode(value)
        read += len(block)
        if read >= _READ:
            return


def is_model(requested: str, reported: str) -> bool:
    """Whether a server's name of a model means the requested model, or a version of it."""
    name, shown = requested.rpartition("/")[2].lower(), reported.rpartition("/")[2].lower()
    return shown == name or (shown.startswith(name) and _VERSION.fullmatch(shown[len(name) :]) is not None)
