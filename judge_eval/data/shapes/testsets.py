"""Shapes of questions that were made from texts: what they were made from is no retrieval."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from judge_eval.data.files.values import is_mapped
from judge_eval.data.shapes.flat import MARKS, QUERY, no_retrieval, read_contexts, read_ragas
from judge_eval.data.shapes.shape import Data, Keys, Shape, has, has_any


def _testset(record: Data) -> Iterator[dict[str, Any]]:
    old = "reference_contexts" not in record
    if is_mapped(record, "chunks"):
        yield from read_contexts(record) if has_any(frozenset(record), *QUERY) else read_ragas(record)
    elif old:
        otherwise = "; where your retriever has filled them in, say --format ragas-old"
        raise no_retrieval("contexts", "--map chunks=contexts", otherwise)
    else:
        raise no_retrieval("reference_contexts", "--map chunks=reference_contexts")


def _fits(keys: Keys) -> bool:
    made = has(keys, "user_input", "reference_contexts")
    if made and not has_any(keys, "retrieved_contexts", "retrieved_context_ids"):
        return True
    return has_any(keys, *QUERY) and "contexts" in keys and has_any(keys, *MARKS)


SHAPES = (
    Shape(
        "ragas-testset",
        "a testset of ragas, which holds no retrieval",
        _fits,
        _testset,
        frozenset({"user_input", "reference_contexts", "reference", "synthesizer_name", *MARKS}),
        frozenset({"reference_contexts", "contexts"}),
    ),
)
