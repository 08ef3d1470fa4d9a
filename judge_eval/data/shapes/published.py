"""Shapes of what people write and publish by hand: HotpotQA's paragraphs, promptfoo's tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from judge_eval.data.files.values import as_list, completed, decode_mapping, is_missing, kind, need_text, text
from judge_eval.data.shapes.shape import Data, Shape, has
from judge_eval.errors import DataError

ASSERTIONS = frozenset({"javascript", "python", "fn", "eval", "grade", "cost", "latency", "regex", "levenshtein"})
"""promptfoo's assertions of one word that hold no answer."""
QUERY = ("query", "question")


def _hotpot(record: Data) -> Iterator[dict[str, Any]]:
    context = _pairs(record.get("context"), "context", "title", "sentences")
    facts = _pairs(record.get("supporting_facts"), "supporting_facts", "title", "sent_id")
    gold = {str(title) for title, _ in facts}
    chunks = []
    for place, (title, sentences) in enumerate(context):
        if not isinstance(sentences, list):
            raise DataError("a paragraph is a title with its list of sentences", field=f"context[{place}]")
        body, title = "".join(map(str, sentences)).strip(), str(title)
        chunks.append({"id": title, "title": title, "text": body, "label": int(title in gold)})
    data: dict[str, Any] = {"query": need_text(record, "question"), "chunks": chunks}
    if gold:
        data["relevant_total"] = len(gold)
    used = {"question", "answer", "context", "supporting_facts"}
    yield completed(data, record, used, reference="answer")


def _pairs(value: Any, field: str, left: str, right: str) -> list[tuple[Any, Any]]:
    if isinstance(value, Mapping):
        sides = as_list(value.get(left), f"{field}.{left}"), as_list(value.get(right), f"{field}.{right}")
        value = list(zip(*sides, strict=False))
    out = []
    for place, pair in enumerate(as_list(value if value is not None else [], field)):
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise DataError(f"is {kind(pair)}; a pair belongs here", field=f"{field}[{place}]")
        out.append((pair[0], pair[1]))
    return out


def _promptfoo(record: Data) -> Iterator[dict[str, Any]]:
    context = decode_mapping(record.get("context"))
    if is_missing(context):
        raise DataError("the retrieved text is missing; the variable `context` must hold it", field="context")
    data: dict[str, Any] = {
        "query": need_text(record, *QUERY, "prompt", "input"),
        "chunks": [context] if isinstance(context, str) else as_list(context, "context"),
    }
    outputs = [key for key in record if key.startswith("[")]
    if len(outputs) == 1 and (answer := text(record, outputs[0])) is not None:
        data["answer"] = answer  # of several providers nobody can say whose chunks these are
    expected = sorted(key for key in record if key.startswith("__expected"))
    for key in expected:
        reference = _expected(str(record[key] or ""))
        if reference:
            data["reference"] = reference
            break
    used = {*QUERY, "prompt", "input", "context", "__description", *expected}
    yield completed(data, record, used | ({outputs[0]} if len(outputs) == 1 else set()))


def _expected(cell: str) -> str | None:
    """Take the expected answer out of a promptfoo assertion; None where it is about something else."""
    head, colon, value = cell.partition(":")
    name = head.split("(", 1)[0].strip()
    if name in ("equals", "similar", "contains", "icontains", "factuality", "context-recall", "answer") and colon:
        return value.strip()
    bare = name.removeprefix("not-")
    typed = bare.replace("-", "").isalpha() and bare.islower() and ("-" in name or bare in ASSERTIONS)
    return None if typed else cell.strip() or None


SHAPES = (
    Shape(
        "hotpotqa",
        "HotpotQA: paragraphs with supporting facts",
        lambda keys: has(keys, "question", "context", "supporting_facts"),
        _hotpot,
        frozenset({"question", "answer", "context", "supporting_facts"}),
    ),
    Shape(
        "promptfoo",
        "promptfoo's table of tests, or of results",
        lambda keys: (
            "context" in keys
            and (any(key.startswith("__") for key in keys) or has(keys, "Status", "Score", "Grader Reason"))
        ),
        _promptfoo,
        frozenset({"query", "question", "context", "__expected", "__description"}),
    ),
)
