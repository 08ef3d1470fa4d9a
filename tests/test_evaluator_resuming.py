"""A run that ended early goes on to the bytes it would have had, or says why it cannot."""

import shutil
from pathlib import Path

import pytest

from judge_eval import Evaluator, FakeBackend
from judge_eval.errors import ConfigError, FatalCallError, RunError
from judge_eval.eval_run import EvalRun
from judge_eval.llm.options import Options
from judge_eval.runs.scoring.counting import Progress
from tests.support.judges import ALL, TWO, Stops, only
from tests.support.runs import evaluator, lines, traces


def test_a_run_that_ended_early_goes_on_to_the_same_bytes(tmp_path: Path) -> None:
    """A resumed run equals an uninterrupted one byte for byte, and asks for nothing twice."""
    data = traces(12)
    whole = evaluator(FakeBackend(Stops(99))).evaluate(data, out=tmp_path / "a")
    options = Options(concurrency=1)
    with pytest.raises(FatalCallError) as caught:
        evaluator(FakeBackend(Stops(14)), options=options).evaluate(data, out=tmp_path / "b")
    folder = Path(str(caught.value.run_folder))
    begun = EvalRun.load(folder)
    assert begun.status == "failed"
    kept = len(begun.results)
    assert 0 < kept < 12
    second = FakeBackend(Stops(99))
    resumed = evaluator(second).evaluate(data, out=tmp_path / "b", resume=True)
    assert resumed.folder == folder
    assert second.calls == 3 * 12 - 14
    assert whole.folder is not None
    assert lines(folder) == lines(whole.folder)
    assert resumed.aggregates == whole.aggregates
    assert resumed.status == "done"
    assert resumed.id == begun.id


def test_resuming_asks_again_only_what_failed(tmp_path: Path) -> None:
    """Without a cache, too, verdicts that were read are not paid for again, and keep their calls."""
    first = evaluator(only("q0-a", failed=("q0-b", "q1-c"))).evaluate(TWO, out=tmp_path)
    assert first.status == "incomplete"
    backend = only("q0-a", "q0-b")
    done = evaluator(backend).evaluate(TWO, resume=str(first.folder))
    assert sorted(name for request in backend.requests for name in request.chunk_ids) == ["q0-b", "q1-c"]
    assert done.status == "done"
    assert done.manifest.tally.failed_verdicts == 0
    for result in done.results:
        values = [name for call in result.calls for name in call.chunk_ids]
        assert values == [outcome.chunk_id for outcome in result.outcomes]
    whole = evaluator(only("q0-a", "q0-b")).evaluate(TWO, out=tmp_path)
    assert first.folder is not None
    assert whole.folder is not None
    assert lines(first.folder) == lines(whole.folder)
    again = only()
    evaluator(again).evaluate(TWO, resume=str(first.folder))
    assert again.calls == 0


def test_resuming_refuses_another_dataset_judge_or_model(tmp_path: Path) -> None:
    """Whatever differs is named; nothing is asked."""
    run = evaluator(only("q0-a", failed=("q0-b",))).evaluate(TWO, out=tmp_path)
    assert run.folder is not None
    cases = [
        (evaluator(ALL), traces(3), r"the data differ \(digest [0-9a-f]{12}, 2 traces there; .* 3 traces here"),
        (evaluator(ALL, prompt="support/graded"), TWO, r"the judge differs in prompt .*support/graded"),
        (evaluator(ALL, mode="listwise"), TWO, "the judge differs in .*mode"),
        (Evaluator("fake/overlap", metrics=["AP@3", "MRR"], cache=False), TWO, "the model differs in model .*overlap"),
    ]
    for made, data, result in cases:
        with pytest.raises(RunError, match=result):
            made.evaluate(data, resume=run.folder)
    with pytest.raises(RunError, match="no run in"):
        evaluator(ALL).evaluate(TWO, resume=tmp_path / "nowhere")


def test_a_run_that_is_done_keeps_its_metrics(tmp_path: Path) -> None:
    """Resuming it with others is refused, with the way to compute them named."""
    run = evaluator(ALL).evaluate(TWO, out=tmp_path)
    assert run.folder is not None
    before = lines(run.folder)
    with pytest.raises(RunError, match=r"the metrics differ \(AP@3, MRR there; AP@2 here\): use `score`"):
        evaluator(ALL, metrics=["AP@2"]).evaluate(TWO, resume=run.folder)
    assert lines(run.folder) == before


def test_resume_without_an_unfinished_run(tmp_path: Path) -> None:
    """`resume=True` starts a run where there is none of these data, and returns the newest that is done.

    With `new_if_done` it starts one there too.
    """
    first = evaluator(ALL).evaluate(TWO, out=tmp_path, resume=True)
    second = evaluator(ALL).evaluate(TWO, out=tmp_path, resume=True)
    assert first.folder == second.folder
    assert second.manifest == first.manifest
    third = evaluator(ALL).evaluate(TWO, out=tmp_path, resume=True, new_if_done=True)
    assert first.folder != third.folder
    with pytest.raises(ConfigError, match="give the folder of runs"):
        evaluator(ALL).evaluate(TWO, resume=True)


def test_a_run_whose_folder_goes_before_its_end_is_said_to_be_gone(tmp_path: Path) -> None:
    """A folder that is deleted after the last trace is named as deleted, as one deleted earlier is."""

    def delete(progress: Progress) -> None:
        if progress.traces == 4:
            shutil.rmtree(tmp_path / "runs")

    with pytest.raises(RunError, match="deleted or moved while the run was judged"):
        evaluator(FakeBackend(Stops(99))).evaluate(traces(4), out=tmp_path / "runs", watch=delete)
