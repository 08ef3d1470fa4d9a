"""Verdicts that were given elsewhere become a run that says so."""

from __future__ import annotations

import csv
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from judge_eval import Chunk, EvalRun, Evaluator, Member, Panel, Scale, Trace, import_verdicts
from judge_eval.data.labels import read_labels
from judge_eval.errors import ConfigError, DataError, RefusedError, RunError
from judge_eval.judges.cascade import cascade_of
from judge_eval.judges.judge import make_judge
from judge_eval.pages.figures import head
from judge_eval.runs.scoring.rescore import rescore
from judge_eval.study.agree import agree
from tests.support.notes import note_sentences
from tests.support.serving import rows
from tests.support.verdicts import judged, traces_of

TRACES = traces_of({"t1": "abcd", "t2": "ab", "t3": ""})
GRADES = {("t1", "a"): 1, ("t1", "b"): 0, ("t1", "c"): 0, ("t1", "d"): 1, ("t2", "a"): 0, ("t2", "b"): 1}
AP = [(1 / 1 + 2 / 4) / 2, 1 / 2, 0.0]
"""By the definition, trace by trace: P@1 and P@4 of two relevant ones; P@2 of one; nothing retrieved."""


def qrels(path: Path, grades: dict[tuple[str, str], int]) -> Path:
    """Write grades as TREC judgments."""
    path.write_text("".join(f"{trace} 0 {chunk} {grade}\n" for (trace, chunk), grade in grades.items()))
    return path


