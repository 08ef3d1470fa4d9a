"""BM25 over a corpus: an oracle by its formula, ties, and words of scripts without spaces."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judge_eval.data.bm25 import K1, B, CorpusIndex, search_words

TEXTS = st.lists(st.text("abc ", max_size=12), min_size=1, max_size=8)


def by_formula(texts: list[str], query: str) -> list[float]:
    """Score each text by Lucene's form of BM25, from its definition."""
    words = [text.split() for text in texts]
    average = sum(map(len, words)) / len(words)
    scores = [0.0] * len(texts)
    for word in query.split():
        frequency = sum(word in own for own in words)
        rare = math.log(1 + (len(texts) - frequency + 0.5) / (frequency + 0.5))
        for place, own in enumerate(words):
            count = Counter(own)[word]
            if count:
                scores[place] += rare * count / (count + K1 * (1 - B + B * len(own) / average))
    return scores


@settings(max_examples=100, deadline=None)
@given(TEXTS, st.lists(st.text("abcd ", max_size=8), min_size=1, max_size=3), st.integers(1, 9))
def test_ranks_are_those_of_the_formula(texts: list[str], queries: list[str], count: int) -> None:
    """The best texts by the formula, equal scores in the order of the texts; none without a common word."""
    index = CorpusIndex(iter(texts), iter(queries))
    assert index.size == len(texts)
    for query in queries:
        scores = by_formula(texts, query) if any(text.split() for text in texts) else [0.0] * len(texts)
        hits = index.best(query, count)
        assert len(hits) == min(count, sum(score > 0 for score in scores))
        assert [hit.rank for hit in hits] == [*range(1, len(hits) + 1)]
        for hit, best in zip(hits, sorted(scores, reverse=True), strict=False):
            assert (hit.score, scores[hit.place]) == (pytest.approx(best, rel=1e-5), pytest.approx(best, rel=1e-5))
        equal = [(-round(hit.score, 6), hit.place) for hit in hits]
        assert equal == sorted(equal)


def test_scripts_without_spaces_are_searched_by_pairs() -> None:
    """Chinese, Japanese and Thai have no spaces; a sign alone is a word, and so is a single letter."""
    assert search_words("営業時間は9時 C x") == ["営業", "業時", "時間", "間は", "9", "時", "c", "x"]
    texts = ["公园免费开放", "营业时间是上午九点", "Parking is free"]
    queries = ["什么时候营业？", "is C free"]
    index = CorpusIndex(texts, queries)
    assert [[hit.place for hit in index.best(query, 5)] for query in queries] == [[1], [2]]
