"""The page of several runs as one pool in a real browser, as a file and served, from a phone's width on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from judge_eval import EvalRun, Trace, import_verdicts
from judge_eval.pages.page import PageSettings
from judge_eval.pages.report import page_report
from judge_eval.server.server_settings import ServerSettings
from tests.support.browsing import shoot, violations

pytestmark = pytest.mark.browser


def retriever(label: str, step: int, out: Path) -> EvalRun:
    """Make a run of ten questions with four chunks each; every third chunk is relevant."""
    traces, grades = [], {}
    for place in range(10):
        chunks = [
            {"id": f"d{(place + step * rank) % 12}", "text": f"T{(place + step * rank) % 12}"} for rank in range(4)
        ]
        traces.append(Trace(id=f"q{place}", query=f"Q{place}?", chunks=chunks, tags=[["easy", "hard"][place % 2]]))
        grades |= {(f"q{place}", chunk["id"]): int(int(chunk["id"][1:]) % 3 == 0) for chunk in chunks}
    return import_verdicts(grades, traces, metrics=["AP@4"], out=out, label=label)


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (1280, True), (390, False), (390, True)])
def test_the_pool_is_drawn(
    tmp_path: Path, open_page: Callable[..., Any], serve: Callable[..., str], axe: str, width: int, dark: bool
) -> None:
    """A bar in sight for each set of runs that found the same, as long as its number; axe finds nothing on a page."""
    runs = [retriever(name, step, tmp_path / "runs") for name, step in (("bm25", 1), ("dense <b>", 2), ("mixed", 5))]
    file = tmp_path / "pool.html"
    file.write_text(page_report("pool", runs, PageSettings()), encoding="utf-8")
    served = serve(ServerSettings(tmp_path / "runs"))
    query = "&".join(f"run={run.id}" for run in runs)
    for name, url in (("file", file.as_uri()), ("served", f"{served}/pool?{query}")):
        page = open_page(url, width=width, height=900, dark=dark)
        assert page.locator("h1").inner_text() == "Pool of 3 runs: bm25, dense <b>, mixed"
        rows = page.locator("table").first.locator("tbody tr")
        lengths = [
            row.locator(".bar").bounding_box()["width"] for row in rows.all() if row.locator(".bar").is_visible()
        ]
        assert lengths == sorted(lengths, reverse=True)
        longest = rows.first.locator(".bar").bounding_box()
        assert longest["x"] + longest["width"] <= width  # in sight without scrolling sideways
        assert len(lengths) == rows.count() > 2
        assert "of the pool" in page.inner_text("main")
        assert "relevant chunks exist" in page.inner_text("main") or "nothing bounds" in page.inner_text("main")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert violations(page, axe, dark) == []
        shoot(page, f"pool-{name}-{width}-{'dark' if dark else 'light'}")


def test_picked_runs_are_shown_as_one_pool(
    tmp_path: Path, open_page: Callable[..., Any], serve: Callable[..., str]
) -> None:
    """Two picked runs on the list of runs open as a pool."""
    for name, step in (("bm25", 1), ("dense", 2)):
        retriever(name, step, tmp_path / "runs")
    page = open_page(serve(ServerSettings(tmp_path / "runs")) + "/")
    for box in page.locator("tbody input[type=checkbox]").all():
        box.check()
    page.locator("#pool").click()
    page.wait_for_selector("section.pooled")
    assert page.locator("h1").inner_text().startswith("Pool of 2 runs")
