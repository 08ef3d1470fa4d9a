"""Many short texts in little memory: one after the other, and where each ends."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import overload


class Texts(Sequence[str]):
    """Texts such as ids of chunks: their bytes and 8 more, in place of the 60 or so of a string each."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._data, self._ends = bytearray(), array("q", [0])
        for text in texts:
            self.append(text)

    def append(self, text: str) -> None:
        """Add a text."""
        self._data += text.encode("utf-8", "surrogatepass")
        self._ends.append(len(self._data))

    def extend(self, texts: Texts) -> None:
        """Add all of other texts."""
        before = len(self._data)
        self._data += texts._data
        self._ends.extend(array("q", [before + end for end in texts._ends[1:]]))

    def __len__(self) -> int:
        return len(self._ends) - 1

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(len(self)))]
        at = range(len(self))[index]
        return self._data[self._ends[at] : self._ends[at + 1]].decode("utf-8", "surrogatepass")
