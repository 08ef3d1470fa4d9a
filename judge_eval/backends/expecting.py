"""What answers are likely to take, learned from those in the cache."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from judge_eval.backends.stack import Stack, Stacks
from judge_eval.backends.storing.seals import Sealer
from judge_eval.backends.storing.store import Store
from judge_eval.errors import StoreError
from judge_eval.wire import Completion

SHARE = 3
"""Where nothing is known, an answer is taken to use one part in so many of its cap."""
_LEAST = 10
"""So many answers say something of others."""
_ENOUGH = 1_000
"""So many answers are learned from."""
_READ = 20_000
"""So many rows of a cache are looked at."""
_VERSION = re.compile(r"[-@:.](?:\d{4}-?\d{2}-?\d{2}|\d{4,8}|v\d+|latest)")
"""What a server puts behind the name of a model that was asked for."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a run would ask and what answers it has already; see `Plan`."""

    passages: int
    """Passages in the calls that would be made."""
    cap: int
    """The most output tokens of those calls."""
    listwise: bool
    answers: int = 0
    """Answers to requests of the same run that the cache holds."""
    answered_passages: int = 0
    answered_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Expected:
    """How many output tokens are likely."""

    output_tokens: int
    source: str
    """Where that comes from, in words."""


def expect_output(stack: Stack | Stacks, asked: Asked) -> Expected:
    """Say how many output tokens the calls of a run are likely to bring.

    Learned from answers of the same run in the cache, else from those of the same model there, else a share
    of the cap.

    Args:
        stack: Who would be asked.
        asked: What would be asked.
    """
    if asked.answers >= _LEAST and asked.answered_passages:
        each = asked.answered_tokens / asked.answered_passages
        return _likely(asked, each, f"as the {asked.answers:,} answers to these data in the cache")
    stacks = [stack] if isinstance(stack, Stack) else list(stack.parts.values())
    counts, means = [], []
    for one in stacks:
        taken = _of_model(one, asked.listwise)
        if len(taken) < _LEAST:
            break
        counts.append(len(taken))
        means.append(sum(tokens for _, tokens in taken) / sum(passages for passages, _ in taken))
    else:
        models = "this model" if len(stacks) == 1 else "these models"
        source = f"as the {sum(counts):,} answers of {models} in the cache"
        return _likely(asked, sum(means) / len(means), source)
    return Expected(asked.cap // SHARE, "a third of the cap, for want of answers to learn from")


def _likely(asked: Asked, each: float, source: str) -> Expected:
    return Expected(min(asked.cap, round(each * asked.passages)), source)


def _of_model(stack: Stack, listwise: bool) -> Sequence[tuple[int, int]]:
    """Return of each answer of a model how many passages it judges and how many tokens it took."""
    identity = stack.backend.identity
    found: list[tuple[int, int]] = []
    if stack.cached is None or identity is None:
        return found
    with suppress(StoreError):
        for answer in _answers(stack.cached.store):
            many = '"verdicts"' in answer.text[:40]
            passages = answer.text.count('"evidence"')
            if many == listwise and passages and is_model(identity.model, answer.model):
                found.append((passages, answer.usage.output_tokens))
                if len(found) >= _ENOUGH:
                    break
    return found


def _answers(store: Store) -> Iterator[Completion]:
    """Yield answers of a store that can be walked through; what cannot be read is passed over."""
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


def is_model(asked: str, given: str) -> bool:
    """Tell whether a server's name of a model is that of the model asked for, or of a version of it."""
    name, told = asked.rpartition("/")[2].lower(), given.rpartition("/")[2].lower()
    return told == name or (told.startswith(name) and _VERSION.fullmatch(told[len(name) :]) is not None)
