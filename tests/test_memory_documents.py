"""Documents, nodes and pairs of other libraries are chunks wherever a row holds them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from judge_eval import Chunk
from judge_eval.errors import DataError
from tests.support.memory import KINDS, TEXTS, evaluated, made


@dataclass
class LangChainDocument:
    """The attributes of LangChain's `Document`."""

    page_content: str
    id: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass
class TextNode:
    """The attributes of LlamaIndex' `TextNode` that matter here."""

    text: str
    node_id: str
    metadata: dict[str, Any] = field(default_factory=dict)

    def get_content(self) -> str:
        return self.text


@dataclass
class NodeWithScore:
    """Those of its `NodeWithScore`."""

    node: TextNode
    score: float | None = None


@dataclass
class HaystackDocument:
    """Those of Haystack's `Document`."""

    id: str
    content: str | None
    meta: dict[str, Any] = field(default_factory=dict)
    score: float | None = None


DOCUMENTS = {
    "LangChain": [LangChainDocument(TEXTS[0], "a", {"page": 1}), LangChainDocument(TEXTS[1], "b")],
    "pairs": [(LangChainDocument(TEXTS[0], "a"), np.float32(0.5)), (LangChainDocument(TEXTS[1], "b"), 0.25)],
    "LlamaIndex": [TextNode(TEXTS[0], "a"), TextNode(TEXTS[1], "b")],
    "scored nodes": [NodeWithScore(TextNode(TEXTS[0], "a"), 0.5), NodeWithScore(TextNode(TEXTS[1], "b"), 0.25)],
    "Haystack": [HaystackDocument("a", TEXTS[0], {"x": 1}, 0.5), HaystackDocument("b", TEXTS[1], score=0.25)],
    "our own": [Chunk(id="a", text=TEXTS[0], score=0.5), Chunk(id="b", text=TEXTS[1], score=0.25)],
}


@pytest.mark.parametrize("holder", KINDS)
@pytest.mark.parametrize("kind", DOCUMENTS)
def test_documents_of_other_libraries_stand_in_any_row(kind: str, holder: str) -> None:
    """Documents, nodes and pairs with scores are chunks, in tuples, in every shape and in frames."""
    documents, question, reference = DOCUMENTS[kind], "When do you open?", "At nine."
    given: list[Any] = [
        (question, reference, documents),
        [(question, reference, tuple(documents))],
        [{"query": question, "reference": reference, "chunks": documents}],
        [{"question": question, "ground_truth": reference, "contexts": documents}],
        {"input": question, "reference": reference, "context": documents, "answer": "Nine."},
        made(holder, [{"query": question, "reference": reference, "documents": documents}]),
        iter([(question, reference, documents)]),
    ]
    scores = [None, None] if kind in ("LangChain", "LlamaIndex") else [0.5, 0.25]
    for data in given:
        run = evaluated(data)
        assert [chunk.id for chunk in run.results[0].trace.chunks] == ["a", "b"]
        assert [chunk.text for chunk in run.results[0].trace.chunks] == TEXTS[:2]
        assert [chunk.score for chunk in run.results[0].trace.chunks] == scores
        assert run["AP@5"] == 1.0


def of_langchain() -> list[Any]:
    """Return documents of LangChain's own class, one with a score beside it."""
    made = pytest.importorskip("langchain_core.documents", reason="LangChain is not installed").Document
    return [(made(page_content=TEXTS[0], id="a"), 0.5), made(page_content=TEXTS[1], id="b")]


def of_llama_index() -> list[Any]:
    """Return nodes of LlamaIndex' own classes, one with a score."""
    schema = pytest.importorskip("llama_index.core.schema", reason="LlamaIndex is not installed")
    first = schema.NodeWithScore(node=schema.TextNode(text=TEXTS[0], id_="a"), score=0.5)
    return [first, schema.TextNode(text=TEXTS[1], id_="b")]


def of_haystack() -> list[Any]:
    """Return documents of Haystack's own class, one with a score."""
    made = pytest.importorskip("haystack", reason="Haystack is not installed").Document
    return [made(content=TEXTS[0], id="a", score=0.5), made(content=TEXTS[1], id="b", embedding=[0.5])]


@pytest.mark.foreign
@pytest.mark.parametrize("make", [of_langchain, of_llama_index, of_haystack])
def test_documents_of_the_real_libraries_are_told(make: Callable[[], list[Any]]) -> None:
    """Where a library is installed, its own classes are told like the stand-ins above."""
    run = evaluated([("When do you open?", "At nine.", make())])
    chunks = run.results[0].trace.chunks
    assert [(chunk.id, chunk.text, chunk.score) for chunk in chunks] == [("a", TEXTS[0], 0.5), ("b", TEXTS[1], None)]


@pytest.mark.parametrize("kind", ["LangChain", "pairs", "LlamaIndex", "scored nodes", "Haystack"])
def test_documents_without_their_question_are_refused(kind: str) -> None:
    """What a retriever returned is no data by itself: the error says what belongs beside it."""
    with pytest.raises(DataError, match="row 0: is a retrieved document without its question"):
        evaluated(DOCUMENTS[kind])
