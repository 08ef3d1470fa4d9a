"""The cases a judge is probed with, built from the user's own traces."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from judge_eval.probes import texts
from judge_eval.schema import Chunk, Trace

Expect = Literal["irrelevant", "unchanged", "separated"]
"""What a sound judge does: finds the chunk irrelevant, judges it as before, grades gold above random."""


@dataclass(frozen=True, slots=True)
class Probe:
    """One kind of probe."""

    name: str
    expect: Expect
    text: str
    """What is put to the judge."""


PROBES: dict[str, Probe] = {
    probe.name: probe
    for probe in (
        Probe("polarity", "separated", "gold chunk against another trace's: gold must be graded higher"),
        Probe("random", "irrelevant", "another trace's chunk"),
        Probe("query-words", "irrelevant", "random words with the question's words"),
        Probe("reference-words", "irrelevant", "random words with the reference's words"),
        Probe("injection", "irrelevant", "another trace's chunk that instructs the judge"),
        Probe("empty", "irrelevant", "a blank chunk"),
        Probe("shuffled", "unchanged", "the gold chunk, its sentences in another order"),
        Probe("truncated", "unchanged", "the first half of the gold chunk"),
        Probe("duplicated", "unchanged", "the gold chunk twice in a row"),
        Probe("padded", "unchanged", "the gold chunk between sentences that say nothing"),
        Probe("order", "unchanged", "the trace's chunks in another order (listwise only)"),
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
    traces: Sequence[Trace], gold: dict[str, Chunk], *, names: Sequence[str] = tuple(PROBES), seed: int = 0
) -> Iterator[Case]:
    """Build the cases, one for each trace and probe that can be built; equal seeds build equal cases.

    Injections take their variants in turn, so that each case stands for a trace of its own.

    Args:
        traces: The user's traces, with at least one chunk each; two or more for most probes.
        gold: By trace id a chunk that supports its reference.
        names: Which probes.
        seed: Of all that is drawn.
    """
    variants = list(texts.INJECTIONS)
    vocabulary = _vocabulary(traces)
    for place, trace in enumerate(traces):
        rng = random.Random(f"{seed} {trace.id}")  # noqa: S311  no secret
        foreign = _foreign(traces, gold, place, rng)
        own = gold.get(trace.id)
        made: dict[str, tuple[str, str | None]] = {"empty": ("", " ")}
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


def _foreign(traces: Sequence[Trace], gold: dict[str, Chunk], place: int, rng: random.Random) -> str | None:
    """Return the text of another trace's chunk, of one that asks something else and shares no chunk."""
    here = traces[place]
    own = {chunk.text for chunk in here.chunks}
    for _ in range(20):
        other = traces[rng.randrange(len(traces))]
        if other.query == here.query or other.id == here.id:
            continue
        chunk = gold.get(other.id) or (rng.choice(other.chunks) if other.chunks else None)
        if chunk is not None and chunk.text.strip() and chunk.text not in own:
            return chunk.text
    return None


def _vocabulary(traces: Sequence[Trace]) -> list[str]:
    pool: list[str] = []
    for trace in traces[:200]:
        for chunk in trace.chunks[:5]:
            pool += texts.words(chunk.text)[:100]
    return pool
