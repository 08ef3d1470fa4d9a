"""A cascade is fitted to its judges as they are asked in use."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from judge_eval import Evaluator, FakeBackend, Trace
from judge_eval.errors import RunError
from judge_eval.judges import Decision, Listwise, Pointwise
from judge_eval.judges.cascade import Cascade
from judge_eval.study.cascade_file import CascadeFile
from judge_eval.trials import PairedPilot
from judge_eval.wire import Completion, DecisionAnswer, Request

NAMES: Any = {"cheap": ("decisions/a", "support/decision"), "strong": ("openai/b", "support/binary")}


def traces(count: int) -> list[Trace]:
    """Make traces of five chunks, of which every third is relevant."""
    return [
        Trace.parse(
            {
                "id": f"t{n}",
                "query": f"What is {n}?",
                "reference": f"Blue {n}.",
                "chunks": [
                    {"id": f"c{k}", "text": f"Passage {k} of {n}: {'gold' if (n + k) % 3 == 0 else 'none'}."}
                    for k in range(5)
                ],
            }
        )
        for n in range(count)
    ]


def cheap(request: Request) -> Completion:
    """Answer rightly, and in doubt only about the third chunk of a trace."""
    shares = []
    for passage in request.passages:
        relevant = 0.97 if "gold" in passage.text else 0.03
        doubtful = 0.6 if "gold" in passage.text else 0.4
        shares.append(doubtful if passage.text.startswith("Passage 2") else relevant)
    return Completion("", answers=tuple(DecisionAnswer((1 - share, share)) for share in shares))


def swayed(request: Request) -> str:
    """Answer rightly about one chunk, and of a list call every chunk irrelevant."""
    alone = len(request.passages) == 1
    verdicts = [
        {
            "id": number,
            "evidence": passage.text if alone and "gold" in passage.text else "",
            "reason": "",
            "instruction_in_chunk": False,
            "verdict": alone and "gold" in passage.text,
        }
        for number, passage in enumerate(request.passages, 1)
    ]
    listed = "Judge every chunk above." in request.messages[-1].content
    if not listed:
        del verdicts[0]["id"]
    return json.dumps({"verdicts": verdicts} if listed else verdicts[0])


def models(strong: Any = swayed) -> dict[str, Any]:
    """Return both models; None of them is cached."""
    return {"cheap": FakeBackend(cheap), "strong": FakeBackend(strong)}


def fitted(judge: Cascade, folder: Path, backends: Mapping[str, Any] | None = None) -> CascadeFile:
    """Fit a cascade to two hundred traces."""
    with Evaluator(backends or models(), judge=judge, cache=False, metrics=["RR"]) as evaluator:
        pilot = PairedPilot(evaluator, NAMES)
        drawn = pilot.draw(traces(200))
        return pilot.fit(drawn, pilot.judge(drawn, folder))


@pytest.mark.slow
def test_a_strong_judge_of_lists_is_fitted_as_it_is_asked(tmp_path: Path) -> None:
    """A judge that answers otherwise about several chunks does not get a bound for its answers about one.

    The cheap judge agrees with the strong one about single chunks, and differs from it about a third of the
    chunks of whole traces: no threshold keeps its verdicts within 5%.
    """
    file = fitted(Cascade(Decision(), Listwise(), None), tmp_path)
    assert file.fit.cheap_alone.value == pytest.approx(1 / 3, abs=0.1)
    assert file.fit.kept == 0
    assert file.strong.judge["reads"] == "trace"
    alone = fitted(Cascade(Decision(), Pointwise(), None), tmp_path)
    assert alone.fit.coverage > 0.6
    assert "reads" not in alone.strong.judge


def test_one_escalated_chunk_sends_the_whole_trace() -> None:
    """The strong judge reads the list it was fitted on; what is sure of the cheap judge stands anyway."""
    backends = models()
    judge = Cascade(Decision(), Listwise(), 0.9)
    with Evaluator(backends, judge=judge, cache=False, metrics=["RR"]) as evaluator:
        (result,) = evaluator.evaluate(traces(1)).results
    (request,) = backends["strong"].requests
    assert len(request.passages) == 5
    assert [o.stage for o in result.outcomes if o.kind == "verdict"] == ["cheap"] * 2 + ["strong"] + ["cheap"] * 2
    assert result.votes["strong"] == (None, None, 0, None, None)
    assert Cascade(Decision(), Listwise(), 0.5).describe()["strong"]["reads"] == "trace"


def test_a_trace_that_the_cheap_judge_is_sure_of_costs_no_list() -> None:
    """Where every verdict stands, the strong judge is not asked."""
    backends = models()
    judge = Cascade(Decision(), Listwise(), 0.6)
    with Evaluator(backends, judge=judge, cache=False, metrics=["RR"]) as evaluator:
        evaluator.evaluate(traces(2))
    assert not backends["strong"].requests


def test_a_failure_of_the_drawn_chunk_alone_stops_the_fit(tmp_path: Path) -> None:
    """Of a whole trace only the drawn chunk counts: another one without a verdict is not in the sample."""

    def declines(request: Request) -> str | Completion:
        if len(request.passages) == 1:
            return Completion("", "refusal")
        verdicts = [
            {"id": n, "evidence": "", "reason": "", "instruction_in_chunk": False, "verdict": "gold" in p.text}
            for n, p in enumerate(request.passages, 1)
            if not p.text.startswith("Passage 4")
        ]
        return json.dumps({"verdicts": verdicts})

    judge = Cascade(Decision(), Listwise(), None)
    with Evaluator(models(declines), judge=judge, cache=False, metrics=["RR"]) as evaluator:
        pilot = PairedPilot(evaluator, NAMES)
        drawn = pilot.draw(traces(100))
        runs = pilot.judge(drawn, tmp_path)
        failed = pilot.failed(drawn, runs)
        assert failed == sum(chunk_id == "c4" for chunk_id in drawn.chunks.values())
        with pytest.raises(RunError, match=f"no verdict on {failed} of 100"):
            pilot.fit(drawn, runs)


def test_the_drawn_chunks_keep_their_conversation_and_have_an_answer() -> None:
    """Both judges are shown the turns; a question that nothing answers, about which nobody is asked, is not drawn."""
    turns = [{"role": "user", "content": "When do you open?"}, {"role": "assistant", "content": "At nine."}]
    rows = [
        trace.replace(history=Trace.parse({"query": "x", "history": turns, "chunks": []}).history, answerable=n > 0)
        for n, trace in enumerate(traces(6))
    ]
    assert all(trace.digest for trace in rows)
    with Evaluator(models(), judge=Cascade(Decision(), Pointwise(), None), cache=False, metrics=["RR"]) as evaluator:
        drawn = PairedPilot(evaluator, NAMES).draw(rows)
    assert (len(drawn.spots), drawn.eligible) == (5, 5)
    for trace, spot in zip(drawn.traces, drawn.spots, strict=True):
        assert (spot.history, spot.conversation) == (trace.history, trace.conversation)
        assert spot.digest == Trace.parse(spot.model_dump()).digest != trace.digest
