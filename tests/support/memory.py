"""Rows as people hold them in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from judge_eval import EvalRun, Evaluator

TEXTS = ["We open at nine.", "Nine is when doors open.", "Parking is free."]
ROWS: list[dict[str, Any]] = [
    {
        "id": 7,
        "query": "When do you open?",
        "reference": "At nine.",
        "chunks": [{"id": "c1", "text": TEXTS[0], "score": 0.5}, {"id": "c2", "text": TEXTS[1], "score": 0.25}],
    },
    {
        "id": 8,
        "query": "Where to park?",
        "reference": "Behind the house.",
        "chunks": [{"id": "c1", "text": TEXTS[2], "score": 0.75}],
    },
]
FRAMES = ("list", "tuple", "pandas", "polars", "lazy polars", "arrow", "arrow batch", "arrow reader", "datasets")
"""What `made` can make."""
KINDS = ["list", pytest.param("pandas", marks=pytest.mark.foreign)]
"""Parameters of tests whose rows stand in a list, or in a frame where there are some."""


def made(kind: str, rows: Sequence[Mapping[str, Any]]) -> Any:
    """Put rows into a frame, table, dataset or list; skips the test where its library is not installed."""
    if kind == "list":
        return list(rows)
    if kind == "tuple":
        return tuple(rows)
    if kind == "pandas":
        return pytest.importorskip("pandas").DataFrame(list(rows))
    if kind == "polars":
        return pytest.importorskip("polars").DataFrame(list(rows))
    if kind == "lazy polars":
        return pytest.importorskip("polars").LazyFrame(list(rows))
    table = pytest.importorskip("pyarrow").Table.from_pylist(list(rows))
    if kind == "arrow batch":
        return table.to_batches()[0]
    if kind == "arrow reader":
        return table.to_reader()
    return pytest.importorskip("datasets").Dataset(table) if kind == "datasets" else table


def evaluated(data: Any, **settings: Any) -> EvalRun:
    """Judge data by shared words, without a cache."""
    with Evaluator("fake/overlap", metrics=["AP@5"], cache=False) as evaluator:
        return evaluator.evaluate(data, **settings)
