from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from judge_eval import EvalRun, Evaluator, FakeBackend, GradeTable, Pool, Trace, import_verdicts, parse_metric, what_if
from judge_eval.errors import DataError, RunError, UnknownNameError
from judge_eval.note import Note
from judge_eval.pools.scoring import grades_of, score_pool
from judge_eval.schema import BINARY, Scale
from judge_eval.views.markdown import markdown_of
from judge_eval.views.run import summary_view
from judge_eval.views.run_remarks import remarks_of

RELEVANT = set("abe")


def run_of(
    label: str, *lists: str, relevant: set[str] = RELEVANT, tags: Sequence[str] = (), without: str = ""
) -> EvalRun:
    """Make a run of lists of one-letter chunks, a list a question; chunks `without` have no verdict."""
    traces = [
        Trace(id=f"q{n}", query=f"Question {n}?", reference="r", chunks=[{"id": c, "text": f"text {c}"} for c in row])
        for n, row in enumerate(lists)
    ]
    grades = {(t.id, c.id): int(c.id in relevant) for t in traces for c in t.chunks if c.id not in without}
    return import_verdicts(grades, traces, metrics=["AP@3"], label=label, tags=tags)


TOY = {"A": "abc", "B": "bda", "C": "ebf"}


def toy(depth: int | None = 2) -> Pool:
    """Return the pool of the three systems of the worked example, at depth 2."""
    return Pool.of([run_of(name, row) for name, row in TOY.items()], depth=depth)


def test_leaving_a_run_out_takes_its_own_chunks_with_it() -> None:
    """The worked example: at depth 2, A falls from .6667 to .25 and B stays."""
    pool = toy()
    report = score_pool(pool, ["map"])
    assert pool.qrels == {"q0": {"a": 1, "b": 1, "d": 0, "e": 1}}
    a, b, _ = report.systems
    without = [grades_of(pool, place, pool.only_of(name), as_trec=True) for place, name in enumerate("AB")]
    kept = [grades_of(pool, place, as_trec=True) for place in range(2)]
    assert [round(float(parse_metric("map").compute(t)[0]), 4) for t in kept] == [0.6667, 0.5556]
    assert [round(float(parse_metric("map").compute(t)[0]), 4) for t in without] == [0.25, 0.5556]
    assert (a.losses["map"], b.losses["map"]) == (pytest.approx(2 / 3 - 0.25), 0.0)
    assert [(s.unique, s.unique_relevant) for s in report.systems] == [(1, 1), (1, 0), (1, 1)]


def test_a_verdict_below_the_depth_is_a_bound_and_not_a_zero() -> None:
    """A chunk that did not enter the pool leaves A's average precision open, with B's known."""
    a, b, _ = score_pool(toy(), ["map"]).systems
    assert (a.scores["map"].n_failed, a.scores["map"].bounds) == (1, pytest.approx((2 / 3, 0.75)))
    assert (b.scores["map"].n_failed, b.scores["map"].mean) == (0, pytest.approx(5 / 9))


def test_what_stands_below_the_depth_opens_no_metric_that_ends_above_it() -> None:
    """The pool at depth 2 has a, b, e; A found two of them within rank 2, whatever its unjudged third chunk is."""
    runs = [run_of(name, row + "xyz", without="cfxyz") for name, row in TOY.items()]
    a, *_ = score_pool(Pool.of(runs, depth=2), ["Recall@2", "NDCG(ideal=judged)@2", "Recall@3", "map"]).systems
    assert (a.scores["Recall@2"].mean, a.scores["Recall@2"].n_failed) == (pytest.approx(2 / 3), 0)
    assert a.scores["NDCG(ideal=judged)@2"].mean == 1.0
    assert [a.scores[name].headline for name in a.scores] == ["mean", "mean", "bounds", "bounds"]


def test_an_ideal_list_of_all_that_was_retrieved_is_not_cut_at_the_depth() -> None:
    """NDCG@2 sorts the whole list: c at rank 3 counts in its ideal, and an unjudged chunk there leaves it open."""
    runs = [run_of("A", "xbc", relevant="bc"), run_of("B", "cbz", relevant="bc")]
    a, b = score_pool(Pool.of(runs, depth=2), ["NDCG@2", "NDCG(ideal=top)@2"]).systems
    assert a.scores["NDCG@2"].mean == pytest.approx(0.38685280723454163)
    assert a.scores["NDCG(ideal=top)@2"].mean == pytest.approx(0.6309297535714575)
    assert (b.scores["NDCG@2"].n_failed, b.scores["NDCG(ideal=top)@2"].n_failed) == (0, 0)
    a, _ = score_pool(Pool.of([run_of("A", "xyc", relevant="y"), run_of("B", "x")], depth=2), ["NDCG@2"]).systems
    assert a.scores["NDCG@2"].bounds == pytest.approx((0.38685280723454163, 0.6309297535714575))


