"""The evidence that verdicts quote, and after how many words the lists of traces show it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from judge_eval.metrics.words import EvidenceRead, ShownWords, WordCounts, WordNumbers, any_shown, read_at, word_numbers
from judge_eval.quotes import shown_words
from judge_eval.runs.folder.lines import ClaimsLine, NoVerdictLine, TraceLine, VerdictLine, text_read
from judge_eval.schema import ClaimsJudged, Outcome, Scale, Trace

AnyTrace: TypeAlias = Trace | TraceLine
AnyOutcome: TypeAlias = Outcome | VerdictLine | NoVerdictLine
AnyClaims: TypeAlias = ClaimsJudged | ClaimsLine
ClaimKey: TypeAlias = tuple[str, str]
"""A claim's id and text; claims of two runs are the same if both are equal."""
Evidence: TypeAlias = Literal["of claims", "any"]


@dataclass(slots=True, eq=False)
class ShownList:
    """The words of a trace's list, and what its verdicts show as evidence."""

    words: WordNumbers
    """In rank order."""
    sizes: list[int]
    """How many of them each chunk has."""
    claims: list[ClaimKey] | None = None
    """Of its reference; None if nobody knows them."""
    full: list[tuple[ClaimKey, ShownWords]] = field(default_factory=list)
    partly: list[tuple[ClaimKey, ShownWords]] = field(default_factory=list)
    graded: list[tuple[int, bool, ShownWords]] = field(default_factory=list)
    """Grade, whether it is relevant, and the evidence of each chunk above the lowest grade."""
    failed: list[WordNumbers] = field(default_factory=list)
    """The chunks without a verdict."""
    unsaid: list[WordNumbers] = field(default_factory=list)
    """The chunks of which nobody knows which claims they support."""
    quoted: int = 0
    """How many pieces of evidence are a quote in their chunk."""
    unquoted: int = 0
    """How many are all words of a chunk, since no quote stands there."""

    @classmethod
    def of(
        cls,
        judged: Sequence[tuple[AnyTrace, Sequence[AnyOutcome], AnyClaims | None]],
        wanted: Sequence[Evidence],
        lowest: int = 0,
    ) -> "list[ShownList]":
        """Take what reading needs of judged traces: their words, and the wanted evidence."""
        texts = [[text_read(chunk) for chunk in trace.chunks] for trace, _, _ in judged]
        numbers = iter(word_numbers(chain.from_iterable(texts)))
        return [
            cls._of(read, list(islice(numbers, len(read))), *each, wanted, lowest)
            for read, each in zip(texts, judged, strict=True)
        ]

    @classmethod
    def _of(
        cls,
        texts: Sequence[str],
        numbers: Sequence[WordNumbers],
        trace: AnyTrace,
        outcomes: Sequence[AnyOutcome],
        judged: AnyClaims | None,
        wanted: Sequence[Evidence],
        lowest: int,
    ) -> "ShownList":
        known = trace.claims if judged is None else judged.claims
        keys = {claim.id: (claim.id, claim.text) for claim in known or ()}
        made = cls(
            np.concatenate([*numbers, np.empty(0, dtype=np.uint64)]),
            [len(each) for each in numbers],
            None if known is None else list(keys.values()),
        )
        for text, words, outcome in zip(texts, numbers, outcomes, strict=True):
            if outcome.kind == "no_verdict":
                made.failed.append(words)
                made.unsaid.append(words)
                continue
            supports = outcome.supports or ()
            if outcome.supports is None:
                made.unsaid.append(words)
            if "of claims" in wanted:
                for each in supports:
                    if each.claim in keys and each.support != "contradicts":
                        side = made.full if each.support == "full" else made.partly
                        side.append((keys[each.claim], made._shown(text, words, each.quote, each.quote_found)))
            if "any" in wanted and outcome.grade > lowest:
                quotes: list[tuple[str | None, bool | None]] = [
                    (each.quote, each.quote_found) for each in supports if each.support == "full"
                ]
                for quote in quotes or [(outcome.evidence, outcome.evidence_found)]:
                    made.graded.append((outcome.grade, outcome.relevant, made._shown(text, words, *quote)))
        return made

    def _shown(self, text: str, words: WordNumbers, quote: str | None, stands: bool | None) -> ShownWords:
        """Return the words that a quote shows; all words of the chunk if it does not stand there."""
        if not quote or not stands:
            self.unquoted += 1
            return (words,)
        self.quoted += 1
        return tuple(words[first:end] for first, end in shown_words(text, quote))


