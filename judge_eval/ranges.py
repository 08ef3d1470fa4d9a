"""The ranges of every number a user gives: one table, for flags, files of settings and Python alike."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from judge_eval.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Range:
    """From which number to which, both included."""

    low: float
    high: float
    whole: bool = True
    """Whether it is a whole number."""

    def check(self, value: object, where: str) -> None:
        """See that a value is a number in the range.

        Args:
            value: What was given; None is no number and passes.
            where: What it was given by, for the message.

        Raises:
            ConfigError: It is none; the message names the range.
        """
        if value is None:
            return
        kinds = (int,) if self.whole else (int, float)
        known = isinstance(value, kinds) and not isinstance(value, bool)
        if not known or not self.low <= value <= self.high:  # type: ignore[operator]
            raise ConfigError(f"{where} {_brief(value)}: write {self}")

    def __str__(self) -> str:
        kind = "a whole number" if self.whole else "a number"
        return f"{kind} from {self.low:,g} to {_spelled(self.high)}"


def _spelled(number: float) -> str:
    return f"{number:,}" if isinstance(number, int) else f"{number:,g}"


def _brief(value: object) -> str:
    try:
        text = repr(value)
    except ValueError:  # Python writes no number of thousands of digits
        return "of thousands of digits"
    return text if len(text) <= 40 else text[:37] + "..."


_MANY = 10**12
"""More of anything than one machine holds."""

RANGES: Final[Mapping[str, Range]] = MappingProxyType(
    {
        # judging
        "repeat": Range(1, 100),
        "relevant": Range(1, 127),
        "concurrency": Range(1, 10_000),
        "timeout": Range(0.001, 86_400, whole=False),
        "rpm": Range(0.001, 10**9, whole=False),
        "tpm": Range(0.001, _MANY, whole=False),
        "attempts": Range(1, 100),
        "max_calls": Range(0, _MANY),
        "max_tokens": Range(0, 10**15),
        "max_cost": Range(0, 10**9, whole=False),
        "max_reply": Range(0.001, 10_000, whole=False),
        "hedge": Range(0.001, 86_400, whole=False),
        "workers": Range(1, 100_000),
        "max_failures": Range(0, _MANY),
        # data
        "depth": Range(1, 1_000_000),
        "limit": Range(1, _MANY),
        "seed": Range(0, 2**63 - 1),
        "shard": Range(1, 1_000_000),
        # people
        "label_relevant": Range(1, 127),
        "held_out": Range(0.01, 0.99, whole=False),
        "n": Range(1, _MANY),
        "most": Range(1, _MANY),
        # a cascade
        "cascade_threshold": Range(0.5, 1, whole=False),
        "alpha": Range(0.0001, 0.5, whole=False),
        "level": Range(0.5, 0.9999, whole=False),
        "worst": Range(1, _MANY),
        # files of a batch
        "max_requests": Range(1, 10**9),
        "max_bytes": Range(1, 10**15),
        "interval": Range(0.01, 86_400, whole=False),
        "patience": Range(0, 86_400, whole=False),
        # runs in object storage
        "push_every": Range(0, 86_400, whole=False),
        # the server
        "port": Range(0, 65_535),
        "max_body": Range(1, 100_000),
        "max_traces": Range(1, 10**9),
        "max_chunks": Range(1, 1_000_000),
        "max_queued": Range(1, 1_000_000),
        "max_runs": Range(1, 1_000),
        # a fake judge
        "latency": Range(0, 3_600, whole=False),
        "keep": Range(0, _MANY),
    }
)
"""By name, of a flag and of the argument in Python."""

PARAMS: Final[Mapping[str, Range]] = MappingProxyType(
    {
        "temperature": Range(0, 2, whole=False),
        "top_p": Range(0, 1, whole=False),
        "min_p": Range(0, 1, whole=False),
        "presence_penalty": Range(-2, 2, whole=False),
        "frequency_penalty": Range(-2, 2, whole=False),
        "max_tokens": Range(1, 10**9),
        "max_completion_tokens": Range(1, 10**9),
        "top_logprobs": Range(0, 1_000),
    }
)
"""Of what is sent with every request, where all servers mean the same by it."""


def check_ranges(values: Mapping[str, object], table: Mapping[str, Range] = RANGES) -> None:
    """See that numbers are in their ranges.

    Args:
        values: By name; None is no number and passes.
        table: The ranges.

    Raises:
        ConfigError: One is not; the message names the range.
    """
    for name, value in values.items():
        table[name].check(value, name)


def check_params(params: Mapping[str, Any]) -> None:
    """See that what is sent with every request can be written down as JSON, and is in its range.

    Raises:
        ConfigError: A number is none, or out of the range.
    """
    for name, value in params.items():
        if name in PARAMS:
            PARAMS[name].check(value, f"the parameter {name}")
        elif not _finite(value):
            raise ConfigError(f"the parameter {name} {_brief(value)}: write a finite number")


def _finite(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, Mapping):
        return all(map(_finite, value.values()))
    return all(map(_finite, value)) if isinstance(value, list | tuple) else True
