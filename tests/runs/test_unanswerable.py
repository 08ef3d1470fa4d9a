"""Questions that nothing answers are in no mean, and are told of apart."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from judge_eval import Evaluator, FakeBackend, Trace
from judge_eval.compare.compare import compare
from judge_eval.compare.gate import check_gates
from judge_eval.compare.options import Gates
from judge_eval.data.labels import Labels
from judge_eval.errors import DataError
from judge_eval.eval_run import EvalRun
from judge_eval.export.trec import qrels_lines
from judge_eval.llm.backend import Identity
from judge_eval.pages.rows import Table
from judge_eval.pages.runpage import failed_verdicts
from judge_eval.pools.pool import Pool
from judge_eval.pools.scoring import score_pool
from judge_eval.runs.folder.records import Unanswerable
from judge_eval.runs.scoring.rescore import rescore
from judge_eval.study.correct import correct
from judge_eval.views.run_remarks import remarks_of
from judge_eval.wire import Request
from tests.support.notes import note_sentences

GOOD, BAD = "yes: it is open", "no: it is blue"


def verdict(request: Request) -> str:
    """Accept what begins with yes."""
    good = request.passages[0].text.startswith("yes")
    return json.dumps({"evidence": "it is", "reason": "r", "instruction_in_chunk": False, "verdict": good})


def traces(flags: bool = True) -> list[Trace]:
    """Two answered questions and three that nothing answers: nothing returned, rejected, accepted."""
    rows: list[tuple[str, list[str], bool | None]] = [
        ("a", [GOOD, BAD], None),
        ("b", [BAD, GOOD], True),
        ("c", [], False),
        ("d", [BAD], False),
        ("e", [GOOD, BAD], False),
    ]
    return [
        Trace.parse(
            {
                "id": name,
                "query": f"q {name}",
                "chunks": texts,
                **({"reference": "r"} if answerable is not False else {}),
                **({"answerable": answerable} if flags else {}),
            }
        )
        for name, texts, answerable in rows
    ]


Judge = Callable[..., tuple[EvalRun, FakeBackend]]


@pytest.fixture
def judge(tmp_path: Path) -> Judge:
    """Judge traces with a prompt, into a folder."""

    def judged(prompt: str, data: list[Trace], **more: Any) -> tuple[EvalRun, FakeBackend]:
        backend = FakeBackend(verdict, identity=Identity("test", "m"))
        evaluator = Evaluator(backend, prompt=prompt, metrics=["AP@5", "HitRate@5"], cache=False, **more)
        return evaluator.evaluate(data, out=tmp_path / "runs"), backend

    return judged


def remark_of(run: EvalRun) -> str:
    """The line about unanswerable questions; empty without one."""
    return next((remark.text for remark in remarks_of(run.manifest) if remark.about == "unanswerable"), "")


def test_means_are_of_the_others_and_one_line_tells_of_these(judge: Judge) -> None:
    """All are judged by a prompt that needs no reference; a run without flags has no such line."""
    run, backend = judge("relevance/binary", traces())
    assert backend.calls == 7
    assert run["AP@5"] == pytest.approx(0.75)
    assert run.aggregates["AP@5"].n == 2
    assert [result.scores["AP@5"] for result in run.results] == [1.0, 0.5, None, None, None]
    assert run.manifest.unanswerable == Unanswerable(traces=3, empty=1, chunks=3, accepted=1)
    assert run.manifest.reranking is not None
    assert (run.manifest.reranking.traces, run.manifest.reranking.nothing_relevant) == (2, 0)
    assert (run.manifest.tally.failed_verdicts, run.manifest.status) == (0, "done")
    line = remark_of(run)
    assert line.startswith("3 unanswerable questions, in no mean: nothing returned for 1 (0.3333 [")
    assert line.endswith(
        "1.0 chunks on average; 1 has a chunk that was accepted: wrong flag or fooled judge, see `show`"
    )
    plain, _ = judge("relevance/binary", traces(flags=False))
    assert (plain.manifest.unanswerable, remark_of(plain)) == (None, "")
    assert plain["AP@5"] == pytest.approx((1 + 0.5 + 0 + 0 + 1) / 5)


def test_a_prompt_that_needs_an_answer_asks_nobody_about_them(judge: Judge) -> None:
    """They need no reference, count as no failure, no resume asks about them, and other metrics leave them out too."""
    run, backend = judge("support/binary", traces())
    assert backend.calls == 4
    whys = [outcome.why for result in run.results for outcome in result.outcomes if outcome.kind == "no_verdict"]
    assert whys == ["unanswerable"] * 3
    assert (run.manifest.tally.failed_verdicts, run.manifest.tally.verdicts, run.manifest.status) == (0, 4, "done")
    assert run.manifest.unanswerable == Unanswerable(traces=3, empty=1, chunks=3, accepted=None)
    assert remark_of(run).endswith("; nobody was asked about them")
    table = Table(run)
    assert ([row.failed for row in table.rows], failed_verdicts(table)["count"]) == ([0] * 5, 0)
    assert run.folder is not None
    again = rescore(EvalRun.load(run.folder), ["MRR"])
    assert again.aggregates["MRR"].mean == pytest.approx(0.75)
    assert again.manifest.unanswerable == run.manifest.unanswerable
    assert [line.split()[0] for line in qrels_lines(again)] == ["a", "a", "b", "b"]
    report = score_pool(Pool.of([run]), ["AP@5"])
    assert report.questions == 2


def test_a_pair_is_left_out_if_either_run_says_so(judge: Judge) -> None:
    """With the number of flags that differ; gates are of the others."""
    before, _ = judge("relevance/binary", traces())
    after, _ = judge("relevance/binary", traces(flags=False))
    comparison = compare(before, after)
    assert comparison.paired == (2,)
    assert "3 unanswerable questions are not compared; the runs' flags differ for 3 of them" in note_sentences(
        comparison.notes
    )
    (difference, _) = comparison.differences
    assert (difference.n, difference.difference) == (2, 0.0)
    same = compare(before, judge("relevance/binary", traces())[0])
    assert "3 unanswerable questions are not compared" in note_sentences(same.notes)
    checks = check_gates([before], Gates(fail_under=("AP@5=0.75",), max_drop=("AP@5=0.5",)), comparison)
    assert {check.kind: (check.value, check.passed) for check in checks} == {
        "fail-under": (pytest.approx(0.75), True),
        "max-drop": (0.0, True),
    }


@pytest.mark.parametrize("options", [{"mode": "listwise"}, {"mode": "claims"}, {"mode": "decision"}, {"repeat": 3}])
def test_every_kind_of_judge_that_needs_an_answer_asks_nobody(options: dict[str, Any]) -> None:
    """Nor counts a failure, with traces that bring neither reference nor claims."""
    with Evaluator("fake/overlap", cache=False, **options) as evaluator:
        run = evaluator.evaluate(traces())
    failed = {result.trace_id: result.failed for result in run.results}
    assert failed == dict.fromkeys("abcde", 0)
    assert {o.why for r in run.results[2:] for o in r.outcomes if o.kind == "no_verdict"} == {"unanswerable"}
    assert (run.manifest.status, run.aggregates["AP@5"].n) == ("done", 2)
    assert run.manifest.unanswerable == Unanswerable(traces=3, empty=1, chunks=3, accepted=None)


def test_labels_correct_the_mean_of_the_answered_questions(judge: Judge) -> None:
    """A chunk of an unanswerable question that was labelled is in no corrected mean."""
    run, _ = judge("relevance/binary", traces())
    labels = {(r.trace_id, c.id): int(c.text == GOOD) for r in run.results for c in r.trace.chunks}
    with pytest.raises(DataError, match="2 of 2 judged traces are labelled in full"):
        correct(run, Labels(labels, sources=("people",)), metrics=["HitRate@5"])
