"""Finding a quote in a text."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Literal

LONGEST = 200_000
"""A longer text is not folded to mark a quote."""

LEAST_WORDS = 2
"""The words that evidence, and each part of it around an ellipsis, needs; names are often quoted alone."""

# In scripts that put no space between words every letter counts.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"[{_UNSPACED}\U00020000-\U0003ffff]|[^\W{_UNSPACED}\U00020000-\U0003ffff]+")
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
def _long_runs() -> re.Pattern[str]:
    """Find more combining marks in a row than any language writes; five signs only decompose into marks."""
    marks = "".join(sign for sign in map(chr, range(0x300, 0x1E950)) if unicodedata.combining(sign))
    return re.compile(f"[{marks}\u0f73\u0f75\u0f81\uff9e\uff9f]{{{_MOST_MARKS + 1},}}")


def normalized(text: str, form: Literal["NFKC", "NFKD"] = "NFKC") -> str:
    """Return a text in a Unicode form, in linear time: U+034F breaks a run of marks each 30 (UAX 15)."""
    return unicodedata.normalize(form, _long_runs().sub(_broken, text))


def _broken(run: re.Match[str]) -> str:
    marks = run[0]
    return BREAK.join(marks[at : at + _MOST_MARKS] for at in range(0, len(marks), _MOST_MARKS))


def fold(text: str) -> str:
    """Fold what copying may change: Unicode form (NFKC), quotation marks, white space, invisible marks."""
    return _fold_once(text) if len(text) > _LONG else _folded(text)


def _folded(text: str) -> str:
    if not text.isascii():
        text = normalized(text.translate(_FOLDS)).translate(_FOLDS)
    return " ".join(text.replace("`", "'").replace("''", '"').split())


_LONG = 1_000
"""Of a longer text, in which many quotes may be sought, the fold is remembered."""
_fold_once = lru_cache(maxsize=2)(_folded)


def stands_in(text: str, quote: str) -> bool:
    """Return whether a text contains a quote after folding; of one with an ellipsis all parts, in order."""
    # A quote of only white space, quotation marks and invisible characters is in no text.
    parts = _parts(quote)
    folded, at = fold(text), 0
    for part in parts:
        at = folded.find(part, at)
        if at < 0:
            return False
        at += len(part)
    return bool(parts)


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
    pieces = _ELLIPSIS.split(fold(quote).strip(" \"'"))
    return [part for part in (piece.strip() for piece in pieces) if part]


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
    for parts in ([fold(quote)], _parts(quote)):
        spans, at = list[tuple[int, int]](), 0
        for part in parts:
            at = folded.find(part, at)
            if at < 0:
                break
            end = at + len(part)
            spans.append((origin[at], origin[end - 1] + 1))
            at = end
        else:
            return spans
    return []


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


_LIST = """
a aber al als also am an and are as at au auch auf aus aux avec be because been bei being but by can ce
ces cette che con could da dans das de del dem den der des di did die do does du e ed ein eine einem
einen einer eines el elle elles en er era es est et for from fue gli haben had has hat have he her here
him his how i if ihr il ils im in into is ist it its just la las le les lo los ma mais may me might mit
must my ne nel nella nicht no noch non nor not nous nur o oder of on only or ou our par para pas per
pero por pour que qui sa se ses shall she should si sie sind so son sono sont su sur sus than that the
their them then there these they this those to too tra un unas und une uno unos us very von vous war
waren was we werden were what when where which while who whom whose why will wir wird with without would
wurde wurden y yes you your zu für à è était が で と に の は へ も や を 了 和 在 是 的
"""
_SILENT = frozenset(_LIST.split())
"""Words that say nothing alone, in some languages."""


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
        tells = word[0].lower() not in _SILENT
        if goes_on:
            before, _, earlier = stretches.pop()
            start, tells = before, earlier or tells
        stretches.append((start, end, tells))
        goes_on = True
    return [text[start:end] for start, end, tells in stretches if tells]


def telling_words(text: str) -> int:
    """Count the words of a text that say something."""
    return sum(word.lower() not in _SILENT for word in _WORD.findall(text))
