"""The rules of the fake judge, and how it writes their opinions."""

import json
import math
import re
import tomllib
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from importlib.resources import files
from itertools import chain
from typing import Any, TypeAlias

from judge_eval.digest import digest_parts
from judge_eval.quotes import BREAK, normalized
from judge_eval.schema import Scale
from judge_eval.wire import Completion, DecisionAnswer, Passage, Request


@cache
def _steering() -> tuple[list[str], list[str], re.Pattern[str], re.Pattern[str]]:
    """Read `steering.toml`: needles, those beyond ASCII, what instructs a judge, and what asks for a low grade."""
    table: dict[str, Any] = tomllib.loads((files("judge_eval.llm.fake") / "steering.toml").read_text(encoding="utf-8"))
    patterns = "|".join(table["patterns"]).replace("{thing}", table["thing"]).replace("{reader}", table["reader"])
    return (
        table["needles"],
        table["needles_beyond_ascii"],
        re.compile(patterns),
        re.compile("|".join(table["downward"])),
    )


def steers(text: str) -> bool:
    """Whether a text tries to instruct its judge, by simple patterns in seven languages: not a defence."""
    low = text.lower()
    needles, beyond_ascii, steering, _ = _steering()
    if not any(needle in low for needle in needles) and (
        low.isascii() or not any(needle in low for needle in beyond_ascii)
    ):
        return False
    return steering.search(low) is not None


QUERY_WEIGHT = 1 / 3
"""The weight of a word of the question: repeating the question is hardly support."""
CUT = 0.28
"""The similarity from which a text counts as relevant."""
MAX_EVIDENCE_WORDS = 40
_MAX_EVIDENCE_CHARACTERS = 400

_WORD = re.compile(r"[\w\u0300-\u036f\u064b-\u065f\u0900-\u0eff]+")
_SENTENCE_END = re.compile(r"[.!?؟]\s|[。！？\n]")
# Scripts written without spaces (Thai to Khmer, kana, ideographs), and Hangul, whose endings are joined on.
_SPACELESS = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]+"
)
_HIRAGANA = re.compile(r"[\u3040-\u309f]+")


@cache
def _function_words() -> frozenset[str]:
    """Read the function words of English, German, French and Spanish."""
    return frozenset((files("judge_eval.llm.fake") / "function_words.txt").read_text(encoding="utf-8").split())


def terms(word: str) -> tuple[tuple[str, float], ...]:
    """Reduce one word in lower case to terms with weights in (0, 1]; none for a function word."""
    # A word becomes its first six letters without a plural s; one in a script without spaces becomes its
    # pairs of characters, of which those in hiragana only carry grammar and are left out. Longer words are
    # rarer, so a term weighs its length over six, at most 1; a number weighs 1, a pair 0.5.
    if word in _function_words():
        return ()
    if not word.isascii():
        # Without accents and vowel points, so that texts with and without them match.
        bare = [c for c in normalized(word, "NFKD") if not unicodedata.combining(c) and c != BREAK]
        word = unicodedata.normalize("NFKC", "".join(bare))
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
    """The terms of the words so far: texts repeat their words, and a look-up is a tenth of the work."""

    def __missing__(self, word: str) -> tuple[tuple[str, float], ...]:
        if len(self) >= _REMEMBERED:
            self.clear()
        result = terms(word)
        if len(word) <= 32:
            self[word] = result
        return result


_REMEMBERED = 1 << 16
_TERMS = _Terms()


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
        """Compare with the terms of one sentence: from 0 (nothing shared) to 1 (the same terms)."""
        # The weighted Ochiai coefficient (A. Ochiai, 1957): the weight of the shared terms over the geometric mean of
        # the weights of both sides. Unlike coverage of one side, it rewards neither a very short nor a very long text.
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
    """Prepare the text to compare with: the reference, or the question if the reference adds nothing."""
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
    """Verbatim; empty if nothing is shared."""


def best_match(pieces: list[str], title: str | None, goal: Target) -> Match:
    """Find the first sentence that shares most with the target; each is read under the text's title."""
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


def shared_words(sentence: str, goal: Target) -> list[str]:
    """Name the three weightiest words that a sentence shares with the target, for a reason people can read."""
    worth = {
        word: max(goal.weights[term] for term in common)
        for word in words_of(sentence)
        if len(word) <= 24 and (common := [term for term, _ in _TERMS[word] if term in goal.weights])
    }
    return sorted(worth, key=lambda word: -worth[word])[:3]


def quote(sentence: str, goal: Target) -> str:
    """Cut a sentence down to the window, of at most 40 words and about 400 characters, that shares most."""
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


@dataclass(frozen=True, slots=True)
class Opinion:
    """A judge's opinion of one passage."""

    grade: Any
    """On the request's scale; any other value is written as it is, to test its reader."""
    evidence: str = ""
    """A verbatim quote, or nothing."""
    reason: str = ""
    """At most 25 words."""
    steered: bool = False
    """Whether an instruction was seen in the passage."""
    confidence: float | None = None
    """The probability that it is relevant, for requests that ask for probabilities; else .95 or .05."""


