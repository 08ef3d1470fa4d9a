"""Retriever runs of LangSmith."""

from collections.abc import Iterator, Mapping
from typing import Any

from judge_eval.data.files.values import decode_mapping, maybe_list
from judge_eval.data.shapes.recorded_values import (
    data_of,
    documents_in,
    not_a_retrieval,
    question_in,
    recorded,
    reference_in,
    reranked,
)
from judge_eval.data.shapes.shape import Data, Shape, has_any
from judge_eval.objects import plain


def _langsmith(record: Data) -> Iterator[dict[str, Any]]:
    children = [child for child in maybe_list(record, "child_runs") if isinstance(child, Mapping)]
    if record.get("run_type") == "retriever":
        outputs = decode_mapping(record.get("outputs"))
        chunks = recorded(documents_in(outputs), "outputs.documents")
        base = [child for child in children if child.get("run_type") == "retriever"]
        if len(base) == 1:  # a retriever around another, as `ContextualCompressionRetriever`, reranks what that returns
            before = recorded(documents_in(decode_mapping(base[0].get("outputs"))), "child_runs.outputs.documents")
            chunks = reranked(before, chunks, "outputs.documents")
            children.remove(base[0])
        metadata = {name: plain(record[key]) for key, name in _LANGSMITH_KEPT.items() if record.get(key)}
        data = data_of(
            question_in(record.get("inputs")),
            chunks,
            "inputs.query",
            reference=reference_in(decode_mapping(record.get("reference_outputs"))),
            tags=[tag for tag in maybe_list(record, "tags") if isinstance(tag, str)],
            metadata=metadata,
        )
        yield {**data, "id": str(record["id"])} if record.get("id") else data
    elif record.get("run_type") == "tool":
        yield not_a_retrieval(str(record.get("name") or ""))
    for child in children:
        yield from _langsmith(child)


_LANGSMITH_KEPT = {
    "name": "name", "id": "run_id", "trace_id": "trace_id", "session_id": "project_id", "start_time": "start_time",
}  # fmt: skip
"""What is kept of a run, so that feedback finds its way back. A session there is a project, not a conversation."""


SHAPES = (
    Shape(
        "langsmith",
        "retriever runs of LangSmith",
        lambda keys: "run_type" in keys and has_any(keys, "inputs", "outputs"),
        _langsmith,
        frozenset({"id", "run_type", "inputs", "outputs", "trace_id", "child_runs"}),
    ),
)
