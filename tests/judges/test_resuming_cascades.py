"""A cascade that goes on: the cheap judge is not paid twice, and its votes stay."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from judge_eval import Evaluator, FakeBackend, Identity, Member, Options, Panel, Pointwise, Trace
from judge_eval.errors import TransientError
from judge_eval.eval_run import EvalRun
from judge_eval.judges import Cascade, Decision, Listwise

TRACE = Trace.parse({"id": "t", "query": "q", "reference": "r", "chunks": ["one", "two", " ", "three"]})
CHEAP: dict[Any, Any] = {
    "c1": {"verdict": False, "confidence": 0.02},
    "c2": {"verdict": True, "evidence": "two", "confidence": 0.6},
    "c4": {"verdict": True, "evidence": "three", "confidence": 0.55},
}
STRONG: dict[Any, Any] = {"c1": True, "c2": False, "c4": {"verdict": True, "evidence": "three"}}
CASCADES = {
    "pointwise": Cascade(Pointwise(), Pointwise(), 0.9),
    "decision": Cascade(Decision(), Pointwise(), 0.9),
    "decision alone": Cascade(Decision(layout="request"), Pointwise(), 0.9),
    "listwise": Cascade(Listwise(), Pointwise(), 0.9),
    "listwise strong": Cascade(Decision(), Listwise(), 0.9),
}


def models(*, cheap: tuple[str, ...] = (), strong: tuple[str, ...] = ()) -> dict[str, FakeBackend]:
    """Make both models, failing at these chunks."""
    made = {}
    for name, table, failing in (("cheap", CHEAP, cheap), ("strong", STRONG, strong)):
        made[name] = FakeBackend.table({**table, **dict.fromkeys(failing, TransientError("down"))})
        made[name].identity = Identity("fake", name)
    return made


def judged(backends: Mapping[str, FakeBackend], judge: Cascade, out: Path, **how: Any) -> EvalRun:
    """Judge the trace, without a cache."""
    options = Options(attempts=1)
    options = options.with_logprobs("cheap") if "cheap" in backends else options
    with Evaluator(backends, judge=judge, cache=False, metrics=["P@4"], options=options) as evaluator:
        return evaluator.evaluate([TRACE], **{"out": out, **how})


def essence(run: EvalRun) -> Any:
    """Return what must not depend on how often a run was resumed."""
    (result,) = run.results
    return result.outcomes, result.votes, result.scores, result.parts, run["P@4"], len(result.calls)


@pytest.mark.parametrize("kind", CASCADES)
def test_a_resume_does_not_ask_the_cheap_judge_twice(tmp_path: Path, kind: str) -> None:
    """If the strong judge failed, it alone is asked again; all is as if it had never failed."""
    judge = CASCADES[kind]
    whole = judged(models(), judge, tmp_path / "whole")
    begun = judged(models(strong=("c2",)), judge, tmp_path / "begun")
    assert begun.status == "incomplete"
    backends = models()
    resumed = judged(backends, judge, tmp_path / "begun", resume=True)
    assert (backends["cheap"].calls, resumed.status) == (0, "done")
    asked = [chunk for request in backends["strong"].requests for chunk in request.chunk_ids]
    assert "c2" in asked
    assert kind == "listwise strong" or "c1" not in asked  # a judge of lists reads the whole list again
    assert essence(resumed) == essence(whole)


def test_a_cheap_judge_of_lists_is_shown_the_whole_list_again(tmp_path: Path) -> None:
    """If it told of no chunk, a resume asks the question that the threshold was fitted to: all chunks."""
    judge = CASCADES["listwise"]
    whole = judged(models(), judge, tmp_path / "whole")
    gone = ("c1", "c2", "c4")
    begun = models(cheap=gone, strong=("c2",))
    judged(begun, judge, tmp_path / "begun")
    backends = models()
    resumed = judged(backends, judge, tmp_path / "begun", resume=True)
    (first,) = backends["cheap"].requests
    assert first.chunk_ids == gone
    assert first.digest == begun["cheap"].requests[0].digest
    assert [o.kind for o in resumed.results[0].outcomes] == ["verdict", "verdict", "no_verdict", "verdict"]
    assert whole.results[0].outcomes[1].stage == resumed.results[0].outcomes[1].stage  # type: ignore[union-attr]


def test_a_pointwise_cheap_judge_is_asked_about_open_chunks_alone(tmp_path: Path) -> None:
    """What both failed at is asked of both; a verdict of the strong one stands."""
    judge = CASCADES["pointwise"]
    judged(models(cheap=("c2", "c4"), strong=("c2",)), judge, tmp_path)
    backends = models()
    resumed = judged(backends, judge, tmp_path, resume=True)
    assert [request.chunk_ids for request in backends["cheap"].requests] == [("c2",)]
    assert [request.chunk_ids for request in backends["strong"].requests] == [("c2",)]
    (result,) = resumed.results
    assert result.votes["strong"][3] == 1
    assert result.votes["cheap"][3] is None
    assert result.parts == {}


def in_panel(missing: tuple[str, ...] = (), stage: str = "cheap") -> tuple[Cascade, dict[str, FakeBackend]]:
    """Make a cascade whose cheap or strong judge is a panel of two, and its models; the second one fails."""
    panel = Panel([Member("first", Pointwise(), "first"), Member("second", Pointwise(), "second")])
    judges = (panel, Pointwise()) if stage == "cheap" else (Pointwise(), panel)
    routes = ("", "strong") if stage == "cheap" else ("cheap", "")
    first, second, third = models(), models(cheap=missing, strong=missing), models()
    alone = "strong" if stage == "cheap" else "cheap"
    made = {"first": first[stage], "second": second[stage], alone: third[alone]}
    for name, backend in made.items():
        backend.identity = Identity("fake", name)
    return Cascade(*judges, 0.9, routes=routes), made


@pytest.mark.parametrize("stage", ["cheap", "strong"])
def test_a_missing_vote_of_a_panel_inside_is_asked_for(tmp_path: Path, stage: str) -> None:
    """A verdict that stands on fewer members leaves the run incomplete; a resume asks the others alone."""
    gone = ("c1",) if stage == "cheap" else ("c2",)
    judge, backends = in_panel(stage=stage)
    whole = judged(backends, judge, tmp_path / "whole")
    judge, backends = in_panel(gone, stage)
    begun = judged(backends, judge, tmp_path / "begun")
    assert (begun.status, begun.manifest.tally.failures) == ("incomplete", {"empty": 1})
    assert begun.manifest.tally.fewer_votes == 1
    judge, backends = in_panel(stage=stage)
    resumed = judged(backends, judge, tmp_path / "begun", resume=True)
    assert (resumed.id, resumed.status, resumed.manifest.tally.fewer_votes) == (begun.id, "done", 0)
    asked = {name: [c for r in backend.requests for c in r.chunk_ids] for name, backend in backends.items()}
    assert asked == {name: list(gone) if name == "second" else [] for name in backends}
    assert essence(resumed) == essence(whole)


def test_a_vote_that_comes_late_may_escalate_a_verdict(tmp_path: Path) -> None:
    """If the late vote makes the cheap panel unsure, the strong judge is asked, and its verdict stands."""
    judge, backends = in_panel(("c1",))
    judged(backends, judge, tmp_path)
    judge, backends = in_panel()
    backends["second"] = FakeBackend.table({**CHEAP, "c1": {"verdict": True, "evidence": "one", "confidence": 0.9}})
    backends["second"].identity = Identity("fake", "second")
    resumed = judged(backends, judge, tmp_path, resume=True)
    (result,) = resumed.results
    assert {request.chunk_ids for request in backends["strong"].requests} == {("c1",)}
    assert result.outcomes[0].stage == "strong"  # type: ignore[union-attr]
    assert (result.parts, resumed.status) == ({}, "done")
