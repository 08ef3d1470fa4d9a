from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from judge_eval import Evaluator
from judge_eval.compare.compare import compare
from judge_eval.compare.gate import check_gates
from judge_eval.compare.options import Gates
from judge_eval.pages.page import PageSettings
from judge_eval.pages.report import page_report
from judge_eval.pages.rows import Table, parse_filter, sort_rows
from judge_eval.views.comparison import check_lines, gate_title
from tests.support.browsing import chosen, filtered, listed, violations
from tests.support.reports import run_report
from tests.support.serving import judge, rows

pytestmark = pytest.mark.browser


def test_the_head_says_what_was_judged(reports: dict[str, Any], open_page: Callable[..., Any]) -> None:
    """Link, digest, judge, prompt, counts, failures, metrics with intervals and differences are there."""
    page = open_page(reports["main"])
    assert page.locator("h1 a").get_attribute("href") == "https://example.org/main"
    head = page.inner_text("header.head")
    run = reports["old_run"]
    for part in ("fake/overlap", "support/binary@2", "38", "184", run.manifest.dataset.digest[:12]):
        assert part in head
    assert page.locator(".metric").count() == 3
    low, high = run.aggregate("AP@5").interval
    card = page.locator(".metric").first.inner_text()
    assert f"{run['AP@5']:.3f}" in card
    assert f"[{low:.3f}, {high:.3f}]" in card
    page = open_page(reports["new"])
    failed = reports["new_run"].manifest.tally.failed_verdicts
    assert f"{failed} in" in page.inner_text(".stat.bad")
    assert "against the baseline" in page.locator(".metric").first.inner_text()


def test_a_failed_gate_stands_first_on_every_report(
    reports: dict[str, Any], tmp_path: Path, open_page: Callable[..., Any], axe: str
) -> None:
    """On the page of one run, of two and of three: the title, then each limit with the traces to look at."""
    old, new = reports["old_run"], reports["new_run"]
    third = judge(rows())
    checks = check_gates([new], Gates(fail_under=("AP@5=0.9",), max_drop=("AP@5=1",)), compare(old, new))
    for name, runs in {"run": [new, old], "compare": [old, new], "matrix": [old, new, third]}.items():
        path = tmp_path / f"{name}.html"
        path.write_text(page_report(name, runs, PageSettings(checks=checks)), encoding="utf-8")
        for dark in (False, True):
            page = open_page(path.as_uri(), dark=dark)
            lines = page.inner_text("main > :first-child").splitlines()
            words = [line for check in checks for line in check_lines(check)]
            assert [line for line in lines if line] == [gate_title(checks), *words]
            assert violations(page, axe, dark) == []


def test_a_card_says_what_a_grade_means(tmp_path: Path, open_page: Callable[..., Any]) -> None:
    """With a scale that describes its grades, a chunk that misleads is called so in words."""
    chunks = [{"id": "c1", "text": "The warranty lasts 12 months."}]
    trace = {"id": "q", "query": "How long is the warranty?", "reference": "The warranty lasts 24 months."}
    with Evaluator("fake/overlap", prompt="support/harm", metrics=["Harm@1"], cache=False) as evaluator:
        run = evaluator.evaluate([{**trace, "chunks": chunks}])
    (tmp_path / "harm.html").write_text(run_report(run), encoding="utf-8")
    page = open_page((tmp_path / "harm.html").as_uri())
    assert "not relevant, grade 0: misleads to a wrong answer" in page.inner_text("main").lower()


FILTERS = (
    "", "ap<0.5", "ap>=0.5 -failed", "failed", "disagree", "changed", "tag:easy", "invoice", "delta<0",
    '"the"', "-tag:easy mrr=1", "no-such-text", "foo<3",
)  # fmt: skip


