from __future__ import annotations

import csv
import gzip
import json
from functools import cache
from pathlib import Path

import pytest

from judge_eval import EvalRun, GradeTable, Pool, Trace, import_verdicts, parse_metric
from judge_eval.data.collection import read_qrels, read_run
from judge_eval.metrics.table import trec_order
from judge_eval.pools.scoring import grades_of, score_pool
from judge_eval.schema import Scale

GRADED = Scale(minimum=0, maximum=3, relevant=2)
COVID = Scale(minimum=0, maximum=2, relevant=1)


def judged(path: Path, qrels: dict[str, dict[str, int]], scale: Scale, team: str = "") -> EvalRun:
    """Make a run of a TREC run, with people's judgments as its verdicts."""
    run = read_run(path)
    traces = [
        Trace(id=topic, query=topic, chunks=[{"id": doc, "text": doc} for doc in trec_order(run.get(topic, {}))])
        for topic in qrels
    ]
    grades = {(topic, doc): grade for topic, docs in qrels.items() for doc, grade in docs.items()}
    label = path.name.removesuffix(".run.gz")
    tags = [f"team:{team}"] if team else []
    return import_verdicts(grades, traces, scale=scale, metrics=["P@10"], label=label, tags=tags)


@cache
def deep_learning(folder: Path) -> tuple[dict[str, dict[str, int]], tuple[EvalRun, ...]]:
    """Read the six runs of a year, and NIST's judgments."""
    qrels = read_qrels(next(folder.glob("qrels*")))
    return qrels, tuple(judged(path, qrels, GRADED) for path in sorted(folder.glob("*.run.gz")))


@pytest.mark.slow
@pytest.mark.parametrize("year", ["dl19", "dl20"])
def test_equals_trec_eval_on_real_runs(conformance_data: Path, year: str) -> None:
    """Six runs joined with NIST's judgments score as trec_eval 10.0 scores them, to its four decimals."""
    folder = conformance_data / "pools" / year
    qrels, runs = deep_learning(folder)
    pool = Pool.of([*runs, Pool.from_qrels(qrels, GRADED)], conflicts="refuse")
    tables = {each.name: grades_of(pool, place, as_trec=True) for place, each in enumerate(pool.systems)}
    compared = 0
    for line in (folder / "expected_trec_eval.tsv").read_text().splitlines():
        run, measure, printed = line.split("\t")
        measure = measure.removesuffix(" -l2")
        if not measure.startswith(("num_", "unj_")):
            assert f"{parse_metric(measure).compute(tables[run]).mean():.4f}" == printed, f"{measure} of {run}"
            compared += 1
    assert compared == 60


@pytest.mark.slow
def test_equals_trec_eval_on_the_runs_of_trec_covid(conformance_data: Path) -> None:
    """143 runs, 8 measures: all values to four decimals, but for BERT, 130 of whose scores tie as 32-bit floats."""
    folder = conformance_data / "pools" / "covid-r1"
    qrels = read_qrels(folder / "qrels-rnd1.txt.gz")
    tables: dict[str, GradeTable] = {}
    wrong, compared = [], 0
    with gzip.open(folder / "expected_trec_eval.tsv.gz", "rt") as file:
        for line in file:
            run, measure, printed = line.rstrip("\n").split("\t")
            if measure.startswith(("num_", "unj_")):
                continue
            if run not in tables:
                lists = read_run(folder / "runs" / f"{run}.run.gz")
                tables[run] = GradeTable.from_trec(qrels, lists, complete=True)
            compared += 1
            if f"{parse_metric(measure).compute(tables[run]).mean():.4f}" != printed:
                wrong.append(run)
    assert compared == 1144
    assert wrong == ["BERT"] * 4


