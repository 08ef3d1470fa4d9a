"""Pages of decision models and cascades in a real browser: light, dark, and as wide as a phone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from judge_eval.pages.report import store_at
from judge_eval.schema import NO_REASON
from judge_eval.views.run_remarks import remarks_of
from tests.support.browsing import filtered, shoot
from tests.support.deciding import RESTS, cascaded, decided
from tests.support.reports import compare_report, run_report
from tests.support.serving import rows, scripted

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Make the reports of a decision model and of a cascade, and a comparison with another judge."""
    folder = tmp_path_factory.mktemp("stages")
    cache = folder / "cache"
    runs = {"decision": decided(rows()[:6], cache=cache), "cascade": cascaded(rows()[:6], cache=cache, rests=RESTS)}
    values = {"evidence": "", "reason": "The opposite.", "instruction_in_chunk": False}
    other = scripted(rows()[:6], None, lambda text: {**values, "verdict": len(text) % 2 == 0})
    store = store_at(cache)
    pages = {name: run_report(run, store=store) for name, run in runs.items()}
    pages["compare"] = compare_report(other, runs["cascade"])
    for name, text in pages.items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return {"runs": runs, **{name: (folder / f"{name}.html").as_uri() for name in pages}}


def test_a_decision_s_card_says_that_there_is_no_reason(made: dict[str, Any], open_page: Callable[..., Any]) -> None:
    """The words stand where the reason would, no quote and no warning about one; the probability is shown."""
    page = open_page(made["decision"] + "#docs-001")
    outcomes = made["runs"]["decision"].results[0].outcomes
    for rank, outcome in enumerate(outcomes, 1):
        card = page.locator(f"#rank-{rank}")
        assert card.locator("p.reason").inner_text() == NO_REASON
        assert card.locator("mark, .warn, .stage").count() == 0
        assert f"probability of relevance {outcome.confidence:.3f}" in card.locator(".facts").first.inner_text()
    assert page.locator(".stat", has_text="judge").count() == 0
    assert "cascade" not in page.locator(".head").inner_text()
    shoot(page, "decision")


def test_a_decision_s_call_can_be_read(made: dict[str, Any], open_page: Callable[..., Any]) -> None:
    """Behind the disclosure stand rules, input, and each question with its chunk and its answer."""
    page = open_page(made["decision"] + "#docs-001")
    result = made["runs"]["decision"].results[0]
    page.locator("#rank-1 summary").click()
    page.locator("#rank-1 .call dl").wait_for()
    sections = page.locator("#rank-1 .call section")
    assert sections.count() == 5
    for number, (chunk, outcome) in enumerate(zip(result.trace.chunks, result.outcomes, strict=True), 1):
        text = sections.nth(number - 1).inner_text()
        assert text.startswith(f"Question c{number}, about {chunk.id}\n")
        assert chunk.text[:50].replace('"', '\\"') in text
        assert f"answer: true {outcome.confidence:.2f}, false" in text
        assert "\nfalse\n" not in text
    assert "Judged in the same call as rank 1." in page.locator("#rank-2").inner_text()


@pytest.mark.parametrize(("width", "dark"), [(1440, False), (1440, True), (390, False)])
def test_each_card_of_a_cascade_names_its_judge(
    made: dict[str, Any], open_page: Callable[..., Any], width: int, dark: bool
) -> None:
    """A badge, its title and the card's accessible name say which judge; nothing is wider than the page."""
    page = open_page(made["cascade"] + "#docs-001", width=width, dark=dark)
    run = made["runs"]["cascade"]
    for rank, outcome in enumerate(run.results[0].outcomes, 1):
        card = page.locator(f"#rank-{rank}")
        badge = card.locator("header .stage")
        assert badge.inner_text() == f"{outcome.stage} judge"
        assert badge.get_attribute("title") == f"the {outcome.stage} judge of the cascade gave this verdict"
        assert (card.get_attribute("aria-label") or "").endswith(f", by the {outcome.stage} judge")
        assert (card.locator("p.reason").inner_text() == NO_REASON) == (outcome.reason is None)
    for stage, count in run.manifest.tally.stages.items():
        assert page.locator(".stat", has_text=f"by the {stage} judge").inner_text().split()[-1] == str(count)
    message = " ".join(page.locator(".remarks li").all_inner_texts())
    assert message == " ".join(remark.sentence for remark in remarks_of(run.manifest))
    assert "is other than the strong judge's in at most 4.321% (95% sure" in message
    page.locator("#rank-1 summary").first.click()
    page.locator("#rank-1 .call dl").wait_for()
    heads = page.locator("#rank-1 summary").all_inner_texts()
    assert [head.split(" 1")[0].split(" 4")[0] for head in heads] == [
        "The judge's call (cheap)",
        "The judge's call (strong)",
    ]
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    shoot(page, f"cascade-{width}-{'dark' if dark else 'light'}")


def test_the_box_finds_the_words_as_python_does(made: dict[str, Any], open_page: Callable[..., Any]) -> None:
    """A filter for the words of a missing reason finds the traces that have such a verdict."""
    page = open_page(made["cascade"])
    result = filtered(page, f'"{NO_REASON}"')
    results = made["runs"]["cascade"].results
    expected = [r.trace_id for r in results if any(o.reason is None for o in r.outcomes)]
    assert sorted(result) == sorted(expected)
    assert 0 < len(expected) < len(results)


def test_a_comparison_says_which_judge_changed_its_mind(made: dict[str, Any], open_page: Callable[..., Any]) -> None:
    """A chunk whose verdict flipped names the stage, and says where there is no reason."""
    page = open_page(made["compare"])
    page.locator(".moved").first.wait_for()
    text = page.inner_text("main, body")
    assert "B: cheap judge" in text or "B: strong judge" in text
    assert "reason: no reason" not in text
    shoot(page, "compare-stages")