def table(path: Path, rows: list[dict[str, Any]]) -> Path:
    """Write rows as CSV."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def outcomes(run: EvalRun) -> list[tuple[str, str, object]]:
    """List what stands at each rank: the grade, or why there is none."""
    return [
        (result.trace_id, outcome.chunk_id, outcome.grade if outcome.kind == "verdict" else outcome.why)
        for result in run.results
        for outcome in result.outcomes
    ]


def test_every_format_gives_the_same_run(tmp_path: Path) -> None:
    """Qrels, CSV, rows and traces as JSON Lines, and a mapping: the same outcomes, AP by its definition."""
    rows = [{"trace_id": t, "chunk_id": c, "verdict": g} for (t, c), g in GRADES.items()]
    as_text = [{**row, "verdict": "true" if row["verdict"] else "False"} for row in rows]
    traces = [
        {"id": t, "chunks": [{"id": c, "label": g} for (of, c), g in GRADES.items() if of == t]} for t in ("t1", "t2")
    ]
    foreign = [{"query_id": t, "doc_id": c, "grade": g, "label": 1 - g} for (t, c), g in GRADES.items()]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    traces.append({"id": "t3", "query": "?", "chunks": []})
    (tmp_path / "traces.jsonl").write_text("\n".join(map(json.dumps, traces)))
    given = [
        qrels(tmp_path / "qrels.txt", GRADES),
        table(tmp_path / "words.csv", as_text),
        table(tmp_path / "foreign.csv", foreign),
        tmp_path / "rows.jsonl",
        tmp_path / "traces.jsonl",
        GRADES,
    ]
    for verdicts in given:
        run = import_verdicts(verdicts, TRACES, metrics=["AP@5"])
        assert outcomes(run) == [(t, c, g) for (t, c), g in GRADES.items()], verdicts
        assert [result.scores["AP@5"] for result in run.results] == AP, verdicts
        assert run["AP@5"] == pytest.approx(sum(AP) / 3)
        assert run.status == "done"


def test_the_manifest_says_where_the_verdicts_come_from(tmp_path: Path) -> None:
    """Model, mode, file and digest tell an import from a judged run, and no reason is invented."""
    path = qrels(tmp_path / "qrels.txt", GRADES)
    run = import_verdicts(path, TRACES, out=tmp_path / "runs", label="people", tags=["human"])
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    again = EvalRun.load(run.folder)
    assert (again.manifest.backend["provider"], again.manifest.backend["model"]) == ("import", "qrels.txt")
    assert again.manifest.judge["imported"] == {
        "file": "qrels.txt", "sha256": digest, "verdicts": 6, "unmatched": 0,
    }  # fmt: skip
    assert again.manifest.judge["mode"] == "imported"
    assert (again.label, again.tags, again.manifest.tally.calls) == ("people", ("human",), 0)
    assert head(again.manifest)["imported"] == f"verdicts imported from qrels.txt (sha256 {digest[:12]})"
    for result in again.results:
        for outcome in result.outcomes:
            assert (outcome.reason, outcome.evidence, outcome.confidence) == ("", "", None)
        assert result.calls == ()


def test_reasons_quotes_and_confidence_are_taken_where_they_stand(tmp_path: Path) -> None:
    """What stands beside the grade is kept; whether a quote is in the chunk is looked up, not believed."""
    path = table(
        tmp_path / "v.csv",
        [
            {"trace_id": "t2", "chunk_id": "a", "grade": 1, "reason": "it says so", "evidence": "text a",
             "confidence": 0.75, "evidence_found": "False"},
            {"trace_id": "t2", "chunk_id": "b", "grade": 0, "reason": "", "evidence": "not there",
             "confidence": "", "evidence_found": "True"},
        ],
    )  # fmt: skip
    run = import_verdicts(path, TRACES[1:2], metrics=["P@2", "SoftP@2"])
    first, second = run.results[0].outcomes
    assert (first.reason, first.evidence, first.evidence_found, first.confidence) == (
        "it says so", "text a", True, 0.75,
    )  # fmt: skip
    assert (second.reason, second.evidence_found, second.confidence) == ("", False, None)
    assert run["SoftP@2"] == (0.75 + 0) / 2


def test_chunks_without_a_verdict_and_verdicts_without_a_chunk_are_counted(tmp_path: Path) -> None:
    """Silence and a negative grade are `unjudged`, never 0; verdicts of no chunk are told."""
    grades = {**GRADES, ("t1", "b"): -1, ("t9", "a"): 1, ("t1", "z"): 0}
    del grades["t2", "b"]
    run = import_verdicts(qrels(tmp_path / "q", grades), TRACES, metrics=["AP@5"])
    assert ("t1", "b", "unjudged") in outcomes(run)
    assert ("t2", "b", "unjudged") in outcomes(run)
    details = [o.detail for r in run.results for o in r.outcomes if o.kind == "no_verdict"]
    assert details == ["its grade is -1: in the pool, but not judged", "q has no verdict of it"]
    assert run.manifest.tally.failures == {"unjudged": 2}
    assert run.manifest.judge["imported"]["unmatched"] == 2
    assert run.status == "incomplete"
    # t1 is [1, ?, 0, 1]: P@1 = 1 and P@4 are 2/4 or 3/4; with b relevant P@2 = 1 counts too.
    low, high = (1 + 2 / 4) / 2, (1 + 1 + 3 / 4) / 3
    assert run.results[0].bounds["AP@5"] == pytest.approx((low, high))


def test_the_verdicts_of_another_run_bring_its_scale_and_failures(tmp_path: Path) -> None:
    """A run's folder or its results are imported whole: scale, reasons, and why there is no verdict."""
    table = {"a": 3, "b": 1, "c": RefusedError("no"), "d": 2}
    first = judged(TRACES, table, prompt="relevance/graded", out=tmp_path / "runs", metrics=["NDCG@5"])
    assert first.folder is not None
    for given in (first.folder, first.folder / "results.jsonl"):
        run = import_verdicts(given, TRACES, metrics=["NDCG@5"])
        assert run.manifest.judge["scale"] == first.manifest.judge["scale"]
        assert outcomes(run) == outcomes(first)
        assert [r.bounds for r in run.results] == [r.bounds for r in first.results]
        assert run.manifest.backend["model"] == f"{first.folder.name}/results.jsonl"
        assert all(
            mine.reason == theirs.reason
            for single, other in zip(run.results, first.results, strict=True)
            for mine, theirs in zip(single.outcomes, other.outcomes, strict=True)
            if mine.kind == theirs.kind == "verdict"
        )


@pytest.mark.parametrize(
    ("scale", "relevant", "expected"),
    [
        ("graded", None, {"name": "graded", "maximum": 3, "relevant": 2}),
        ("0-4", 3, {"name": "graded", "maximum": 4, "relevant": 3}),
        (Scale(name="graded", maximum=9, relevant=5), None, {"name": "graded", "maximum": 9, "relevant": 5}),
    ],
)
def test_scales(scale: Scale | str, relevant: int | None, expected: dict[str, Any]) -> None:
    """The scale says which grades there are, and which are relevant."""
    run = import_verdicts({("t2", "a"): 3, ("t2", "b"): 1}, TRACES[1:2], scale=scale, relevant=relevant)
    assert run.manifest.judge["scale"] == expected
    assert [o.relevant for o in run.results[0].outcomes] == [expected["relevant"] <= 3, False]


