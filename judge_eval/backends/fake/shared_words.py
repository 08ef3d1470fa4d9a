"""Measures how many telling words a text shares with the text it should support."""

from __future__ import annotations

import math
import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain

QUERY_WEIGHT = 1 / 3
"""What a word of the question counts beside any other: repeating the question is hardly support."""
CUT = 0.28
"""The similarity from which a text counts as relevant."""
MAX_EVIDENCE_WORDS = 40
_MAX_EVIDENCE_CHARACTERS = 400

_FUNCTION_WORDS = frozenset(  # English, German, French, Spanish
    """
    a about after all also although an and any are as at be because been before being both but by
    can could did do does doing done each either else ever every few for from further had has have
    having he her here hers him his how however i if in into is it its itself just may me might more
    most much must my no nor not now of off on once one only or other our out over own per same
    shall she should since so some still such than that the their them then there these they this
    those through thus to too under until up upon us very was we were what when where whether which
    while who whom whose why will with within without would yes yet you your
    aber als am auch auf aus bei bis das dass dem den der des die doch durch ein eine einem einen
    einer eines er es für hat haben hier ich ihr ihre im ist ja kann kein keine können man mehr mit
    muss müssen nach nicht noch nur ob oder sein sich sie sind so über um und uns unter vom von vor
    war wann warum was wenn wer werden wie wird wir wo zu zum zur zwischen
    afin au aussi autre aux avec car ce cela ces cette chez comme dans de des donc du elle elles en
    est et être eu fait il ils je la le les leur leurs lors lui mais même ne nos notre nous on ont
    ou où par pas peut plus pour quand que quel quelle qui quoi sans se ses si son sont sous sur
    tous tout toute très un une vers vos votre vous
    al como con cual cuando del desde donde el ella ellos entre era es esta este esto fue ha hay las
    lo los más mientras mucho muy ni o para pero por porque puede que quien ser si sin sino sobre
    son su sus también tiene una y ya
    """.split()  # noqa: SIM905 - a list of 300 literals would not be readable
)
_WORD = re.compile(r"[\w\u0300-\u036f\u064b-\u065f\u0900-\u0eff]+")
_SENTENCE_END = re.compile(r"[.!?؟]\s|[。！？\n]")
# Scripts written without spaces (Thai to Khmer, kana, ideographs), and Hangul, whose endings are joined on.
_SPACELESS = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]+"
)
_HIRAGANA = re.compile(r"[\u3040-\u309f]+")


def terms(word: str) -> tuple[tuple[str, float], ...]:
    """Reduce one word to what is compared, with weights.

    A word becomes its first six letters without a plural s; one in a script without spaces becomes its
    pairs of characters, of which those in hiragana only carry grammar and are left out. Longer words
    are rarer, so a term weighs its length over six, at most 1; a number weighs 1, a pair 0.5.

    Args:
        word: A word in lower case.

    Returns:
        Each term with its weight in (0, 1]; none for a function word.
    """
    if word in _FUNCTION_WORDS:
        return ()
    if not word.isascii():
        word = unicodedata.normalize("NFKC", _without_marks(word))
        if _SPACELESS.search(word):
            pairs: list[str] = []
            for run in _SPACELESS.findall(word):
                cut = [run[i : i + 2] for i in range(len(run) - 1)] or [run]
                pairs += [pair for pair in cut if not _HIRAGANA.fullmatch(pair)]
            rest = [term for other in _SPACELESS.sub(" ", word).split() for term in terms(other)]
            return (*((pair, 0.5) for pair in pairs), *rest)
        word = word.removeprefix("ال") if len(word) > 4 else word
    if word.isdecimal():
        return ((word, 1.0),)
    term = word[:-1] if len(word) > 3 and word.endswith("s") else word
    term = term[:6]
    return ((term, min(len(term), 6) / 6),) if term else ()


class _Terms(dict[str, tuple[tuple[str, float], ...]]):
    """The terms of the words met so far: texts repeat their words, and a look-up is a tenth of the work."""

    def __missing__(self, word: str) -> tuple[tuple[str, float], ...]:
        if len(self) >= _REMEMBERED:
            self.clear()
        result = terms(word)
        if len(word) <= 32:
            self[word] = result
        return result


_REMEMBERED = 1 << 16
_TERMS = _Terms()


