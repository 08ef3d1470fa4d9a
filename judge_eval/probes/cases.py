"""The cases a judge is probed with, built from the user's own traces."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from judge_eval.probes import texts
from judge_eval.probes.others import Others, Stated, words_asked
from judge_eval.schema import Chunk, Trace

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


PROBES: dict[str, Probe] = {
    probe.name: probe
    for probe in (
        Probe("polarity", "separated", "gold chunk against another trace's: gold must be graded higher"),
        Probe("random", "irrelevant", "another trace's chunk"),
        Probe("query-words", "irrelevant", "random words with the question's words"),
        Probe("reference-words", "irrelevant", "random words with the reference's words"),
        Probe("injection", "irrelevant", "another trace's chunk that instructs the judge", "random"),
        Probe("empty", "irrelevant", "a blank chunk"),
        Probe("shuffled", "unchanged", "the gold chunk, its sentences in another order", "gold"),
        Probe("truncated", "unchanged", "the first half of the gold chunk", "gold"),
        Probe("duplicated", "unchanged", "the gold chunk twice in a row", "gold"),
        Probe("padded", "unchanged", "the gold chunk between sentences that say nothing", "gold"),
        Probe("order", "unchanged", "the trace's chunks in another order (listwise only)"),
        Probe("out-of-scope", "irrelevant", "a chunk that shares no telling word with the trace"),
        Probe("other-reference", "refuted", "the gold chunk under another trace's reference", "gold"),
        Probe("negated-reference", "refuted", "the gold chunk under its own reference denied", "gold"),
        Probe("nothing-relevant", "irrelevant", "a trace in which no chunk is relevant"),
        Probe("length-bait", "irrelevant", "another trace's chunk amid long filler", "random"),
        Probe("echo-bait", "irrelevant", "another trace's chunk with the question's words", "random"),
    )
}
"""Every probe by name."""


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
    """Build the cases, one for each trace and probe that can be built; equal seeds build equal cases.

    Injections take their variants in turn, so that each case stands for a trace of its own.

    Args:
        traces: The user's traces, with at least one chunk each; two or more for most probes.
        gold: By trace id a chunk that supports its reference.
        names: Which probes.
        seed: Of all that is drawn.
        irrelevant: By trace id chunks of its own that are known to be irrelevant.
        stated: The fields that say what a chunk is to support; none: no reference is made false.
    """
    vocabulary = _vocabulary(traces)
    others = Others(traces, gold)
    for place, trace in enumerate(traces):
        rng = random.Random(f"{seed} {trace.id}")  # noqa: S311  no secret
        own = gold.get(trace.id)
        made = _texts(others, place, vocabulary, own, rng)
        if foreign := made.get("random"):
            made |= _baits(trace, foreign[1] or "", seed)
        if "out-of-scope" in names:
            made["out-of-scope"] = others.out_of_scope(place, _draws(seed, trace, "out-of-scope"))
        for name in names:
            variant, text = made.get(name, ("", None))
            if text is not None:
                # A gold chunk keeps its title: only its text is altered.
                title = own.title if own is not None and PROBES[name].expect == "unchanged" else None
                chunk = Chunk(id="c1", text=text, title=title)
                yield Case(name, trace.id, variant, _with(trace, name, (chunk,)))
        if "order" in names and len(trace.chunks) > 1:
            for variant, chunks in _orders(trace.chunks, rng):
                yield Case("order", trace.id, variant, _with(trace, f"order-{variant}", chunks))
        if own is not None and stated:
            yield from _refuted(others, place, own, names, stated, seed)
        if "nothing-relevant" in names:
            yield from _nothing(others, place, irrelevant.get(trace.id, ()), seed)


def _texts(
    others: Others, place: int, vocabulary: list[str], own: Chunk | None, rng: random.Random
) -> dict[str, tuple[str, str | None]]:
    """Return by probe its variant and the text that is put to the judge."""
    trace = others.traces[place]
    variants = list(texts.INJECTIONS)
    made: dict[str, tuple[str, str | None]] = {"empty": ("", " ")}
    foreign = others.chunk(place, rng)
    if foreign is not None:
        variant = variants[place % len(variants)]
        made["random"] = ("", foreign)
        made["injection"] = (variant, texts.INJECTIONS[variant].format(text=foreign))
    made["query-words"] = ("", texts.salad(vocabulary, trace.query, rng))
    if wanted := trace.reference or trace.answer:
        made["reference-words"] = ("", texts.salad(vocabulary, wanted, rng))
    if own is not None:
        made["shuffled"] = ("", texts.shuffled_sentences(own.text, rng))
        made["truncated"] = ("", texts.truncated(own.text))
        made["duplicated"] = ("", f"{own.text}\n\n{own.text}")
        made["padded"] = ("", texts.padded(own.text, rng))
    return made


def _baits(trace: Trace, foreign: str, seed: int) -> dict[str, tuple[str, str | None]]:
    """Return by probe the irrelevant chunk made long, or with the question's words in it."""
    lengthened = texts.lengthened(foreign, words_asked(trace), _draws(seed, trace, "length-bait"))
    answered = f"{trace.reference or ''} {trace.answer or ''}"
    echoed = texts.echoed(foreign, trace.query, answered, _draws(seed, trace, "echo-bait"))
    return {"length-bait": ("", lengthened), "echo-bait": ("", echoed)}


