"""Runs over the same documents in other cuts: what is compared, and what is not."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge_eval import EvalRun, Evaluator, Trace, import_verdicts
from judge_eval.compare.compare import compare
from judge_eval.compare.comparison import Comparison
from judge_eval.compare.gate import check_gates
from judge_eval.compare.options import Gates
from judge_eval.errors import MetricError, RefusedError, RunError
from judge_eval.pages.compared import ComparedRuns
from judge_eval.pages.comparepage import compare_page
from judge_eval.pages.matrixpage import SeveralRuns, matrix_page
from judge_eval.pages.rows import Table
from judge_eval.pools.pool import Pool
from judge_eval.runs.columns.cuts import Cuts, cuts_between
from judge_eval.runs.columns.verdict_table import verdict_table
from judge_eval.runs.folder.labels import Label, add_label
from judge_eval.runs.folder.records import TraceResult
from judge_eval.runs.judging.merge import merge
from judge_eval.views.comparison import comparison_view
from judge_eval.views.findings import comparison_notes, headlines, moved_claims_sentence
from judge_eval.views.gate_sentences import check_sentence
from judge_eval.views.markdown import markdown_of
from judge_eval.whatif import what_if
from tests.support.cuts import GLUED, MANUAL, SHIFTED, SMALL, Part, run_of
from tests.support.examples import examples

FIXTURE = Path(__file__).parents[2] / "fixtures" / "docs_qa.jsonl"
NAMES = [f"q{k:02d}" for k in range(12)]
CLAIMS = {name: ["interval", "acid"] for name in NAMES}
FAILED = RefusedError("no")


def of_all(parts: Any, claims: Any = CLAIMS, **settings: Any) -> EvalRun:
    """The same list for twelve questions."""
    return run_of(dict.fromkeys(NAMES, parts), claims, **settings)


def numbers(comparison: Comparison, metric: str) -> tuple[float, float, float]:
    """Both means and the difference."""
    d = comparison[metric]
    return d.baseline_mean, d.candidate_mean, d.difference


def test_worked_numbers_with_the_evidence_of_both() -> None:
    """Small and glued chunks read claim 1 at 17 and claim 2 at 28; another cut finds the torn claim, at 26."""
    small, glued, shifted = (of_all(parts) for parts in (SMALL, GLUED, SHIFTED))
    budgets = {b: f"ClaimRecall@{b}w" for b in (15, 16, 17, 20, 27, 28, 31)}
    result = compare(small, glued, metrics=[*budgets.values()])
    for budget, name in budgets.items():
        value = (budget >= 17) / 2 + (budget >= 28) / 2
        assert numbers(result, name) == (value, value, 0), name
    result = compare(small, shifted, metrics=[f"ClaimRecall@{b}w" for b in (18, 23, 24, 25, 26, 31, 32)])
    assert [(d.baseline_mean, d.candidate_mean) for d in result.differences] == [
        (0.5, 0), (0.5, 0), (1, 0), (1, 0), (1, 0.5), (1, 0.5), (1, 1),
    ]  # fmt: skip
    (cuts,) = result.cuts
    assert cuts.alone["ClaimRecall@32w"] == (1, 0.5)


def test_glued_chunks_are_not_better() -> None:
    """The difference is exactly 0, the sentence says that the text is the same, and AP is not compared."""
    result = compare(of_all(SMALL), of_all(GLUED))
    (cuts,) = result.cuts
    assert (cuts.differ, cuts.recut, cuts.same, cuts.share) == (True, 36, 0, 1)
    assert (cuts.budget, cuts.reached, cuts.same_text, cuts.median_words) == (30, (31, 31), 12, (10, 31))
    assert [d.metric for d in result.differences] == ["ClaimRecall@30w"]
    assert cuts.by_chunks == {"AP@3": (pytest.approx(0.58333, abs=1e-4), 1), "ClaimRecall@3": (1, 1)}
    assert tuple(headlines(result)) == (
        "the documents are cut differently (median 10 and 31 words; 100% of the text that both retrieved lies in other "
        "chunks): no difference: ClaimRecall@30w is the same on all 12 questions; the text is the same, word by word, "
        "only cut otherwise",
    )
    assert "AP@3, ClaimRecall@3 count chunks and rise with their length: not compared" in comparison_notes(result)
    assert any(
        note.endswith("nothing is said beyond 30; retrieve deeper to ask for more") for note in comparison_notes(result)
    )


def test_the_documentation_glued_is_not_better() -> None:
    """Of the fixture's first five chunks and their glue, judged by words, no metric in words differs."""
    rows = [json.loads(line) for line in FIXTURE.read_text().splitlines()]
    runs = []
    for glue in (False, True):
        traces = []
        for row in rows:
            texts = [f"{c['title']}\n{c['text']}" if c.get("title") else c["text"] for c in row["chunks"][:5]]
            texts = [text for text in texts if text.strip()]
            chunks = [{"id": f"{k}", "text": text} for k, text in enumerate(["\n".join(texts)] if glue else texts)]
            traces.append(Trace.parse({key: row[key] for key in ("id", "query", "reference")} | {"chunks": chunks}))
        with Evaluator("fake/overlap", metrics=["AP@5", "HitRate@5"], cache=False) as evaluator:
            runs.append(evaluator.evaluate(traces))
    assert runs[1]["AP@5"] - runs[0]["AP@5"] > 0.2  # type: ignore[operator]
    result = compare(*runs)
    assert [(d.difference, d.wins, d.losses) for d in result.differences] == [(0, 0, 0)]
    assert "the text is the same" in headlines(result)[0]
    assert {name for cuts in result.cuts for name in cuts.by_chunks} == {"AP@5", "HitRate@5"}