def test_runs_of_one_file_of_verdicts_were_judged_alike() -> None:
    """How many verdicts fit no chunk depends on what each run retrieved, and is no other judge."""
    grades = {("q0", c): 1 for c in "abc"}
    made = [
        import_verdicts(grades, [Trace(id="q0", query="Q?", chunks=[{"id": c, "text": c} for c in row])], label=row)
        for row in ("ab", "a")
    ]
    assert Pool.of(made).doubts == ()


def test_scores_are_those_of_metrics_over_the_union() -> None:
    """Each run's default metrics equal those of a table whose pool is the union of all runs."""
    lists = {name: [row, "".join(reversed(row))] for name, row in TOY.items()}
    pool = Pool.of([run_of(name, *rows) for name, rows in lists.items()])
    report = score_pool(pool)
    for each in report.systems:
        rows = [[int(c in RELEVANT) for c in row] for row in lists[each.system.name]]
        others = [[int(c in RELEVANT) for c in "abcdef" if c not in row] for row in lists[each.system.name]]
        table = GradeTable.from_rows(rows, rest=others, maximum=1)
        assert list(each.scores) == ["Recall@3", "AP(norm=total)@3", "NDCG(ideal=judged)@3", "Rprec", "bpref"]
        for name, aggregate in each.scores.items():
            assert aggregate.mean == pytest.approx(float(parse_metric(name).compute(table).mean())), name


def test_a_run_scored_against_the_pool_is_the_pools_own_row() -> None:
    """Both ways give one number, and every medium marks what rests on the pool."""
    runs = [run_of(name, row, row[::-1]) for name, row in TOY.items()]
    pool = Pool.of(runs)
    report = score_pool(pool)
    for run, each in zip(runs, report.systems, strict=True):
        scored = run.scored_against(pool)
        assert {name: scored[name] for name in scored} == pytest.approx({n: a.mean for n, a in each.scores.items()})
    shown = markdown_of(summary_view(scored))
    assert "Recall@3 of the pool" in shown
    assert "recalls and ideal lists are of the pool (A, B, C; all ranks)" in shown
    assert [remark.about for remark in remarks_of(runs[0].manifest)] == ["reranking"]


def test_a_run_that_was_not_pooled_keeps_its_own_verdicts() -> None:
    """A relevant chunk that only the new run found counts, and enters its own recall."""
    pool = Pool.of([run_of("A", "abc"), run_of("B", "bda")])
    new = run_of("D", "agb", relevant={"a", "b", "g"})
    scored = new.scored_against(pool, ["Recall@2", "AP(norm=total)@3"])
    assert (scored["Recall@2"], scored["AP(norm=total)@3"]) == (pytest.approx(2 / 3), 1.0)


def test_conflicting_verdicts_are_named_and_settled_by_the_stated_rule() -> None:
    """Most runs' grade counts, of equally many the first's; `first` takes the first, `refuse` names them."""
    runs = [run_of("A", "ax"), run_of("B", "xb", relevant={"b", "x"}), run_of("C", "xa", relevant={"a", "x"})]
    majority, first = Pool.of(runs), Pool.of(runs, conflicts="first")
    assert (majority.qrels["q0"]["x"], first.qrels["q0"]["x"]) == (1, 0)
    assert Pool.of(runs[:2]).qrels["q0"]["x"] == 0
    (conflict,) = majority.conflicts
    assert (conflict.question, conflict.chunk, conflict.verdicts) == ("q0", "x", {"A": 0, "B": 1, "C": 1})
    with pytest.raises(RunError, match=r"'x' of question 'q0' \(A 0, B 1, C 1\).*conflicts=\"majority\""):
        Pool.of(runs, conflicts="refuse")
    scored = runs[0].scored_against(majority, ["P@2"])
    assert scored["P@2"] == 1.0
    assert scored.results[0].outcomes[1].explanation == "the pool's verdict (this run's own is 0)"


def test_chunks_join_by_text_where_ids_differ_or_stand_for_several_texts() -> None:
    """Ids of another index join by text; ids made from ranks (c1, c2) are not taken for ids."""
    judge = Evaluator(FakeBackend.table({}, default=True), cache=False, metrics=["AP@2"])

    def judged(label: str, chunks: list[object]) -> EvalRun:
        return judge.evaluate(Trace(id="q", query="Q?", reference="r", chunks=chunks), label=label)

    other = [{"id": "x1", "text": "two"}, {"id": "x2", "text": "three"}]
    ids = Pool.of([judged("A", [{"id": "1", "text": "one"}, {"id": "2", "text": "two"}]), judged("B", other)])
    assert list(ids.qrels["q"]) == ["1", "2", "x2"]
    made = Pool.of([judged("A", ["one", "two"]), judged("B", ["two", "three", "three"])])
    assert len(made.qrels["q"]) == 4
    assert made.doubts[0] == Note(kind="joined by text", count=1)
    assert score_pool(made, ["Recall@2"]).systems[0].scores["Recall@2"].mean == 0.5
    scored = judged("B", ["two", "three", "three"]).scored_against(made, ["Recall@2", "Recall@3"])
    assert (scored["Recall@2"], scored["Recall@3"]) == (0.5, 0.75)


