"""Finding a quote in a text."""

import re
import unicodedata
from collections.abc import Sequence
from functools import cache, lru_cache
from importlib.resources import files
from typing import Literal

LONGEST = 200_000
"""A longer text is not folded to mark a quote."""

LEAST_WORDS = 2
"""The words that evidence, and each part of it around an ellipsis, needs; names are often quoted alone."""

SHORTEST = 8
"""ShownWords words are widened to so many, since fewer are found elsewhere by chance."""

# In scripts that put no space between words every letter counts.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_ONE_SIGN = re.compile(rf"[{_UNSPACED}\U00020000-\U0003ffff]")
_WORD = re.compile(rf"[{_UNSPACED}\U00020000-\U0003ffff]|[^\W{_UNSPACED}\U00020000-\U0003ffff]+")
_ASCII_WORD = re.compile(r"[A-Za-z0-9_]+")
_ENOUGH = re.compile(r"\w\W+\w")
_ELLIPSIS = re.compile(r"\.\.\.|\[\.\.\.\]")
_FOLDS = str.maketrans(
    dict.fromkeys("‘’‚‛′`´‹›", "'")
    | dict.fromkeys("“”„‟″«»「」『』", '"')
    | dict.fromkeys("\u00ad\u034f\u200b\u200c\u200d\u2060\ufeff")
)
_MOST_MARKS = 30
BREAK = "\u034f"
"""Breaks a run of combining marks; it is invisible, and `fold` removes it."""


@cache
def _long_runs(last: int) -> re.Pattern[str]:
    """Find more combining marks in a row than any language writes; five signs only decompose into marks."""
    marks = "".join(sign for sign in map(chr, range(0x300, last)) if unicodedata.combining(sign))
    return re.compile(f"[{marks}\u0f73\u0f75\u0f81\uff9e\uff9f]{{{_MOST_MARKS + 1},}}")


def normalized(text: str, form: Literal["NFKC", "NFKD"] = "NFKC") -> str:
    """Return a text in a Unicode form, in linear time: U+034F breaks a run of marks each 30 (UAX 15)."""
    if text.isascii():
        return text

    def broken(run: re.Match[str]) -> str:
        marks = run[0]  # each look at it is a copy
        return BREAK.join(marks[at : at + _MOST_MARKS] for at in range(0, len(marks), _MOST_MARKS))

    last = 0x10000 if max(text) < "\U00010000" else 0x1E950  # a set of signs below U+10000 is 30 times as fast
    return unicodedata.normalize(form, _long_runs(last).sub(broken, text))


def fold(text: str) -> str:
    """Fold what copying may change: Unicode form (NFKC), quotation marks, white space, invisible marks."""
    return _fold_once(text) if len(text) > _LONG else _folded(text)


def _folded(text: str) -> str:
    if not text.isascii():
        text = normalized(text.translate(_FOLDS)).translate(_FOLDS)
    return " ".join(text.replace("`", "'").replace("''", '"').split())


_LONG = 1_000  # of a longer text, in which many quotes may be sought, the fold is remembered
_fold_once = lru_cache(maxsize=2)(_folded)


def stands_in(text: str, quote: str) -> bool:
    """Return whether a text contains a quote after folding; of one with an ellipsis all parts, in order."""
    # A quote of only white space, quotation marks and invisible characters is in no text.
    return bool(_spans_of(_parts(quote), fold(text)))


def is_evidence(text: str, quote: str) -> bool:
    """Return whether a text contains a quote (and each part of one) of two words, or of all its words."""
    if quote in text and "..." not in quote and _ENOUGH.search(quote):
        return True
    if not stands_in(text, quote):
        return False
    counts = [len(_WORD.findall(part)) for part in _parts(quote)]
    return min(counts) >= min(LEAST_WORDS, len(_WORD.findall(fold(text))))


def _parts(quote: str) -> list[str]:
    """Fold a quote, without the quotation marks around it, and cut it at its ellipses."""
    return _split(fold(quote).strip(" \"'"))


def _split(quote: str) -> list[str]:
    return [part for part in map(str.strip, _ELLIPSIS.split(quote)) if part]


def _spans_of(parts: Sequence[str], text: str) -> list[tuple[int, int]]:
    """Return where parts stand in a text, one behind the other; empty if not all do."""
    spans, at = list[tuple[int, int]](), 0
    for part in parts:
        start = text.find(part, at)
        if start < 0:
            return []
        at = start + len(part)
        spans.append((start, at))
    return spans


