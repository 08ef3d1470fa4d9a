from __future__ import annotations

import math
import re
from collections import Counter
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judge_eval import EvalRun, Trace, import_verdicts, what_if
from judge_eval.errors import ConfigError, DataError
from judge_eval.metrics import mmr
from judge_eval.metrics.fusion import Fusion, normalised
from judge_eval.pools import lists as new_lists
from judge_eval.pools.recipe import Recipe
from judge_eval.whatif import NewLists, sweep

TEXTS = ("the office opens at nine", "parking is free", "the office closes", "bring a pass", "the office opens at nine")
"""By chunk; the first and the last read alike."""
METRICS = ["AP@3", "P@2", "NDCG@5"]
Row = tuple[str, float, int | None]
"""A chunk with its score and its grade."""


@st.composite
def tables(draw: st.DrawFn, systems: int) -> list[list[list[Row]]]:
    """Draw by system and question a list of chunks, scores falling; a chunk has one grade or none in a system."""
    questions = draw(st.integers(1, 5))
    grades = [[draw(st.integers(0, 1)) for _ in TEXTS] for _ in range(questions)]
    out = []
    for _ in range(systems):
        lists = []
        for question in range(questions):
            chunks = draw(st.lists(st.integers(0, len(TEXTS) - 1), unique=True, min_size=1))
            scores = sorted((draw(st.sampled_from([0.0, 0.5, 1.0, 7.3])) for _ in chunks), reverse=True)
            known = [draw(st.sampled_from([True, True, True, False])) for _ in chunks]
            rows = zip(chunks, scores, known, strict=True)
            lists.append([(f"d{c}", score, grades[question][c] if there else None) for c, score, there in rows])
        out.append(lists)
    return out


def runs_of(systems: list[list[list[Row]]]) -> list[EvalRun]:
    """Make the runs."""
    runs = []
    for number, lists in enumerate(systems):
        traces, known = [], {}
        for place, rows in enumerate(lists):
            chunks = [{"id": name, "text": text_of(name, len(systems)), "score": score} for name, score, _ in rows]
            traces.append(Trace(id=f"q{place}", query=f"Question {place}?", chunks=chunks))
            known |= {(f"q{place}", name): grade for name, _, grade in rows if grade is not None}
        runs.append(import_verdicts(known, traces, metrics=METRICS, label=f"system{number}"))
    return runs


def text_of(name: str, systems: int) -> str:
    """Return the text of a chunk; those of several runs differ, since equal texts are joined."""
    return TEXTS[int(name[1:])] + (f", says {name}" if systems > 1 else "")


def plain(lists: list[list[Row]], recipe: Recipe) -> list[tuple[str, float | None]]:
    """Make the list of one question from the definitions, chunk by chunk."""
    if recipe.threshold is not None:
        lists = [[row for row in rows if row[1] >= float(recipe.threshold.removeprefix("score>="))] for rows in lists]
    first: dict[str, tuple[int, int]] = {}
    for n, rows in enumerate(lists):
        for rank, (name, _, _) in enumerate(rows):
            first[name] = min((rank, n), first.get(name, (rank, n)))
    ranked: list[tuple[str, float | None]]
    if recipe.fuse is not None:
        fusion, parts = Fusion.parse(recipe.fuse), dict[str, list[float]]()
        for n, rows in enumerate(lists):
            scaled = normalised([score for _, score, _ in rows], fusion.norm).tolist()
            for rank, (name, _, _) in enumerate(rows, 1):
                weight = (fusion.a, 1 - fusion.a)[n] if fusion.method == "weighted" else 1.0
                part = 1 / (fusion.k + rank) if fusion.method == "rrf" else weight * scaled[rank - 1]
                parts.setdefault(name, []).append(part)
        times = {name: len(each) if fusion.method == "combmnz" else 1 for name, each in parts.items()}
        sums = {name: math.fsum(each) * times[name] for name, each in parts.items()}
        ranked = [(name, sums[name]) for name in sorted(sums, key=lambda name: (-sums[name], first[name]))]
    elif recipe.interleave:
        ranked, turns = [], [[name for name, _, _ in rows] for rows in lists]
        while any(turns):
            for names in turns:
                seen = {name for name, _ in ranked}
                while names and names[0] in seen:
                    names.pop(0)
                if names:
                    ranked.append((names.pop(0), None))
    else:
        ranked = [(name, score) for name, score, _ in lists[0]]
    if recipe.dedup:
        texts = [text_of(name, len(lists)) for name, _ in ranked]
        ranked = [pair for place, pair in enumerate(ranked) if texts[place] not in texts[:place]]
    if recipe.rerank is not None and ranked:
        words = [Counter(re.findall(r"\w+", text_of(name, len(lists)))) for name, _ in ranked]
        every = list(dict.fromkeys(word for each in words for word in each))
        scores = [score for _, score in ranked if score is not None]
        relevance = normalised(scores, "min-max") if scores else normalised([0.0] * len(ranked), "rank")
        vectors = [[each[word] for word in every] for each in words]
        order = mmr(relevance, embeddings=vectors, lambda_=float(recipe.rerank.removeprefix("mmr:lambda=")))
        ranked = [ranked[place] for place in order.tolist()]
    return ranked[: recipe.cut]


