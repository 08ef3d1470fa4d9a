"""The tabs of sessions and of rerankers in a real browser, in a report and served, from a phone's width on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from judge_eval import EvalRun, Trace, import_verdicts
from judge_eval.server.settings import ServerSettings
from tests.support.browsing import shoot, violations
from tests.support.reports import run_report

pytestmark = pytest.mark.browser


def agent(out: Path) -> EvalRun:
    """Make a run of three agents with four searches each; one chunk failed, one name is markup."""
    traces, grades = [], {}
    for place in range(12):
        session, number = f"agent {place // 4} <b>", place % 4
        chunks = [{"id": f"d{(place * 7 + rank) % 9}", "text": f"Text {(place * 7 + rank) % 9}"} for rank in range(3)]
        for rank, chunk in enumerate(chunks):
            chunk["metadata"] = {"reranked": 2 - rank}  # type: ignore[assignment]
            if (place, rank) != (2, 1):
                grades[f"q{place}", chunk["id"]] = int(chunk["id"] in ("d1", "d4", "d5"))
        query = f"What does the guide say of opening hours in part {number}, and who may enter?"
        metadata = {"session_id": session}
        traces.append(Trace(id=f"q{place}", query=query, chunks=chunks, metadata=metadata))
    return import_verdicts(grades, traces, metrics=["AP@3"], out=out, label="agent")


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (1280, True), (390, False), (390, True)])
def test_each_call_of_a_session_has_a_row(
    tmp_path: Path, open_page: Callable[..., Any], serve: Callable[..., str], axe: str, width: int, dark: bool
) -> None:
    """A table by call, a row a call that links its trace; nothing is wider than the page; axe finds nothing."""
    run = agent(tmp_path / "runs")
    report = tmp_path / "agent.html"
    report.write_text(run_report(run), encoding="utf-8")
    served = serve(ServerSettings(tmp_path / "runs")) + f"/runs/{run.id}"
    for name, url in (("report", report.as_uri()), ("served", served)):
        page = open_page(url + "#/sessions", width=width, height=900, dark=dark)
        shown = page.locator("[role=tabpanel]:visible").first.inner_text()
        assert "3 sessions with 12 searches" in shown
        assert "agent 0 <b>" in shown
        assert page.locator("[role=tabpanel]:visible table").nth(1).locator("tbody tr").count() == 12
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert violations(page, axe, dark) == []
        page.locator("[role=tabpanel]:visible table").first.scroll_into_view_if_needed()
        shoot(page, f"sessions-{name}-{width}-{'dark' if dark else 'light'}")
        page.locator("[role=tab]", has_text="Reranker").click()
        shown = page.locator("[role=tabpanel]:visible").inner_text()
        assert "the reranker moves AP@3" in shown
        assert violations(page, axe, dark) == []
        shoot(page, f"reranker-{name}-{width}-{'dark' if dark else 'light'}")
        page.locator("[role=tab]", has_text="Sessions").click()
        page.locator("[role=tabpanel]:visible a", has_text="q2").first.click()
        page.locator("#trace-title").wait_for()