@pytest.mark.parametrize(
    ("grades", "settings", "error", "words"),
    [
        ({("t2", "a"): 2}, {}, DataError, "grade 2, which is off the scale 0-1.*scale=.graded"),
        ({("t2", "a"): -1}, {}, DataError, "grade -1, which is off the scale"),
        ({("t2", "a"): 2}, {"scale": "0-4"}, ConfigError, "least relevant"),
        ({("t2", "a"): 2}, {"scale": "0-12"}, ConfigError, "up to 10"),
        ({("t2", "a"): 1}, {"relevant": 2}, DataError, "above the highest grade"),
        ({("x", "y"): 1}, {}, DataError, "no verdict matches a chunk of the data.*'y' of trace 'x'.*check the ids"),
    ],
)
def test_what_cannot_be_imported_is_refused(
    grades: dict[tuple[str, str], int], settings: dict[str, Any], error: type[Exception], words: str
) -> None:
    """One message says what is wrong and what to do."""
    with pytest.raises(error, match=words):
        import_verdicts(grades, TRACES, **settings)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("v.csv", "trace_id,chunk_id,grade\nt2,a,1\nt2,a,0\n", "v.csv:3: chunk 'a' .* is judged 1 and 0"),
        ("v.csv", "trace_id,chunk_id,grade\nt2,a,-1\n", "v.csv:2: grade: '-1' is not a grade"),
        ("v.csv", "trace_id,chunk_id,grade,confidence\nt2,a,1,7\n", "v.csv:2: confidence: '7' is not a prob"),
        ("v.csv", "trace_id,chunk_id,reason\nt2,a,so\n", "v.csv:1: grade: the table has no column grade"),
        ("v.jsonl", '{"trace_id": "t2", "chunk_id": "a", "grade": 1, "reason": 3}', "v.jsonl:1: reason"),
        ("v.qrels", "t2 0 a -1\n", "holds no verdict"),
    ],
)  # fmt: skip
def test_unreadable_verdicts_are_refused_with_their_place(tmp_path: Path, name: str, text: str, words: str) -> None:
    """File, line and field are named; no verdict is guessed."""
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=words):
        import_verdicts(tmp_path / name, TRACES)
    assert not (tmp_path / "runs").exists()


def test_an_import_is_scored_compared_and_measured_like_any_run() -> None:
    """Other metrics, comparison and agreement work on it; the comparison says that it was imported."""
    people = import_verdicts(GRADES, TRACES, metrics=["AP@5"])
    model = judged(TRACES, {**GRADES, ("t1", "a"): 0}, metrics=["AP@5"])
    assert rescore(people, ["P@2"])["P@2"] == pytest.approx((1 / 2 + 1 / 2 + 0) / 3)
    result = agree(model, people)
    assert (result.n, result.figures["accuracy"].value) == (6, pytest.approx(5 / 6))
    compared = people.compare(model)
    mine = [r.scores["AP@5"] for r in model.results]
    expected = (sum(score or 0 for score in mine) - sum(AP)) / 3
    assert compared["AP@5"].difference == pytest.approx(expected)
    assert any("verdicts imported from mapping" in warning for warning in note_sentences(compared.warnings))


def test_a_run_never_goes_on_where_an_import_stands(tmp_path: Path) -> None:
    """Resuming looks past imports, and says so where one is named."""
    data = tmp_path / "t.jsonl"
    data.write_text("\n".join(trace.model_dump_json(exclude_none=True) for trace in TRACES))
    done = import_verdicts({("t2", "a"): 1}, data, out=tmp_path / "runs")
    assert done.status == "incomplete"
    with Evaluator("fake/overlap", cache=False) as evaluator:
        with pytest.raises(RunError, match="cannot resume an imported run"):
            evaluator.evaluate(data, out=tmp_path / "runs", resume=done.folder)
        run = evaluator.evaluate(data, out=tmp_path / "runs", resume=True)
    assert run.folder != done.folder
    assert run.status == "done"


def test_a_part_of_the_data_is_imported_like_a_part_is_judged(tmp_path: Path) -> None:
    """`limit` takes the first traces; verdicts of the others are not said to be of no chunk."""
    run = import_verdicts(GRADES, TRACES, limit=1)
    assert [result.trace_id for result in run.results] == ["t1"]
    assert run.manifest.judge["imported"]["unmatched"] == 0
    with pytest.raises(ConfigError, match="a stream can be read only once"):
        import_verdicts(GRADES, iter(TRACES))


