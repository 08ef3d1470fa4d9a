"""What differs between the question about a chunk and the nearest one that an earlier run asked."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from judge_eval.errors import JudgeEvalError
from judge_eval.llm.backend import Identity
from judge_eval.llm.cache.cached import cache_key
from judge_eval.pages.recall import Memory
from judge_eval.runs.folder.records import TraceResult
from judge_eval.runs.folder.run import Run
from judge_eval.wire import Request

AROUND = 20
"""Characters that are shown on each side of the first difference of two texts."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A question as a run asked it about a chunk; its key in the cache is made of both."""

    run: Run
    chunk: str
    request: Request
    identity: Identity
    prompt: str
    stored: bool = False
    """Whether the cache holds its answer."""


@dataclass(frozen=True, slots=True)
class Nearest:
    """The question about a chunk, and the earlier one that differs from it in the fewest parts of the key."""

    asked: Asked
    other: Asked | None
    differences: tuple[str, ...]
    """A sentence for each part that differs; none if the key is the same."""

    def sentence(self) -> str:
        """Say what the nearest question is."""
        about, other = f"{self.asked.request.trace_id} {self.asked.chunk}", self.other
        if other is None:
            return f"{about}: no earlier run in this folder asked about this chunk or its text"
        kept = "" if other.stored else " (the cache does not hold its answer)"
        if not self.differences:
            return f"{about}: the same question as in {other.run.name}{kept}"
        return f"{about}: the nearest question is that of {other.run.name} about {other.chunk}{kept}; it differs in"

    def data(self) -> dict[str, Any]:
        """Return the same as JSON."""
        other = self.other
        nearest = other and {"run": other.run.id, "chunk_id": other.chunk, "stored": other.stored}
        differences = list(self.differences)
        return {"chunk_id": self.asked.chunk, "nearest": nearest, "differences": differences}


def questions(run: Run, result: TraceResult, memory: Memory) -> Iterator[Asked]:
    """Make the first questions that a run asks about a trace, those about each chunk."""
    judge, prompt = run.manifest.judge, ""
    if isinstance(named := judge.get("prompt"), dict):
        prompt = f"{named.get('id')}@{named.get('version')}"
    for request, reply in memory.first_questions(result):
        if (identity := memory.identities.get(request.route)) is not None:
            for chunk in request.chunk_ids:
                yield Asked(run, chunk, request, identity, prompt, reply)


def nearest_questions(
    run: Run, trace_id: str, others: Sequence[Run], memory: Memory, chunk: str | None = None
) -> list[Nearest]:
    """Hold each question of a trace against those that other runs asked about a trace of its id or query."""
    result = next((each for each in run.results if each.trace_id == trace_id), None)
    if result is None:
        raise JudgeEvalError(f"run {run.name} has no trace {trace_id!r}")
    pool = list[Asked]()
    for other in others:
        there = Memory(other.manifest, memory.store)
        for each in other.results:
            if each.trace_id == trace_id or each.trace.query == result.trace.query:
                pool += questions(other, each, there)
    answers = list[Nearest]()
    for asked in questions(run, result, memory):
        if chunk not in (None, asked.chunk):
            continue
        candidates = [(tuple(key_differences(asked, other)), other) for other in pool if _about_same(asked, other)]
        differing, nearest = min(candidates, key=lambda pair: (not pair[1].stored, len(pair[0])), default=((), None))
        answers.append(Nearest(asked, nearest, differing))
    if not answers:
        raise JudgeEvalError(memory.problem or f"trace {trace_id!r} has no question about {chunk or 'a chunk'}")
    return answers


def _about_same(asked: Asked, other: Asked) -> bool:
    same_texts = set(asked.request.passages) & set(other.request.passages)
    return asked.request.route == other.request.route and (asked.chunk == other.chunk or bool(same_texts))


def key_differences(asked: Asked, other: Asked) -> Iterator[str]:
    """Yield a sentence for each part of the key in which a question differs from an earlier one."""
    mine, theirs = asked.identity, other.identity
    if cache_key(mine, asked.request.digest) == cache_key(theirs, other.request.digest):
        return
    for name, a, b in (
        *(("provider", theirs.provider, mine.provider), ("model", theirs.model, mine.model)),
        *(("server", theirs.base_url, mine.base_url), ("the server's query", theirs.variant, mine.variant)),
        ("prompt", other.prompt, asked.prompt),
    ):
        if a != b:
            yield f"{name}: {a or 'none'} there, {b or 'none'} here"
    before, after = dict(theirs.params), dict(mine.params)
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            yield f"parameter {name}: {before.get(name, 'not set')} there, {after.get(name, 'not set')} here"
    old, new = other.request, asked.request
    for name in ("query", "reference", "answer"):
        if getattr(old, name) != getattr(new, name):
            yield text_difference(name, getattr(old, name), getattr(new, name))
    if len(old.passages) != len(new.passages):
        yield f"chunks in one question: {len(old.passages)} there, {len(new.passages)} here"
    else:
        for number, ((text, title), (text_now, title_now)) in enumerate(
            zip(old.passages, new.passages, strict=True), 1
        ):
            place = f" of chunk {number}" if len(new.passages) > 1 else ""
            if title != title_now:
                yield text_difference(f"title{place}", title, title_now)
            if text != text_now:
                yield text_difference(f"text{place}", text, text_now)
    for name in ("max_tokens", "sample"):
        if getattr(old, name) != getattr(new, name):
            yield f"{name}: {getattr(old, name)} there, {getattr(new, name)} here"
    if old.claims != new.claims:
        yield f"claims: {len(old.claims)} there, {len(new.claims)} here, or other words"
    if old.form.digest != new.form.digest and other.prompt == asked.prompt:
        yield "prompt: other words, another form of the answer, or another version of this package"


def text_difference(name: str, before: str | None, now: str | None) -> str:
    """Say where two texts begin to differ, with what stands there; blanks are made visible by quotes."""
    if before is None or now is None:
        return f"{name}: {'none' if before is None else 'one'} there, {'none' if now is None else 'one'} here"
    both = zip(before, now, strict=False)
    at = next((place for place, (a, b) in enumerate(both) if a != b), min(len(before), len(now)))
    cut = [text[max(0, at - AROUND) : at + AROUND] for text in (before, now)]
    return f"{name}: from character {at + 1} on, {cut[0]!r} there, {cut[1]!r} here"
