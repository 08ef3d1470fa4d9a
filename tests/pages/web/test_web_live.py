"""The page of a run that another process judges: how far, how fast, and its traces as they come."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from judge_eval.runs.scoring.counting import ProgressFile, write_progress
from judge_eval.server.server_settings import ServerSettings
from tests.server.test_following import started
from tests.support.browsing import filtered, shoot, violations
from tests.support.serving import judge, rows

pytestmark = pytest.mark.browser


def news(done: int, **more: Any) -> ProgressFile:
    """Make the progress after so many traces; dated ahead, so that a slow machine does not see it as old."""
    values = {
        "at": datetime.now(UTC) + timedelta(minutes=10), "traces": done, "total": 38, "verdicts": 5 * done,
        "failed": 2, "calls": 60, "hits": 40, "retries": 3, "rate": 12.34, "left": 130.0, **more,
    }  # fmt: skip
    return ProgressFile(**values)


def test_a_run_is_watched_while_it_is_judged(
    open_page: Callable[..., Any], tmp_path: Path, axe: str, serve: Callable[..., str]
) -> None:
    """Rate, hits, failures and time left are shown, new traces come on top, and the end is told."""
    whole = judge(rows(), None)
    journal = started(tmp_path, whole)
    journal.append(whole.results[:3])
    write_progress(journal.folder, news(3))
    url = serve(ServerSettings(tmp_path))
    page = open_page(f"{url}/runs/{whole.id}")
    going = page.locator("#going")
    page.locator("#going", has_text="3 of 38 traces").wait_for()
    text = going.inner_text()
    for words in ("12 chunks a second", "about 2 minutes", "40 of 100 answers", "So far, over 3 traces"):
        assert words in text, words
    assert going.locator(".stat.bad dd").inner_text() == "2"
    assert page.locator(".rows .rid").all_inner_texts() == ["docs-003", "docs-002", "docs-001"]
    assert page.locator("#trace-title").inner_text() == whole.results[2].trace.query
    assert page.locator(".metric").count() == 0
    journal.append(whole.results[3:6])
    write_progress(journal.folder, news(6))
    page.locator(".told", has_text="6 traces").wait_for()
    assert page.locator(".rows .rid").first.inner_text() == "docs-006"
    assert page.locator("[aria-current=true] .rid").inner_text() == "docs-003"  # what is read stays
    assert page.locator("[role=progressbar]").get_attribute("aria-valuenow") == "6"
    filtered(page, "docs-00")
    journal.append(whole.results[6:8])
    write_progress(journal.folder, news(8))
    more = page.get_by_role("button", name="Show 2 new traces")
    more.wait_for()  # who filters or reads is not disturbed
    assert page.locator(".rows li").count() == 6
    more.click()
    page.locator(".told", has_text="8 traces match").wait_for()
    assert more.is_hidden()
    for dark in (False, True):
        other = open_page(f"{url}/runs/{whole.id}", dark=dark)
        other.locator("#going", has_text="8 of 38").wait_for()
        assert violations(other, axe, dark) == []
        other.close()
    journal.append(whole.results[8:])
    journal.finish(whole.manifest)
    page.locator("#going", has_text="The run has ended: done").wait_for()
    page.get_by_role("button", name="Show the finished run").click()
    page.locator(".metric").first.wait_for()
    journal.close()


def test_a_killed_run_is_told_from_a_live_one(
    open_page: Callable[..., Any], tmp_path: Path, serve: Callable[..., str]
) -> None:
    """Without news nothing is said of rate and time left; for how long nothing was heard is."""
    whole = judge(rows()[:4], None)
    journal = started(tmp_path, whole)
    journal.append(whole.results[:2])
    journal.close()
    write_progress(journal.folder, news(2, at=datetime.now(UTC) - timedelta(minutes=2, seconds=5)))
    url = serve(ServerSettings(tmp_path))
    page = open_page(f"{url}/runs/{whole.id}")
    page.locator("#going .warn", has_text="No news for 2 minutes").wait_for()
    text = page.locator("#going").inner_text()
    assert "resume the run" in text
    assert "a second" not in text
    assert "Being judged" not in text
    shoot(page, "live-no-news")
    page.close()
    page = open_page(url + "/")
    assert "no news for 2 minutes" in page.locator("td.state").inner_text()
    write_progress(journal.folder, news(3))
    page.locator("td.state", has_text="3 of 38, 2 minutes left").wait_for()
    page.close()


def test_blind_the_means_are_nowhere(open_page: Callable[..., Any], tmp_path: Path, serve: Callable[..., str]) -> None:
    """Blind, the page never asks for a mean: not when it is switched, not when its address is opened."""
    bare = [{**row, "chunks": [{**c, "label": None} for c in row["chunks"]]} for row in rows()]
    run = judge(bare, tmp_path)
    mean = f"{run['AP@5']:.3f}"
    url = serve(ServerSettings(tmp_path))
    page = open_page(f"{url}/runs/{run.id}")
    assert mean in page.inner_text("main")
    page.locator("#blind").check()
    page.locator("#hidden").wait_for()
    assert page.url.endswith("?blind=1") or "?blind=1#" in page.url
    for wanted in (".metric", ".histogram", ".whisker", "#tab-disagreements", "#tab-failures", ".stats"):
        assert page.locator(wanted).count() == 0, wanted
    assert mean not in page.content()
    page.locator("#blind:focus").wait_for()
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    page.locator("[aria-current=true] .rid", has_text="docs-002").wait_for()
    assert page.locator("[aria-current=true]").count() == 1  # drawn anew, a key still means one step
    shoot(page, "blind")
    answers: list[str] = []
    again = page.context.new_page()
    again.on("response", lambda got: answers.append(got.text()) if "/api/" in got.url else None)
    again.goto(page.url)
    again.locator("#hidden").wait_for()
    again.wait_for_selector("html[data-ready]")
    assert len(answers) >= 2
    assert all('"interval":[' not in text and str(run["AP@5"])[:8] not in text for text in answers)
    again.locator("#blind").uncheck()
    again.locator(".metric").first.wait_for()
    assert "blind" not in again.url
    again.close()
    page.close()
