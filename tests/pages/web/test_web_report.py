from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from judge_eval.pages.overview import Table
from judge_eval.pages.report import compare_report, run_report, store_at
from judge_eval.pages.rowfilter import parse_filter
from judge_eval.pages.rows import sort_rows
from tests.pages.web.conftest import shoot
from tests.support.serving import judge, rows, scripted

pytestmark = pytest.mark.browser

HOSTILE = (
    '</script><img src=x onerror="window.ran=1"><svg onload=window.ran=1> \u202egnirts\u202c {{7*7}} ${x}'
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Make runs with everything in them, and their reports."""
    folder = tmp_path_factory.mktemp("reports")
    base = judge(
        rows(), folder / "runs", label="main", href="https://example.org/main", cache=folder / "cache"
    )
    turned = []
    for i, row in enumerate(rows()):
        chunks = row["chunks"][::-1] if i % 4 == 0 else row["chunks"]
        turned.append({**row, "chunks": chunks})

    def answer(text: str) -> Any:
        kind = len(text) % 7
        if kind == 0:
            return "there is no JSON in this"
        quote = "not in the chunk at all" if kind == 1 else text[20:80]
        return {
            "evidence": quote,
            "reason": "Because.",
            "verdict": kind > 3,
            "instruction_in_chunk": kind == 2,
        }

    new = scripted(turned, folder / "runs", answer, label="PR #7", tags=["prod"])
    store = store_at(folder / "cache")
    files = {
        "main": run_report(base, store=store),
        "new": run_report(new, base),
        "compare": compare_report(base, new),
    }
    for name, text in files.items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return {"old_run": base, "new_run": new, **{name: (folder / f"{name}.html").as_uri() for name in files}}


def listed(page: Any) -> list[str]:
    """Read the ids of the listed traces."""
    found: list[str] = page.locator(".rows .rid").all_inner_texts()
    return found


def filtered(page: Any, text: str) -> list[str]:
    """Fill the filter box and wait for the list."""
    page.evaluate("document.querySelector('.told').textContent = 'waiting'")
    page.fill("#filter", text)
    page.dispatch_event("#filter", "input")  # the same text again is no input to the browser
    page.locator(".told", has_not_text="waiting").wait_for()
    return listed(page)


def test_the_head_says_what_was_judged(made: dict[str, Any], open_page: Callable[..., Any]) -> None:
    """Link, digest, judge, prompt, counts, failures, metrics with intervals and differences are there."""
    page = open_page(made["main"])
    assert page.locator("h1 a").get_attribute("href") == "https://example.org/main"
    head = page.inner_text("header.head")
    run = made["old_run"]
    for part in (
        "fake/overlap",
        "support/binary@2",
        "38",
        "185",
        run.manifest.dataset.digest[:12],
    ):
        assert part in head
    assert page.locator(".metric").count() == 3
    low, high = run.aggregate("AP@5").interval
    card = page.locator(".metric").first.inner_text()
    assert f"{run['AP@5']:.3f}" in card
    assert f"[{low:.3f}, {high:.3f}]" in card
    page = open_page(made["new"])
    failed = made["new_run"].manifest.tally.failed_verdicts
    assert f"{failed} in" in page.inner_text(".stat.bad")
    assert "against the baseline" in page.locator(".metric").first.inner_text()


FILTERS = (
    "", "ap<0.5", "ap>=0.5 -failed", "failed", "disagree", "changed", "tag:easy", "invoice", "delta<0",
    '"the"', "-tag:easy mrr=1", "no-such-text", "foo<3",
)  # fmt: skip


def test_the_box_filters_as_python_does(made: dict[str, Any], open_page: Callable[..., Any]) -> None:
    """The offline page reads a filter as the server does: the same traces, in the same order."""
    from judge_eval.pages.comparepage import SideBySide

    table = Table(made["new_run"])
    rows_ = SideBySide(Table(made["old_run"]), table).rows
    page = open_page(made["new"])
    page.select_option("#sort", "order")
    for text in FILTERS:
        found = parse_filter(text, table.metrics)
        fit = {result.position for result in made["new_run"].results if found.text_fits(result)}
        expected = [row for row in found.rows(rows_) if row.position in fit]
        assert filtered(page, text) == [row.id for row in expected], text
    filtered(page, "")
    for sort in ("score", "-score", "failed", "disagree", "change", "-change", "order"):
        page.evaluate("document.querySelector('.told').textContent = 'waiting'")
        page.select_option("#sort", sort)
        page.locator(".told", has_not_text="waiting").wait_for()
        assert listed(page) == [row.id for row in sort_rows(rows_, sort, table.metrics)], sort


def test_keys_walk_through_the_traces(made: dict[str, Any], open_page: Callable[..., Any]) -> None:
    """j, k, arrows, Home, End, / and Escape do all that the mouse can, and the address follows."""
    page = open_page(made["main"])
    shown = page.locator("#trace-title")
    ids = listed(page)
    page.keyboard.press("j")
    page.wait_for_url(f"**#{ids[1]}")
    page.keyboard.press("j")
    page.keyboard.press("k")
    page.wait_for_url(f"**#{ids[1]}")
    assert shown.inner_text() == made["old_run"].results[1].trace.query
    page.keyboard.press("/")
    page.keyboard.type("jk")  # inside the box they are letters
    assert page.input_value("#filter") == "jk"
    page.keyboard.press("Escape")
    page.fill("#filter", "")
    page.locator(".told", has_text="38 traces").wait_for()
    page.locator(".rows a").first.focus()
    page.keyboard.press("End")
    page.wait_for_url(f"**#{ids[-1]}")
    page.keyboard.press("ArrowUp")
    page.wait_for_url(f"**#{ids[-2]}")
    page.keyboard.press("Home")
    page.wait_for_url(f"**#{ids[0]}")


def test_everything_can_be_reached_with_the_tab_key(
    made: dict[str, Any], open_page: Callable[..., Any]
) -> None:
    """Tabbing reaches filter, sort, list, tabs and every disclosure, and the focus can be seen."""
    page = open_page(made["main"])
    reached = set()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # the first stop leads to the traces
    assert page.evaluate("document.activeElement.id") == "filter"
    page.locator("#theme").focus()
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.add(
            page.evaluate(
                "(() => { const n = document.activeElement; return n.id || n.className || n.tagName; })()"
            )
        )
    assert {"filter", "sort", "metric", "tab-traces", "row", "SUMMARY"} <= reached
    page.keyboard.press("Shift+Tab")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
    page.locator("#tab-traces").focus()
    page.keyboard.press("ArrowRight")
    page.locator(".matrix").wait_for()


def test_links_open_a_trace_or_a_tab(made: dict[str, Any], open_page: Callable[..., Any]) -> None:
    """`#trace-id` opens the trace, `#/failures` the tab; a listed failure links to its card."""
    page = open_page(made["main"] + "#docs-020")
    assert page.locator("[aria-current=true] .rid").inner_text() == "docs-020"
    assert page.locator("#trace-title").inner_text() == rows()[19]["query"]
    page = open_page(made["new"] + "#/failures")
    assert page.locator("#tab-failures").get_attribute("aria-selected") == "true"
    page.locator("#panel-failures tbody a").first.click()
    page.locator(".card.failed").first.wait_for()
    assert page.locator("#tab-traces").get_attribute("aria-selected") == "true"
    page = open_page(made["main"] + "#no-such-trace")
    assert "no-such-trace" in page.locator(".detail").inner_text()


def test_the_quote_is_marked_and_problems_are_flagged(
    made: dict[str, Any], open_page: Callable[..., Any]
) -> None:
    """A found quote is marked in the text; a missing one and an instruction are told in words."""
    run = made["new_run"]
    wanted = {"found": None, "missing": None, "instruction": None}
    for result in run.results:
        for rank, outcome in enumerate(result.outcomes, 1):
            if outcome.kind == "verdict" and outcome.evidence:
                key = "found" if outcome.evidence_found else "missing"
                if outcome.instruction_in_chunk:
                    key = "instruction"
                wanted[key] = wanted[key] or (result.trace_id, rank, outcome)
    for key, found in wanted.items():
        assert found is not None, key
        trace_id, rank, outcome = found
        page = open_page(made["new"] + f"#{trace_id}")
        card = page.locator(f"#rank-{rank}")
        if key == "missing":
            assert card.locator("mark").count() == 0
            assert "quote not found" in card.locator(".warn").first.inner_text()
        else:
            marked = "".join(card.locator("mark").all_text_contents())
            assert marked.split() == outcome.evidence.split()
        assert (card.locator(".warn", has_text="instruction found in chunk").count() > 0) == (
            key == "instruction"
        )


def test_a_card_shows_the_judges_call(made: dict[str, Any], open_page: Callable[..., Any]) -> None:
    """Behind the disclosure stand the prompt as sent, the raw reply, the tokens and the cache key."""
    page = open_page(made["main"] + "#docs-001")
    card = page.locator("#rank-1")
    card.locator("summary").click()
    card.locator(".call dl").wait_for()
    result = made["old_run"].results[0]
    text = card.locator(".call").inner_text()
    assert result.calls[0].key in text
    assert str(result.calls[0].input_tokens) in text
    prompt, reply = card.locator("pre").nth(1), card.locator("pre").nth(2)
    assert result.trace.chunks[0].text[:80] in prompt.inner_text()
    assert json.loads(reply.inner_text())["reason"] == result.outcomes[0].reason


def test_a_strip_tells_by_shape_word_and_colour(made: dict[str, Any], open_page: Callable[..., Any]) -> None:
    """Each rank has its own sign and the strip one sentence; disagreement is an outline and a word too."""
    page = open_page(made["new"])
    page.select_option("#sort", "order")
    filtered(page, "failed")
    strip = page.locator(".rows li").first.locator(".strip").last
    told = strip.get_attribute("aria-label")
    assert "no verdict" in told
    row = next(row for row in Table(made["new_run"]).rows if row.failed)
    glyphs = {"+": "+", ".": "·", "!": "!"}
    assert strip.locator(".sq").all_inner_texts() == [glyphs[sign] for sign in row.strip]
    assert told.count("human disagrees") == row.disagreements == strip.locator(".sq.off").count()


def test_figures_filter_when_they_are_clicked(made: dict[str, Any], open_page: Callable[..., Any]) -> None:
    """A bar of the histogram lists exactly its traces; a tag lists the traces that carry it."""
    page = open_page(made["main"])
    page.locator(".overview > summary").click()
    bar = page.locator(".histogram .bar").first
    n = int(re.search(r": (\d+) trace", bar.locator("title").text_content()).group(1))
    bar.click()
    page.locator(".told", has_text=f"{n} trace").wait_for()
    assert len(listed(page)) == n > 0
    tag = page.locator(".linkish").first
    name = tag.inner_text()
    tag.click()
    page.locator(".told", has_text="fit").wait_for()
    assert page.input_value("#filter") == f"tag:{name}"


def test_disagreements_and_provenance(made: dict[str, Any], open_page: Callable[..., Any]) -> None:
    """Confusion matrix, kappa with its interval, every disagreement; the digests under provenance."""
    page = open_page(made["main"] + "#/disagreements")
    table = Table(made["old_run"])
    cells = [int(text) for text in page.locator(".matrix td").all_inner_texts()]
    assert sum(cells) == table.labelled.sum()
    assert cells[1] + cells[2] == table.off.sum()
    listed_rows = page.locator("#panel-disagreements .scroll").last.locator("tbody tr")
    assert listed_rows.count() == table.off.sum()
    assert re.search(
        r"Cohen's kappa\s+0\.\d{3}\s+\[0\.\d{3}, 0\.\d{3}\]", page.inner_text("#panel-disagreements")
    )
    page.locator("#tab-provenance").click()
    told = page.inner_text("#panel-provenance")
    assert made["old_run"].manifest.dataset.digest in told
    assert made["old_run"].manifest.judge["prompt"]["digest"] in told


@pytest.mark.parametrize("width", [380, 1440])
@pytest.mark.parametrize("dark", [False, True])
def test_it_fits_narrow_and_wide_light_and_dark(
    made: dict[str, Any], open_page: Callable[..., Any], width: int, dark: bool
) -> None:
    """Nothing sticks out sideways; on a narrow screen a trace replaces the list and gives it back."""
    for name in ("new", "compare"):
        page = open_page(made[name], width=width, dark=dark)
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


def test_compare_draws_lines_between_the_same_chunks(
    made: dict[str, Any], open_page: Callable[..., Any]
) -> None:
    """A chunk of both runs has one line from its place in A to that in B; changes are named."""
    from judge_eval.pages.comparepage import SideBySide

    pairing = SideBySide(Table(made["old_run"]), Table(made["new_run"]))
    changed = {row.id: row for row in pairing.rows if row.change}
    page = open_page(made["compare"])
    assert page.locator(".told").inner_text() == f"{len(changed)} changed traces"
    names = {
        "retrieval": "retrieval changed",
        "verdicts": "verdict flipped",
        "scores": "only the scores",
        "both": "retrieval and verdict",
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


def test_a_brief_report_says_what_it_leaves_out(
    made: dict[str, Any], open_page: Callable[..., Any], tmp_path: Path
) -> None:
    """A report of the worst traces alone says how many of how many it holds, and lists these."""
    old, new = made["old_run"], made["new_run"]
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
    told = {"evidence": HOSTILE, "reason": HOSTILE, "verdict": True}
    settings = {"label": HOSTILE, "href": "javascript:window.ran=1", "tags": [HOSTILE], "name": HOSTILE}
    one = scripted([row], None, lambda _: told, **settings)
    two = scripted([other], None, lambda _: {**told, "verdict": False}, **settings)
    (tmp_path / "run.html").write_text(run_report(one, two), encoding="utf-8")
    (tmp_path / "compare.html").write_text(compare_report(one, two), encoding="utf-8")
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
    run = scripted(
        data, None, lambda chunk: {"evidence": chunk[50:150], "reason": chunk[:150], "verdict": True}
    )
    path = tmp_path / "large.html"
    path.write_text(run_report(run), encoding="utf-8")
    assert path.stat().st_size < 6_000_000
    page = open_page(path.as_uri(), ready=False)
    page.wait_for_selector("html[data-ready]")
    page.keyboard.press("j")
    page.wait_for_url("**#q1")
    page.locator("#rank-10").wait_for()
    assert (
        page.evaluate("performance.now()") < 10_000
    )  # generous: machines differ; the figure is measured apart
    last = data[499]["chunks"][9]
    assert filtered(page, f'"{last[:60].strip()}"') == ["q499"]


def test_no_serious_violation_of_accessibility(
    made: dict[str, Any], open_page: Callable[..., Any], axe: str
) -> None:
    """axe-core finds nothing serious or critical on any page and tab; in the dark, colours are looked at."""
    for name in ("new", "compare"):
        for dark in (False, True):
            page = open_page(made[name], dark=dark)
            page.fill("#filter", "docs-00" if name == "new" else "docs-001")  # a few rows tell as much as all
            page.wait_for_timeout(200)
            for summary in page.locator(".card summary").all()[:2]:
                summary.click()
            for tab in ("traces", "disagreements", "failures", "provenance") if name == "new" else (None,):
                if tab:
                    page.locator(f"#tab-{tab}").click()
                assert violations(page, axe, dark) == [], (name, dark, tab)


def violations(page: Any, axe: str, colours_only: bool = False) -> list[Any]:
    """Run axe-core in the page and return what is serious or critical."""
    page.evaluate(axe + "; undefined")
    options = "{runOnly: ['color-contrast']}" if colours_only else "{resultTypes: ['violations']}"
    found = page.evaluate(f"axe.run(document, {options})")
    return [
        (each["id"], [(node["html"][:200], node["failureSummary"][:200]) for node in each["nodes"][:3]])
        for each in found["violations"]
        if each["impact"] in ("serious", "critical")
    ]