def read_evidence(
    lists: Sequence[ShownList], others: Sequence[ShownList] | None, scale: Scale, same_scale: bool = True
) -> tuple[EvidenceRead, EvidenceRead]:
    """Return after how many words each list has shown the evidence of its own verdicts, and that with another list's.

    `others` has the list of another run for each of `lists`. Unless it is judged on the same scale, its relevant chunks
    have the least relevant grade.
    """
    counts = [len(each.claims or ()) for each in lists]
    blanks = [_Places.none(counts, scale) for _ in range(2)]
    shown: list[ShownWords] = []
    rows: list[int] = []
    places: list[tuple[WordCounts, int | tuple[int, int]]] = []

    def add(row: int, evidence: Iterable[ShownWords], into: WordCounts, place: int | tuple[int, int]) -> None:
        for each in evidence:
            shown.append(each)
            rows.append(row)
            places.append((into, place))

    for of, made in zip((lists, others or ()), blanks, strict=True):
        start = 0
        for row, (own, each) in enumerate(zip(lists, of, strict=False)):
            place = {key: at for at, key in enumerate(own.claims or (), start)}
            start += len(place)
            for side, into in ((each.full, made.full), (each.partly, made.partly)):
                for key, evidence in side:
                    if key in place:
                        add(row, [evidence], into, place[key])
            for grade, relevant, evidence in each.graded:
                if each is not own and not same_scale:
                    grade = scale.relevant if relevant else scale.minimum
                add(row, [evidence], made.hits, (row, grade - scale.minimum))
            for words in each.failed:
                add(row, any_shown(words), made.anything, row)
            for words in each.unsaid if place else ():
                add(row, any_shown(words), made.unsaid, row)
    for (into, at), value in zip(places, read_at(shown, rows, [each.words for each in lists]).tolist(), strict=True):
        into[at] = min(into[at], value)
    alone, more = blanks
    return alone.record(counts), alone.least(more).record(counts)


class _Places(NamedTuple):
    """Where evidence is read, of a block of lists."""

    full: WordCounts
    partly: WordCounts
    hits: WordCounts
    """By row and grade."""
    anything: WordCounts
    """By row: what failed chunks could show of anything."""
    unsaid: WordCounts
    """By row: what chunks could show of claims that nobody knows whether they support."""

    @classmethod
    def none(cls, counts: Sequence[int], scale: Scale) -> "_Places":
        shapes = (sum(counts), sum(counts), (len(counts), scale.maximum - scale.minimum + 1), len(counts), len(counts))
        return cls(*(np.full(shape, np.inf) for shape in shapes))

    def least(self, other: "_Places") -> "_Places":
        return _Places(*(np.minimum(a, b) for a, b in zip(self, other, strict=True)))

    def record(self, counts: Sequence[int]) -> EvidenceRead:
        hits = np.minimum.accumulate(self.hits[:, ::-1], axis=1)[:, ::-1]
        possible = np.minimum(self.full, np.repeat(self.unsaid, counts))
        return EvidenceRead(self.full, np.minimum(self.full, self.partly), possible, hits, self.anything)


def reading_of_judged(
    judged: Sequence[tuple[AnyTrace, Sequence[AnyOutcome]]],
    claims: Sequence[AnyClaims | None] | None,
    scale: Scale,
    wanted: Sequence[Evidence],
) -> EvidenceRead:
    """Return after how many words each list has shown the evidence of its own verdicts."""
    of = [None] * len(judged) if claims is None else claims
    every = [(trace, outcomes, known) for (trace, outcomes), known in zip(judged, of, strict=True)]
    lists = ShownList.of(every, wanted, scale.minimum)
    return read_evidence(lists, None, scale)[0]
