"""Metrics of which less is better, in a real browser: colours, arrows and words on every page."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.compare.test_less_is_better import CLEAN, MANY, NAMES, REPEATED, WORSE, run_of
from tests.support.browsing import shoot, violations
from tests.support.reports import compare_report, matrix_report, run_report

pytestmark = pytest.mark.browser
CONFLICT, REDUNDANCY, RECALL = NAMES


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Make the pages: every second trace gains a conflict, the others but two a repeat."""
    folder: Path = tmp_path_factory.mktemp("less")
    before = run_of([CLEAN] * MANY, "main")
    after = run_of([WORSE] * 14 + [REPEATED] * (MANY - 16) + [CLEAN] * 2, "pr")
    pages = {
        "both": compare_report(before, after),
        "back": compare_report(after, before),
        "beside": run_report(after, before),
        "several": matrix_report([before, after, run_of([CLEAN] * MANY, "other")]),
    }
    for name, text in pages.items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return {name: (folder / f"{name}.html").as_uri() for name in pages}


def row_of(page: Any, metric: str) -> Any:
    """Return a metric's row of the table of means."""
    return page.locator("tr", has=page.locator("td, th", has_text=metric)).first


def colour(node: Any) -> str:
    """Return the colour in which an element is drawn."""
    return str(node.evaluate("(node) => getComputedStyle(node).color"))


@pytest.mark.parametrize("dark", [False, True])
def test_two_runs(made: dict[str, str], open_page: Callable[..., Any], axe: str, dark: bool) -> None:
    """A rise is drawn as a fall of recall is: in the colour of what is worse; an arrow says where it went."""
    page = open_page(made["both"], dark=dark)
    bad = colour(row_of(page, RECALL).locator("b.pairing.worse"))
    for metric in (CONFLICT, REDUNDANCY):
        change = row_of(page, metric).locator("b.pairing")
        assert change.inner_text().startswith("▲ +0.2")
        assert change.inner_text().endswith(" worse")
        assert colour(change) == bad
        assert "less is better" in row_of(page, metric).inner_text()
        cells = row_of(page, metric).locator("td").all_inner_texts()
        assert cells[7:10] == ["0", "16", "14"]
    assert row_of(page, RECALL).locator("b.pairing").inner_text().startswith("▼ −0.2")
    assert "less" not in row_of(page, RECALL).inner_text()
    page.locator(".charts > summary").click()
    page.wait_for_selector(".scatter .mark")
    assert page.locator(".scatter .mark.worse").count() == 1
    assert page.locator(".scatter .mark.better").count() == 0
    assert page.locator(".ladder .mark.worse").count() == 14
    assert "Below the diagonal B is better" in page.locator(".charts").inner_text()
    first = page.locator(".changed .card .delta").first
    assert first.inner_text() == "▲ +0.500 worse"
    assert colour(first) == bad
    shoot(page, f"less-is-better-{'dark' if dark else 'light'}")
    assert violations(page, axe) == []
    page.select_option("#order", "-change")
    page.wait_for_selector(".changed .card:first-child .delta:not(.worse)")
    page.select_option("#metric", RECALL)
    page.wait_for_selector(".charts:has-text('Above the diagonal B is better')")


def test_the_other_way_round(made: dict[str, str], open_page: Callable[..., Any]) -> None:
    """A fall is for the better, and so is its mark; the opening agrees."""
    page = open_page(made["back"])
    change = row_of(page, CONFLICT).locator("b.pairing.better")
    assert change.inner_text().startswith("▼ −0.2")
    assert change.inner_text().endswith(" better")
    assert page.locator("h1.opening.better").count() == 1


def test_a_run_beside_its_baseline(made: dict[str, str], open_page: Callable[..., Any]) -> None:
    """The card of the metric, the list of traces with the largest loss first, and the open trace."""
    page = open_page(made["beside"])
    card = page.locator(".metric", has_text=CONFLICT).first
    assert card.locator("p.pairing.worse b").inner_text().endswith(" worse")
    assert "less is better" in card.inner_text()
    assert page.locator(".rows .delta").first.inner_text() == "▲ +0.50 worse"
    chip = page.locator(".detail .chip", has_text=CONFLICT).locator(".delta.worse")
    assert chip.inner_text() == "▲ +0.500 worse"
    shoot(page, "less-is-better-run")


def test_several_runs(made: dict[str, str], open_page: Callable[..., Any]) -> None:
    """The means of each run against the first, and the cells of the traces."""
    page = open_page(made["several"])
    cells = row_of(page, CONFLICT).locator("td")
    assert cells.nth(1).locator("b.pairing.worse").inner_text().endswith(" worse")
    assert cells.nth(2).locator("b.pairing.worse, b.pairing.better").count() == 0
    assert page.locator("tr.trace-row td[data-run='1'] .delta.worse").first.inner_text() == "▲ +0.50 worse"
    shoot(page, "less-is-better-several")
