"""Joining lists by columns against the definition, chunk by chunk."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge_eval import EvalRun, Pool, Trace, import_verdicts, what_if
from judge_eval.metrics.ragged import offsets_of
from judge_eval.pools import joining
from judge_eval.pools.joining import Joined, Lists, System, Texts, asked_by, join, partners
from judge_eval.runs.columns.verdict_table import chunk_hashes
from judge_eval.runs.folder.records import RESULTS
from judge_eval.schema import BINARY

Entry = tuple[str, int, int]
"""Id, passage (0 without a text) and grade (-1 without a verdict) of a chunk in a list."""
LISTS = st.lists(
    st.tuples(st.sampled_from("abcde"), st.integers(0, 4), st.integers(-1, 1)), max_size=5, unique_by=lambda e: e[0]
).map(lambda entries: [e for n, e in enumerate(entries) if not e[1] or e[1] not in [p for _, p, _ in entries[:n]]])
"""A list has an id once and a text once; several may be without a text."""


def lists_of(number: int, rows: list[list[Entry]]) -> Lists:
    """Make what a system retrieved, a list a question."""
    flat = [entry for row in rows for entry in row]
    return Lists(
        System(name=f"s{number}", run=str(number)),
        BINARY,
        [(f"q{n}", n + 1) for n in range(len(rows))],
        [()] * len(rows),
        [None] * len(rows),
        offsets_of([len(row) for row in rows]),
        [name for name, _, _ in flat],
        chunk_hashes(name for name, _, _ in flat),
        np.array([passage for _, passage, _ in flat], dtype=np.uint64),
        np.array([grade for _, _, grade in flat], dtype=np.int8),
    )


def by_definition(lists: list[list[Entry]]) -> tuple[list[str], list[list[int]], list[int]]:
    """Join the lists of one question: the ids of its chunks, where each list has its chunks, the first grades."""
    named = {(name, passage) for row in lists for name, passage, _ in row if passage}
    by_text = len({name for name, _ in named}) < len(named)
    known: dict[str | int, int] = {}
    texts: dict[int, int] = {}
    ids: list[str] = []
    grades: list[int] = []
    where: list[list[int]] = []
    for row in lists:
        have = {known[name] for name, _, _ in row if name in known}
        here: list[int] = []
        for name, passage, grade in row:
            key = passage or name if by_text else name
            place = known.get(key)
            if place is None and not by_text and texts.get(passage) not in have:
                place = texts.get(passage)
            if place is None:
                place, times = len(ids), sum(each.split("~")[0] == name for each in ids)
                ids.append(name if not times else f"{name}~{times + 1}")
                grades.append(-1)
            known[key] = place
            if passage:
                texts.setdefault(passage, place)
            have.add(place)
            here.append(place)
            grades[place] = grade if grades[place] < 0 else grades[place]
        where.append(here)
    return ids, where, grades


@given(questions=st.lists(st.lists(LISTS, min_size=3, max_size=3), min_size=1, max_size=4), block=st.integers(1, 3))
def test_joining_by_columns_is_joining_chunk_by_chunk(questions: list[list[list[Entry]]], block: int) -> None:
    """Whatever ids and texts repeat, and in whatever blocks: each chunk is where the definition puts it."""
    with mock.patch.object(joining, "BLOCK", block):
        sources = [lists_of(number, [question[number] for question in questions]) for number in range(3)]
        joined = join(sources, Joined, settling="first")
    for row, question in enumerate(questions):
        span, part = joined.span(row), joined.part(row, row + 1)
        ids, where, grades = by_definition(question)
        assert joined.chunk_ids[span.start : span.stop] == ids == list(part.chunk_ids)
        assert joined.grades[span.start : span.stop].tolist() == grades == part.grades.tolist()
        assert [places.tolist() for places, _ in part.lists] == where
        assert [
            (places[starts[row] : starts[row + 1]] - span.start).tolist() for places, starts in joined.lists
        ] == where


def test_a_question_whose_id_changed_joins_the_one_that_asks_the_same() -> None:
    """By id if what it asks agrees or is unknown; else by what it asks, if that stands once on both sides."""
    first = [("a", 1), ("b", 2), ("c", 3), ("d", 4), ("e", 0), ("f", 7), ("g", 7)]
    second = [("a", 1), ("b", 9), ("x", 3), ("d", 0), ("e", 5), ("y", 7)]
    assert partners(asked_by(first), asked_by(second)).tolist() == [0, -1, 2, 3, 4, -1, -1]


def test_texts_are_what_was_added() -> None:
    """Packed texts give back each text, also by slice, and those that no UTF-8 has."""
    texts = ["c1", "", "über", "\ud800", "日本"]
    packed = Texts(texts)
    assert list(packed) == texts
    assert (packed[-1], packed[1:3], len(packed)) == ("日本", ["", "über"], 5)


def test_a_pool_reads_each_run_once(tmp_path: Path) -> None:
    """A run in a folder is read and checked in one pass; a what-if reads its texts in a second one.

    A what-if also looks at one result of the first run, to see whether it was judged by claims.
    """
    pytest.importorskip("pyarrow")
    traces = [Trace(id=f"q{n}", query=f"Question {n}?", chunks=[{"id": c, "text": c} for c in "abc"]) for n in range(9)]
    grades = {(trace.id, c): 1 for trace in traces for c in "abc"}
    made = [import_verdicts(grades, traces, metrics=["AP@3"], label=label, out=tmp_path) for label in "AB"]

    def passes(use: Callable[[list[EvalRun]], object]) -> int:
        runs = [EvalRun.load(str(run.folder)) for run in made]
        with mock.patch("os.open", wraps=os.open) as opened:
            use(runs)
        return sum(Path(call.args[0]).name == RESULTS for call in opened.call_args_list)

    assert passes(Pool.of) == len(made)
    assert passes(lambda runs: what_if(runs, fuse="rrf")) == 2 * len(made) + 1
