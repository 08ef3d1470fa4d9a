"""The parts of the key that differ between the question about a chunk and the nearest one of an earlier run."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from judge_eval.errors import JudgeEvalError
from judge_eval.llm.backend import Identity
from judge_eval.llm.cache.cached import cache_key
from judge_eval.runs.folder.records import TraceResult
from judge_eval.runs.folder.run import Run
from judge_eval.runs.judging.recall import Memory
from judge_eval.wire import Request

PartKind: TypeAlias = Literal["name", "parameter", "text", "number", "claims", "form"]


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
class KeyDifference:
    """A part of the key that two questions do not share, and what it was and is; None: not set, or no text."""

    kind: PartKind
    part: str
    before: Any
    now: Any


@dataclass(frozen=True, slots=True)
class Nearest:
    """The question about a chunk, and the earlier one that differs from it in the fewest parts of the key."""

    asked: Asked
    other: Asked | None
    differences: tuple[KeyDifference, ...]
    """None if the key is the same."""


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


def key_differences(asked: Asked, other: Asked) -> Iterator[KeyDifference]:
    """Yield each part of the key in which a question differs from an earlier one."""
    mine, theirs = asked.identity, other.identity
    if cache_key(mine, asked.request.digest) == cache_key(theirs, other.request.digest):
        return
    old, new = other.request, asked.request
    before, after = dict(theirs.params), dict(mine.params)
    parts: list[tuple[PartKind, str, Any, Any]] = [
        ("name", "provider", theirs.provider, mine.provider),
        ("name", "model", theirs.model, mine.model),
        ("name", "server", theirs.base_url, mine.base_url),
        ("name", "the server's query", theirs.variant, mine.variant),
        ("name", "prompt", other.prompt, asked.prompt),
        *(("parameter", name, before.get(name), after.get(name)) for name in sorted(before.keys() | after.keys())),
        *(("text", name, getattr(old, name), getattr(new, name)) for name in ("query", "reference", "answer")),
        ("text", "history", old.history or None, new.history or None),
    ]
    if len(old.passages) != len(new.passages):
        parts.append(("number", "chunks in one question", len(old.passages), len(new.passages)))
    else:
        for number, (then, now) in enumerate(zip(old.passages, new.passages, strict=True), 1):
            place = f" of chunk {number}" if len(new.passages) > 1 else ""
            parts += [("text", f"title{place}", then[1], now[1]), ("text", f"text{place}", then[0], now[0])]
    parts += [("number", name, getattr(old, name), getattr(new, name)) for name in ("max_tokens", "sample")]
    parts.append(("claims", "claims", old.claims, new.claims))
    if other.prompt == asked.prompt:
        parts.append(("form", "prompt", old.form.digest, new.form.digest))
    yield from (KeyDifference(*part) for part in parts if part[2] != part[3])