WORDS = st.lists(st.integers(0, 60), min_size=9, max_size=60).map(lambda drawn: [f"w{number}" for number in drawn])


@pytest.mark.slow
@examples(160)
@given(words=st.lists(WORDS, min_size=1, max_size=3), seed=st.integers(0, 2**32), by_claims=st.booleans())
def test_the_same_words_in_another_cut_never_differ(words: list[list[str]], seed: int, by_claims: bool) -> None:
    """Whatever the judge of either says, quotes, or fails to say (theorem 1)."""
    rng = random.Random(seed)

    def cut(low: list[str]) -> list[Part]:
        places = sorted({0, len(low), *rng.choices(range(len(low)), k=rng.randrange(6))})
        texts = [" ".join(low[a:b]) for a, b in pairwise(places)]
        answers = {text: said(text) for text in texts}
        return [(text, answers[text]) for text in texts]

    def quote(text: str) -> str:
        low = text.split()
        first = rng.randrange(len(low))
        return rng.choice(["", "not there at all", " ".join(low[first : first + rng.randrange(2, 9)])])

    def said(text: str) -> Any:
        if rng.random() < 0.2:
            return FAILED
        if not by_claims:
            return quote(text) if rng.random() < 0.5 else None
        return {c: (rng.choice(["full", "partial"]), quote(text)) for c in "12" if rng.random() < 0.5}

    names = [f"q{place}" for place in range(len(words))]
    claims = {name: ["x", "y"] for name in names} if by_claims else None
    runs = [run_of({name: cut(low) for name, low in zip(names, words, strict=True)}, claims) for _ in range(2)]
    metric = "ClaimRecall(partial=half)" if by_claims else "HitRate"
    result = compare(*runs, metrics=[f"{metric}@{budget}w" for budget in (4, 9, 17, 40)])
    for d in result.differences:
        assert (d.difference, d.wins, d.losses) == (0, 0, 0), (d.metric, d)


def test_a_limit_on_chunks_is_undecided_across_cuts() -> None:
    """It names the metric to limit instead; a limit on that one, and on a mean, is decided."""
    runs = of_all(SMALL), of_all(GLUED)
    gates = Gates(max_drop=("AP@3=0.1", "ClaimRecall@30w=0"), non_inferior=("AP@3=0.1",), fail_under=("AP@3=0.9",))
    result = compare(*runs, metrics=["AP@3", "ClaimRecall@30w"])
    checks = {(check.kind, check.metric): check for check in check_gates(runs[1:], gates, result)}
    drop, proof = checks["max-drop", "AP@3"], checks["non-inferior", "AP@3"]
    assert (drop.outcome, drop.passed, proof.outcome, proof.passed) == ("undecided", True, "undecided", False)
    assert check_sentence(drop).startswith(
        "AP@3 counts chunks, and 36 of 36 chunks that share text are cut differently; limit ClaimRecall@30w instead"
    )
    assert checks["max-drop", "ClaimRecall@30w"].outcome == checks["fail-under", "AP@3"].outcome == "passed"
    strict = check_gates(runs[1:], Gates(max_drop=("AP@3=0.1",), undecided="fail"), result)
    assert not strict.passed


