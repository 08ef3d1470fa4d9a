"""Search of a corpus by BM25, for questions that are known before it is read."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from judge_eval.installed import import_extra
from judge_eval.quotes import folded_words, is_unspaced

K1: Final = 1.5
B: Final = 0.75
"""The parameters of BM25 (Robertson and Zaragoza 2009), in Lucene's form, without stems and stop words."""
_OTHER: Final = 0
"""The number of all words that are in no question."""


def search_words(text: str) -> list[str]:
    """Return the words of a text in lower case; in scripts without spaces each pair of neighbouring signs is one."""
    words, out, place = folded_words(text), list[str](), 0
    if text.isascii():
        return words
    while place < len(words):
        end = place
        while end < len(words) and is_unspaced(words[end]):
            end += 1
        if end - place > 1:
            out += [words[at] + words[at + 1] for at in range(place, end - 1)]
        else:
            out.append(words[place])
        place = max(end, place + 1)
    return out


class SearchHit(NamedTuple):
    """A text that shares a word with a question."""

    place: int
    """Which text, counted from 0."""
    rank: int
    """Its rank by BM25, counted from 1; equal scores stand in the order of the texts."""
    score: float


@dataclass(slots=True)
class _Numbered:
    """The texts as bm25s takes them: numbers of words, text by text, from one array."""

    vocab: dict[str, int]
    words: array[int]
    ends: array[int]

    @property
    def ids(self) -> _Numbered:
        return self

    def __len__(self) -> int:
        return len(self.ends) - 1

    def __iter__(self) -> Iterator[list[int]]:
        for at in range(len(self)):
            yield self.words[self.ends[at] : self.ends[at + 1]].tolist()


class CorpusIndex:
    """The BM25 scores of texts for the words of some questions.

    The words of no question count for the lengths of texts alone, so that an index of a million texts has room.

    Args:
        texts: What is searched; read once. At least one must have a word.
        queries: All that will be searched for.

    Raises:
        ConfigError: bm25s is not installed.
    """

    def __init__(self, texts: Iterable[str], queries: Iterable[str]) -> None:
        (bm25s,) = import_extra("searching a corpus needs bm25s", "corpus", "bm25s")
        names = dict.fromkeys(word for query in queries for word in search_words(query))
        numbers = {"": _OTHER, **{word: number for number, word in enumerate(names, _OTHER + 1)}}
        numbered = _Numbered(numbers, array("I"), array("q", [0]))
        for text in texts:
            numbered.words.extend([numbers.get(word, _OTHER) for word in search_words(text)])
            numbered.ends.append(len(numbered.words))
        self.size = len(numbered)
        """How many texts there are."""
        self._numbers = numbers
        self._index: Any = bm25s.BM25(method="lucene", k1=K1, b=B)
        if numbered.words:
            self._index.index(numbered, show_progress=False)

    def best(self, query: str, count: int) -> Sequence[SearchHit]:
        """Return at most `count` texts that share a word with the query, the best first."""
        words = [self._numbers[word] for word in search_words(query) if word in self._numbers]
        if not words or not hasattr(self._index, "scores"):
            return ()
        scores = self._index.get_scores(words)  # its `retrieve` leaves equal scores in no fixed order
        least = np.partition(scores, -count)[-count] if count < len(scores) else 0
        there = np.flatnonzero((scores > 0) & (scores >= least))
        places = there[np.argsort(-scores[there], kind="stable")][:count]
        return [SearchHit(int(place), rank, float(scores[place])) for rank, place in enumerate(places, 1)]