def test_the_box_filters_as_python_does(reports: dict[str, Any], open_page: Callable[..., Any]) -> None:
    """The offline page reads a filter as the server does: the same traces, in the same order."""
    from judge_eval.pages.compared import ComparedRuns

    table = Table(reports["new_run"])
    rows_ = ComparedRuns(Table(reports["old_run"]), table).rows
    page = open_page(reports["new"])
    chosen(page, "#sort", "order")
    for text in FILTERS:
        actual = parse_filter(text, table.metrics)
        fit = {result.position for result in reports["new_run"].results if actual.text_fits(result)}
        expected = [row for row in actual.rows(rows_) if row.position in fit]
        assert filtered(page, text) == [row.id for row in expected], text
    filtered(page, "")
    sorts = ("score", "-score", "failed", "disagree", "change", "-change", "first", "-first", "tags", "-tags", "order")
    for sort in sorts:
        chosen(page, "#sort", sort)
        assert listed(page) == [row.id for row in sort_rows(rows_, sort, table.metrics)], sort


def test_a_filter_looks_at_a_trace_of_the_list(reports: dict[str, Any], open_page: Callable[..., Any]) -> None:
    """A trace that is filtered out gives way to the first that is listed; one that stays is kept; none shows none."""
    page = open_page(reports["main"] + "#docs-003")
    filtered(page, "ap<0.5")
    first = listed(page)[0]
    assert first != "docs-003"
    page.locator("[aria-current=true] .rid", has_text=first).wait_for()
    page.wait_for_url(f"**#{first}")
    page.locator(".trace .rid", has_text=first).wait_for()
    filtered(page, f'"{first}"')
    assert page.locator("[aria-current=true] .rid").inner_text() == first
    assert filtered(page, "no-such-text") == []
    page.locator(".trace").wait_for(state="detached")
    page.evaluate("location.hash = 'docs-004'")  # a link to what the filter hides shows it in the list
    page.locator("[aria-current=true] .rid", has_text="docs-004").wait_for()
    assert page.input_value("#filter") == ""


def test_keys_walk_through_the_traces(reports: dict[str, Any], open_page: Callable[..., Any]) -> None:
    """j, k, arrows, Home, End, / and Escape do all that the mouse can, and the address follows."""
    page = open_page(reports["main"])
    ids = listed(page)
    page.keyboard.press("j")
    page.wait_for_url(f"**#{ids[1]}")
    page.keyboard.press("j")
    page.wait_for_url(f"**#{ids[2]}")
    page.keyboard.press("k")
    page.wait_for_url(f"**#{ids[1]}")
    page.locator("#trace-title", has_text=reports["old_run"].results[1].trace.query).wait_for()
    page.keyboard.press("/")
    page.keyboard.type("jk")  # inside the box they are letters
    assert page.input_value("#filter") == "jk"
    page.keyboard.press("Escape")
    assert filtered(page, "") == ids
    page.locator(".rows a").first.focus()
    page.keyboard.press("End")
    page.wait_for_url(f"**#{ids[-1]}")
    page.keyboard.press("ArrowUp")
    page.wait_for_url(f"**#{ids[-2]}")
    page.keyboard.press("Home")
    page.wait_for_url(f"**#{ids[0]}")


def test_everything_can_be_reached_with_the_tab_key(reports: dict[str, Any], open_page: Callable[..., Any]) -> None:
    """Tabbing reaches filter, sort, list, tabs and every disclosure, and the focus can be seen."""
    page = open_page(reports["main"])
    reached = set()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # the first stop leads to the traces
    assert page.evaluate("document.activeElement.id") == "filter"
    page.locator("#theme").focus()
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.add(
            page.evaluate("(() => { const n = document.activeElement; return n.id || n.className || n.tagName; })()")
        )
    assert {"filter", "sort", "metric", "tab-traces", "row", "SUMMARY"} <= reached
    page.keyboard.press("Shift+Tab")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
    page.locator("#tab-traces").focus()
    page.keyboard.press("ArrowRight")
    page.locator(".matrix").wait_for()


