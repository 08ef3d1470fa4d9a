"""The question, the documents and the expected answer in what tools recorded."""

from collections.abc import Mapping
from typing import Any

from judge_eval.data.files.values import WHERE, decode_mapping, is_urls
from judge_eval.data.shapes.chunks import chunk_data, same_texts
from judge_eval.data.shapes.shape import REMARKS, RERANKED
from judge_eval.errors import DataError
from judge_eval.spelling import option

QUESTIONS = ("query", "question", "input", "user_input", "text", "search_query")
REFERENCES = (
    "reference", "expected_response", "expected_output", "expected_answer", "answer", "ground_truth",
)  # fmt: skip
LISTS = (
    "documents", "retrieved_contexts", "contexts", "retrieval_context", "context", "source_documents",
    "chunks",
)  # fmt: skip


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
        decoded = {key: decode_mapping(value.get(key)) for key in LISTS}
        lists = {key: inner for key, inner in decoded.items() if isinstance(inner, list)}
        texts = {key: inner for key, inner in lists.items() if not is_urls(inner)} or lists
        chunks = next(iter(texts.values()), None)
        others = [key for key, inner in texts.items() if inner and not same_texts(inner, chunks or [])]
        if chunks and others:
            both = f"`{next(iter(texts))}` and `{others[0]}`"
            raise DataError(f"{both} may hold the chunks; keep one of them, or name it by its path with {WHERE}")
        if chunks is not None:
            return list(chunks)
        if isinstance(value.get("output"), list | Mapping):
            return documents_in(value["output"])
    return None


def recorded(documents: list[Any] | None, where: str) -> list[Any]:
    """Return documents that were recorded; a gap is not an empty retrieval."""
    if documents is None:
        raise DataError(
            "the retrieval's documents are not recorded here (it failed, or content is hidden); "
            f"leave such records out with {option('on_invalid', 'skip')}",
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


def data_of(query: str | None, chunks: list[Any], where: str, **more: Any) -> dict[str, Any]:
    """Make the data of a trace; what is empty of `more` is left out."""
    if not query:
        raise DataError("the retriever's question is missing", field=where)
    return {"query": query, "chunks": chunks, **{key: value for key, value in more.items() if value}}


def reranked(before: list[Any], after: list[Any], where: str) -> list[dict[str, Any]]:
    """Return what a reranker was given, each chunk with its rank in what it returned, by id, else by text."""
    chunks = [chunk_data(item, where) for item in before]
    ranks: dict[Any, int] = {}
    for rank, item in enumerate(after, 1):
        chunk = chunk_data(item, where)
        for key in (("id", chunk.get("id")), ("text", chunk.get("text"))):
            if key[1] is not None:
                ranks.setdefault(key, rank)
    for chunk in chunks:
        rank = ranks.get(("id", chunk.get("id"))) or ranks.get(("text", chunk.get("text"))) or 0
        chunk["metadata"] = {**chunk.get("metadata", {}), RERANKED: rank}
    return chunks


def not_a_retrieval(tool: str) -> dict[str, Any]:
    """Name a tool whose call is left out."""
    return {REMARKS: [f"a call of the tool {tool or 'without a name'} is not a retrieval and is left out"]}
