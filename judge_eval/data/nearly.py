"""Fields that are nearly ours: what was probably meant to be read and is kept as metadata instead."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from judge_eval.data.files.jsonl import CHUNK_FIELDS, TRACE_FIELDS
from judge_eval.schema import Chunk, Trace, has_made_id

LIKE = 0.8
"""From this share of common characters on, two names are taken for one that is misspelt."""


class Misspelt:
    """Looks through traces for metadata whose name is nearly that of a field which the trace lacks."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], tuple[int, str]] = {}

    def add(self, trace: Trace) -> None:
        """Look at a trace and its chunks."""
        pairs = set(_pairs(trace.metadata, _lacking(trace), ""))
        for rank, chunk in enumerate(trace.chunks, 1):
            if chunk.metadata:
                pairs.update(_pairs(chunk.metadata, _chunk_lacks(chunk, rank), "chunks[]."))
        for pair in pairs:
            count, first = self._seen.get(pair, (0, trace.id))
            self._seen[pair] = count + 1, first

    def remarks(self) -> list[str]:
        """Say what was found, the most frequent first."""
        found = sorted(self._seen.items(), key=lambda item: (-item[1][0], item[0]))
        return [
            f"{theirs!r} is no field of ours and kept as metadata, in {count} trace{'s' * (count != 1)} "
            f"(the first is {first!r}); did you mean {ours!r}?"
            for (theirs, ours), (count, first) in found
        ]


def _pairs(metadata: Mapping[str, Any], lacking: Iterable[str], prefix: str) -> list[tuple[str, str]]:
    """Match names of metadata with the fields that are lacking."""
    by_fold = {_fold(field): field for field in lacking}
    return [
        (f"{prefix}{name}", f"{prefix}{by_fold[near[0]]}")
        for name in metadata
        if (near := difflib.get_close_matches(_fold(name), by_fold, n=1, cutoff=LIKE))
    ]


def _fold(name: str) -> str:
    return "".join(character for character in name.casefold() if character.isalnum())


def _lacking(trace: Trace) -> list[str]:
    made = has_made_id(trace)
    return [
        field
        for field in sorted(TRACE_FIELDS - {"metadata"})
        if (made if field == "id" else getattr(trace, field) in (None, (), ""))
    ]


def _chunk_lacks(chunk: Chunk, rank: int) -> list[str]:
    made = chunk.id == f"c{rank}"
    return [
        field
        for field in sorted(CHUNK_FIELDS & Chunk.model_fields.keys() - {"metadata"})
        if (made if field == "id" else getattr(chunk, field) in (None, ""))
    ]
