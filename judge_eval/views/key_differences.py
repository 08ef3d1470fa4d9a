"""What is said of the question about a chunk and the nearest one that an earlier run asked."""

from typing import Any

from judge_eval.runs.judging.nearest import KeyDifference, Nearest

AROUND = 20
"""Characters that are shown on each side of the first difference of two texts."""


def nearest_sentence(nearest: Nearest) -> str:
    """Say what the nearest question is."""
    about, other = f"{nearest.asked.request.trace_id} {nearest.asked.chunk}", nearest.other
    if other is None:
        return f"{about}: no earlier run in this folder asked about this chunk or its text"
    kept = "" if other.stored else " (the cache does not hold its answer)"
    if not nearest.differences:
        return f"{about}: the same question as in {other.run.name}{kept}"
    return f"{about}: the nearest question is that of {other.run.name} about {other.chunk}{kept}; it differs in"


def nearest_data(nearest: Nearest) -> dict[str, Any]:
    """Return the same as JSON."""
    other = nearest.other
    asked = other and {"run": other.run.id, "chunk_id": other.chunk, "stored": other.stored}
    differences = [difference_sentence(each) for each in nearest.differences]
    return {"chunk_id": nearest.asked.chunk, "nearest": asked, "differences": differences}


def difference_sentence(d: KeyDifference) -> str:
    """Say what a part of the key was and is; of texts where they begin to differ, blanks made visible by quotes."""
    before, now = d.before, d.now
    if d.kind == "form":
        return "prompt: other words, another form of the answer, or another version of this package"
    if d.kind == "claims":
        return f"claims: {len(before)} there, {len(now)} here, or other words"
    if d.kind == "parameter":
        before, now = ("not set" if value is None else value for value in (before, now))
        return f"parameter {d.part}: {before} there, {now} here"
    if d.kind == "text" and None in (before, now):
        before, now = ("none" if text is None else "one" for text in (before, now))
    elif d.kind == "text":
        both = enumerate(zip(before, now, strict=False))
        at = next((place for place, (a, b) in both if a != b), min(len(before), len(now)))
        cut = [text[max(0, at - AROUND) : at + AROUND] for text in (before, now)]
        return f"{d.part}: from character {at + 1} on, {cut[0]!r} there, {cut[1]!r} here"
    elif d.kind == "name":
        before, now = before or "none", now or "none"
    return f"{d.part}: {before} there, {now} here"