def test_links_open_a_trace_or_a_tab(reports: dict[str, Any], open_page: Callable[..., Any]) -> None:
    """`#trace-id` opens the trace, `#/failures` the tab; a listed failure links to its card."""
    page = open_page(reports["main"] + "#docs-020")
    assert page.locator("[aria-current=true] .rid").inner_text() == "docs-020"
    assert page.locator("#trace-title").inner_text() == rows()[19]["query"]
    page = open_page(reports["new"] + "#/failures")
    assert page.locator("#tab-failures").get_attribute("aria-selected") == "true"
    page.locator("#panel-failures tbody a").first.click()
    page.locator(".card.failed").first.wait_for()
    assert page.locator("#tab-traces").get_attribute("aria-selected") == "true"
    page = open_page(reports["main"] + "#no-such-trace")
    assert "no-such-trace" in page.locator(".detail").inner_text()


def test_figures_filter_when_they_are_clicked(reports: dict[str, Any], open_page: Callable[..., Any]) -> None:
    """A bar of the histogram lists exactly its traces; a tag lists the traces that carry it."""
    page = open_page(reports["main"])
    page.locator(".overview > summary").click()
    bar = page.locator(".histogram .bar").first
    n = int(re.search(r": (\d+) trace", bar.locator("title").text_content()).group(1))
    bar.click()
    page.locator(".told", has_text=re.compile(rf"^{n} traces? match")).wait_for()
    assert len(listed(page)) == n > 0
    tag = page.locator(".linkish").first
    name = tag.inner_text()
    tag.click()
    page.locator(".told", has_text="match").wait_for()
    assert page.input_value("#filter") == f"tag:{name}"


def test_disagreements_and_provenance(reports: dict[str, Any], open_page: Callable[..., Any]) -> None:
    """Confusion matrix, kappa with its interval, every disagreement; the digests under provenance."""
    page = open_page(reports["main"] + "#/disagreements")
    table = Table(reports["old_run"])
    cells = [int(text) for text in page.locator(".matrix td").all_inner_texts()]
    assert sum(cells) == table.labelled.sum()
    assert cells[1] + cells[2] == table.off.sum()
    listed_rows = page.locator("#panel-disagreements .scroll").last.locator("tbody tr")
    assert listed_rows.count() == table.off.sum()
    assert re.search(r"Cohen's kappa\s+0\.\d{3}\s+\[0\.\d{3}, 0\.\d{3}\]", page.inner_text("#panel-disagreements"))
    page.locator("#tab-provenance").click()
    result = page.inner_text("#panel-provenance")
    assert reports["old_run"].manifest.dataset.digest in result
    assert reports["old_run"].manifest.judge["prompt"]["digest"] in result


def test_relevant_chunks_that_fell_come_first(tmp_path: Path, open_page: Callable[..., Any]) -> None:
    """A trace beside its baseline begins with the relevant chunks that fell or are gone, each with its old rank."""
    texts = {"a": "We open at nine.", "b": "Parking is free.", "c": "At nine we open.", "d": "Bring a pen."}
    runs = []
    for order in ("acb", "bda"):
        chunks = [{"id": key, "text": texts[key]} for key in order]
        trace = {"id": "q", "query": "When do you open?", "reference": "We open at nine.", "chunks": chunks}
        with Evaluator("fake/overlap", metrics=["AP@3"], cache=False) as evaluator:
            runs.append(evaluator.evaluate([trace]))
    (tmp_path / "fell.html").write_text(run_report(runs[1], runs[0]), encoding="utf-8")
    page = open_page((tmp_path / "fell.html").as_uri())
    page.locator(".rows a").first.click()
    page.locator("article.card").first.wait_for()
    cards = [" ".join(text.split()) for text in page.locator("article.card").all_inner_texts()]
    assert [next(word for word in texts.values() if word in card) for card in cards] == [texts[key] for key in "acbd"]
    assert "was rank 1" in cards[0]
    assert "was rank 2, not retrieved any more" in cards[1]
    assert [text.lower() for text in page.locator("h3.ranks").all_inner_texts()] == [
        "the 2 relevant chunks that fell",
        "the other 2 chunks, in rank order",
    ]
