from __future__ import annotations

import random

import numpy as np
import pytest

from judge_eval.errors import MetricError
from judge_eval.metrics import GradeTable, parse_metric
from judge_eval.metrics.table import trec_order

pytestmark = pytest.mark.foreign

pytrec_eval = pytest.importorskip("pytrec_eval")

NAMES = [
    "map", "map_cut_3", "map_cut_50", "P_1", "P_5", "P_50", "recall_3", "recall_50", "success_1", "success_5",
    "recip_rank", "Rprec", "bpref", "infAP", "ndcg", "ndcg_cut_1", "ndcg_cut_4", "ndcg_cut_50", "set_P",
    "set_recall", "set_F", "set_map", "relative_P_5", "set_relative_P",
]  # fmt: skip
CUT = ("map_cut", "P", "recall", "success", "ndcg_cut", "relative_P")


def asked(name: str) -> str:
    """The name as pytrec_eval wants it: a point before the cutoff."""
    for stem in CUT:
        if name.removeprefix(stem + "_").isdigit():
            return f"{stem}.{name.removeprefix(stem + '_')}"
    return name


def random_case(seed: int, queries: int) -> tuple[dict[str, dict[str, int]], dict[str, dict[str, float]]]:
    """Judgments and a run with ties, scores equal as 32-bit floats only, unjudged and negative grades."""
    rng = random.Random(seed)
    qrels: dict[str, dict[str, int]] = {}
    run: dict[str, dict[str, float]] = {}
    while len(qrels) < queries:
        documents = [f"d{number}" for number in range(rng.randint(1, 30))]
        grades = rng.choice([[-1, 0, 0, 1], [-1, 0, 0, 0, 1, 1, 2, 3], [0], [1, 4]])
        judged = {document: rng.choice(grades) for document in documents if rng.random() < 0.7}
        scores = [1.0, 1.00000001, 2.0, -3.5, rng.random(), rng.random()]
        values = {document: rng.choice(scores) for document in documents if rng.random() < 0.8}
        if judged and values:
            qrels[f"q{len(qrels)}"] = judged
            run[f"q{len(qrels) - 1}"] = values
    return qrels, run


@pytest.mark.parametrize("relevant", [1, 2, 3])
def test_equals_pytrec_eval(relevant: int) -> None:
    """Every name in the trec spelling gives pytrec_eval's number to 1e-9 on thousands of random queries."""
    qrels, run = random_case(relevant, 1500)
    evaluator = pytrec_eval.RelevanceEvaluator(qrels, {asked(name) for name in NAMES}, relevance_level=relevant)
    theirs = evaluator.evaluate(run)
    table = GradeTable.from_trec(qrels, run, relevant=relevant)
    assert table.ids is not None
    for name in NAMES:
        ours = parse_metric(name).compute(table)
        expected = np.array([theirs[query][name] for query in table.ids])
        worst = int(np.abs(ours - expected).argmax())
        assert abs(ours[worst] - expected[worst]) < 1e-9, f"{name} of {table.ids[worst]}"


def test_rel_parameter_equals_the_relevance_level() -> None:
    """`map_cut_5(rel=2)` is `map_cut_5` at relevance level 2."""
    qrels, run = random_case(9, 200)
    first, two = (GradeTable.from_trec(qrels, run, relevant=level) for level in (1, 2))
    for name in ("map", "P_5", "bpref", "Rprec"):
        assert (parse_metric(f"{name}(rel=2)").compute(first) == parse_metric(name).compute(two)).all()


def test_queries_follow_trec_evals_rules() -> None:
    """Unjudged queries are left out; those the run lacks are too, unless `complete` counts them as 0."""
    qrels, run = {"a": {"d": 1}, "b": {"d": 1}}, {"a": {"d": 1.0}, "c": {"d": 1.0}}
    assert GradeTable.from_trec(qrels, run).ids == ["a"]
    whole = GradeTable.from_trec(qrels, run, complete=True)
    assert whole.ids == ["a", "b"]
    for name in NAMES:
        assert parse_metric(name).compute(whole)[1] == 0.0


def test_ties_are_broken_by_id_descending() -> None:
    """Equal scores, also ones equal only as 32-bit floats, put the higher id first."""
    assert trec_order({"a": 1.00000001, "c": 1.0, "b": 1.0, "z": 0.5}) == ["c", "b", "a", "z"]
    with pytest.raises(MetricError, match="query q: the score of document d is not a number"):
        GradeTable.from_trec({"q": {"d": 1}}, {"q": {"d": float("nan")}})