def test_the_same_cut_is_compared_as_always() -> None:
    """Other orders of the same chunks leave no trace of words in the record."""
    result = compare(of_all(SMALL), of_all(SMALL[::-1]))
    assert result.cuts == ()
    assert "cuts" not in result.model_dump()
    assert [d.metric for d in result.differences] == ["AP@3", "ClaimRecall@3"]


def test_runs_that_share_too_little_text_are_remarked_on_alone() -> None:
    """Twice as long chunks of other text: nothing tells that the cut differs, so a note says that it may."""
    long = of_all([("completely other words " * 8, None)] * 2, None)
    short = of_all([("nothing of this is there", None)], None)
    result = compare(short, long)
    assert [d.metric for d in result.differences] == ["AP@3", "HitRate@3"]
    assert any("may be cut differently (median 5 and 24 words)" in note for note in comparison_notes(result))


@pytest.mark.parametrize("layout", ["pointwise", "listwise"])
def test_any_judge_has_hits_in_words(layout: str) -> None:
    """A judge without claims is compared by HitRate, and told what claims would say."""
    texts = {"small": MANUAL, "glued": (" ".join(MANUAL),)}
    runs = []
    for name, row in texts.items():
        fields = {"query": "How often must ovens be descaled?", "reference": "every 40 hours of use"}
        traces = [Trace.parse({"id": q, **fields, "chunks": list(row)}) for q in NAMES]
        with Evaluator("fake/overlap", metrics=["AP@3"], mode=layout, cache=False) as evaluator:
            runs.append(evaluator.evaluate(traces, label=name))
    result = compare(*runs)
    assert [d.metric for d in result.differences] == ["HitRate@30w"]
    assert result.differences[0].difference == 0
    assert any("claims" in note for note in comparison_notes(result))


def test_without_quotes_nothing_is_said() -> None:
    """Evidence of a judge that quotes nothing cannot be placed; a metric that is named is computed all the same."""
    runs = [of_all([(text, "" if said else None) for text, said in parts], None) for parts in (SMALL, GLUED)]
    result = compare(*runs)
    assert (result.differences, result.openings) == ((), ())
    assert headlines(result)[0].endswith(
        "which run is better is not said, since a judge quotes no words, so that evidence cannot be placed "
        "(differences would be up to .4 off)"
    )
    assert compare(*runs, metrics=["HitRate@25w"])["HitRate@25w"].difference == 0


def test_few_quotes_are_said() -> None:
    """Of a cascade most relevant verdicts may quote nothing: whole chunks are their evidence, and a note says so."""
    some_quotes: list[Part] = [(MANUAL[0], None), (MANUAL[1], "40 hours of use"), (MANUAL[2], "")]
    glued = of_all([(GLUED[0][0], "40 hours of use")], None)
    some = of_all(some_quotes, None)
    few = of_all([(MANUAL[0], ""), *some_quotes[1:]], None, label="few")
    assert compare(some, glued).cuts[0].unquoted == (0.5, 0)
    assert not any("quote no words" in note for note in comparison_notes(compare(some, glued)))
    notes = comparison_notes(compare(few, glued))
    assert any(note.startswith("67% of the supporting verdicts of few quote no words") for note in notes)


def test_failed_chunks_of_either_run_open_both() -> None:
    """The interval covers all that a failed chunk could show; without a failure it is exact."""
    torn: list[Part] = [(MANUAL[0], {}), (MANUAL[1], FAILED), (MANUAL[2], {"2": "Use citric acid only"})]
    first = run_of({**dict.fromkeys(NAMES, torn), "q00": SMALL}, CLAIMS)
    d = compare(first, of_all(SHIFTED), metrics=["ClaimRecall@31w"])["ClaimRecall@31w"]
    assert d.n_open == 11
    assert d.interval is not None
    assert d.interval[0] <= -0.5 <= d.interval[1]


def test_claims_are_needed_where_they_are_named() -> None:
    """ClaimRecall in words of a run without claims names run and trace."""
    with pytest.raises(MetricError, match="was not judged by claims"):
        compare(of_all(SMALL), of_all([(MANUAL[0], None)], None), metrics=["ClaimRecall@9w"])


@pytest.mark.slow
def test_several_runs_each_have_their_cuts() -> None:
    """One candidate of the same cut is compared as always beside one of another cut; no pairs are formed."""
    result = compare(of_all(SMALL), of_all(SMALL[::-1]), of_all(GLUED))
    assert [(d.candidate, d.metric) for d in result.differences] == [
        (1, "AP@3"), (1, "ClaimRecall@3"), (2, "ClaimRecall@30w"),
    ]  # fmt: skip
    assert (result.pairs, [cuts.candidate for cuts in result.cuts]) == ((), [2])


