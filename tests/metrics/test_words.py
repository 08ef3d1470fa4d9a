"""Evidence among the words of lists: a brute-force oracle, names, and what a metric in words needs."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge_eval.errors import MetricError, UnknownNameError
from judge_eval.metrics import GradeTable, parse_metric
from judge_eval.metrics.words import RUN, SHARE, any_shown, read_at, word_numbers
from judge_eval.quotes import folded_words, shown_words
from tests.support.examples import examples

TEXTS = st.lists(st.sampled_from("abcd"), max_size=14).map(" ".join)


def by_brute_force(shown: Sequence[Sequence[str]], read: Sequence[str]) -> float:
    """Try every place of the list for every run of words of the evidence."""
    found: list[float] = []
    for run in shown:
        n, places = min(RUN, len(run)), [math.inf] * len(run)
        for first in range(len(run) - n + 1):
            for at in range(len(read) - n + 1):
                if list(read[at : at + n]) == list(run[first : first + n]):
                    for place in range(n):
                        places[first + place] = min(places[first + place], at + place + 1)
        found += places
    return sorted(found)[max(0, math.ceil(SHARE * len(found) - 1e-9) - 1)] if found else math.inf


@examples(400)
@given(lists=st.lists(st.lists(TEXTS, max_size=4), min_size=1, max_size=3), data=st.data())
def test_places_are_those_of_trying_every_place(lists: list[list[str]], data: st.DataObject) -> None:
    """Of any evidence, in one run or several, long or short, in any list of a block."""
    pieces = []
    for row, chunks in enumerate(lists):
        for text in [*chunks, data.draw(TEXTS)]:
            low = text.split()
            first = data.draw(st.integers(0, max(0, len(low) - 1)))
            end = data.draw(st.integers(first, len(low)))
            gap = data.draw(st.integers(end, len(low)))
            pieces.append((row, text, " ... ".join(filter(None, (" ".join(low[first:end]), " ".join(low[gap:]))))))
    whole = word_numbers(text for _, text, _ in pieces)
    shown = [
        tuple(words[a:b] for a, b in shown_words(text, quote))
        for words, (_, text, quote) in zip(whole, pieces, strict=True)
    ]
    streams = [np.concatenate([*word_numbers(chunks), np.empty(0, np.uint64)]) for chunks in lists]
    expected = [
        by_brute_force(
            [folded_words(text)[a:b] for a, b in shown_words(text, quote)], folded_words(" ".join(lists[row]))
        )
        for row, text, quote in pieces
    ]
    assert read_at(shown, [row for row, _, _ in pieces], streams).tolist() == expected


@pytest.mark.parametrize(
    ("text", "quote", "expected"),
    [
        ("Use acid only. Never use vinegar in the tank.", "acid only", "use acid only never use vinegar in the"),
        ("one two three four five six seven eight nine", "nine", "two three four five six seven eight nine"),
        ("one two three", "two", "one two three"),
        ("one two three four five six seven eight nine", "elsewhere", "one two three four five six seven eight nine"),
        ("descaled every month", "escaled ev", "descaled every month"),
        ("“Brandt” ovens aren’t a b c d e f g h", '"Brandt" ovens aren\'t', "brandt ovens aren t a b c d"),
        ("a b c d e f g h i j", "b c ... h i", "b c|h i"),
        ("東京の天気は晴れ", "天気は", "東 京 の 天 気 は 晴 れ"),
        ("", "x", ""),
    ],
)  # fmt: skip
def test_a_quote_shows_whole_words_widened_to_eight(text: str, quote: str, expected: str) -> None:
    """On both sides in turn; a quote that is not there shows all words; signs of Chinese or Japanese are words."""
    assert "|".join(" ".join(folded_words(text)[a:b]) for a, b in shown_words(text, quote)) == expected


def test_names_in_words_parse_back_and_others_are_refused() -> None:
    """`@500w` is a cutoff of `ClaimRecall` and `HitRate` alone; their definitions state the words."""
    for name in ("ClaimRecall@500w", "HitRate@1w", "HitRate(rel=2)@70w", "ClaimRecall(partial=half,of=vital)@9w"):
        metric = parse_metric(name)
        assert (str(metric), metric.cutoff, metric.depth, metric.installed) == (name, None, None, False)
        assert f"B = {metric.words} words" in metric.definition
        assert metric != parse_metric(name.replace("w", "").replace("@", "@5"))
    for name in ("AP@500w", "HitRate@0w", "HitRate@w", "P_5w", "HitRate@5ww", "NDCG(gain=exp)@9w"):
        with pytest.raises(UnknownNameError):
            parse_metric(name)
    with pytest.raises(UnknownNameError, match="ClaimRecall@500w and HitRate@500w count words"):
        parse_metric("AP@500w")


def test_a_table_without_texts_has_no_value_in_words() -> None:
    """The message says what is missing."""
    with pytest.raises(MetricError, match="HitRate@9w: it is not known what the words of the lists show"):
        parse_metric("HitRate@9w").compute(GradeTable.from_rows([[1, 0]]))


def test_what_a_chunk_may_show_is_each_run_of_eight_words() -> None:
    """A chunk of fewer shows all of them, and an empty one nothing."""
    assert [len(any_shown(words)) for words in word_numbers("w " * n for n in (0, 1, 8, 9, 20))] == [0, 1, 1, 2, 13]


@given(texts=st.lists(st.text(max_size=40) | st.text("aZ_9 é日-\n\ud800", max_size=200), max_size=9))
def test_words_have_one_number_whatever_stands_around_them(texts: list[str]) -> None:
    """Equal words have equal numbers and others different ones, in any text of a block; none is lost or torn."""
    words = [folded_words(text) for text in texts]
    numbers = [each.tolist() for each in word_numbers(texts)]
    assert [len(each) for each in numbers] == [len(each) for each in words]
    pairs = {(word, number) for w, n in zip(words, numbers, strict=True) for word, number in zip(w, n, strict=True)}
    assert len({word for word, _ in pairs}) == len({number for _, number in pairs}) == len(pairs)


def test_numbers_of_words_spread_and_do_not_hang_on_the_block() -> None:
    """A long text, in more than one block, has the numbers that its words have alone; their low bits differ too."""
    words = [f"w{n}" for n in range(50_000)]
    (whole,), alone = word_numbers([" ".join(words)]), word_numbers(words)
    assert whole.tolist() == [int(each[0]) for each in alone]
    assert len(set(whole.tolist())) == len(words)
    low = len({number & 0xFFFF for number in whole.tolist()})
    assert 0.5 < low / 65_536 < 0.56  # 1 - exp(-50,000 / 65,536) = .534
