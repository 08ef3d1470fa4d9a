"""What chunks support together: asked of the set after the rows, none where it cannot be told."""

from __future__ import annotations

from typing import Any

import pytest

from judge_eval.backends.fake.backend import FakeBackend
from judge_eval.errors import CallError
from judge_eval.judges import claims
from judge_eval.wire import Completion
from tests.support.claiming import (
    BORN,
    CLAIMS,
    DIRECTED,
    ONE_BY_ONE,
    cell,
    row,
    said,
    together,
    trace,
)
from tests.support.driving import drive


def test_two_chunks_together() -> None:
    """A claim that no chunk covers alone, but one in part, is asked about over all chunks."""
    answers = [
        [said(row(cell(1, "full", "Anna Berg directed"))), said(row(cell(2, "partial", "born in Uppsala")))],
        [together((["Anna Berg directed", "born in Uppsala"], True))],
    ]
    judgment, waves = drive(ONE_BY_ONE, trace(DIRECTED, BORN), answers)
    (request,) = waves[1]
    assert request.claims == (CLAIMS[1].text,)
    assert [passage.text for passage in request.passages] == [DIRECTED, BORN]
    assert judgment.claims.together == {"2": True}  # claim 3 is touched by nobody, and not asked about
    assert judgment.calls[0].chunk_ids == ("c1", "c2")


TOGETHER = {
    "a quote that is nowhere": together((["words of nobody"], True)),
    "no quote": together(([], True)),
    "too few": said({"claims": []}),
    "an unknown claim": said({"claims": [{"id": 2, "quotes": [], "covered": False}]}),
    "a doubled claim": said({"claims": [{"id": 1, "quotes": [], "covered": False}] * 2}),
    "a word": together((["Anna Berg directed"], "yes")),
    "quotes that are a text": said({"claims": [{"id": 1, "quotes": "x", "covered": False}]}),
    "prose": Completion("They do."),
}


@pytest.mark.parametrize("bad", TOGETHER.values(), ids=TOGETHER)
def test_what_cannot_be_told_together_is_none(bad: Completion) -> None:
    """After one repair it has no verdict, and is no False; the chunks keep theirs."""
    parts = [said(row()), said(row(cell(2, "partial", "born in Uppsala")))]
    judgment, waves = drive(ONE_BY_ONE, trace(DIRECTED, BORN), [parts, [bad], [bad]])
    assert [len(wave) for wave in waves] == [2, 1, 1]
    assert judgment.claims.together == {"2": None}
    assert judgment.failed == 0
    failed, _ = drive(ONE_BY_ONE, trace(DIRECTED, BORN), [parts, [CallError("gone")]])
    assert failed.claims.together == {"2": None}
    fine, _ = drive(ONE_BY_ONE, trace(DIRECTED, BORN), [parts, [bad], [together(([], False))]])
    assert fine.claims.together == {"2": False}


def test_a_part_of_the_set_denies_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where not all chunks fit into the question about the set, a no is not known to hold; a yes is."""
    far = "The harbour opens at nine. " * 4
    monkeypatch.setattr(claims, "MOST_TOGETHER", len(DIRECTED) + len(BORN))
    parts = [said(row()), said(row(cell(2, "partial", "born in Uppsala"))), said(row())]
    for covered in (False, True):
        answer = together((["born in Uppsala"], covered))
        judgment, waves = drive(ONE_BY_ONE, trace(DIRECTED, BORN, far), [parts, [answer]])
        assert len(waves[1][0].passages) == 2
        assert judgment.claims.together == {"2": covered or None}


def test_rows_outlive_a_stop_before_the_set_is_asked() -> None:
    """Where nobody keeps answers, rows that were paid are kept though the set's answer never came."""
    from judge_eval.engine import Item
    from judge_eval.engine.inquiries import Inquiries

    asked: list[Any] = []
    backend = FakeBackend(lambda _: "")
    inquiries = Inquiries(ONE_BY_ONE, backend, lambda state, places: asked.append((state, places)))
    inquiries.start([Item(0, trace(DIRECTED, BORN), {})])
    (state, places) = asked[0]
    parts = [said(row(cell(1, "full", "Anna Berg directed"))), said(row(cell(2, "partial", "born in")))]
    for place, reply in zip(places, parts, strict=True):
        inquiries.answer(state, place, reply, go_on=True)
    assert len(asked) == 2
    inquiries.salvage()
    (judged_trace,) = inquiries.take()
    assert judged_trace.judgment.failed == 0
    assert judged_trace.judgment.claims is not None
    assert judged_trace.judgment.claims.together == {"2": None}


def test_one_chunk_is_no_set() -> None:
    """Of a single passage, however often it was retrieved, nothing is asked together."""
    _, waves = drive(ONE_BY_ONE, trace(BORN, BORN), [[said(row(cell(2, "partial", "born in Uppsala")))]])
    assert len(waves) == 1