def _without_marks(word: str) -> str:
    """Drop accents and vowel points, so that texts written with and without them meet."""
    return "".join(char for char in unicodedata.normalize("NFKD", word) if not unicodedata.combining(char))


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case, in order."""
    return _WORD.findall(text.lower())


def sentences(text: str) -> list[str]:
    """Cut a text after its sentences and lines; the pieces are verbatim and none is blank."""
    ends = [end.end() for end in _SENTENCE_END.finditer(text)]
    pieces = [text[start:end].strip() for start, end in zip([0, *ends], [*ends, None], strict=True)]
    return [piece for piece in pieces if piece]


def bag(text: str) -> dict[str, float]:
    """Return the weights of all terms of a text, each term once."""
    return dict(chain.from_iterable(map(_TERMS.__getitem__, _WORD.findall(text.lower()))))


@dataclass(frozen=True, slots=True)
class Target:
    """What a text is compared with: the terms of a reference, with the question's counting less."""

    weights: dict[str, float]
    """The weight of each term."""
    asked: frozenset[str]
    """The terms that count `QUERY_WEIGHT` of their weight, because the question has them."""
    norm: float
    """The sum of `weights`."""

    def similarity(self, sentence: dict[str, float]) -> float:
        """Compare with the terms of one sentence.

        The weighted Ochiai coefficient (A. Ochiai, 1957): the weight of the shared terms over the
        geometric mean of the weights of both sides. Unlike coverage of one side, it rewards neither
        a very short nor a very long text.

        Returns:
            A number from 0 (nothing shared) to 1 (the same terms).
        """
        common = sentence.keys() & self.weights.keys()
        if not common:
            return 0.0
        # fsum does not depend on the order of a set, which differs from process to process.
        shared = math.fsum(map(self.weights.__getitem__, common))
        asked = math.fsum(map(sentence.__getitem__, sentence.keys() & self.asked))
        total = math.fsum(sentence.values()) - (1 - QUERY_WEIGHT) * asked
        return min(1.0, shared / math.sqrt(total * self.norm))


@lru_cache(maxsize=4096)
def target(reference: str, query: str) -> Target:
    """Prepare the text to compare with.

    Args:
        reference: The reference, or whatever a relevant chunk shares words with.
        query: The question; where the reference says nothing beyond it (yes, no, one of its names),
            all its words are the target.
    """
    wanted, asked = bag(reference), bag(query)
    if wanted.keys() <= asked.keys():
        wanted = asked
    weights = {term: weight * QUERY_WEIGHT if term in asked else weight for term, weight in wanted.items()}
    return Target(weights, frozenset(asked), math.fsum(weights.values()))


@dataclass(frozen=True, slots=True)
class Match:
    """The sentence of a text that shares most with the target."""

    similarity: float
    """From 0 to 1; `CUT` and more counts as relevant."""
    sentence: str
    """Verbatim; empty where nothing is shared."""


def best_match(pieces: list[str], title: str | None, goal: Target) -> Match:
    """Find the sentence that shares most with the target; of equals, the first.

    Args:
        pieces: The sentences of a text.
        title: The text's title: each sentence is read under it, so a subject named only there counts.
        goal: What to compare with.
    """
    best, sentence = 0.0, ""
    heading = bag(title) if title else None
    for piece in pieces:
        words = bag(piece)
        if heading and words:
            words |= heading
        similarity = goal.similarity(words)
        if similarity > best:
            best, sentence = similarity, piece
    return Match(best, sentence)


def shared_words(sentence: str, goal: Target, most: int = 3) -> list[str]:
    """Name the weightiest words that a sentence shares with the target, for a reason people can read."""
    worth = {
        word: max(goal.weights[term] for term in common)
        for word in words_of(sentence)
        if len(word) <= 24 and (common := [term for term, _ in _TERMS[word] if term in goal.weights])
    }
    return sorted(worth, key=lambda word: -worth[word])[:most]


def quote(sentence: str, goal: Target) -> str:
    """Cut a sentence down to the window that shares most with the target.

    Returns:
        A verbatim piece of at most 40 words and about 400 characters.
    """
    sentence = sentence.strip()
    spans = [word.span() for word in re.finditer(r"\S+", sentence)]
    if len(spans) > MAX_EVIDENCE_WORDS:
        starts = range(0, len(spans) - MAX_EVIDENCE_WORDS + 1)
        windows = [sentence[spans[i][0] : spans[i + MAX_EVIDENCE_WORDS - 1][1]] for i in starts]
        sentence = max(windows, key=lambda window: goal.similarity(bag(window)))
    end = _MAX_EVIDENCE_CHARACTERS
    while end < len(sentence) and unicodedata.combining(sentence[end]):
        end += 1
    return sentence[:end]
