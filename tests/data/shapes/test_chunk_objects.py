from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from typing import Any

import numpy as np
import pytest

from judge_eval.errors import DataError
from judge_eval.schema import Trace


@dataclass
class LangChainLike:
    page_content: str
    id: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass
class NodeLike:
    body: str
    node_id: str

    def get_content(self) -> str:
        return self.body


@dataclass
class ScoredLike:
    node: NodeLike
    score: float | None


@dataclass
class HaystackLike:
    content: str | None
    id: str
    meta: dict[str, Any]
    score: float | None = None


@dataclass
class LynxiusLike:
    document: str
    relevance: float


def test_documents_of_other_libraries_are_chunks() -> None:
    """Objects are known by what they offer: text, id, score and metadata come over, in rank order."""
    trace = Trace(
        query="q?",
        chunks=[  # type: ignore[arg-type]
            LangChainLike("a", metadata={"page": 3, "day": date(2026, 1, 2), "x": float("nan")}),
            ScoredLike(NodeLike("b", "n2"), 0.5),
            HaystackLike("c", "h3", {"lang": "de"}, 0.25),
            LynxiusLike("d", 0.125),
            "e",
        ],
    )
    assert [(c.id, c.text, c.score) for c in trace.chunks] == [
        ("c1", "a", None),
        ("n2", "b", 0.5),
        ("h3", "c", 0.25),
        ("c4", "d", 0.125),
        ("c5", "e", None),
    ]
    assert trace.chunks[0].metadata == {"page": 3, "day": "2026-01-02", "x": None}
    assert trace.chunks[2].metadata == {"lang": "de"}


def test_pairs_with_scores_are_chunks() -> None:
    """What a vector store returns with scores, NumPy's numbers too, keeps text, id and score."""
    pairs = [(LangChainLike("a", "x"), 0.5), (ScoredLike(NodeLike("b", "n"), 0.1), np.float32(0.25))]
    trace = Trace(query="q?", chunks=[*pairs, (HaystackLike("c", "h", {}), float("nan"))])  # type: ignore[list-item]
    assert [(c.id, c.text, c.score) for c in trace.chunks] == [("x", "a", 0.5), ("n", "b", 0.25), ("h", "c", None)]


@pytest.mark.parametrize("thing", [object(), (object(), 0.5), ("a", "b", "c"), HaystackLike(None, "h", {}), 7, None])
def test_what_offers_no_text_is_refused(thing: Any) -> None:
    """An object without a text is an error at its place, not an empty chunk."""
    with pytest.raises(DataError, match=r"chunks\[1\]"):
        Trace.parse({"query": "q?", "chunks": ["a", thing]})