def marked(text: str, quote: str) -> list[str]:
    """Cut a text around a quote, which is looked for exactly first, then with the differences of `fold`."""
    # Returns pieces that join to the text: plain, marked, plain, ..., plain; a quote with an ellipsis is
    # marked part by part. One piece if the quote was not found.
    if not _parts(quote):
        return [text]
    at = text.find(quote)
    spans = [(at, at + len(quote))] if at >= 0 else _folded_spans(text, quote)
    pieces, done = [], 0
    for start, end in spans:
        pieces += [text[done:start], text[start:end]]
        done = end
    return [*pieces, text[done:]]


def _folded_spans(text: str, quote: str) -> list[tuple[int, int]]:
    if len(text) > LONGEST or not stands_in(text, quote):
        return []
    folded, origin = _fold_with_origins(text)
    spans = _spans_of([fold(quote)], folded) or _spans_of(_parts(quote), folded)
    return [(origin[start], origin[end - 1] + 1) for start, end in spans]


@lru_cache(maxsize=1)
def _fold_with_origins(text: str) -> tuple[str, list[int]]:
    out: list[str] = []
    origin: list[int] = []
    for place, sign in enumerate(text):
        signs = ("" if not out or out[-1] == " " else " ") if sign.isspace() else fold(sign)
        if signs == "'" and out and out[-1] == "'":
            out[-1] = '"'
            continue
        out += signs
        origin += [place] * len(signs)
    return "".join(out), origin


@cache
def _silent_words() -> frozenset[str]:
    """Read the words that say nothing alone, in some languages."""
    return frozenset((files("judge_eval") / "silent_words.txt").read_text(encoding="utf-8").split())


def uncovered(text: str, quotes: Sequence[str]) -> list[str]:
    """Return the stretches of a text, in order, that are in no quote and hold a word that says something."""
    covered = bytearray(len(text))
    for quote in quotes:
        at = 0
        for place, piece in enumerate(marked(text, quote)):
            if place % 2:
                covered[at : at + len(piece)] = bytes([1]) * len(piece)
            at += len(piece)
    stretches: list[tuple[int, int, bool]] = []
    goes_on = False
    for word in _WORD.finditer(text):
        start, end = word.span()
        if any(covered[start:end]):
            goes_on = False
            continue
        tells = word[0].lower() not in _silent_words()
        if goes_on:
            before, _, earlier = stretches.pop()
            start, tells = before, earlier or tells
        stretches.append((start, end, tells))
        goes_on = True
    return [text[start:end] for start, end, tells in stretches if tells]


def telling_words(text: str) -> int:
    """Count the words of a text that say something."""
    silent = _silent_words()
    return sum(word.lower() not in silent for word in _WORD.findall(text))


def folded_words(text: str) -> list[str]:
    """Return the words of a text (NFKC, lower case); in scripts without spaces between words every sign is one."""
    if text.isascii():
        return _ASCII_WORD.findall(text.lower())
    return [word.lower() for word in _WORD.findall(normalized(text))]


def is_unspaced(word: str) -> bool:
    """Return whether a word of `folded_words` is one sign of a script without spaces between words."""
    return len(word) == 1 and _ONE_SIGN.match(word) is not None


def shown_words(text: str, quote: str) -> list[tuple[int, int]]:
    """Return which of the `words` of a text a quote in it shows: runs from a place to the place behind the last.

    Each part around an ellipsis is a run of whole words. One run alone is widened to `SHORTEST` words, in turn to both
    sides. A quote that is not in the text shows all words, as one run; of a text without a word there is none.
    """
    text, quote = normalized(text), normalized(quote)
    pattern = _ASCII_WORD if text.isascii() else _WORD
    runs, at, count = list[tuple[int, int]](), 0, 0
    for start, stop in _places_of(text, quote):
        # A word that a cut runs through has signs on both sides of it, and is counted once.
        if start > at:
            count += len(pattern.findall(text, at, start)) - _runs_through(text, at)
        first = count - _runs_through(text, start)
        at, count = stop, first + len(pattern.findall(text, start, stop))
        if first < count:
            runs.append((first, count))
    total = count + len(pattern.findall(text, at)) - (at < len(text) and _runs_through(text, at))
    if len(runs) > 1:
        return runs
    first, end = runs[0] if runs else (0, total)
    while end - first < min(SHORTEST, total):
        first -= first > 0
        end += end - first < SHORTEST and end < total
    return [(first, end)] if total else []


def _runs_through(text: str, place: int) -> bool:
    """Return whether one word stands on both sides of a place of a text."""
    around = text[place - 1 : place + 1] if place else ""
    return len(around) == 2 and _WORD.fullmatch(around) is not None


def _places_of(text: str, quote: str) -> list[tuple[int, int]]:
    """Return where the parts of a quote stand, exactly or else with the differences of `fold`; none if not all do."""
    parts = _split(quote)
    spans = _spans_of(parts, text)
    return _folded_spans(text, quote) if parts and not spans else spans