def _refuted(
    others: Others, place: int, own: Chunk, names: Sequence[str], stated: Stated, seed: int
) -> Iterator[Case]:
    """Yield the gold chunk under references that are false for the trace."""
    trace = others.traces[place]
    said: dict[str, dict[str, str] | None] = {}
    if "other-reference" in names:
        draws = _draws(seed, trace, "other-reference")
        said["other-reference"] = others.statement(place, own, stated, draws)
    if "negated-reference" in names:
        said["negated-reference"] = texts.negated({field: getattr(trace, field) for field in stated})
    for name, statement in said.items():
        if statement is not None:
            case = gold_case(trace, own).model_copy(update={"id": f"{trace.id}~{name}", **statement})
            yield Case(name, trace.id, "", case)


def _nothing(others: Others, place: int, irrelevant: Sequence[Chunk], seed: int) -> Iterator[Case]:
    """Yield a trace of chunks that are irrelevant, its own first and then other traces'."""
    trace = others.traces[place]
    size = min(MOST_CHUNKS, max(2, len(trace.chunks)))
    chosen = [chunk for chunk in irrelevant if chunk.text.strip()][:size]
    variant = "own" if chosen else "other"
    drawn = others.chunks(place, _draws(seed, trace, "nothing-relevant"), size - len(chosen))
    chosen += [Chunk(id="", text=text) for text in drawn]
    if chosen:
        chunks = tuple(chunk.model_copy(update={"id": f"c{k}"}) for k, chunk in enumerate(chosen, 1))
        yield Case("nothing-relevant", trace.id, variant, _with(trace, "nothing-relevant", chunks))


def _draws(seed: int, trace: Trace, name: str) -> random.Random:
    """Return draws of a probe's own, so that no probe changes what another draws."""
    return random.Random(f"{seed} {trace.id} {name}")  # noqa: S311  no secret


def gold_case(trace: Trace, chunk: Chunk) -> Trace:
    """Return the trace with its gold chunk alone."""
    return _with(trace, "gold", (chunk.model_copy(update={"id": "c1"}),))


def _with(trace: Trace, name: str, chunks: tuple[Chunk, ...]) -> Trace:
    asked = {"query": trace.query, "reference": trace.reference, "answer": trace.answer}
    return Trace(id=f"{trace.id}~{name}", chunks=chunks, **asked)


def _orders(chunks: tuple[Chunk, ...], rng: random.Random) -> list[tuple[str, tuple[Chunk, ...]]]:
    orders = [("reversed", chunks[::-1])]
    mixed = list(chunks)
    rng.shuffle(mixed)
    if tuple(mixed) not in (chunks, chunks[::-1]):
        orders.append(("shuffled", tuple(mixed)))
    return orders


def _vocabulary(traces: Sequence[Trace]) -> list[str]:
    pool: list[str] = []
    for trace in traces[:200]:
        for chunk in trace.chunks[:5]:
            pool += texts.words(chunk.text)[:100]
    return pool
