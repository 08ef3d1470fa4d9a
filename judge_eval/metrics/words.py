"""After how many words of a list its reader has read evidence: lists and evidence as numbers of words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from judge_eval.metrics.ragged import offsets_of
from judge_eval.quotes import SHORTEST, folded_words

WordNumbers: TypeAlias = NDArray[np.uint64]
"""Hashes of 64 bits, one a word."""
WordCounts: TypeAlias = NDArray[np.float64]
"""After how many words something has been read; infinite if it never is."""
ShownWords: TypeAlias = tuple[WordNumbers, ...]
"""The words that are evidence, as runs of neighbours."""

RUN: Final = 4
"""A word of evidence is found only in a run of so many words of it."""
SHARE: Final = 0.8
"""Evidence has been read once this share of its words has been."""
_HINT = np.uint64((1 << 20) - 1)
_BLOCK = 1 << 16
_BASE = 0x2545F4914F6CDD1D
_IN_WORD = bytes(chr(sign).isalnum() or sign == ord("_") or sign >= 0x80 for sign in range(256))
"""Of each byte of UTF-8, whether it is of a word."""
_PRIME, _ROW = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)


def word_numbers(texts: Iterable[str]) -> list[WordNumbers]:
    """Return the words of each text as numbers, in order: polynomial hashes of their UTF-8 bytes, modulo 2^64."""
    made, block, size = list[WordNumbers](), list[bytes](), 0
    for text in texts:
        folded = text.lower() if text.isascii() else " ".join(folded_words(text))
        block.append(folded.encode("utf-8", "surrogatepass"))
        size += len(folded)
        if size > _BLOCK:
            made += _numbers_of(block)
            block, size = [], 0
    return [*made, *_numbers_of(block)]


def _numbers_of(texts: Sequence[bytes]) -> list[WordNumbers]:
    joined = b" ".join([b"", *texts, b""])
    signs, inside = np.frombuffer(joined, np.uint8), np.frombuffer(joined.translate(_IN_WORD), np.bool_)
    edges = np.flatnonzero(inside[1:] != inside[:-1]) + 1
    starts, ends = edges[::2], edges[1::2]
    powers, inverses = _powers(1 << len(signs).bit_length())
    sums = np.zeros(len(signs) + 1, dtype=np.uint64)
    np.cumsum(signs * powers[: len(signs)], out=sums[1:])
    numbers = (sums[ends] - sums[starts]) * inverses[starts]
    numbers ^= numbers >> np.uint64(32)  # the low bits of the sums say little
    numbers = (numbers * _PRIME) ^ (numbers >> np.uint64(29))
    bounds = np.searchsorted(starts, np.cumsum([1, *(len(text) + 1 for text in texts)])).tolist()
    return [numbers[first:end] for first, end in pairwise(bounds)]


@lru_cache(maxsize=8)
def _powers(length: int) -> tuple[WordNumbers, WordNumbers]:
    """Return the powers of an odd number modulo 2^64, and their inverses."""
    powers, inverses = (np.full(length, factor, dtype=np.uint64) for factor in (_BASE, pow(_BASE, -1, 1 << 64)))
    powers[0] = inverses[0] = 1
    return np.cumprod(powers), np.cumprod(inverses)


@dataclass(frozen=True, eq=False, repr=False)
class EvidenceRead:
    """After how many words of each row's list its evidence has been read.

    Args:
        full: One a claim of the table: what supports it in full.
        partly: One a claim: what supports it in part.
        possible: One a claim: the least `full` could be, whatever the failed verdicts would have said.
        hits: Shape (rows, grades of the scale): of chunks with this grade or a higher one, counted from the lowest.
        hits_possible: One a row: the least that `hits` could be.
    """

    full: WordCounts
    partly: WordCounts
    possible: WordCounts
    hits: WordCounts
    hits_possible: WordCounts


def grams(numbers: WordNumbers, rows: NDArray[np.int64], n: int) -> WordNumbers:
    """Return one number for each run of `n` words, and of the row that it is in; the last n - 1 places have none."""
    length = max(0, len(numbers) - n + 1)
    made = np.zeros(length, dtype=np.uint64)
    for place in range(n):
        made = made * _PRIME + numbers[place : place + length]
    return made ^ (rows[:length].astype(np.uint64) * _ROW)


def read_at(shown: Sequence[ShownWords], rows: Sequence[int], streams: Sequence[WordNumbers]) -> WordCounts:
    """Return for each piece of evidence after how many words of the list of its row it has been read.

    Word j of evidence is read at the earliest place where `RUN` words of it with j among them (a run of fewer: all of
    it) stand in the list; the evidence at the place of its ceil(`SHARE` n)-th word, in the order of these places.
    Linear in the words of the lists but for sorting the evidence.

    Args:
        shown: The evidence.
        rows: The row of each.
        streams: The words of each row's list, in rank order.
    """
    lengths = np.array([len(stream) for stream in streams], dtype=np.int64)
    starts, of_row = offsets_of(lengths), np.repeat(np.arange(len(streams)), lengths)
    stream = np.concatenate([*streams, np.empty(0, dtype=np.uint64)])
    runs = [run for each in shown for run in each]
    sizes = np.array([len(run) for run in runs], dtype=np.int64)
    owners = np.repeat(np.arange(len(shown)), [len(each) for each in shown])
    owner = np.repeat(owners, sizes)
    evidence = np.concatenate([*runs, np.empty(0, dtype=np.uint64)])
    row_of_word = np.asarray(rows, dtype=np.int64)[owner]
    run_of_word, size_of_word = np.repeat(np.arange(len(runs)), sizes), np.repeat(sizes, sizes)
    places = np.full(len(evidence), np.inf)
    for n in range(1, RUN + 1):
        at = np.flatnonzero(size_of_word >= n if n == RUN else size_of_word == n)
        at = at[at + n <= len(evidence)]
        at = at[run_of_word[at] == run_of_word[at + n - 1]]
        if not at.size:
            continue
        wanted, which = np.unique(grams(evidence, row_of_word, n)[at], return_inverse=True)
        there = grams(stream, of_row, n)
        hints = np.zeros(1 << 20, dtype=np.bool_)  # nearly all runs of the lists are of no evidence
        hints[wanted & _HINT] = True
        inside = np.flatnonzero(hints[there & _HINT] & (of_row[: len(there)] == of_row[n - 1 :]))
        nearest = np.minimum(np.searchsorted(wanted, there[inside]), len(wanted) - 1)
        inside, nearest = inside[hit := wanted[nearest] == there[inside]], nearest[hit]
        first = np.full(len(wanted), np.inf)
        np.minimum.at(first, nearest, inside - starts[of_row[inside]])
        for place in range(n):
            places[at + place] = np.minimum(places[at + place], first[which] + place + 1)
    totals = np.bincount(owner, minlength=len(shown))
    ordered = places[np.lexsort((places, owner))]
    made = np.full(len(shown), np.inf)
    some = np.flatnonzero(totals)
    enough = np.ceil(SHARE * totals[some] - 1e-9).astype(np.int64) - 1
    made[some] = ordered[offsets_of(totals)[some] + np.maximum(enough, 0)]
    return made


def any_shown(numbers: WordNumbers) -> list[ShownWords]:
    """Return all that a chunk could show as evidence: each run of `SHORTEST` of its words, or all of fewer."""
    if len(numbers) <= SHORTEST:
        return [(numbers,)] if len(numbers) else []
    return [(run,) for run in np.lib.stride_tricks.sliding_window_view(numbers, SHORTEST)]
