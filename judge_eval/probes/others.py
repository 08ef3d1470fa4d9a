"""What a trace is given from other traces: chunks that are irrelevant to it, statements that are false."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from judge_eval.backends.fake.shared_words import bag
from judge_eval.probes.texts import OUT_OF_SCOPE
from judge_eval.schema import Chunk, Trace

Stated: TypeAlias = Sequence[Literal["reference", "answer"]]
"""The fields of a trace that say what a chunk is to support."""

_DRAWS = 20
_MOST_SHARED = 0.5


@dataclass(frozen=True, slots=True)
class Others:
    """The traces as lenders."""

    traces: Sequence[Trace]
    gold: Mapping[str, Chunk]
    """By trace id a chunk that supports its reference."""

    def chunk(self, place: int, rng: random.Random) -> str | None:
        """Return the text of another trace's chunk, of one that asks something else and shares no chunk."""
        here = self.traces[place]
        own = {chunk.text for chunk in here.chunks}
        for _ in range(_DRAWS):
            other = self.traces[rng.randrange(len(self.traces))]
            if other.query == here.query or other.id == here.id:
                continue
            chunk = self.gold.get(other.id) or (rng.choice(other.chunks) if other.chunks else None)
            if chunk is not None and chunk.text.strip() and chunk.text not in own:
                return chunk.text
        return None

    def chunks(self, place: int, rng: random.Random, size: int) -> list[str]:
        """Return the texts of so many different chunks of other traces; of fewer where no more are drawn."""
        drawn: dict[str, None] = {}
        for _ in range(_DRAWS):
            if len(drawn) >= size:
                break
            text = self.chunk(place, rng)
            if text is not None:
                drawn[text] = None
        return list(drawn)

    def out_of_scope(self, place: int, rng: random.Random) -> tuple[str, str | None]:
        """Return a text that shares no telling word with a trace's question, reference and answer.

        Returns:
            `other` with another trace's chunk, else `fixed` with a text on a subject of its own, or None
            where each of those shares a word.
        """
        asked = words_asked(self.traces[place])
        for _ in range(_DRAWS):
            text = self.chunk(place, rng)
            if text is not None and asked.isdisjoint(bag(text)):
                return "other", text
        fixed = [text for text in OUT_OF_SCOPE if asked.isdisjoint(bag(text))]
        return "fixed", rng.choice(fixed) if fixed else None

    def statement(
        self, place: int, chunk: Chunk, stated: Stated, rng: random.Random
    ) -> dict[str, str] | None:
        """Return what another trace states, in place of what a chunk supports.

        Of the statements drawn it is the one that shares the fewest telling words with the chunk, and less
        than half of its own: a chunk may well support what asks about the same passage.

        Args:
            place: Of the trace among `traces`.
            chunk: Its chunk.
            stated: The fields to replace.
            rng: Draws.

        Returns:
            The text of each field; None where no statement drawn is far enough from the chunk.
        """
        here = self.traces[place]
        held = bag(f"{chunk.title or ''} {chunk.text}").keys()
        best: dict[str, str] | None = None
        least = _MOST_SHARED
        for _ in range(_DRAWS):
            other = self.traces[rng.randrange(len(self.traces))]
            said: dict[str, str] = {field: getattr(other, field) or "" for field in stated}
            terms = bag(" ".join(said.values())).keys()
            alike = other.query == here.query or any(each.text == chunk.text for each in other.chunks)
            if alike or not terms or not all(text.strip() for text in said.values()):
                continue
            shared = len(terms & held) / len(terms)
            if shared < least:
                best, least = said, shared
            if not shared:
                break
        return best


def words_asked(trace: Trace) -> frozenset[str]:
    """Return the telling words of a trace's question, reference and answer, as they are compared."""
    return frozenset(bag(" ".join((trace.query, trace.reference or "", trace.answer or ""))))
