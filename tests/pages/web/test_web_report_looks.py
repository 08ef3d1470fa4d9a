"""How a report's page looks: marks, strips, widths, lines between chunks, accessibility."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from judge_eval.pages.rows import Table
from tests.support.browsing import chosen, filtered, shoot, violations

pytestmark = pytest.mark.browser


def test_the_quote_is_marked_and_problems_are_flagged(reports: dict[str, Any], open_page: Callable[..., Any]) -> None:
    """A found quote is marked in the text; a missing one and an instruction are told in words."""
    run = reports["new_run"]
    wanted = {"found": None, "missing": None, "instruction": None}
    for result in run.results:
        for rank, outcome in enumerate(result.outcomes, 1):
            if outcome.kind == "verdict" and outcome.relevant and outcome.evidence:
                key = "found" if outcome.evidence_found else "missing"
                if outcome.instruction_in_chunk:
                    key = "instruction"
                wanted[key] = wanted[key] or (result.trace_id, rank, outcome)
    for key, actual in wanted.items():
        assert actual is not None, key
        trace_id, rank, outcome = actual
        page = open_page(reports["new"] + f"#{trace_id}")
        card = page.locator(f"#rank-{rank}")
        if key == "missing":
            assert card.locator("mark").count() == 0
            assert "quote not found" in card.locator(".warn").first.inner_text()
        else:
            marked = "".join(card.locator("mark").all_text_contents())
            assert marked.split() == outcome.evidence.split()
        assert (card.locator(".warn", has_text="saw an instruction in this chunk").count() > 0) == (
            key == "instruction"
        )


def test_a_card_shows_the_judges_call(reports: dict[str, Any], open_page: Callable[..., Any]) -> None:
    """Behind the disclosure stand the prompt as sent, the raw reply, the tokens and the cache key."""
    page = open_page(reports["main"] + "#docs-001")
    card = page.locator("#rank-1")
    card.locator("summary").click()
    card.locator(".call dl").wait_for()
    result = reports["old_run"].results[0]
    text = card.locator(".call").inner_text()
    assert result.calls[0].key in text
    assert str(result.calls[0].input_tokens) in text
    prompt, reply = card.locator("pre").nth(1), card.locator("pre").nth(2)
    assert result.trace.chunks[0].text[:80] in prompt.inner_text()
    assert json.loads(reply.inner_text())["reason"] == result.outcomes[0].reason


def test_a_strip_tells_by_shape_word_and_colour(reports: dict[str, Any], open_page: Callable[..., Any]) -> None:
    """Each rank has its own sign and the strip one sentence; disagreement is an outline and a word too."""
    page = open_page(reports["new"])
    chosen(page, "#sort", "order")
    filtered(page, "failed")
    strip = page.locator(".rows li").first.locator(".strip").last
    result = strip.get_attribute("aria-label")
    assert "no verdict" in result
    row = next(row for row in Table(reports["new_run"]).rows if row.failed)
    glyphs = {"+": "+", ".": "·", "!": "!"}
    assert strip.locator(".sq").all_inner_texts() == [glyphs[sign] for sign in row.strip]
    assert result.count("human label disagrees") == row.disagreements == strip.locator(".sq.off").count()


@pytest.mark.parametrize("width", [380, 1440])
@pytest.mark.parametrize("dark", [False, True])
def test_it_fits_narrow_and_wide_light_and_dark(
    reports: dict[str, Any], open_page: Callable[..., Any], width: int, dark: bool
) -> None:
    """Nothing sticks out sideways; on a narrow screen a trace replaces the list and gives it back."""
    for name in ("new", "compare"):
        page = open_page(reports[name], width=width, dark=dark)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
        level = sum(map(int, re.findall(r"\d+", background)[:3]))
        assert (level < 200) == dark
        shoot(page, f"{name}-{width}-{'dark' if dark else 'light'}")
        if name == "new" and width == 380:
            page.locator(".rows a").first.click()
            page.locator("#rank-1").wait_for()
            assert not page.locator(".rows").is_visible()
            shoot(page, f"trace-{width}-{'dark' if dark else 'light'}")
            page.locator(".back").click()
            assert page.locator(".rows").is_visible()
    page.locator("#theme").click()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != background


def test_compare_draws_lines_between_the_same_chunks(reports: dict[str, Any], open_page: Callable[..., Any]) -> None:
    """A chunk of both runs has one line from its place in A to that in B; changes are named."""
    from judge_eval.pages.compared import ComparedRuns

    pairing = ComparedRuns(Table(reports["old_run"]), Table(reports["new_run"]))
    changed = {row.id: row for row in pairing.rows if row.change}
    page = open_page(reports["compare"])
    assert page.locator(".told").inner_text() == f"{len(changed)} changed traces"
    names = {
        "retrieval": "retrieval changed",
        "verdicts": "verdict flipped",
        "scores": "only the scores changed",
        "both": "retrieval changed, verdict flipped",
    }
    for card in page.locator("article.card").all():
        row = changed[card.get_attribute("data-trace")]
        assert card.locator(".flag").inner_text() == names[row.change]
        lines = card.locator(".tie")
        assert lines.count() == len(row.strip)
        places = [(float(line.get_attribute("x1")), float(line.get_attribute("x2"))) for line in lines.all()]
        crossed = any(a != b for a, b in places)
        assert crossed == (row.change in ("retrieval", "both"))
    assert "the model differs in model" in page.inner_text(".banner")
    shown = page.get_by_role("region", name="paired comparison").locator("tbody tr").first.inner_text()
    assert f"{pairing.metrics['AP@5']['difference']:.3f}".removeprefix("-") in shown
    page.fill("#filter", "retrieval")
    page.locator(".told", has_text=re.compile(r"^\d+ changed")).wait_for()
    page.locator(".charts > summary").click()
    page.locator(".scatter .mark.worse").first.click()
    page.get_by_role("button", name="Show all changed traces").wait_for()


def test_no_serious_violation_of_accessibility(
    reports: dict[str, Any], open_page: Callable[..., Any], axe: str
) -> None:
    """axe-core finds nothing serious or critical on any page and tab; in the dark, colours are looked at."""
    for name in ("new", "compare"):
        for dark in (False, True):
            page = open_page(reports[name], dark=dark)
            filtered(page, "docs-00" if name == "new" else "docs-001")  # a few rows tell as much as all
            for summary in page.locator(".card summary").all()[:2]:
                summary.click()
            for tab in ("traces", "disagreements", "failures", "provenance") if name == "new" else (None,):
                if tab:
                    page.locator(f"#tab-{tab}").click()
                assert violations(page, axe, dark) == [], (name, dark, tab)


@pytest.mark.parametrize("name", ["main", "new", "compare"])
def test_warnings_stand_below_the_first_figures_on_a_phone(
    reports: dict[str, Any], open_page: Callable[..., Any], name: str
) -> None:
    """On a wide screen warnings come before the figures that they are about, on a narrow one after them."""
    for width, above in ((1280, True), (390, False)):
        page = open_page(reports[name], width=width)
        late = page.locator("main > .late").bounding_box()
        firsts = [each.bounding_box() for each in page.locator("main > .first").all()]
        assert firsts
        for first in firsts:
            assert (late["y"] < first["y"]) == above, (width, late, first)
        assert late["y"] < page.locator("main > :last-child").bounding_box()["y"]
