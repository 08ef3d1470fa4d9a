"""A panel that goes on: votes that are missing are asked for, votes that are there stay."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from judge_eval import Evaluator, FakeBackend, Identity, Member, Options, Panel, Pointwise, Trace
from judge_eval.errors import TransientError
from judge_eval.eval_run import EvalRun
from judge_eval.export.text import as_markdown
from judge_eval.judges.judge import JudgingPlan
from judge_eval.llm.fake import rules
from judge_eval.schema import Verdict
from judge_eval.views.run_remarks import remarks_of

TRACE = Trace.parse({"id": "t", "query": "q", "reference": "r", "chunks": ["one", "two", " "]})
ONCE = Options(attempts=1)
GRADES: dict[str, dict[str, Any]] = {
    "a": {"c1": {"grade": 1, "evidence": "one", "reason": "a says yes"}, "c2": {"grade": 0}},
    "b": {"c1": {"grade": 0, "reason": "b says no"}, "c2": {"grade": 1, "evidence": "two", "reason": "b"}},
    "c": {"c1": {"grade": 0, "reason": "c says no"}, "c2": {"grade": 1, "evidence": "two", "reason": "c"}},
}


def members(**failing: tuple[str, ...]) -> dict[str, FakeBackend]:
    """Make the three models, each failing at the chunks that are named for it."""
    made = {}
    for name, table in GRADES.items():
        gone = dict.fromkeys(failing.get(name, ()), TransientError("down"))
        made[name] = FakeBackend.table({**table, **gone})
        made[name].identity = Identity("fake", name)
    return made


def judged(models: Mapping[str, FakeBackend], out: Path, judge: Any = None, **how: Any) -> EvalRun:
    """Judge the trace by the panel of three, without a cache."""
    panel = judge or Panel([Member(name, Pointwise(), name) for name in GRADES])
    how = {"out": out, **how}
    with Evaluator(models, judge=panel, cache=False, metrics=["P@2"], options=ONCE) as evaluator:
        return evaluator.evaluate([TRACE], **how)


def essence(run: EvalRun) -> Any:
    """Return what must not depend on how often a run was resumed."""
    (result,) = run.results
    return result.outcomes, result.votes, result.scores, result.calls, result.parts, run["P@2"]


def asked(models: Mapping[str, FakeBackend]) -> dict[str, list[str]]:
    """Return the chunks that each model was asked about."""
    return {
        name: [chunk for request in backend.requests for chunk in request.chunk_ids] for name, backend in models.items()
    }


@pytest.mark.parametrize(
    "failing",
    [
        {"b": ("c1", "c2"), "c": ("c1", "c2")},  # one vote of three decides
        {"b": ("c1",)},
        {"a": ("c1", "c2"), "b": ("c1", "c2"), "c": ("c1", "c2")},
        {"a": ("c1",), "b": ("c1",), "c": ("c1", "c2")},  # one chunk without a verdict, one short of votes
    ],
)
def test_a_resume_asks_for_the_missing_votes_alone(tmp_path: Path, failing: dict[str, Any]) -> None:
    """It ends as the run that never failed: outcomes, votes, words, probabilities, calls and means."""
    whole = judged(members(), tmp_path / "whole")
    begun = judged(members(**failing), tmp_path / "begun")
    assert begun.status == "incomplete"
    models = members()
    resumed = judged(models, tmp_path / "begun", resume=True)
    assert asked(models) == {name: list(failing.get(name, ())) for name in GRADES}
    assert essence(resumed) == essence(whole)
    assert (resumed.id, resumed.status, resumed.manifest.tally.fewer_votes) == (begun.id, "done", 0)
    again = members()
    judged(again, tmp_path / "begun", resume=str(resumed.folder))
    assert asked(again) == {name: [] for name in GRADES}


def test_a_run_says_how_many_verdicts_rest_on_fewer_members(tmp_path: Path) -> None:
    """The tally counts them, and terminal and Markdown say so; blank chunks do not count."""
    run = judged(members(b=("c1", "c2"), c=("c1",)), tmp_path)
    assert run.manifest.tally.fewer_votes == 2
    message = "2 verdicts rest on fewer members than the panel has; resume the run to ask the others again"
    assert [remark.text for remark in remarks_of(run.manifest) if remark.about == "votes"] == [message]
    assert message in as_markdown(run)
    assert run.status == "incomplete"
    assert run.manifest.tally.failures == {"empty": 1}
    whole = judged(members(), tmp_path / "whole")
    assert not [remark for remark in remarks_of(whole.manifest) if remark.about == "votes"]


def test_samples_are_completed_like_members(tmp_path: Path) -> None:
    """A judge that is asked several times (`repeat`) is a panel, and resumes like it."""
    calls: list[int] = []

    def answer(request: Any) -> Any:
        calls.append(request.sample)
        down = request.sample == 1 and len(calls) <= 6
        return TransientError("down") if down else rules.reply_text(request, [rules.Opinion(1, "x")])

    def run(**how: Any) -> EvalRun:
        with Evaluator(FakeBackend(answer), repeat=3, cache=False, metrics=["P@2"], options=ONCE) as evaluator:
            return evaluator.evaluate([TRACE], out=tmp_path, **how)

    begun = run()
    assert begun.results[0].votes["sample 2"] == (None, None, None)
    calls[:] = [0] * 6
    resumed = run(resume=True)
    assert calls[6:] == [1, 1]
    assert resumed.results[0].votes == {f"sample {n}": (1, 1, None) for n in (1, 2, 3)}


class Around:
    """A judge of one's own around another, with nothing but what the protocol asks for."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.scale, self.needs = inner, inner.scale, inner.needs

    def describe(self) -> dict[str, Any]:
        """Say what it is."""
        return {**self.inner.describe(), "judge": "around/1"}

    def plan(self, trace: Trace, known: Mapping[str, Verdict] = {}) -> JudgingPlan:
        """Judge as the other one does."""
        return (yield from self.inner.plan(trace, known))


def test_a_judge_around_a_panel_loses_no_vote(tmp_path: Path) -> None:
    """It takes verdicts alone: of chunks that have one the earlier votes stay."""
    panel = Panel([Member(name, Pointwise(), name) for name in GRADES])
    failing = dict.fromkeys(GRADES, ("c2",))
    judged(members(**failing), tmp_path, Around(panel))
    resumed = judged(members(), tmp_path, Around(panel), resume=True)
    assert resumed.results[0].votes == {"a": (1, 0, None), "b": (0, 1, None), "c": (0, 1, None)}