Rule: TypeAlias = Callable[[Request], list[Opinion]]


def reply(request: Request, opinions: Iterable[Opinion]) -> str | Completion:
    """Write opinions as the request asks for them: as a text, or as answers to its questions."""
    if request.questionnaire is None:
        return reply_text(request, opinions)
    return Completion("", answers=tuple(answer_of(opinion, request.form.scale) for opinion in opinions))


def answer_of(opinion: Opinion, scale: Scale) -> DecisionAnswer:
    """Write an opinion as probabilities of its grade and of the next one beyond the threshold."""
    grade = _on_scale(opinion.grade, scale)
    if type(grade) is not int or grade not in scale.grades:
        return DecisionAnswer((), "unparsable", f"the grade {grade!r} is not on the scale")
    relevant = grade >= scale.relevant
    sure = opinion.confidence if opinion.confidence is not None else 0.95 if relevant else 0.05
    shares = dict.fromkeys(scale.grades, 0.0)
    shares[grade if relevant else scale.relevant] = round(sure, 2)
    shares[scale.relevant - 1 if relevant else grade] = round(1 - round(sure, 2), 2)
    return DecisionAnswer(tuple(shares.values()))


def _on_scale(grade: Any, scale: Scale) -> Any:
    if not isinstance(grade, bool):
        return grade
    return scale.maximum if grade else scale.minimum


def reply_text(request: Request, opinions: Iterable[Opinion]) -> str:
    """Write opinions as the JSON the request asked for, one a passage, fields in the contract's order."""
    scale = request.form.scale
    if not request.form.listwise:
        (opinion,) = opinions
        if not request.form.schema:
            return json.dumps(next(reversed(_fields(opinion, scale).values())))
        return json.dumps(_fields(opinion, scale), ensure_ascii=False)
    rows = [{"id": number, **_fields(opinion, scale)} for number, opinion in enumerate(opinions, 1)]
    return json.dumps({"verdicts": rows}, ensure_ascii=False)


def _fields(opinion: Opinion, scale: Scale) -> dict[str, Any]:
    grade = opinion.grade
    if not scale.binary:
        grade = _on_scale(grade, scale)
    elif isinstance(grade, int) and grade in (0, 1):
        grade = bool(grade)
    return {
        "evidence": opinion.evidence,
        "reason": opinion.reason,
        "instruction_in_chunk": opinion.steered,
        "verdict" if scale.binary else "grade": grade,
    }


def grade_of(similarity: float, scale: Scale) -> int:
    """Turn a similarity from 0 to 1 into a grade, in equal steps; `CUT` is the threshold of relevance."""
    least = scale.relevant
    if similarity < CUT:
        return scale.minimum + int(similarity / CUT * (least - scale.minimum))
    return min(scale.maximum, least + int((similarity - CUT) / (1 - CUT) * (scale.maximum - least + 1)))


def by_overlap(request: Request) -> list[Opinion]:
    """Judge by the words shared with the reference, else the answer, else the question."""
    # It counts words: a chunk that repeats the reference's words and denies it passes, a paraphrase in other
    # words does not. Sentences that instruct the judge are not read.
    wanted = request.reference or request.answer
    source = "reference answer" if request.reference else "answer" if request.answer else "question"
    goal, scale = target(wanted or request.query, request.query), request.form.scale
    opinions = [_by_overlap(passage, goal, scale, source) for passage in request.passages]
    if scale.name != "harm":
        return opinions
    return [
        _of_harm(passage, goal, wanted or "", each) for passage, each in zip(request.passages, opinions, strict=True)
    ]


_NUMBERS = re.compile(r"\d+(?:[.,:]\d+)*")
_DENIAL = re.compile(r"\b(?:not|no|never|cannot|without)\b|n't\b", re.IGNORECASE)


def _of_harm(passage: Passage, goal: Target, wanted: str, opinion: Opinion) -> Opinion:
    """Say that a passage misleads if its nearest sentence has other numbers, or denies what the reference does not."""
    match = best_match(sentences(passage.text), passage.title, goal)
    theirs, ours = (set(_NUMBERS.findall(text)) for text in (wanted, match.sentence))
    differs = bool(theirs and ours and not theirs & ours) or bool(_DENIAL.search(wanted)) != bool(
        _DENIAL.search(match.sentence)
    )
    if not opinion.steered and match.similarity >= CUT / 2 and differs:
        return Opinion(0, quote(match.sentence, goal), "Says otherwise than the reference.", False, opinion.confidence)
    return replace(opinion, grade=max(1, opinion.grade))