def judged_with(kind: str, folder: Path) -> EvalRun:
    """Judge the bundled traces by one kind of judge, into a folder."""
    data = rows()[:6]
    how: dict[str, Any] = {"mode": "decision", "prompt": "support/graded"}
    model: Any = "fake/overlap"
    metrics = ["AP@5", "SoftP@5", "EDCG@5"]
    if kind == "claims":
        how, metrics = {"mode": "claims"}, ["AP@5", "ClaimRecall@5"]
    elif kind == "panel":
        graded = make_judge("support/graded", "pointwise")
        members = [Member("one", graded, "one"), Member("two", graded, "two")]
        how, model = {"judge": Panel(members)}, {"one": "fake/overlap", "two": "fake/always"}
    elif kind == "cascade":
        judge = cascade_of("fake/overlap", "fake/always", threshold=0.9, cheap_mode="decision")
        how, model = {"judge": judge}, {"cheap": "fake/overlap", "strong": "fake/always"}
    with Evaluator(model, metrics=metrics, cache=False, **how) as evaluator:
        return evaluator.evaluate(data, out=folder)


def test_results_without_their_manifest_are_refused(tmp_path: Path) -> None:
    """Results alone say neither scale nor judge: they are not read as a table of grades, under any name."""
    run = judged(TRACES, {"a": 3, "b": 1, "c": 0, "d": 2}, prompt="relevance/graded", out=tmp_path / "runs")
    assert run.folder is not None
    results = (run.folder / "results.jsonl").read_bytes()
    for name in ("results.jsonl", "grades.jsonl"):
        (tmp_path / name).write_bytes(results)
        with pytest.raises(DataError, match=r"results of a run without its manifest.json; give the run's folder"):
            import_verdicts(tmp_path / name, TRACES, scale="graded")
        with pytest.raises(DataError, match="without its manifest"):
            read_labels(tmp_path / name)


@pytest.mark.parametrize("kind", ["decision", "claims", "panel", "cascade"])
def test_the_import_of_a_run_keeps_everything(tmp_path: Path, kind: str) -> None:
    """Every outcome, vote, claim, call, score and mean of a run's folder is that of the import."""
    run = judged_with(kind, tmp_path / "runs")
    assert run.folder is not None
    for given in (run.folder, run.folder / "results.jsonl"):
        again = import_verdicts(given, rows()[:6], metrics=run.manifest.metrics, out=tmp_path / "imported")
        assert list(again.results) == list(run.results)
        assert again.aggregates == run.aggregates
        tally, before = again.manifest.tally, run.manifest.tally
        assert (tally.stages, tally.verdicts, tally.calls) == (before.stages, before.verdicts, 0)
        source = again.manifest.judge["imported"]
        assert isinstance(source, dict)
        assert source["run"] == {
            "id": run.id, "judge": run.manifest.judge, "backend": run.manifest.backend,
        }  # fmt: skip


def test_the_import_of_a_run_follows_the_data(tmp_path: Path) -> None:
    """Chunks in another order take their outcomes and votes along; what the run never saw is unjudged."""
    run = judged_with("panel", tmp_path)
    assert run.folder is not None
    turned = [r.trace.model_copy(update={"chunks": r.trace.chunks[::-1]}) for r in run.results]
    new = Chunk(id="new", text="never judged")
    turned[0] = turned[0].model_copy(update={"chunks": (new, *turned[0].chunks[:-1])})
    again = import_verdicts(run.folder, turned, metrics=["AP@5"])
    for trace, mine, theirs in zip(turned, again.results, run.results, strict=True):
        outcomes = {o.chunk_id: o for o in theirs.outcomes}
        ranks = {o.chunk_id: rank for rank, o in enumerate(theirs.outcomes)}
        for rank, (chunk, outcome) in enumerate(zip(trace.chunks, mine.outcomes, strict=True)):
            votes = {name: grades[rank] for name, grades in mine.votes.items()}
            if chunk is new:
                assert outcome.kind == "no_verdict"
                assert outcome.why == "unjudged"
                assert set(votes.values()) == {None}
            else:
                assert outcome == outcomes[chunk.id]
                assert votes == {name: grades[ranks[chunk.id]] for name, grades in theirs.votes.items()}


def test_the_import_of_a_run_at_another_threshold_is_the_run_scored_there(tmp_path: Path) -> None:
    """Probabilities are summed for the new threshold, as `score --relevant` does."""
    run = judged_with("decision", tmp_path)
    assert run.folder is not None
    scored = rescore(run, ["AP@5", "SoftP@5"], relevant=3)
    again = import_verdicts(run.folder, rows()[:6], relevant=3, metrics=["AP@5", "SoftP@5"])
    assert list(again.results) == list(scored.results)
    assert again.aggregates == scored.aggregates


def test_no_verdict_at_all_makes_a_run_of_unjudged_chunks() -> None:
    """An empty mapping is no fault of the ids."""
    run = import_verdicts({}, [Trace(id="q", query="Q?", chunks=[{"id": "c", "text": "t"}])], metrics=["P@1"])
    assert [outcome.why for _, outcome in run.failures()] == ["unjudged"]
