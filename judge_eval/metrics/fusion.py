"""Several ranked lists of one question made into one."""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, TypeVar, cast, get_args

import numpy as np

from judge_eval.errors import MetricError, UnknownNameError
from judge_eval.metrics.table import Values

Item = TypeVar("Item", bound=Hashable)
FusionMethod: TypeAlias = Literal["rrf", "combsum", "combmnz", "weighted"]
Norm: TypeAlias = Literal["min-max", "max", "sum", "zmuv", "rank", "none"]

_TAKES = {"rrf": ("k",), "combsum": ("norm",), "combmnz": ("norm",), "weighted": ("a", "norm")}


@dataclass(frozen=True, slots=True)
class Fusion:
    """How lists are fused: `rrf:k=60`, `combsum`, `combmnz:norm=max`, `weighted:a=.3`.

    Args:
        method: `rrf`, the sum of 1 / (k + rank) (Cormack 2009); `combsum`, the sum of normalised scores;
            `combmnz`, that times the number of lists that have the chunk (Fox and Shaw 1993); `weighted`,
            a times the first list's score plus 1 - a times the second's.
        k: Of `rrf`, >= 0.
        a: Of `weighted`, from 0 to 1.
        norm: How the scores of each list become comparable; see `normalised`.
    """

    method: FusionMethod
    k: float = 60
    a: float = 0.5
    norm: Norm = "min-max"

    @classmethod
    def parse(cls, text: str) -> Fusion:
        """Read a fusion, such as `rrf:k=60`. Raises `UnknownNameError` for a name, `MetricError` for a number."""
        method, params = parameters(text, _TAKES)
        norm = params.pop("norm", "min-max")
        if norm not in get_args(Norm):
            raise UnknownNameError("norm", norm, get_args(Norm))
        numbers = {name: number_in(text, value) for name, value in params.items()}
        made = cls(cast(FusionMethod, method), norm=cast(Norm, norm), **numbers)
        if not (made.k >= 0 and 0 <= made.a <= 1):
            raise MetricError(f"{text}: k must be at least 0, and a between 0 and 1")
        return made

    def fuse(self, lists: Sequence[Sequence[Item]], scores: Sequence[Sequence[float]]) -> list[tuple[Item, float]]:
        """Fuse the lists of a question.

        A list that lacks an item adds 0 for it. Of equal scores the item with the better best rank comes
        first, then the one whose best rank is in the earlier list. Scores are not rounded; equal sums are
        equal whatever the order of the lists.

        Args:
            lists: The items of each list, best first, each once.
            scores: The retriever's scores, laid out like `lists`; `rrf` does not read them.

        Returns:
            Items with their scores, best first.

        Raises:
            MetricError: `weighted` has not two lists, or a score is not finite.
        """
        if self.method == "weighted" and len(lists) != 2:
            raise MetricError(f"weighted fuses two lists, got {len(lists)}; use rrf or combsum")
        parts: dict[Item, list[float]] = {}
        first: dict[Item, tuple[int, int]] = {}
        for number, items in enumerate(lists):
            weight = (self.a, 1 - self.a)[number] if self.method == "weighted" else 1.0
            if self.method == "rrf":
                values = [1 / (self.k + rank) for rank in range(1, len(items) + 1)]
            else:
                values = (weight * normalised(scores[number], self.norm)).tolist()
            for rank, (item, value) in enumerate(zip(items, values, strict=True)):
                parts.setdefault(item, []).append(value)
                first[item] = min(first.get(item, (rank, number)), (rank, number))
        sums = {item: math.fsum(each) * (len(each) if self.method == "combmnz" else 1) for item, each in parts.items()}
        return [(item, sums[item]) for item in sorted(sums, key=lambda item: (-sums[item], first[item]))]


def normalised(scores: Sequence[float], norm: Norm) -> Values:
    """Make the scores of one list comparable with another's.

    `min-max` (s - min) / (max - min), all 0 for equal scores; `max` s / max; `sum` (s - min) / sum of these; `zmuv`
    mean 0 and deviation 1 (a chunk that a list lacks then counts as its mean); `rank` 1 - i / n, i from 0; `none`.

    Raises:
        MetricError: A score is not finite.
    """
    values = np.asarray(scores, dtype=np.float64)
    if not np.isfinite(values).all():
        raise MetricError("a score is not a finite number; rrf needs ranks alone")
    if not len(values) or norm == "none":
        return values
    low, high = values.min(), values.max()
    if norm == "rank":
        made = 1 - np.arange(len(values)) / len(values)
    elif norm == "min-max":
        made = (values - low) / max(high - low, 1e-9)
    elif norm == "max":
        made = values / (high or 1e-9)
    elif norm == "sum":
        made = (values - low) / max((values - low).sum(), 1e-9)
    else:
        made = (values - values.mean()) / max(values.std(), 1e-9)
    return np.asarray(made, dtype=np.float64)


def interleaved(lists: Sequence[Sequence[Item]]) -> list[Item]:
    """Take the next new item of each list in turn, the first list first."""
    rounds = max(map(len, lists), default=0)
    return list(dict.fromkeys(items[rank] for rank in range(rounds) for items in lists if rank < len(items)))


def parameters(text: str, known: Mapping[str, tuple[str, ...]]) -> tuple[str, dict[str, str]]:
    """Read `NAME` or `NAME:key=value,...` with the keys that each name takes."""
    name, _, rest = text.strip().partition(":")
    if name not in known:
        raise UnknownNameError("setting", name, known)
    params = dict(part.strip().partition("=")[::2] for part in rest.split(",")) if rest else {}
    for key in params:
        if key not in known[name]:
            raise UnknownNameError(f"parameter of {name}", key, known[name])
    return name, params


def number_in(text: str, value: str) -> float:
    """Read a number of a setting."""
    if not re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", value.strip(), re.IGNORECASE):
        raise MetricError(f"{text}: {value!r} is not a number")
    return float(value)
