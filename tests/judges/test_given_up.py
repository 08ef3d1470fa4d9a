"""What a judge does without is asked once: neither a second run nor an offline run asks again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from judge_eval import Evaluator, FakeBackend, Identity, Options
from judge_eval.errors import RefusedError
from judge_eval.eval_run import EvalRun
from judge_eval.llm.fake import rules
from judge_eval.wire import GIVEN_UP, Completion, Request
from tests.support.claiming import BORN, CLAIMS, DIRECTED, cell, row, said, trace
from tests.support.runs import traces

DATA = traces(3)


def backend(answer: Any) -> FakeBackend:
    """Make a judge with an identity, whose answers are cached."""
    return FakeBackend(answer, identity=Identity("fake", "odd"))


def run(judge: FakeBackend, cache: Path, data: Any = DATA, *, offline: bool = False, **how: Any) -> EvalRun:
    """Judge the traces from a cache."""
    options = Options(offline=offline, attempts=1)
    how = {"metrics": ["P@2"], **how}
    with Evaluator(judge, cache=cache, options=options, **how) as evaluator:
        return evaluator.evaluate(data)


def again(answer: Any, cache: Path, first: EvalRun, data: Any = DATA, **how: Any) -> None:
    """Judge once more with the cache, then offline; nothing is asked, and the verdicts are the same."""
    for offline in (False, True):
        judge = backend(answer)
        second = run(judge, cache, data, offline=offline, **how)
        assert judge.calls == 0
        assert [r.outcomes for r in second.results] == [r.outcomes for r in first.results]
        assert [r.claims for r in second.results] == [r.claims for r in first.results]


@pytest.mark.parametrize("mode", ["listwise", "claims-list"])
@pytest.mark.parametrize("finish", ["stop", "length"])
def test_an_unreadable_list_is_not_paid_again(tmp_path: Path, mode: Any, finish: Any) -> None:
    """The list, its repair unless it was cut, and the chunks one by one are paid once; the cache keeps what failed."""

    def answer(request: Request) -> Any:
        if len(request.passages) > 1:
            return Completion("no list", finish)
        if mode == "listwise":
            return rules.reply_text(request, [rules.Opinion(1, request.passages[0].text)])
        return said(row(cell(1, "full", request.passages[0].text)))

    data = DATA if mode == "listwise" else [trace(BORN, DIRECTED, claims=CLAIMS)]
    judge = backend(answer)
    first = run(judge, tmp_path, data, mode=mode)
    assert [o.kind for r in first.results for o in r.outcomes] == ["verdict"] * sum(len(t.chunks) for t in data)
    lists = [request for request in judge.requests if len(request.passages) > 1]
    assert len(lists) == (1 if finish == "length" else 2) * len(data)
    again(answer, tmp_path, first, data, mode=mode)


def test_a_second_look_that_brings_nothing_is_not_paid_again(tmp_path: Path) -> None:
    """A verdict without a quote stands if the second look cannot be read; so it does in the next run."""

    def answer(request: Request) -> Any:
        return "no" if request.follow_up else rules.reply_text(request, [rules.Opinion(1, "")])

    first = run(backend(answer), tmp_path)
    assert all(o.kind == "verdict" and o.relevant for r in first.results for o in r.outcomes)
    again(answer, tmp_path, first)


def test_what_is_not_done_without_is_asked_again(tmp_path: Path) -> None:
    """A verdict that is missing is asked for in every run: of a chunk alone, of a list that is refused."""
    unread = backend(lambda _: "no")
    assert run(unread, tmp_path / "a").status == "incomplete"
    calls = unread.calls
    run(unread, tmp_path / "a")
    assert unread.calls > calls
    refused = backend(lambda _: RefusedError("no"))
    assert run(refused, tmp_path / "b", mode="listwise").status == "incomplete"
    mended = backend(lambda r: rules.reply_text(r, [rules.Opinion(0, "")] * len(r.passages)))
    assert run(mended, tmp_path / "b", mode="listwise").status == "done"
    assert mended.calls == len(DATA)


def test_the_garbage_itself_is_not_stored() -> None:
    """What is kept says that there is nothing, and nothing else; it is read back as that."""
    kept = Completion.decode(GIVEN_UP.encode())
    assert (kept.text, kept.finish, kept.usage.output_tokens, kept.model) == ("", "given_up", 0, "")
