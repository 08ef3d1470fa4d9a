"""Reports that are brief, large or hostile."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.browsing import filtered, listed
from tests.support.reports import compare_report, run_report
from tests.support.serving import scripted

pytestmark = pytest.mark.browser

HOSTILE = '</script><img src=x onerror="window.ran=1"><svg onload=window.ran=1> \u202egnirts\u202c {{7*7}} ${x}'


def test_a_brief_report_says_what_it_leaves_out(
    reports: dict[str, Any], open_page: Callable[..., Any], tmp_path: Path
) -> None:
    """A report of the worst traces alone says how many of how many it holds, and lists these."""
    old, new = reports["old_run"], reports["new_run"]
    count = len(new.results)
    (tmp_path / "run.html").write_text(run_report(new, most=7), encoding="utf-8")
    page = open_page((tmp_path / "run.html").as_uri())
    assert f"This file holds 7 of {count} traces" in page.inner_text("main")
    assert len(listed(page)) == 7
    page.locator(".rows a").last.click()
    page.locator("#rank-1").wait_for()
    (tmp_path / "compare.html").write_text(compare_report(old, new, most=3), encoding="utf-8")
    page = open_page((tmp_path / "compare.html").as_uri())
    assert "This file holds the 3 changed traces that moved most" in page.inner_text("#changed")
    assert page.locator("article.card").count() == 3


def test_hostile_text_is_shown_and_never_runs(open_page: Callable[..., Any], tmp_path: Path) -> None:
    """Markup in every field is text on the page, a javascript link is no link, overrides stay inside."""
    row = {
        "id": HOSTILE, "query": HOSTILE, "reference": HOSTILE, "answer": HOSTILE, "tags": [HOSTILE],
        "metadata": {HOSTILE: HOSTILE},
        "chunks": [
            {"id": HOSTILE, "text": HOSTILE, "title": HOSTILE, "label": 1, "score": 1.0},
            "x" * 10_000_000,
        ],
    }  # fmt: skip
    other = {**row, "chunks": row["chunks"][::-1]}
    values = {"evidence": HOSTILE, "reason": HOSTILE, "verdict": True}
    settings = {"label": HOSTILE, "href": "javascript:window.ran=1", "tags": [HOSTILE], "name": HOSTILE}
    first = scripted([row], None, lambda _: values, **settings)
    two = scripted([other], None, lambda _: {**values, "verdict": False}, **settings)
    (tmp_path / "run.html").write_text(run_report(first, two), encoding="utf-8")
    (tmp_path / "compare.html").write_text(compare_report(first, two), encoding="utf-8")
    page = open_page((tmp_path / "run.html").as_uri())
    page.locator("#rank-2").wait_for()
    for tab in ("disagreements", "failures", "provenance", "traces"):
        page.locator(f"#tab-{tab}").click()
    for summary in page.locator(".detail summary").all():
        summary.click()
    assert page.locator("h1 a").count() == 0
    assert "<img src=x onerror=" in page.inner_text("h1")
    assert "U+202E" in page.inner_text("#rank-1 .text")
    assert page.locator("img").count() == 0
    more = page.locator("#rank-2 .text button")
    assert len(page.locator("#rank-2 .text").inner_text()) < 100_000
    more.click()
    assert len(page.locator("#rank-2 .text").inner_text()) > 200_000
    assert page.evaluate("window.ran") is None
    page = open_page((tmp_path / "compare.html").as_uri())
    page.locator("article.card summary").first.click()
    assert page.locator("img").count() == 0
    assert page.evaluate("window.ran") is None


def test_a_large_report_is_small(open_page: Callable[..., Any], tmp_path: Path) -> None:
    """500 traces with 10 chunks of 800 signs make a file under 6 MB; keys and the text filter work in it."""
    rnd = random.Random(5)
    words = ["".join(rnd.choices("etaoinshrdlucmfw", k=rnd.randint(2, 10))) for _ in range(5000)]

    def text(size: int) -> str:
        return " ".join(rnd.choices(words, k=size // 4))[:size]

    data = [
        {"id": f"q{i}", "query": text(80), "reference": text(150), "chunks": [text(800) for _ in range(10)]}
        for i in range(500)
    ]
    run = scripted(data, None, lambda chunk: {"evidence": chunk[50:150], "reason": chunk[:150], "verdict": True})
    path = tmp_path / "large.html"
    path.write_text(run_report(run), encoding="utf-8")
    assert path.stat().st_size < 6_000_000
    page = open_page(path.as_uri(), ready=False)
    page.wait_for_selector("html[data-ready]")
    page.keyboard.press("j")
    page.wait_for_url("**#q1")
    page.locator("#rank-10").wait_for()
    last = data[499]["chunks"][9]
    assert filtered(page, f'"{last[:60].strip()}"') == ["q499"]
