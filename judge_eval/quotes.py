"""Where a quote stands in the text it was taken from."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

LONGEST = 200_000
"""Characters of a text that is folded to find a quote that does not stand there letter by letter."""

LEAST_WORDS = 2
"""A quote, and each part of one with an ellipsis, of fewer words says nothing of where it was taken from.

Two, not three, since names and dates that answer a question are often quoted alone (`San Marzano`).
"""

# In scripts that put no space between words every letter counts.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"[{_UNSPACED}\U00020000-\U0003ffff]|[^\W{_UNSPACED}\U00020000-\U0003ffff]+")
_ENOUGH = re.compile(r"\w+\W+\w")
_ELLIPSIS = re.compile(r"\.\.\.|\[\.\.\.\]")
_FOLDS = str.maketrans(
    dict.fromkeys("‘’‚‛′`´‹›", "'")
    | dict.fromkeys("“”„‟″«»「」『』", '"')
    | dict.fromkeys("\u00ad\u200b\u200c\u200d\u2060\ufeff")
)


def fold(text: str) -> str:
    """Fold what a copyist may change: Unicode form (NFKC), quotation marks, invisible marks, white space."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text.translate(_FOLDS)).translate(_FOLDS)
    return " ".join(text.replace("`", "'").replace("''", '"').split())


def stands_in(text: str, quote: str) -> bool:
    """Tell whether a quote stands in a text, after folding both; of one with an ellipsis all parts, in order.

    A quote of nothing but white space, quotation marks and invisible signs stands nowhere.
    """
    parts = _parts(quote)
    folded, at = fold(text), 0
    for part in parts:
        at = folded.find(part, at)
        if at < 0:
            return False
        at += len(part)
    return bool(parts)


def is_evidence(text: str, quote: str) -> bool:
    """Tell whether a quote stands in a text and is long enough to say something.

    It has at least two words, and so has each part around an ellipsis; fewer only where the text has no more.
    """
    if quote in text and "..." not in quote and _ENOUGH.search(quote):
        return True
    return stands_in(text, quote) and _is_long(text, quote)


def _is_long(text: str, quote: str) -> bool:
    counts = [len(_WORD.findall(part)) for part in _parts(quote)]
    return min(counts) >= min(LEAST_WORDS, len(_WORD.findall(fold(text))))


def _parts(quote: str) -> list[str]:
    """Fold a quote and cut it at its ellipses; the quotation marks around it are not of it."""
    pieces = _ELLIPSIS.split(fold(quote).strip(" \"'"))
    return [part for part in (piece.strip() for piece in pieces) if part]


def marked(text: str, quote: str) -> list[str]:
    """Cut a text where a quote stands in it.

    The quote is looked for letter by letter first, then with the differences that `stands_in`
    forgives (white space, quotation marks, invisible signs); a quote with an ellipsis is marked part by part.

    Returns:
        Pieces that join to the text: plain, marked, plain, marked, ..., plain. One piece where the quote
        was not found, or holds nothing that can be found.
    """
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


def _fold_with_origins(text: str) -> tuple[str, list[int]]:
    """Fold a text sign by sign, and tell for each folded sign where it came from."""
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
"""Words that say nothing alone, in some languages; a rest of a text that holds no others is no rest."""


def uncovered(text: str, quotes: Sequence[str]) -> list[str]:
    """Return what of a text stands in no quote and says something: verbatim stretches, in their order.

    Stretches of white space, punctuation and words that say nothing alone are passed over.
    """
    held = bytearray(len(text))
    for quote in quotes:
        at = 0
        for place, piece in enumerate(marked(text, quote)):
            if place % 2:
                held[at : at + len(piece)] = bytes([1]) * len(piece)
            at += len(piece)
    stretches: list[tuple[int, int, bool]] = []
    goes_on = False
    for word in _WORD.finditer(text):
        start, end = word.span()
        if any(held[start:end]):
            goes_on = False
            continue
        tells = word[0].lower() not in _SILENT
        if goes_on:
            before, _, told = stretches.pop()
            start, tells = before, told or tells
        stretches.append((start, end, tells))
        goes_on = True
    return [text[start:end] for start, end, tells in stretches if tells]


def telling_words(text: str) -> int:
    """Count the words of a text that say something."""
    return sum(word.lower() not in _SILENT for word in _WORD.findall(text))
