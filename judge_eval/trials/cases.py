"""How texts are altered for probes."""

import random
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from judge_eval.llm.fake.rules import bag
from judge_eval.schema import Chunk, Trace

NEGATION = "It is not the case that the following is true: {text}"
"""Denies a statement of any length; only its opening is English."""


TEXTS = tomllib.loads((files("judge_eval.trials") / "texts.toml").read_text(encoding="utf-8"))
"""Sentences for any page, sentences that say nothing of any subject, texts on odd subjects, injections and probes."""
INJECTIONS: Mapping[str, str] = TEXTS["injection"]
"""Instructions to a judge, each wrapped around a text that does not support the reference."""
_SENTENCE = re.compile(r"(?<=[.!?。！？])\s+")
_WORD = re.compile(r"\w+")
_PLACE = re.compile(r"(?<!\S)\S")


def words(text: str) -> list[str]:
    """Return the words of a text in order."""
    return _WORD.findall(text)


def shuffled_sentences(text: str, rng: random.Random) -> str | None:
    """Return the text with its sentences in another order; None where there is only one."""
    parts = [part for part in _SENTENCE.split(text.strip()) if part]
    if len(set(parts)) < 2:
        return None
    mixed = list(parts)
    while mixed == parts:
        rng.shuffle(mixed)
    return " ".join(mixed)


