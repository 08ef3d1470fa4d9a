"""Finding question, documents and reference in what was recorded of a retriever's call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from judge_eval.data.files.values import decode_mapping
from judge_eval.errors import DataError

QUESTIONS = ("query", "question", "input", "user_input", "text", "search_query")
REFERENCES = (
    "reference",
    "expected_response",
    "expected_output",
    "expected_answer",
    "answer",
    "ground_truth",
)
LISTS = (
    "documents",
    "retrieved_contexts",
    "contexts",
    "retrieval_context",
    "context",
    "source_documents",
    "chunks",
)


def question_in(value: Any) -> str | None:
    """Find the question in what a retriever was called with: a text, or an object that holds one."""
    value = decode_mapping(value)
    if isinstance(value, str):
        return value.strip('"') or None
    if isinstance(value, list) and len(value) == 1:
        return question_in(value[0])
    if isinstance(value, Mapping):
        for key in QUESTIONS:
            if isinstance(value.get(key), str) and value[key]:
                return str(value[key])
        texts = [inner for inner in value.values() if isinstance(inner, str) and inner]
        if len(texts) == 1:
            return texts[0]
    return None


def documents_in(value: Any) -> list[Any] | None:
    """Find the documents in what a retriever returned: a list, or an object that holds one."""
    value = decode_mapping(value)
    if isinstance(value, list):
        return value
    if isinstance(value, Mapping):
        for key in LISTS:
            if isinstance(decode_mapping(value.get(key)), list):
                return list(decode_mapping(value[key]))
        if isinstance(value.get("output"), list | Mapping):
            return documents_in(value["output"])
    return None


def recorded(documents: list[Any] | None, where: str) -> list[Any]:
    """Return documents that were recorded; a gap is not an empty retrieval.

    Raises:
        DataError: None were recorded.
    """
    if documents is None:
        raise DataError(
            "the retrieval's documents are not recorded here (it failed, or content is hidden); "
            "leave such records out with --on-invalid skip",
            field=where,
        )
    return documents


def reference_in(value: Any) -> str | None:
    """Find the expected answer in what people wrote down: a text, or an object that holds one."""
    value = decode_mapping(value)
    if isinstance(value, str):
        return value or None
    if isinstance(value, Mapping):
        texts = [value[key] for key in REFERENCES if isinstance(value.get(key), str) and value[key]]
        return texts[0] if texts else None
    return None