RECIPES = st.builds(
    dict,
    threshold=st.sampled_from([None, None, "score>=0.5"]),
    dedup=st.booleans(),
    rerank=st.sampled_from([None, None, "mmr:lambda=0.7", "mmr:lambda=1"]),
    cut=st.sampled_from([None, 1, 3]),
)
JOINS = st.sampled_from(
    [
        {"interleave": True},
        *({"fuse": text} for text in ("rrf", "rrf:k=1", "combsum", "combsum:norm=zmuv", "combmnz:norm=sum")),
        {"fuse": "weighted:a=.3,norm=max"},
    ]
)


@given(data=st.data())
def test_new_lists_are_those_of_the_definitions(data: st.DataObject) -> None:
    """Whatever the blocks in which they are made, order, scores and verdicts are what one question alone gives."""
    join = data.draw(st.one_of(st.just(None), JOINS))
    size = 1 if join is None else 2 if "weighted" in join.get("fuse", "") else data.draw(st.integers(2, 4))
    recipe = data.draw(RECIPES) | (join or {})
    recipe["dedup"] &= size == 1
    if join is None and not str(Recipe(**recipe)):
        recipe["cut"] = 2
    systems = data.draw(tables(size))
    with mock.patch.object(new_lists, "BLOCK", data.draw(st.integers(1, 3))):
        made = what_if(runs_of(systems), **recipe)
    for place, result in enumerate(made.results):
        lists = [system[place] for system in systems]
        known = {name: grade for rows in lists for name, _, grade in rows if grade is not None}
        expected = plain(lists, Recipe(**recipe))
        assert [(chunk.id, chunk.score) for chunk in result.trace.chunks] == expected
        assert [chunk.text for chunk in result.trace.chunks] == [text_of(name, len(lists)) for name, _ in expected]
        grades = [o.grade if o.kind == "verdict" else None for o in result.outcomes]
        assert [o.chunk_id for o in result.outcomes] == [name for name, _ in expected]
        assert grades == [known.get(name) for name, _ in expected]


@pytest.mark.slow
@settings(max_examples=4)
@given(systems=tables(3), cut=st.sampled_from([None, 2]), seed=st.integers(0, 9))
def test_sweeps_and_comparisons_read_the_same_numbers(systems: list[list[list[Row]]], cut: int, seed: int) -> None:
    """A sweep's points are the what-ifs of its values; a comparison from what was packed is the one that reads runs."""
    runs = runs_of(systems)
    recipe: dict[str, Any] = {"fuse": "rrf", "cut": cut}
    with mock.patch.object(new_lists, "BLOCK", 2):
        try:
            report = sweep(runs, "k=0,60", metric="AP@3", seed=seed, **recipe)
        except ConfigError:  # no question has a value both before and after
            report = None
        assert report is not None or not all(_known(lists) for lists in systems)
        lists = NewLists(runs, Recipe(**recipe))
        with lists.evaluator() as evaluator:
            made = lists.run(evaluator)
    for point in report.points if report else ():
        tried = what_if(runs, metrics=["AP@3"], **{**recipe, "fuse": f"rrf:k={point.value}"})
        if point.mean.value is not None and tried["AP@3"] is not None:
            assert point.mean.value == pytest.approx(tried["AP@3"], abs=1e-12)
    for run, comparison in zip(runs, lists.compared(made, 1000), strict=True):
        assert comparison == run.compare(made, metrics=METRICS)


def _known(lists: list[list[Row]]) -> bool:
    return all(grade is not None for rows in lists for _, _, grade in rows)


def test_questions_that_one_run_lacks_stay_in_comparisons(tmp_path: Path) -> None:
    """Runs in another order and with other questions: what was packed is in the order of each run's results."""
    rng = np.random.default_rng(5)
    systems: list[list[list[Row]]] = [
        [[(f"d{c}", 4.0 - k, int(rng.integers(2))) for k, c in enumerate(rng.permutation(4))] for _ in range(7)]
        for _ in range(2)
    ]
    first, second = runs_of(systems)
    order = [5, 2, 6, 0, 3]
    traces = [second.results[place].trace for place in order]
    grades = {(f"q{n}", name): grade for n in order for name, _, grade in systems[1][n] if grade is not None}
    second = import_verdicts(grades, traces, metrics=METRICS, label="other", out=tmp_path)
    with mock.patch.object(new_lists, "BLOCK", 2):
        lists = NewLists([first, second], Recipe(fuse="combsum"))
        with lists.evaluator() as evaluator:
            made = lists.run(evaluator, out=tmp_path)
    assert [result.trace_id for result in made.results] == [f"q{n}" for n in sorted(order)]
    for run, comparison, alone in zip((first, second), lists.compared(made, 10), (2, 0), strict=True):
        assert comparison == run.compare(made, metrics=METRICS)
        assert comparison.only_baseline == (alone,)


def test_lists_that_cannot_be_made_leave_no_folder(tmp_path: Path) -> None:
    """A chunk without a score far down ends the what-if; no half run stays behind."""
    systems: list[list[list[Row]]] = [[[("d0", 1.0, 1)]] * 3, [[("d1", 1.0, 0)], [("d2", 2.0, 1)], [("d3", 2.0, 1)]]]
    runs = runs_of(systems)
    bare = (
        runs[1].results[2].trace.replace(chunks=tuple(c.replace(score=None) for c in runs[1].results[2].trace.chunks))
    )
    results = [*runs[1].results[:2], runs[1].results[2].replace(trace=bare)]
    with mock.patch.object(new_lists, "BLOCK", 1), pytest.raises(DataError, match="trace 'q2': a chunk has no score"):
        what_if([runs[0], runs[1].replace(results=results)], fuse="combsum", out=tmp_path)
    assert [*tmp_path.iterdir()] == []