def test_overlapping_chunks_are_said() -> None:
    """Words that repeat a run of eight words further up, of each run."""
    double = [(" ".join(MANUAL[:2]), {"1": "every 40 hours of use"}), (" ".join(MANUAL[1:]), {})]
    result = compare(of_all(GLUED), of_all(double, label="double"))
    assert result.cuts[0].repeated == (0, pytest.approx(13 / 44))
    assert any(
        note.startswith("30% of the words of double repeat words further up") for note in comparison_notes(result)
    )


def _with_trace(result: TraceResult, trace: Trace) -> TraceResult:
    return result.replace(trace=trace)


def test_slices_and_clusters_are_of_what_is_compared() -> None:
    """A slice says nothing of metrics that count chunks."""
    runs = []
    for parts in (SMALL, GLUED):
        run = of_all(parts)
        traces = [
            r.trace.replace(tags=("new",) if r.position % 2 else (), metadata={"cluster": r.position // 3})
            for r in run.results
        ]
        runs.append(run.replace(run.manifest, [*map(_with_trace, run.results, traces)]))
    result = compare(*runs, by=["tag"])
    assert {figure.figure for figure in result.slices} == {"ClaimRecall@30w"}
    assert result["ClaimRecall@30w"].clusters == 4


def test_pools_and_fusions_across_cuts_are_refused() -> None:
    """Recall of a pool and rank fusion count chunks; one cut, or one run, is fine."""
    small, glued = of_all(SMALL, label="small"), of_all(GLUED, label="glued")
    for act in (lambda: Pool.of([small, glued]), lambda: what_if([small, glued], fuse="rrf")):
        with pytest.raises(RunError, match="small and glued cut the same documents differently \\(100% of the text"):
            act()
    assert len(Pool.of([small, of_all(SMALL[::-1])]).systems) == 2
    assert what_if([glued], metrics=["AP@3"], cut=1)["AP@3"] == 1


def test_a_curve_says_what_is_read_by_how_many_words() -> None:
    """One cut may read more within few words and less within many; tables and pages show both."""
    filler = "padding words that say nothing of ovens at all " * 8
    early = [(MANUAL[1], {"1": "every 40 hours of use"}), (filler + MANUAL[2], {"2": "Use citric acid only"})]
    late = [(f"{filler}{MANUAL[1]} {MANUAL[2]}", {"1": "every 40 hours of use", "2": "Use citric acid only"})]
    runs = of_all(early, label="early"), of_all(late, label="late")
    result = compare(*runs)
    (cuts,) = result.cuts
    curve = {point.words: (point.baseline, point.candidate) for point in cuts.curve}
    assert (curve[10], curve[70], curve[cuts.budget]) == ((0.5, 0), (0.5, 0), (0.5, 0))
    assert [word.baseline for word in cuts.curve] == sorted(word.baseline for word in cuts.curve)
    text = markdown_of(comparison_view(result, traces=1, claims=1))
    assert "ClaimRecall by the words read, with the evidence of both" in text
    page = compare_page(ComparedRuns(*(Table(run) for run in runs)))
    assert '<svg class="wordcurve"' in page["read"]
    assert "not compared" in page["read"]
    assert "words read" in matrix_page(SeveralRuns([Table(run) for run in (*runs, of_all(early))]))["read"]
    same = compare_page(ComparedRuns(*(Table(run) for run in (runs[0], of_all(early[::-1])))))
    assert same["read"] == ""


def test_a_claim_that_is_read_is_not_called_lost() -> None:
    """Changed traces of another cut name no claims won or lost by chunks; those of one cut do."""
    missed: Sequence[Part] = ((" ".join(MANUAL), {"2": "Use citric acid only"}),)
    runs = of_all(SMALL), of_all(missed)
    result = compare(*runs, keep=20)
    assert {(change.kind, change.claims_lost) for change in result.traces} == {("retrieval", 0)}
    compared = ComparedRuns(*(Table(run) for run in runs))
    assert {trace["claims"] for trace in compared.in_full(compared.changed)} == {""}
    unsupported: Sequence[Part] = (SMALL[0], (MANUAL[1], {}), SMALL[2])
    same_cut = compare(runs[0], of_all(unsupported), keep=20)
    assert {change.claims_lost for change in same_cut.traces} == {1}


@pytest.mark.slow
def test_claims_are_won_and_lost_by_what_is_read() -> None:
    """Within the words compared, with the evidence of both; each says where it is read, and failures leave it open."""
    filler = "padding words that say nothing of ovens at all " * 8
    first = {"1": "every 40 hours of use"}, {"2": "Use citric acid only"}
    early = [(MANUAL[1], first[0]), (filler + MANUAL[2], first[1])]
    late = [(f"{filler}{MANUAL[1]} {MANUAL[2]}", {**first[0], **first[1]})]
    runs, names = (of_all(early), of_all(late)), ["ClaimRecall@70w"]
    (moved,) = compare(*runs, metrics=names).claims
    assert (moved.words, moved.lost, moved.won, moved.covered, moved.missed) == (70, 12, 0, 0, 12)
    assert {change.read for change in moved.changes} == {(10, 82)}
    assert moved_claims_sentence(moved).startswith(
        "claims read within 70 words, with the evidence of both: 12 lost (12 vital), 0 won (0 vital), of 24 known in "
        "both; share covered 0.500 before, 0.000 after, -0.500"
    )
    text = markdown_of(comparison_view(compare(*runs, metrics=names), traces=1, claims=1))
    assert "| at word 10 | at word 82 |" in text
    (glued,) = compare(of_all(SMALL), of_all(GLUED)).claims
    assert (glued.lost, glued.won, glued.covered) == (0, 0, 24)
    torn: list[Part] = [(MANUAL[0], {}), (MANUAL[1], FAILED), (MANUAL[2], {"2": "Use citric acid only"})]
    (open_,) = compare(of_all(torn), of_all([(GLUED[0][0], {})]), metrics=["ClaimRecall@20w"]).claims
    assert (open_.lost, open_.won, open_.unknown) == (0, 0, 24)
    assert compare(*runs, metrics=["HitRate@26w"]).claims == ()


def test_false_support_that_labels_show_is_said() -> None:
    """Of people's irrelevant chunks the judge found many relevant: the interval does not cover what that does."""
    runs = []
    for parts in (SMALL, GLUED):
        run = of_all(parts)
        results = []
        for result in run.results:
            chunks = tuple(chunk.replace(label=0) for chunk in result.trace.chunks)
            results.append(_with_trace(result, result.trace.replace(chunks=chunks)))
        runs.append(run.replace(run.manifest, results))
    result = compare(*runs)
    assert result.cuts[0].false_support == (36, 48)
    assert any(
        note.startswith("the judge found 36 of 48 chunks relevant that people") for note in comparison_notes(result)
    )
    assert not any("people found" in note for note in comparison_notes(compare(of_all(SMALL), of_all(GLUED))))


def test_labels_that_were_given_later_show_false_support(tmp_path: Path) -> None:
    """Those of a run's page count as those of its data do, in whichever run they stand."""
    small, glued = of_all(SMALL, out=tmp_path), of_all(GLUED, out=tmp_path)
    assert small.folder is not None
    for name in NAMES:
        add_label(small.folder, Label(trace_id=name, chunk_id=f"{name}-1", label=0, by="Ada"))
    result = compare(small, glued)
    assert result.cuts[0].false_support == (12, 12)
    assert any(
        note.startswith("the judge found 12 of 12 chunks relevant that people") for note in comparison_notes(result)
    )


def test_a_failed_chunk_of_the_same_text_opens_nothing() -> None:
    """The same words show the same, whatever the failed verdict would have been: the interval is that of no failure."""
    failed: list[Part] = [(" ".join(MANUAL), FAILED)]
    glued = run_of({**dict.fromkeys(NAMES, GLUED), "q00": failed}, CLAIMS)
    d = compare(of_all(SMALL), glued).differences[0]
    assert (d.difference, d.n_open, d.interval) == (0, 0, compare(of_all(SMALL), of_all(GLUED)).differences[0].interval)


@pytest.mark.slow
def test_runs_in_folders_compare_as_runs_in_memory(tmp_path: Path) -> None:
    """From result lines and, of half the questions, shards; the record survives its JSON."""
    halves = NAMES[:6], NAMES[6:]
    pairs = []
    for label, parts in (("small", SMALL), ("glued", GLUED)):
        shards = [
            run_of(dict.fromkeys(half, parts), {name: CLAIMS[name] for name in half}, out=tmp_path / label)
            for half in halves
        ]
        whole = of_all(parts, out=tmp_path, label=label)
        pairs.append((of_all(parts), EvalRun.load(str(whole.folder)), shards))
    expected = compare(*(memory for memory, _, _ in pairs))
    stored = compare(*(folder for _, folder, _ in pairs))
    for result in (stored, Comparison.model_validate_json(stored.model_dump_json())):
        assert (result.cuts, result.differences) == (expected.cuts, expected.differences)
    part = compare(pairs[0][2][1], pairs[1][2][1])
    assert part.cuts[0].same_text == 6


@pytest.mark.slow
def test_merged_shards_compare_as_one_run(tmp_path: Path) -> None:
    """Cuts and differences of runs merged from two shards each are those of runs judged at once."""
    pairs: list[list[EvalRun]] = [[], []]
    for name, texts in (("small", MANUAL), ("glued", (" ".join(MANUAL),))):
        fields = {"query": "How often?", "reference": "descaled every 40 hours of use", "chunks": list(texts)}
        traces = [Trace.parse({"id": f"q{k}", **fields}) for k in range(40)]
        with Evaluator("fake/overlap", metrics=["AP@3"], cache=False) as evaluator:
            shards = [evaluator.evaluate(traces, out=tmp_path / name, shard=(k, 2)) for k in (1, 2)]
            pairs[0].append(evaluator.evaluate(traces))
        pairs[1].append(merge([run.folder for run in shards if run.folder], tmp_path / f"{name} merged"))
    whole, merged = (compare(*pair) for pair in pairs)
    assert whole.cuts[0].differ
    assert (merged.cuts, merged.differences) == (whole.cuts, whole.differences)


@pytest.mark.slow
def test_two_retrievers_over_one_index_are_read_in_part() -> None:
    """If nearly no chunk of the first traces is cut otherwise, no more are read; one that glues is read whole."""
    texts = [f"The rule number {k} says that visitor {k * 7} may stay {k * 3} minutes in room {k}." for k in range(60)]

    def run_over(seed: int, glued: bool = False) -> EvalRun:
        rng = random.Random(seed)
        rows = []
        for name in range(120):
            lists = [texts[rng.randrange(0, 10)], *rng.sample(texts[10:24], 11)]
            pieces = [" ".join(lists[k : k + 3]) for k in range(0, 12, 3)] if glued else lists
            rows.append({"id": f"q{name}", "query": f"Question {name}?", "reference": "No.", "chunks": pieces})
        with Evaluator("fake/hash", cache=False) as evaluator:
            return evaluator.evaluate(rows)

    def cuts_of(*runs: EvalRun) -> Cuts:
        tables = [verdict_table(run, ()) for run in runs]
        return cuts_between((runs[0], runs[1]), tables, np.arange(120), np.arange(120))

    first = run_over(1)
    alike, glued = cuts_of(first, run_over(2)), cuts_of(first, run_over(2, glued=True))
    assert (alike.differ, alike.sampled) == (False, True)
    assert (glued.differ, glued.sampled) == (True, False)


def test_another_offset_is_another_cut() -> None:
    """Chunks of one length that begin elsewhere differ; another order, and another retriever's choice, do not."""
    rng = random.Random(1)
    document = [f"w{rng.randrange(400)}" for _ in range(6_000)]
    places = [rng.randrange(6, 30) for _ in range(12)]

    def run_from(offset: int, near: Sequence[int]) -> EvalRun:
        traces = []
        for name, place in zip(NAMES, places, strict=True):
            starts = [150 * (place + step) + offset for step in near]
            chunks = [" ".join(document[start : start + 150]) for start in starts]
            traces.append(Trace.parse({"id": name, "query": "q", "reference": "r", "chunks": chunks}))
        return import_verdicts({}, traces, metrics=["AP@3"])

    def differ(*runs: EvalRun) -> bool:
        tables = verdict_table(runs[0]), verdict_table(runs[1])
        return cuts_between((runs[0], runs[1]), tables, np.arange(12), np.arange(12)).differ

    first = run_from(0, (0, 1, 2))
    assert [differ(first, run_from(offset, (0, 1, 2))) for offset in (0, 40, 75)] == [False, True, True]
    assert not differ(first, run_from(0, (3, 2, 1)))


def test_two_retrievers_over_the_documentation_raise_no_alarm() -> None:
    """The fixture's lists by text and by title are of one cut, and are compared by chunks."""
    with Evaluator("fake/overlap", metrics=["AP@3"], cache=False) as evaluator:
        runs = [evaluator.evaluate(FIXTURE.with_name(f"docs_qa_by_{by}.jsonl")) for by in ("text", "title")]
    result = compare(*runs)
    assert (result.cuts, [d.metric for d in result.differences]) == ((), ["AP@3"])
