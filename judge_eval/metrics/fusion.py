"""Several ranked lists of each question made into one."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, cast, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from judge_eval.errors import MetricError, UnknownNameError
from judge_eval.metrics.ragged import ranks_of
from judge_eval.metrics.table import Values

FusionMethod: TypeAlias = Literal["rrf", "combsum", "combmnz", "weighted"]
Norm: TypeAlias = Literal["min-max", "max", "sum", "zmuv", "rank", "none"]
Items: TypeAlias = NDArray[np.int64]
RankedLists: TypeAlias = tuple[Items, Items]
"""A system's lists: the items (numbers from 0, each of one question) in rank order, each once, and where the list of
each question begins and the last one ends."""
_NOWHERE: Final = np.iinfo(np.int64).max

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

    def fuse(
        self, lists: Sequence[RankedLists], scores: Sequence[Values], questions: Items
    ) -> tuple[Items, NDArray[np.float64]]:
        """Fuse the lists of each of many questions.

        A list that lacks an item adds 0 for it. Of equal scores the item with the better best rank comes
        first, then the one whose best rank is in the earlier list. Scores are not rounded; equal sums are
        equal whatever the order of the lists.

        Args:
            lists: The lists of each system; see `RankedLists`.
            scores: The retriever's scores, laid out like the items of `lists`; `rrf` does not read them.
            questions: The question of each item, ascending, shape (items,).

        Returns:
            The items that a list has, question by question and best first, and the score of each item.

        Raises:
            MetricError: `weighted` has not two lists, or a score is not finite.
        """
        if self.method == "weighted" and len(lists) != 2:
            raise MetricError(f"weighted fuses two lists, got {len(lists)}; use rrf or combsum")
        parts, times = np.zeros((len(questions), len(lists))), np.zeros(len(questions))
        for number, (items, starts) in enumerate(lists):
            if self.method == "rrf":
                values = 1 / (self.k + ranks_of(starts) + 1)
            else:
                weight = (self.a, 1 - self.a)[number] if self.method == "weighted" else 1.0
                values = weight * _each_normalised(scores[number], starts, self.norm)
            parts[items, number] = values
            times[items] += 1
        sums = parts.sum(axis=1)  # exact to the last bit for two numbers, whatever their order
        many = np.flatnonzero(times > 2)
        sums[many] = [math.fsum(row) for row in parts[many].tolist()]
        if self.method == "combmnz":
            sums *= times
        standing = _standing(lists, len(questions))
        order = np.lexsort((standing, -sums, questions))
        return order[standing[order] < _NOWHERE], sums


def normalised(scores: ArrayLike, norm: Norm) -> Values:
    """Make the scores of each list comparable with another's, shape (n,), or (lists, n) for lists of one length.

    `min-max` (s - min) / (max - min), all 0 for equal scores; `max` s / max; `sum` (s - min) / sum of these; `zmuv`
    mean 0 and deviation 1 (a chunk that a list lacks then counts as its mean); `rank` 1 - i / n, i from 0; `none`.

    Raises:
        MetricError: A score is not finite.
    """
    values = np.asarray(scores, dtype=np.float64)
    if not np.isfinite(values).all():
        raise MetricError("a score is not a finite number; rrf needs ranks alone")
    if not values.size or norm == "none":
        return values
    low, high = values.min(axis=-1, keepdims=True), values.max(axis=-1, keepdims=True)
    if norm == "rank":
        made = np.broadcast_to(1 - np.arange(values.shape[-1]) / values.shape[-1], values.shape)
    elif norm == "min-max":
        made = (values - low) / np.maximum(high - low, 1e-9)
    elif norm == "max":
        made = values / np.where(high == 0, 1e-9, high)
    elif norm == "sum":
        made = (values - low) / np.maximum((values - low).sum(axis=-1, keepdims=True), 1e-9)
    else:
        spread = np.maximum(values.std(axis=-1, keepdims=True), 1e-9)
        made = (values - values.mean(axis=-1, keepdims=True)) / spread
    return np.asarray(made, dtype=np.float64)


def _each_normalised(scores: Values, starts: Items, norm: Norm) -> Values:
    """Normalise lists of several lengths, each by itself."""
    sizes, out = np.diff(starts), np.empty(len(scores))
    for size in np.unique(sizes).tolist():
        places = starts[:-1][sizes == size, None] + np.arange(size)
        out[places] = normalised(scores[places], norm)
    return out


def interleaved(lists: Sequence[RankedLists], questions: Items) -> Items:
    """Take the next new item of each list in turn, the first list first; see `Fusion.fuse`."""
    taken, order = bytearray(len(questions)), list[int]()
    each = [(places.tolist(), starts.tolist()) for places, starts in lists]
    for row in range(len(lists[0][1]) - 1):
        turns = [iter(places[starts[row] : starts[row + 1]]) for places, starts in each]
        while turns:
            left = []
            for turn in turns:
                if (item := next((item for item in turn if not taken[item]), None)) is not None:
                    taken[item] = True
                    order.append(item)
                    left.append(turn)
            turns = left
    return np.array(order, dtype=np.int64)


def _standing(lists: Sequence[RankedLists], items: int) -> Items:
    """Number items by their best rank, and of equal ones by the list that has it; `_NOWHERE` without a list."""
    standing = np.full(items, _NOWHERE)
    for number, (places, starts) in enumerate(lists):
        standing[places] = np.minimum(standing[places], ranks_of(starts) * len(lists) + number)
    return standing


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
