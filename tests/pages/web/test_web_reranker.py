"""The tab of a reranker in a real browser, in a report and served, from a phone's width on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from judge_eval import EvalRun, Trace, import_verdicts
from judge_eval.server.server_settings import ServerSettings
from tests.support.browsing import shoot, violations
from tests.support.reports import run_report

pytestmark = pytest.mark.browser


def reranked(out: Path) -> EvalRun:
    """Make a run of twelve traces whose chunks were reranked; one chunk failed."""
    traces, grades = [], {}
    for place in range(12):
        chunks = [{"id": f"d{(place * 7 + rank) % 9}", "text": f"Text {(place * 7 + rank) % 9}"} for rank in range(3)]
        for rank, chunk in enumerate(chunks):
            chunk["metadata"] = {"reranked": 2 - rank}  # type: ignore[assignment]
            if (place, rank) != (2, 1):
                grades[f"q{place}", chunk["id"]] = int(chunk["id"] in ("d1", "d4", "d5"))
        query = f"What does the guide say of opening hours in part {place}, and who may enter?"
        traces.append(Trace(id=f"q{place}", query=query, chunks=chunks))
    return import_verdicts(grades, traces, metrics=["AP@3"], out=out, label="reranked")


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (1280, True), (390, False), (390, True)])
def test_the_reranker_has_a_tab(
    tmp_path: Path, open_page: Callable[..., Any], serve: Callable[..., str], axe: str, width: int, dark: bool
) -> None:
    """A tab says what the reranker moved; nothing is wider than the page; axe finds nothing."""
    run = reranked(tmp_path / "runs")
    report = tmp_path / "reranked.html"
    report.write_text(run_report(run), encoding="utf-8")
    served = serve(ServerSettings(tmp_path / "runs")) + f"/runs/{run.id}"
    for name, url in (("report", report.as_uri()), ("served", served)):
        page = open_page(url, width=width, height=900, dark=dark)
        page.locator("[role=tab]", has_text="Reranker").click()
        shown = page.locator("[role=tabpanel]:visible").inner_text()
        assert "the reranker moves AP@3" in shown
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert violations(page, axe, dark) == []
        shoot(page, f"reranker-{name}-{width}-{'dark' if dark else 'light'}")
