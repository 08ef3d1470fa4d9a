"""Results that differ from those in a run's folder, made as they are read."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from judge_eval.errors import MetricError
from judge_eval.runs.folder.journal import results_at
from judge_eval.runs.folder.records import TraceResult

T = TypeVar("T")
_BLOCK = 256


class ChangedResults(Sequence[TraceResult]):
    """Results of which each is made of another.

    Args:
        plain: The others.
        change: Makes them of some others, one of each.
        places: Which of the others count, in this order; None takes all.
    """

    def __init__(
        self,
        plain: Sequence[TraceResult],
        change: Callable[[Sequence[TraceResult]], Sequence[TraceResult]],
        places: NDArray[np.int64] | None = None,
    ) -> None:
        self.plain, self._change, self._places = plain, change, places

    def __len__(self) -> int:
        return len(self.plain if self._places is None else self._places)

    @overload
    def __getitem__(self, index: int) -> TraceResult: ...
    @overload
    def __getitem__(self, index: slice) -> list[TraceResult]: ...
    def __getitem__(self, index: int | slice) -> TraceResult | list[TraceResult]:
        if isinstance(index, slice):
            return list(self.at(np.arange(len(self))[index]))
        return self._change([self.plain[index if self._places is None else int(self._places[index])]])[0]

    def __iter__(self) -> Iterator[TraceResult]:
        plain = self.plain if self._places is None else results_at(self.plain, self._places)
        for block in blocks(plain, _BLOCK):
            yield from self._change(block)

    def at(self, places: NDArray[np.int64], calls: bool = True) -> Iterator[TraceResult]:
        """Yield the results at many places; see `Run.results_at`."""
        places = places if self._places is None else self._places[places]
        for block in blocks(results_at(self.plain, places, calls), _BLOCK):
            yield from self._change(block)


def blocks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Split an iterable into lists of at most `size` items."""
    if size < 1:
        raise MetricError(f"a block must have at least 1 item, got {size}")
    rest = iter(items)
    while block := list(islice(rest, size)):
        yield block
