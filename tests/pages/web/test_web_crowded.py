"""Every page under 500 traces of 30 chunks and words that never end, wide and narrow, light and dark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest

from judge_eval import EvalRun
from judge_eval.runs.scoring.counting import ProgressFile, write_progress
from judge_eval.server.server_settings import ServerSettings
from tests.server.test_following import started
from tests.support.browsing import drawn, shoot
from tests.support.crowded import crowded_runs
from tests.support.reports import compare_report, matrix_report, run_report
from tests.support.serving import serving

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]  # the runs are long to make on a busy machine

PAGES = (
    "runs", "runs picked", "run", "run against a baseline", "blind", "live", "compare", "matrix",
    "matrix open", "report", "compare report", "matrix report",
)  # fmt: skip


BROKEN = "nodes => nodes.filter(n => n.clientHeight > 1.6 * parseFloat(getComputedStyle(n).lineHeight)).length"
"""Counts the pills that take more than a line."""


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Serve three crowded runs and one that is half judged, and write their reports."""
    root = tmp_path_factory.mktemp("crowded")
    runs = crowded_runs(root / "runs")
    a, b, c = (run.id for run in runs)
    files = {
        "report": run_report(runs[0]),
        "compare report": compare_report(runs[0], runs[1]),
        "matrix report": matrix_report(runs),
    }
    for name, text in files.items():
        (root / f"{name}.html").write_text(text, encoding="utf-8")
    half = EvalRun(runs[1].manifest.model_copy(update={"id": str(uuid4())}), runs[1].results[:250])
    journal = started(root / "runs", half)
    journal.append(half.results)
    values = {
        "traces": 250, "total": 500, "verdicts": 7490, "failed": 10, "calls": 4210, "hits": 3290,
        "retries": 17, "rate": 412.5, "left": 18.2,
    }  # fmt: skip
    news = ProgressFile(at=datetime.now(UTC), **values)
    with serving(ServerSettings(root / "runs", thresholds={"AP@5": 0.5})) as url:
        matrix = f"{url}/matrix?run={a}&run={b}&run={c}"
        yield {
            "news": lambda: write_progress(journal.folder, news.model_copy(update={"at": datetime.now(UTC)})),
            **{name: (root / f"{name}.html").as_uri() for name in files},
            "runs": f"{url}/",
            "runs picked": f"{url}/",
            "run": f"{url}/runs/{b}",
            "run against a baseline": f"{url}/runs/{c}?baseline={a}",
            "blind": f"{url}/runs/{b}?blind=1",
            "live": f"{url}/runs/{half.id}",
            "compare": f"{url}/compare?a={a}&b={b}",
            "matrix": matrix,
            "matrix open": matrix,
        }
    journal.close()


@pytest.mark.parametrize("name", PAGES)
def test_a_crowded_page_fits(crowded: dict[str, Any], open_page: Callable[..., Any], name: str) -> None:
    """Nothing sticks out of the window sideways, and no pill is broken: wide and narrow, light and dark."""
    crowded["news"]()
    page = open_page(crowded[name], width=1440, ready=False)
    page.wait_for_selector("html[data-ready]", timeout=60_000)  # the first look reads 45,000 verdicts
    if name == "runs picked":
        for place in (3, 1, 2):
            page.locator("td.pick input").nth(place).check()
    if name == "live":
        page.locator("#going", has_text="250 of 500").wait_for()
    if name == "matrix open":
        page.locator(".opens").nth(1).click()
        page.locator(".chunks").wait_for()
    for width in (1440, 1024, 390):
        page.set_viewport_size({"width": width, "height": 900})
        for theme in ("light", "dark"):
            page.emulate_media(color_scheme=theme)
            drawn(page)
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            broken = page.locator(".chip.tag, .chip.status").evaluate_all(BROKEN)
            assert broken == 0
            shoot(page, f"crowded-{name.replace(' ', '-')}-{width}-{theme}")
    page.close()  # before the server: it may look for news
