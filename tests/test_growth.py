"""Work on a text grows with its length: twice the input takes at most 2.5 times as long."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Callable
from time import process_time

import pytest

from judge_eval.delimiters import nonces_of
from judge_eval.llm.fake.rules import terms
from judge_eval.quotes import BREAK, fold, is_evidence, normalized, stands_in, uncovered

MARKS = "\u0301\u0323"  # of falling order, which a normal form has to sort
ACCENTED = "a" + "\u0301\u0323\u0327\u0316" * 10


def sentence(number: int) -> str:
    """Write a sentence that no other number gives."""
    return f"claim “{number}” says that {number * 7} of the tests pass. "


def many(count: int) -> str:
    """Write so many sentences."""
    return "".join(map(sentence, range(count)))


def blocks(size: int) -> list[list[str]]:
    """Make chunks with numbers in them, half of them alike."""
    return [[f"chunk {n // 2} " + "0123456789" * 3] for n in range(size)]


GROWING: dict[str, tuple[int, Callable[[int], object]]] = {
    "fold of marks": (30_000, lambda size: fold("a" + MARKS * size)),
    "fold of signs that decompose into marks": (20_000, lambda size: fold("\u0f73\u0301" * size)),
    "fold of half-width marks": (200_000, lambda size: fold("\uff76" + "\uff9e" * size)),
    "terms of marks": (20_000, lambda size: terms("a" + MARKS * size)),
    "evidence without a blank": (200_000, lambda size: is_evidence("x" * size, "x" * size)),
    "evidence of signs alone": (200_000, lambda size: is_evidence("!" * size, "!" * size)),
    "a quote in marks": (20_000, lambda size: stands_in("b " + "a" + MARKS * size, "a" + MARKS * size)),
    "what many quotes leave": (
        150,
        lambda size: uncovered(many(1_000), [sentence(n).replace("“", '"') for n in range(size)]),
    ),
    "what quotes leave of a long text": (
        600,
        lambda size: uncovered(many(size), [sentence(n).replace("“", '"') for n in range(20)]),
    ),
    "fences of many chunks": (2_000, lambda size: nonces_of(b"key", blocks(size))),
    "fences of equal chunks": (4_000, lambda size: nonces_of(b"key", [["the same"]] * size)),
}


def least(work: Callable[[int], object], size: int) -> float:
    """Return the least processor time of three tries, each with texts of its own."""
    times = []
    for more in range(3):
        start = process_time()
        work(size + more)
        times.append(process_time() - start)
    return min(times)


@pytest.mark.slow
@pytest.mark.parametrize("name", GROWING)
def test_twice_the_input_takes_at_most_two_and_a_half_times_as_long(name: str) -> None:
    """So no text of a stranger holds a server for minutes; a quadratic step would take four times as long.

    Up to three tries, because the machine may be busy; a quadratic step fails them all.
    """
    size, work = GROWING[name]
    ratios = []
    for _ in range(3):
        ratios.append(least(work, 2 * size) / max(least(work, size), 1e-4))
        if ratios[-1] <= 2.5:
            return
    pytest.fail(f"{name}: {ratios}")


def test_signs_that_decompose_into_marks_are_known() -> None:
    """Every sign of Unicode whose decomposition starts with a mark is bounded."""
    for sign in map(chr, range(sys.maxunicode + 1)):
        if 0xD800 <= ord(sign) < 0xE000:
            continue
        if unicodedata.combining(unicodedata.normalize("NFKD", sign)[0]):
            assert BREAK in normalized(sign * 100), hex(ord(sign))


@pytest.mark.parametrize(
    "text", ["Zażółć gęślą jaźń", "한국어", "ﾊﾞ", "e\u0301\u0323", "ﬁ ①", "\u0f71\u0f72", "a" + MARKS * 15]
)
def test_texts_of_people_are_normalised_as_ever(text: str) -> None:
    """No language writes 30 marks on one letter; up to there the form is the standard's."""
    assert normalized(text) == unicodedata.normalize("NFKC", text)


def test_quotes_with_many_marks_are_found() -> None:
    """A quote with a long run of marks is found where it was copied from."""
    assert stands_in(f"before {ACCENTED} after", ACCENTED)
    assert not stands_in("before a after", ACCENTED)