def test_a_pool_is_a_file_that_merges(tmp_path: Path) -> None:
    """Written and read again a pool is the same, and joining it with a run is joining all runs at once."""
    runs = [run_of(name, row, row[::-1], tags=[f"team:{name}x"]) for name, row in TOY.items()]
    Pool.of(runs[:2]).save(tmp_path / "p.json")
    two = Pool.load(tmp_path / "p.json")
    assert (two.systems, two.qrels) == (Pool.of(runs[:2]).systems, Pool.of(runs[:2]).qrels)
    merged, once = (score_pool(Pool.of(given)).model_dump(exclude={"doubts"}) for given in ([two, runs[2]], runs))
    assert merged == once
    with pytest.raises(RunError, match="run A is given twice"):
        Pool.of([two, runs[0]])
    lines = (tmp_path / "p.json").read_text().splitlines()
    (tmp_path / "p.json").write_text("\n".join([lines[0], lines[1].replace("[0,1,2]", "[0,1,9]"), *lines[2:]]))
    with pytest.raises(DataError, match="each list names chunks of the question"):
        Pool.load(tmp_path / "p.json")


def test_judgments_make_a_pool_beside_runs() -> None:
    """Chunks that no run retrieved count in R; a grade off the scale is refused."""
    judgments = Pool.from_qrels({"q0": {"a": 1, "b": 1, "z": 1, "y": -1}}, BINARY)
    pool = Pool.of([run_of("A", "abc"), judgments])
    assert score_pool(pool, ["Recall@3"]).systems[0].scores["Recall@3"].mean == pytest.approx(2 / 3)
    assert pool.qrels["q0"]["y"] == -1
    with pytest.raises(RunError, match="off the scale"):
        Pool.from_qrels({"q0": {"a": 2}}, BINARY)
    with pytest.raises(RunError, match="the scales differ"):
        Pool.of([run_of("A", "abc"), Pool.from_qrels({"q0": {"a": 2}}, Scale(maximum=3, relevant=2))])
    with pytest.raises(RunError, match="no question in common"):
        Pool.of([run_of("A", "abc"), Pool.from_qrels({"other": {"a": 1}}, BINARY)])


def test_few_systems_bound_nothing() -> None:
    """Below three systems, and where none was found twice, no lower bound is printed."""
    two = score_pool(Pool.of([run_of("A", "abc"), run_of("B", "bda")])).undiscovered
    assert (two.at_least, two.refused) == (None, "it takes 3 systems or more")
    alone = score_pool(Pool.of([run_of("A", "a"), run_of("B", "b"), run_of("C", "e")])).undiscovered
    assert (alone.at_least, alone.once) == (None, 3)
    three = score_pool(Pool.of([run_of("A", "ab"), run_of("B", "ba"), run_of("C", "be")])).undiscovered
    assert (three.found, three.once, three.twice, three.at_least) == (3, 1, 1, 3.0)


def test_a_what_if_of_pooled_runs_is_no_system_of_its_own(tmp_path: Path) -> None:
    """It finds nothing by itself: it neither bounds what is missing nor covers for the runs it was made of."""
    two = [run_of("A", "abc"), run_of("B", "bda")]
    pool = Pool.of([*two, what_if(two, fuse="rrf", label="hybrid")], depth=2)
    pool.save(tmp_path / "pool.json")
    for read in (pool, Pool.load(tmp_path / "pool.json"), Pool.of([pool])):
        report = score_pool(read, ["map"])
        assert report.undiscovered.refused == "it takes 3 systems or more that are not made of others"
        assert [each.unique for each in report.systems] == [1, 1, 0]
        assert report.systems[0].losses["map"] == score_pool(Pool.of(two, depth=2), ["map"]).systems[0].losses["map"]


def test_a_failed_verdict_of_one_run_is_filled_by_another() -> None:
    """A chunk that one run could not judge takes the other's verdict; one that nobody judged is a bound."""
    pool = Pool.of([run_of("A", "abx", without="ax"), run_of("B", "ba")])
    a, b = score_pool(pool, ["Recall@2"]).systems
    assert (a.scores["Recall@2"].bounds, a.unjudged) == (pytest.approx((2 / 3, 1.0)), 1)
    assert b.scores["Recall@2"].mean == 1.0


def test_claims_and_unknown_metrics_are_refused() -> None:
    """A pool has grades alone."""
    with pytest.raises(UnknownNameError):
        score_pool(toy(), ["Recal@5"])