@pytest.mark.slow
@pytest.mark.parametrize(
    ("depth", "found", "at_least", "interval"), [(10, 562, 702, (659, 764)), (100, 1641, 1720, (1695, 1756))]
)
def test_chao_bounds_what_six_systems_miss(
    conformance_data: Path, depth: int, found: int, at_least: int, interval: tuple[int, int]
) -> None:
    """DL19: six systems at depth 10 found 562, at least 702 exist; NIST knows 2,501."""
    _, runs = deep_learning(conformance_data / "pools" / "dl19")
    bound = score_pool(Pool.of(runs, depth=depth), ["Recall@10"]).undiscovered
    assert (bound.found, round(bound.at_least or 0)) == (found, at_least)
    assert bound.interval is not None
    assert tuple(map(round, bound.interval)) == interval


@pytest.mark.slow
def test_a_perfect_reranker_of_bm25(conformance_data: Path) -> None:
    """DL19: sorting BM25's 100 chunks lifts nDCG@10 from .5058 to .8922, and AP from .2476 to its recall, .4910."""
    qrels, runs = deep_learning(conformance_data / "pools" / "dl19")
    pool = Pool.of([*runs, Pool.from_qrels(qrels, GRADED)])
    bm25 = score_pool(pool, ["ndcg_cut_10", "map", "recall_100"]).systems[0]
    assert bm25.system.name == "BM25"
    assert (round(bm25.perfect["ndcg_cut_10"], 4), round(bm25.perfect["map"], 4)) == (0.8922, 0.4910)
    assert bm25.perfect["map"] == pytest.approx(bm25.perfect["recall_100"])


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_leaving_teams_out_as_trec_covid_did(conformance_data: Path) -> None:
    """Round 1, depth 7: each contributing run loses what the table says without its team's unique judgments."""
    folder = conformance_data / "pools" / "covid-r1"
    with (folder / "leaderboard.csv").open() as file:
        teams = {row["run"]: row["team"] for row in csv.DictReader(file)}
    qrels = read_qrels(folder / "qrels-rnd1.txt.gz")
    with (folder / "leave_one_team_out.tsv").open() as file:
        expected = {row["run"]: row for row in csv.DictReader(file, delimiter="\t")}
    runs = (judged(folder / "runs" / f"{name}.run.gz", qrels, COVID, teams[name]) for name in expected)
    pool = Pool.of([*runs, Pool.from_qrels(qrels, COVID)], depth=7)
    report = score_pool(pool, ["P_10", "map", "ndcg_cut_10"])
    assert len(report.systems) == 56
    for each in report.systems:
        row = expected[each.system.name]
        assert (each.unique, each.unique_relevant) == (int(row["unique_judged"]), int(row["unique_relevant"]))
        for metric, column in (("P_10", "P10"), ("map", "AP100"), ("ndcg_cut_10", "ndcg10")):
            lost = float(row[column]) - float(row[f"{column}_loo"])
            within = 6e-6 if each.system.name == "BERT" else 1.1e-6  # 130 of its scores tie as 32-bit floats
            assert each.losses[metric] == pytest.approx(lost, abs=within), f"{metric} of {each.system.name}"


def test_udcg_equals_the_authors_values(conformance_data: Path) -> None:
    """The three stored values reproduce to 1e-9, as a metric of a run whose chunks carry the reader's probabilities."""
    examples = json.loads((conformance_data / "pools" / "udcg" / "dataset_with_udcg.json").read_text())
    traces, grades = [], {}
    for each in examples:
        chunks = []
        for passage in each["passages"]:
            ((_, info),) = passage["models_info"].items()
            chunks.append({"id": passage["doc_id"], "text": passage["text"], "metadata": info})
            grades[each["example_id"], passage["doc_id"]] = int(passage["is_relevant"])
        traces.append(Trace(id=each["example_id"], query=each["question"], chunks=chunks))
    run = import_verdicts(grades, traces, metrics=["UDCG"])
    for result, each in zip(run.results, examples, strict=True):
        assert result.scores["UDCG"] == pytest.approx(next(iter(each["udcg"].values())), abs=1e-9)
