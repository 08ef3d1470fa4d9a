"""What is said of records that were read: things to know that are no errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

OnRemark: TypeAlias = Callable[[str, int | None], None] | None
"""Whom to tell of a record what is worth knowing: a sentence, and its line or row where that is known."""

Place: TypeAlias = Literal["on line", "in row"]
"""What stands before the number of a place: lines of files count from 1, rows in memory from 0."""

MOST = 20
"""How many different sentences are kept."""


class Remarks:
    """Counts sentences that are said of many records.

    Args:
        place: What stands before the number of a record's place.
    """

    def __init__(self, place: Place = "on line") -> None:
        self._place = place
        self._said: dict[str, tuple[int, int | None]] = {}

    def add(self, sentence: str, number: int | None = None) -> None:
        """Take a sentence in, with the line or row of the record it is said of."""
        if sentence in self._said or len(self._said) < MOST:
            count, first = self._said.get(sentence, (0, number))
            self._said[sentence] = count + 1, first

    def told(self) -> tuple[str, ...]:
        """Return each sentence once, with how many records it is true of."""
        sentences = []
        for sentence, (count, first) in self._said.items():
            records = "1 record" if count == 1 else f"{count} records, the first"
            place = "" if first is None else f" {self._place} {first}"
            sentences.append(f"{sentence} ({records}{place})")
        return tuple(sentences)