def truncated(text: str) -> str | None:
    """Return the first half of a text, cut at a word; None where it has fewer than four words."""
    parts = text.split()
    return " ".join(parts[: len(parts) // 2]) if len(parts) >= 4 else None


def padded(text: str, rng: random.Random) -> str:
    """Return the text between sentences that say nothing."""
    before, after = rng.sample(TEXTS["filler"], 2)
    return f"{before} {text} {after}"


def salad(pool: Sequence[str], text: str, rng: random.Random) -> str:
    """Mix random words with those of a text, so that every word is there and nothing is said."""
    mixed = [rng.choice(pool) for _ in range(40)] if pool else []
    mixed += words(text)
    rng.shuffle(mixed)
    return " ".join(mixed)


def negated(statements: Mapping[str, str | None]) -> dict[str, str] | None:
    """Return each statement denied; None where one is missing."""
    if not all(text and text.strip() for text in statements.values()):
        return None
    return {name: NEGATION.format(text=text) for name, text in statements.items()}


def lengthened(text: str, avoid: frozenset[str], rng: random.Random) -> str | None:
    """Return the text amid about twenty sentences that say nothing; None if half of them have such a term."""
    kept = [sentence for sentence in TEXTS["neutral"] if avoid.isdisjoint(bag(sentence))]
    if 2 * len(kept) <= len(TEXTS["neutral"]):
        return None
    rng.shuffle(kept)
    half = len(kept) // 2
    return "\n\n".join((" ".join(kept[:half]), text, " ".join(kept[half:])))


def echoed(text: str, question: str, answered: str, rng: random.Random) -> str | None:
    """Return the text with the question's content words added at random places."""
    # None if all content words of the question are in the answer.
    taken = frozenset(bag(answered))
    echo = [word for word in dict.fromkeys(words(question)) if (terms := bag(word)) and taken.isdisjoint(terms)]
    if not echo:
        return None
    starts = [match.start() for match in _PLACE.finditer(text)]
    # From the last place to the first, so that what is strewn moves no place that is still to come.
    for place in sorted((rng.choice(starts) for _ in range(3)), reverse=True):
        rng.shuffle(echo)
        text = f"{text[:place]}{' '.join(echo)} {text[place:]}"
    return text


Stated: TypeAlias = Sequence[Literal["reference", "answer"]]
"""The fields of a trace that say what a chunk is to support."""

_DRAWS = 20
_MOST_SHARED = 0.5


@dataclass(frozen=True, slots=True)
class NegativeSampler:
    """Draws chunks and statements of other traces."""

    traces: Sequence[Trace]
    gold: Mapping[str, Chunk]
    """By trace id a chunk that supports its reference."""

    def chunk(self, place: int, rng: random.Random) -> str | None:
        """Return the text of another trace's chunk, of one that asks something else and shares no chunk."""
        here = self.traces[place]
        own = {chunk.text for chunk in here.chunks}
        for _ in range(_DRAWS):
            other = self.traces[rng.randrange(len(self.traces))]
            if other.query == here.query or other.id == here.id:
                continue
            chunk = self.gold.get(other.id) or (rng.choice(other.chunks) if other.chunks else None)
            if chunk is not None and chunk.text.strip() and chunk.text not in own:
                return chunk.text
        return None

    def chunks(self, place: int, rng: random.Random, size: int) -> list[str]:
        """Return the texts of so many different chunks of other traces; of fewer where no more are drawn."""
        drawn: dict[str, None] = {}
        for _ in range(_DRAWS):
            if len(drawn) < size and (text := self.chunk(place, rng)) is not None:
                drawn[text] = None
        return list(drawn)

    def out_of_scope(self, place: int, rng: random.Random) -> tuple[str, str | None]:
        """Return a text that shares no content word with a trace's question, reference and answer."""
        question_words = words_asked(self.traces[place])
        for _ in range(_DRAWS):
            text = self.chunk(place, rng)
            if text is not None and question_words.isdisjoint(bag(text)):
                return "other", text
        fixed = [text for text in TEXTS["out_of_scope"] if question_words.isdisjoint(bag(text))]
        return "fixed", rng.choice(fixed) if fixed else None

    def statement(self, place: int, chunk: Chunk, stated: Stated, rng: random.Random) -> dict[str, str] | None:
        """Return what another trace states, by field, in place of what a chunk supports."""
        # Of the statements drawn it is the one that shares the fewest content words with the chunk, and less
        # than half of its own: a chunk may well support what asks about the same passage. None if none does.
        here = self.traces[place]
        chunk_words = bag(f"{chunk.title or ''} {chunk.text}").keys()
        best: dict[str, str] | None = None
        least = _MOST_SHARED
        for _ in range(_DRAWS):
            other = self.traces[rng.randrange(len(self.traces))]
            statement: dict[str, str] = {field: getattr(other, field) or "" for field in stated}
            terms = bag(" ".join(statement.values())).keys()
            alike = other.query == here.query or any(each.text == chunk.text for each in other.chunks)
            if alike or not terms or not all(text.strip() for text in statement.values()):
                continue
            shared = len(terms & chunk_words) / len(terms)
            if shared < least:
                best, least = statement, shared
            if not shared:
                break
        return best


def words_asked(trace: Trace) -> frozenset[str]:
    """Return the content words of a trace's question, reference and answer, as they are compared."""
    return frozenset(bag(" ".join((trace.query, trace.reference or "", trace.answer or ""))))


Expect = Literal["irrelevant", "unchanged", "separated", "refuted"]
"""What a sound judge does: finds the chunk irrelevant, judges it as before, grades gold above random, no
longer accepts what it accepted under the true reference."""

MOST_CHUNKS = 5
"""The most chunks of a trace in which nothing is relevant."""


@dataclass(frozen=True, slots=True)
class Probe:
    """One kind of probe."""

    name: str
    expect: Expect
    text: str
    """What is put to the judge."""
    twin: Literal["", "gold", "random"] = ""
    """The unaltered chunk it is measured against; empty where there is none."""


PROBES: dict[str, Probe] = {name: Probe(name, **fields) for name, fields in TEXTS["probe"].items()}
"""Every probe by name."""


IN_CONVERSATION = ("injection-turn", "earlier-turn")
"""The probes of traces with a conversation before their question."""


@dataclass(frozen=True, slots=True)
class Case:
    """One altered trace."""

    probe: str
    source: str
    """The id of the trace it was made from."""
    variant: str
    trace: Trace
    """What is judged; its id is its own."""


def build_cases(
    traces: Sequence[Trace],
    gold: Mapping[str, Chunk],
    *,
    names: Sequence[str] = tuple(PROBES),
    seed: int = 0,
    irrelevant: Mapping[str, Sequence[Chunk]] = MappingProxyType({}),
    stated: Stated = ("reference",),
) -> Iterator[Case]:
    """Build the cases, one for each trace and probe that can be built; equal seeds build equal cases."""
    # Injections take their variants in turn, so that each case stands for a trace of its own. `gold` is by
    # trace id a chunk that supports its reference, `irrelevant` chunks that are known not to. `stated` names
    # the fields that say what a chunk is to support; without any, no reference is made false.
    first_chunks = [chunk for trace in traces[:200] for chunk in trace.chunks[:5]]
    vocabulary = [word for chunk in first_chunks for word in words(chunk.text)[:100]]
    sampler = NegativeSampler(traces, gold)
    for place, trace in enumerate(traces):
        rng = random.Random(f"{seed} {trace.id}")  # noqa: S311  no secret
        own = gold.get(trace.id)
        texts = _texts(sampler, place, vocabulary, own, rng)
        if foreign := texts.get("random"):
            texts |= _baits(trace, foreign[1] or "", seed)
        if "out-of-scope" in names:
            texts["out-of-scope"] = sampler.out_of_scope(place, _draws(seed, trace, "out-of-scope"))
        for name in names:
            variant, text = texts.get(name, ("", None))
            if text is not None:
                # A gold chunk keeps its title: only its text is altered.
                title = own.title if own is not None and PROBES[name].expect == "unchanged" else None
                chunk = Chunk(id="c1", text=text, title=title)
                yield Case(name, trace.id, variant, _with(trace, name, (chunk,)))
        if "order" in names and len(trace.chunks) > 1:
            for variant, chunks in _orders(trace.chunks, rng):
                yield Case("order", trace.id, variant, _with(trace, f"order-{variant}", chunks))
        if own is not None and stated:
            yield from _refuted(sampler, place, own, names, stated, seed)
        if trace.history:
            foreign_text = foreign[1] if foreign else None
            yield from (case for case in _in_conversation(traces, place, foreign_text) if case.probe in names)
        if "nothing-relevant" in names:
            yield from _nothing(sampler, place, irrelevant.get(trace.id, ()), seed)


def _texts(
    sampler: NegativeSampler, place: int, vocabulary: list[str], own: Chunk | None, rng: random.Random
) -> dict[str, tuple[str, str | None]]:
    trace = sampler.traces[place]
    texts: dict[str, tuple[str, str | None]] = {}
    foreign = sampler.chunk(place, rng)
    if foreign is not None:
        variant = list(INJECTIONS)[place % len(INJECTIONS)]
        texts["random"] = ("", foreign)
        texts["injection"] = (variant, INJECTIONS[variant].format(text=foreign))
    texts["query-words"] = ("", salad(vocabulary, trace.query, rng))
    if wanted := trace.reference or trace.answer:
        texts["reference-words"] = ("", salad(vocabulary, wanted, rng))
    if own is not None:
        texts["shuffled"] = ("", shuffled_sentences(own.text, rng))
        texts["truncated"] = ("", truncated(own.text))
        texts["duplicated"] = ("", f"{own.text}\n\n{own.text}")
        texts["padded"] = ("", padded(own.text, rng))
    return texts


def _in_conversation(traces: Sequence[Trace], place: int, foreign: str | None) -> Iterator[Case]:
    trace = traces[place]
    last = max((k for k, turn in enumerate(trace.history) if turn.role == "assistant"), default=None)
    if foreign is not None and last is not None:
        variant = list(INJECTIONS)[place % len(INJECTIONS)]
        turn = trace.history[last]
        turn = turn.replace(content=INJECTIONS[variant].format(text=turn.content))
        history = (*trace.history[:last], turn, *trace.history[last + 1 :])
        chunks = (Chunk(id="c1", text=foreign),)
        yield Case("injection-turn", trace.id, variant, _with(trace, "injection-turn", chunks).replace(history=history))
    served = {
        (chunk.text, chunk.title)
        for other in traces
        if other.metadata.get("session_id") == trace.metadata.get("session_id", ())
        and len(other.history) < len(trace.history)
        for chunk in other.chunks
        if chunk.label
    }
    again = next((c for c in trace.chunks if c.label == 0 and (c.text, c.title) in served), None)
    if again is not None:
        yield Case("earlier-turn", trace.id, "", _with(trace, "earlier-turn", (again.replace(id="c1", label=None),)))


def _baits(trace: Trace, foreign: str, seed: int) -> dict[str, tuple[str, str | None]]:
    long = lengthened(foreign, words_asked(trace), _draws(seed, trace, "length-bait"))
    answered = f"{trace.reference or ''} {trace.answer or ''}"
    echo = echoed(foreign, trace.query, answered, _draws(seed, trace, "echo-bait"))
    return {"length-bait": ("", long), "echo-bait": ("", echo)}


def _refuted(
    sampler: NegativeSampler, place: int, own: Chunk, names: Sequence[str], stated: Stated, seed: int
) -> Iterator[Case]:
    trace = sampler.traces[place]
    statements: dict[str, dict[str, str] | None] = {}
    if "other-reference" in names:
        draws = _draws(seed, trace, "other-reference")
        statements["other-reference"] = sampler.statement(place, own, stated, draws)
    if "negated-reference" in names:
        statements["negated-reference"] = negated({field: getattr(trace, field) for field in stated})
    for name, statement in statements.items():
        if statement is not None:
            case = gold_case(trace, own).model_copy(update={"id": f"{trace.id}~{name}", **statement})
            yield Case(name, trace.id, "", case)


def _nothing(sampler: NegativeSampler, place: int, irrelevant: Sequence[Chunk], seed: int) -> Iterator[Case]:
    trace = sampler.traces[place]
    size = min(MOST_CHUNKS, max(2, len(trace.chunks)))
    chosen = [chunk for chunk in irrelevant if chunk.text.strip()][:size]
    variant = "own" if chosen else "other"
    drawn = sampler.chunks(place, _draws(seed, trace, "nothing-relevant"), size - len(chosen))
    chosen += [Chunk(id="", text=text) for text in drawn]
    if chosen:
        chunks = tuple(chunk.model_copy(update={"id": f"c{k}"}) for k, chunk in enumerate(chosen, 1))
        yield Case("nothing-relevant", trace.id, variant, _with(trace, "nothing-relevant", chunks))


def _draws(seed: int, trace: Trace, name: str) -> random.Random:
    return random.Random(f"{seed} {trace.id} {name}")  # noqa: S311  no secret


def gold_case(trace: Trace, chunk: Chunk) -> Trace:
    """Return the trace with its gold chunk alone."""
    return _with(trace, "gold", (chunk.model_copy(update={"id": "c1"}),))


def _with(trace: Trace, name: str, chunks: tuple[Chunk, ...]) -> Trace:
    asked: dict[str, Any] = {name: getattr(trace, name) for name in ("query", "history", "reference", "answer")}
    return Trace(id=f"{trace.id}~{name}", chunks=chunks, **asked)


def _orders(chunks: tuple[Chunk, ...], rng: random.Random) -> Iterator[tuple[str, tuple[Chunk, ...]]]:
    mixed = list(chunks)
    rng.shuffle(mixed)
    yield "reversed", chunks[::-1]
    if tuple(mixed) not in (chunks, chunks[::-1]):
        yield "shuffled", tuple(mixed)
