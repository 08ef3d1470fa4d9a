"""Exports of large runs are written trace by trace."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from judge_eval import Evaluator
from judge_eval.eval_run import EvalRun
from judge_eval.export.text import as_json, csv_lines, json_parts, labelled_lines, write
from judge_eval.runs.folder.records import TraceResult
from judge_eval.runs.folder.run import Run


def small_run(count: int) -> EvalRun:
    """Judge a few traces for nothing."""
    rows = [{"query": f"q{n}?", "reference": "a b", "chunks": ["a b c\nd", "e"]} for n in range(count)]
    with Evaluator("fake/overlap", cache=False) as evaluator:
        return evaluator.evaluate(rows)


class Counted(list[TraceResult]):
    """Results that count how many were read."""

    read = 0

    def __iter__(self) -> Iterator[TraceResult]:
        for result in list.__iter__(self):
            self.read += 1
            yield result


@pytest.mark.parametrize("parts", [csv_lines, json_parts, labelled_lines])
def test_results_are_read_when_they_are_written(parts: Callable[[Run], Iterable[str]]) -> None:
    """After the head and the first result no other result was read."""
    run = small_run(5)
    counted = Counted(run.results)
    written = iter(parts(Run(run.manifest, counted)))
    for _ in range(2):
        next(written)
    assert counted.read <= 2


@pytest.mark.parametrize("count", [0, 1, 3])
def test_json_in_parts_is_the_document(count: int, tmp_path: Path) -> None:
    """The parts joined are what `json.dumps` writes of the whole, with no result, one and several."""
    run = small_run(3)
    some = Run(run.manifest, list(run.results)[:count])
    results: list[Any] = [result.model_dump(mode="json") for result in some.results]
    document = {**run.manifest.model_dump(mode="json"), "results": results}
    assert as_json(some) == json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    write(some, tmp_path / "run.json")
    assert (tmp_path / "run.json").read_text() == as_json(some)
