import asyncio
from pathlib import Path

import pytest

from judge_eval import Chunk, EvalRun, Evaluator, Member, Panel, Pointwise
from judge_eval.errors import DataError
from judge_eval.runs.folder.records import Intervals
from judge_eval.schema import BlankPolicy, Trace
from judge_eval.server.library import Library
from judge_eval.server.models import Submission
from judge_eval.server.server_settings import ServerLimits
from judge_eval.server.submissions import Submissions


def panel() -> Evaluator:
    """Make an evaluator of two models, with intervals of its own."""
    members = [Member("a", Pointwise(), "a"), Member("b", Pointwise("relevance/binary"), "b")]
    models = {"a": "fake/overlap", "b": "fake/hash"}
    return Evaluator(models, judge=Panel(members), intervals=Intervals(method="bca", seed=3), cache=False)


def trace(reference: str | None = "It is blue.") -> Trace:
    """Make a trace."""
    return Trace.parse({"id": "q1", "query": "What is it?", "reference": reference, "chunks": ["It is blue.", "No."]})


def test_a_submitted_run_begins_as_any_other_run(tmp_path: Path) -> None:
    """A panel's run is written down as `evaluate` would, intervals included, and is judged to its end."""
    evaluator = panel()
    submissions = Submissions(Library(tmp_path), evaluator, ServerLimits())

    async def serve() -> None:
        manifest = submissions.submit(Submission(traces=(trace(),), label="PR #1", tags=("pr",)))
        assert (manifest.status, manifest.label, manifest.tags) == ("submitted", "PR #1", ("pr",))
        usual = evaluator.evaluate(trace())
        assert manifest.intervals == usual.manifest.intervals
        assert manifest.backend == usual.manifest.backend
        submissions.start()
        submissions.enqueue(manifest.id)
        while True:
            run = EvalRun.load(next(path for path in tmp_path.iterdir() if path.name[0] != "."))
            if run.manifest.status != "submitted" and run.manifest.finished:
                break
            await asyncio.sleep(0.01)
        await submissions.stop()
        assert run.manifest.status == "done"
        assert run.manifest.backend == usual.manifest.backend

    asyncio.run(serve())


@pytest.mark.parametrize(("blank", "outcome"), [(None, "empty"), ("irrelevant", 0)])
def test_the_servers_rule_for_chunks_without_text_is_that_of_submissions(
    tmp_path: Path, blank: BlankPolicy | None, outcome: str | int
) -> None:
    """`serve --blank irrelevant` judges submitted chunks without text so; else they have no verdict."""
    evaluator = Evaluator("fake/overlap", blank=blank, cache=False)
    submissions = Submissions(Library(tmp_path), evaluator, ServerLimits())
    submitted = submissions.submit(Submission(traces=(trace().replace(chunks=(Chunk(id="c", text=" "),)),)))
    (folder,) = (path for path in tmp_path.iterdir() if path.name[0] != ".")
    run = evaluator.evaluate(folder / "submission.jsonl", resume=folder)
    assert run.manifest.judge == submitted.judge
    (made,) = run.results[0].outcomes
    assert (made.grade if made.kind == "verdict" else made.why) == outcome


def test_a_submitted_trace_is_checked_as_any_other(tmp_path: Path) -> None:
    """A trace without what the prompt needs is refused in the words of `Evaluator.check`."""
    evaluator = panel()
    submissions = Submissions(Library(tmp_path), evaluator, ServerLimits())
    with pytest.raises(DataError) as usual:
        evaluator.check(trace(None))
    with pytest.raises(DataError) as caught:
        submissions.submit(Submission(traces=(trace(None),)))
    assert caught.value.message == usual.value.message
    evaluator.close()
