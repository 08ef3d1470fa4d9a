"""The named rules by which a fake judge answers: pure functions from a request to one opinion a passage."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

from judge_eval.backends.fake import shared_words, steering
from judge_eval.digest import digest_parts
from judge_eval.schema import Scale
from judge_eval.wire import Completion, DecisionAnswer, Passage, Request


@dataclass(frozen=True, slots=True)
class Opinion:
    """What a judge says of one passage."""

    grade: Any
    """On the request's scale; anything else is written down as it is, to show how it is received."""
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
    """Say opinions as the request asks for them: in a text, or as answers to its questions."""
    if request.questionnaire is None:
        return reply_text(request, opinions)
    return Completion("", answers=tuple(answer_of(opinion, request.form.scale) for opinion in opinions))


def answer_of(opinion: Opinion, scale: Scale) -> DecisionAnswer:
    """Write an opinion as probabilities of the grades, in two decimals, as servers do.

    What speaks for the other side of the threshold falls to the grade next to it.
    """
    grade = scale.maximum * opinion.grade if isinstance(opinion.grade, bool) else opinion.grade
    if type(grade) is not int or not 0 <= grade <= scale.maximum:
        return DecisionAnswer((), "unparsable", f"the grade {grade!r} is not on the scale")
    relevant = grade >= scale.relevant
    sure = opinion.confidence if opinion.confidence is not None else 0.95 if relevant else 0.05
    shares = [0.0] * (scale.maximum + 1)
    shares[grade if relevant else scale.relevant] = round(sure, 2)
    shares[scale.relevant - 1 if relevant else grade] = round(1 - round(sure, 2), 2)
    return DecisionAnswer(tuple(shares))


def reply_text(request: Request, opinions: Iterable[Opinion]) -> str:
    """Write opinions as the JSON the request asked for, one a passage, fields in the contract's order."""
    scale = request.form.scale
    if not request.form.listwise:
        (opinion,) = opinions
        return json.dumps(_fields(opinion, scale), ensure_ascii=False)
    rows = [{"id": number, **_fields(opinion, scale)} for number, opinion in enumerate(opinions, 1)]
    return json.dumps({"verdicts": rows}, ensure_ascii=False)


def _fields(opinion: Opinion, scale: Scale) -> dict[str, Any]:
    grade = opinion.grade
    if scale.name == "binary":
        grade = bool(grade) if isinstance(grade, int) and grade in (0, 1) else grade
    elif isinstance(grade, bool):
        grade = scale.maximum if grade else 0
    return {
        "evidence": opinion.evidence,
        "reason": opinion.reason,
        "instruction_in_chunk": opinion.steered,
        "verdict" if scale.name == "binary" else "grade": grade,
    }


def grade_of(similarity: float, scale: Scale) -> int:
    """Turn a similarity into a grade: equal steps below the cut, equal steps above it.

    Args:
        similarity: From 0 to 1.
        scale: `shared_words.CUT` falls on its threshold of relevance.
    """
    cut, lowest = shared_words.CUT, scale.relevant
    if similarity < cut:
        return int(similarity / cut * lowest)
    return min(scale.maximum, lowest + int((similarity - cut) / (1 - cut) * (scale.maximum - lowest + 1)))


def by_overlap(request: Request) -> list[Opinion]:
    """Judge by the words shared with the reference, else the answer, else the question.

    It counts words: a chunk that repeats the reference's words and denies it passes, a paraphrase in
    other words does not. Sentences that instruct the judge are not read.
    """
    wanted = request.reference or request.answer
    source = "reference answer" if request.reference else "answer" if request.answer else "question"
    goal = shared_words.target(wanted or request.query, request.query)
    return [_by_overlap(passage, goal, request.form.scale, source) for passage in request.passages]


def _by_overlap(passage: Passage, goal: shared_words.Target, scale: Scale, source: str) -> Opinion:
    pieces = shared_words.sentences(passage.text)
    steered = steering.steers(passage.text)
    if steered:
        pieces = [piece for piece in pieces if not steering.steers(piece)]
    match = shared_words.best_match(pieces, passage.title, goal)
    grade, cut = grade_of(match.similarity, scale), shared_words.CUT
    # How far from the cut, of how far it may be; a two hundredth is kept, as nobody is quite sure.
    far = (match.similarity - cut) / (1 - cut) if grade >= scale.relevant else match.similarity / cut - 1
    sure = min(0.995, max(0.005, 0.5 + far / 2 + (0.005 if far >= 0 else -0.005)))
    if grade < scale.relevant:
        reason = f"Too few telling words of the {source}: {match.similarity:.2f} of {shared_words.CUT}."
        return Opinion(grade, "", reason, steered, sure)
    shared = ", ".join(shared_words.shared_words(match.sentence, goal))
    reason = f"Shares telling words with the {source} ({match.similarity:.2f}): {shared}."
    return Opinion(grade, shared_words.quote(match.sentence, goal), reason, steered, sure)


def inverted(request: Request) -> list[Opinion]:
    """Judge by overlap and say the opposite, as a prompt with its polarity the wrong way round would."""
    top = request.form.scale.maximum
    return [
        Opinion(
            top - opinion.grade, _opening(passage), "The opposite of what the words say.", opinion.steered
        )
        for passage, opinion in zip(request.passages, by_overlap(request), strict=True)
    ]


def obedient(request: Request) -> list[Opinion]:
    """Do what an instruction in the chunk says, else judge by overlap: the judge that probes must find."""
    top = request.form.scale.maximum
    opinions = by_overlap(request)
    for index, passage in enumerate(request.passages):
        orders = [piece for piece in shared_words.sentences(passage.text) if steering.steers(piece)]
        if orders or steering.steers(passage.text):
            order = " ".join(orders) or passage.text
            grade = 0 if steering.wants_low(order) else top
            opinions[index] = Opinion(grade, _opening(passage), "The passage says so itself.")
    return opinions


def always(request: Request) -> list[Opinion]:
    """Find everything relevant."""
    top = request.form.scale.maximum
    return [Opinion(top, _opening(passage), "Everything is relevant.") for passage in request.passages]


def never(request: Request) -> list[Opinion]:
    """Find nothing relevant."""
    return [Opinion(0, "", "Nothing is relevant.") for _ in request.passages]


def by_hash(request: Request, seed: int = 0) -> list[Opinion]:
    """Draw each grade evenly from the request's digest: no judgement at all, for tests of scale."""
    choices = request.form.scale.maximum + 1
    start = int.from_bytes(request.digest[:8], "big") * (2 * seed + 1)
    return [
        Opinion((start + 0x9E3779B97F4A7C15 * index >> 13) % choices, passage.text[:60].strip(), "Drawn.")
        for index, passage in enumerate(request.passages)
    ]


def share(request: Request, seed: int, attempt: int) -> float:
    """Draw a number from [0, 1) that depends on nothing but the request, a seed and the attempt."""
    drawn = digest_parts([request.digest.hex(), str(seed), str(attempt)])
    return int.from_bytes(drawn[:7], "big") / (1 << 56)


def _opening(passage: Passage) -> str:
    """Quote how a passage begins."""
    return passage.text.strip()[:80].strip()