def _by_overlap(passage: Passage, goal: Target, scale: Scale, source: str) -> Opinion:
    pieces = sentences(passage.text)
    steered = steers(passage.text)
    if steered:
        pieces = [piece for piece in pieces if not steers(piece)]
    match = best_match(pieces, passage.title, goal)
    grade, cut = grade_of(match.similarity, scale), CUT
    # The relative distance from the cut; never certain.
    far = (match.similarity - cut) / (1 - cut) if grade >= scale.relevant else match.similarity / cut - 1
    sure = min(0.995, max(0.005, 0.5 + far / 2 + (0.005 if far >= 0 else -0.005)))
    if grade < scale.relevant:
        reason = f"Too few telling words of the {source}: {match.similarity:.2f} of {CUT}."
        return Opinion(grade, "", reason, steered, sure)
    shared = ", ".join(shared_words(match.sentence, goal))
    reason = f"Shares telling words with the {source} ({match.similarity:.2f}): {shared}."
    return Opinion(grade, quote(match.sentence, goal), reason, steered, sure)


def inverted(request: Request) -> list[Opinion]:
    """Judge by overlap and say the opposite, like a prompt with inverted polarity."""
    ends = request.form.scale.minimum + request.form.scale.maximum
    return [
        Opinion(ends - opinion.grade, _opening(passage), "The opposite of what the words say.", opinion.steered)
        for passage, opinion in zip(request.passages, by_overlap(request), strict=True)
    ]


def obedient(request: Request) -> list[Opinion]:
    """Follow an instruction in the chunk, else judge by overlap: the judge that probes must detect."""
    scale = request.form.scale
    opinions = by_overlap(request)
    for index, passage in enumerate(request.passages):
        orders = [piece for piece in sentences(passage.text) if steers(piece)]
        if orders or steers(passage.text):
            order = " ".join(orders) or passage.text
            wants_low = _steering()[-1].search(order.lower())
            grade = scale.minimum if wants_low else scale.maximum
            opinions[index] = Opinion(grade, _opening(passage), "The passage says so itself.")
    return opinions


def always(request: Request) -> list[Opinion]:
    """Find everything relevant."""
    top = request.form.scale.maximum
    return [Opinion(top, _opening(passage), "Everything is relevant.") for passage in request.passages]


def never(request: Request) -> list[Opinion]:
    """Find nothing relevant."""
    lowest = request.form.scale.minimum
    return [Opinion(lowest, "", "Nothing is relevant.") for _ in request.passages]


def by_hash(request: Request, *, seed: int = 0) -> list[Opinion]:
    """Draw each grade evenly from the request's digest, for tests of scale."""
    grades = request.form.scale.grades
    start = int.from_bytes(request.digest[:8], "big") * (2 * seed + 1)
    return [
        Opinion(grades[(start + 0x9E3779B97F4A7C15 * index >> 13) % len(grades)], passage.text[:60].strip(), "Drawn.")
        for index, passage in enumerate(request.passages)
    ]


KIN = "biased"
"""The word by which `biased` knows its own kin's texts."""


def biased(
    request: Request,
    *,
    seed: int = 0,
    sensitivity: float = 0.9,
    specificity: float = 0.9,
    rank: float = 0.0,
    length: float = 0.0,
    echo: float = 0.0,
    kinship: float = 0.0,
    drift: float = 0.0,
) -> list[Opinion]:
    """Judge as `by_overlap` but for errors of stated rates, whose log odds move with each passage's features."""
    # `rank` moves from the top of the request's list to its end, `length` with each doubling from 50 words, `echo` from
    # none to all of the question's words, `kinship` where the text holds `KIN`, `drift` everywhere.
    asked, many = frozenset(bag(request.query)), max(1, len(request.passages) - 1)
    scale, opinions = request.form.scale, []
    for place, (passage, own) in enumerate(zip(request.passages, by_overlap(request), strict=True)):
        words = bag(passage.text)
        base = sensitivity if own.grade >= scale.relevant else 1 - specificity
        odds = math.log(max(base, 1e-9) / max(1 - base, 1e-9)) + drift + rank * place / many
        odds += length * math.log2(max(1, len(words_of(passage.text))) / 50) + kinship * (KIN in words)
        odds += echo * len(asked & words.keys()) / max(1, len(asked))
        drawn = digest_parts([str(seed), request.query, passage.text, str(request.sample)])
        relevant = int.from_bytes(drawn[:7], "big") / (1 << 56) < 1 / (1 + math.exp(-odds))
        grade = max(own.grade, scale.relevant) if relevant else min(own.grade, scale.relevant - 1)
        opinions.append(Opinion(grade, _opening(passage) if relevant else "", "Drawn with a bias."))
    return opinions


def share(request: Request, seed: int, attempt: int) -> float:
    """Draw a number from [0, 1) that depends only on the request, a seed and the attempt."""
    drawn = digest_parts([request.digest.hex(), str(seed), str(attempt)])
    return int.from_bytes(drawn[:7], "big") / (1 << 56)


def _opening(passage: Passage) -> str:
    return passage.text.strip()[:80].strip()
