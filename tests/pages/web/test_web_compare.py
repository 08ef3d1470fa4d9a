"""What got worse, and why: found on the compare page and the run page in 500 traces of 30 chunks."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from judge_eval.compare.compare import compare
from judge_eval.pages.compared import ComparedRuns
from judge_eval.pages.rows import Table, sort_rows
from judge_eval.server.server_settings import ServerSettings
from judge_eval.views.findings import opening_sentence
from tests.support.browsing import chosen, filtered, listed, shoot, violations
from tests.support.reports import compare_report, run_report
from tests.support.serving import scripted, serving
from tests.support.waiting import until_page

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]  # the runs are long to make on a busy machine

LONG = "Donaudampfschifffahrtsgesellschaftskapitän" * 12


def dataset() -> list[dict[str, Any]]:
    """Make 500 traces of 30 chunks, relevant at ranks 1, 4 and some at 8, with very long words."""
    rnd = random.Random(3)
    words = ["retrieval", "ranking", "window", "office", "opening", "engine", "invoice", "refund", "account"]

    def text(n: int) -> str:
        return " ".join(rnd.choices(words, k=n))

    data = []
    for i in range(500):
        relevant = {0, 3, 7} if i % 3 == 0 else {0, 3}
        chunks = [
            {"id": f"d{i}-{k}", "text": (f"YES {i} {text(4)}. " if k in relevant else "") + text(20)} for k in range(30)
        ]
        query = f"Question {i}: {text(120 if i % 7 == 1 else 8)}?"
        if i % 11 == 2:
            query = f"Question {i}: {LONG}?"
            chunks[0]["text"] = "YES " + "x" * 900
        data.append({"id": f"q{i:03d}", "query": query, "reference": text(12), "chunks": chunks})
    return data


def worse(data: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Let the first relevant chunk of three in five fall to rank 3, and bring a new chunk to some."""
    moved = []
    for i, row in enumerate(data):
        chunks = list(row["chunks"])
        if i % 5 < 3:
            chunks.insert(2, chunks.pop(0))
        if i % 25 == 0:
            chunks = [{"id": f"n{i}", "text": "a chunk that is new"}, *chunks]
        moved.append({**row, "chunks": chunks})
    return moved


def answer(strict: bool) -> Callable[[str], dict[str, Any]]:
    """Judge a chunk that says YES relevant; strictly, not all of them."""

    def judge(text: str) -> dict[str, Any]:
        yes = text.startswith("YES") and not (strict and len(text) % 9 == 0)
        reason = "It answers the question." if yes else "Nothing here answers the question."
        return {"evidence": text[:60] if yes else "", "reason": reason, "verdict": yes}

    return judge


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Make both runs, their reports, and a server over them."""
    folder = tmp_path_factory.mktemp("worse")
    data = dataset()
    old = scripted(data, folder / "runs", answer(False), label="main", name="support")
    new = scripted(
        worse(data), folder / "runs", answer(True), label="PR/41 smaller windows", name="support", baseline=old.id
    )
    scripted(data[:20], folder / "runs", answer(True), label="brief", name="support")
    for name, text in (("run", run_report(new, old)), ("compare", compare_report(old, new))):
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    with serving(ServerSettings(folder / "runs")) as url:
        yield {
            "old": old, "new": new, "sides": ComparedRuns(Table(old), Table(new)),
            "run": (folder / "run.html").as_uri(), "compare": (folder / "compare.html").as_uri(),
            "url": url, "served run": f"{url}/runs/{new.id}",
            "served compare": f"{url}/compare?a=label:main&b={new.id}",
        }  # fmt: skip


def cards(page: Any) -> list[str]:
    """Read the ids of the cards of changed traces."""
    nodes = page.locator("article.card").all()
    return [node.get_attribute("data-trace") for node in nodes]


def only_long_words(page: Any, name: str) -> None:
    """Filter for the traces with very long words, and wait for them."""
    page.fill("#filter", "Donau")
    fit = r"^46 traces match" if "run" in name else r"^\d\d changed traces"
    page.locator(".told", has_text=re.compile(fit)).wait_for()


@pytest.mark.parametrize("name", ["compare", "served compare"])
def test_compare_opens_with_what_is_shown(made: dict[str, Any], open_page: Callable[..., Any], name: str) -> None:
    """The first heading is the sentence of the record; figures and changed traces come below it."""
    page = open_page(made[name], height=900)
    record = compare(made["old"], made["new"])
    told = opening_sentence(record, record.openings[0], "B")
    assert page.locator("h1").inner_text() == told
    assert told.startswith("B is worse: AP@5 -0.")
    assert "moved from rank 1 to 3" in told
    tops = [page.locator(spec).first.bounding_box()["y"] for spec in ("h1", "table", "article.card")]
    assert tops == sorted(tops)
    assert tops[-1] < 900


@pytest.mark.parametrize("name", ["compare", "served compare"])
def test_changed_traces_stand_in_the_order_asked_for(
    made: dict[str, Any], open_page: Callable[..., Any], name: str
) -> None:
    """The largest loss stands first; the box sorts by gain, by another metric, and as the dataset does."""
    page = open_page(made[name])
    sides = made["sides"]
    for order, metric in (("change", "AP@5"), ("-change", "AP@5"), ("-change", "MRR"), ("order", "MRR")):
        if page.locator("#order").input_value() != order:
            chosen(page, "#order", order)
        if page.locator("#metric").input_value() != metric:
            chosen(page, "#metric", metric)
        expected = sort_rows(sides.changed, order, list(sides.metrics), metric)
        assert cards(page) == [row.id for row in expected[:25]], (order, metric)


def test_a_card_says_which_chunks_moved_what_they_say_and_why(
    made: dict[str, Any], open_page: Callable[..., Any]
) -> None:
    """Text and reason of each chunk that moved or flipped are there, with both strips and lines between."""
    page = open_page(made["compare"])
    full = {card["id"]: card for card in made["sides"].in_full(made["sides"].changed)}
    for node in page.locator("article.card").all()[:8]:
        card = full[node.get_attribute("data-trace")]
        moved = [card["moves"][place] for place in card["notable"]]
        shown = node.locator(".moved")
        assert shown.count() == min(3, len(moved)) > 0
        for item, move in zip(shown.all(), moved, strict=False):
            text = item.inner_text()
            assert move["id"] in text
            assert " ".join("".join(move["text"]).split())[:40] in " ".join(text.split())
            assert (move["now"] or move["was"])["reason"] in text
            assert ("→" in item.locator(".place").inner_text()) == (move["flipped"] or move["a"] != move["b"])
            if move["flipped"]:
                assert {"A, reason: ", "B, reason: "} <= set(item.locator(".reason b").all_inner_texts())
        assert node.locator(".pairs .sq").count() > 8
        assert node.locator(".tie").count() >= 5
        assert node.locator(".cutline").count() == 2
    some = page.locator("article.card", has=page.get_by_role("button", name="more chunk")).first
    whole = page.locator(f"[data-trace='{some.get_attribute('data-trace')}']")
    whole.get_by_role("button", name="more chunk").click()
    assert whole.locator(".moved").count() == len(full[whole.get_attribute("data-trace")]["notable"]) > 3
    assert page.evaluate("document.activeElement.className") == whole.locator(".moved").nth(3).get_attribute("class")


@pytest.mark.parametrize("name", ["run", "served run"])
def test_a_run_starts_at_its_largest_loss(made: dict[str, Any], open_page: Callable[..., Any], name: str) -> None:
    """With a baseline the largest loss stands first and is open, before and after; so in each order."""
    page = open_page(made[name])
    sides = made["sides"]
    expected = sort_rows(sides.rows, "change", list(sides.metrics))
    assert page.locator("#sort").input_value() == "change"
    assert listed(page)[:20] == [row.id for row in expected[:20]]
    first = page.locator(".rows li").first
    assert first.locator("[aria-current=true]").count() == 1
    assert first.locator(".when").all_inner_texts() == ["before", "after"]
    assert "after" in page.locator(".detail .turns").inner_text()
    page.locator("#sort").focus()
    for order in ("-change", "score", "order"):
        page.select_option("#sort", order)
        result = sort_rows(sides.rows, order, list(sides.metrics))
        page.locator(f".detail .rid[href='#{result[0].id}']").wait_for()
        assert page.locator("[aria-current=true] .rid").inner_text() == result[0].id
        assert page.evaluate("document.activeElement.id") == "sort"
    assert "This run is worse: AP@5 -0." in page.inner_text(".versus")


def test_a_run_offers_its_baselines(made: dict[str, Any], open_page: Callable[..., Any]) -> None:
    """The page of a run shows the baseline it remembers, and takes another, or none, from the box."""
    page = open_page(made["served run"])
    box = page.locator("#baseline")
    assert box.input_value() == made["old"].id
    page.locator("#baseline option").nth(2).wait_for(state="attached")
    assert "brief" in "".join(box.locator("option").all_text_contents())
    box.select_option("none")
    page.wait_for_url("**baseline=none")
    page.wait_for_selector("html[data-ready]")
    assert page.locator(".opening").count() == 0
    assert page.locator("#sort").input_value() == "order"
    brief = page.locator("#baseline option", has_text="brief")
    brief.wait_for(state="attached")
    brief_id = brief.get_attribute("value")
    page.locator("#baseline").select_option(brief_id)
    page.wait_for_url(f"**baseline={brief_id}")
    page.locator(".versus b", has_text="brief").wait_for()
    page = open_page(f"{made['url']}/runs/label:main?baseline=label:PR%2F41%20smaller%20windows")
    assert "This run is better" in page.inner_text(".opening")


def test_blind_labelling_hides_the_baseline_until_it_ends(made: dict[str, Any], open_page: Callable[..., Any]) -> None:
    """Blind, neither sentence, difference nor strip of the baseline shows; afterwards all is as it was."""
    page = open_page(made["served run"])
    page.locator("#blind").check()
    page.locator("#hidden").wait_for()
    page.wait_for_selector(".rows li")
    assert page.locator(".opening, #baseline, .metric, .when, .delta").count() == 0
    assert set(page.locator(".strip .sq").all_inner_texts()) == {"?"}
    page.locator("#blind").uncheck()
    page.locator(".opening", has_text="This run is worse").wait_for()
    assert page.locator("#baseline").input_value() == made["old"].id
    assert page.locator("#sort").input_value() == "change"


def test_traces_begin_above_the_fold(made: dict[str, Any], open_page: Callable[..., Any]) -> None:
    """At 1440 x 900 the first trace and its detail are seen; the distribution folds, empty cards are gone."""
    for name in ("run", "served run"):
        page = open_page(made[name], height=900)
        row = page.locator(".rows li").first.bounding_box()
        assert row["y"] + row["height"] < 900
        assert page.locator("#trace-title").bounding_box()["y"] < 900
        assert not page.locator(".overview").evaluate("node => node.open")
        page.locator(".overview > summary").click()
        assert page.locator(".overview .panel:visible").count() == 1  # no trace carries a tag
    for spec in ("run", "compare"):
        page = open_page(made[spec])
        only_long_words(page, spec)
        question = page.locator(".rows .query" if spec == "run" else "article.card .query").first
        lines = question.evaluate("n => n.clientHeight / parseFloat(getComputedStyle(n).lineHeight)")
        assert 1.5 < lines < 2.5
        if spec == "run":
            page.locator(".rows a").first.click()
            page.locator(".detail .unclamp").first.wait_for()
        show = page.locator(".unclamp").first
        show.focus()
        page.keyboard.press("Enter")
        assert show.get_attribute("aria-expanded") == "true"
        assert page.locator(".clamped + .unclamp, h2 + .unclamp, h3 + .unclamp").first.inner_text() == "Show less"


def test_strips_mark_the_cutoff_and_fold_what_is_not_relevant(
    made: dict[str, Any], open_page: Callable[..., Any]
) -> None:
    """The mark stands behind rank K of the metric shown; the long rest is one sign, and is told in words."""
    page = open_page(made["run"] + "#q001")
    line = page.locator("[aria-current=true] .strip").last
    signs = line.evaluate("n => [...n.children].map((c) => c.className.split(' ')[0])")
    assert signs == ["sq"] * 5 + ["cut", "fold"]
    assert line.locator(".fold").inner_text() == "25 not relevant"
    result = line.get_attribute("aria-label")
    assert "cutoff after rank 5; 6 to 30 not relevant" in result
    page.select_option("#metric", "MRR")
    until_page(page, "!document.querySelector('.rows .cut')")
    assert page.locator(".rows .fold").count() > 0


SIZES = ((1440, 900), (1024, 1366), (390, 844))


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("name", ["run", "compare", "served run"])
def test_every_size_and_theme(
    made: dict[str, Any], open_page: Callable[..., Any], axe: str, name: str, dark: bool
) -> None:
    """Nothing sticks out at 1440, 1024 and 390 pixels, in light and dark, nor does axe find a fault."""
    theme = "dark" if dark else "light"
    for width, height in SIZES:
        page = open_page(made[name], width=width, height=height, dark=dark)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        shoot(page, f"worse-{name.replace(' ', '-')}-{width}-{theme}")
        only_long_words(page, name)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        if "run" in name and width < 900:
            page.locator(".rows a").first.click()
        page.locator("#trace-title" if "run" in name else "article.card").first.scroll_into_view_if_needed()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        shoot(page, f"worse-{name.replace(' ', '-')}-{width}-{theme}-long-words")
        if width >= 900 or "run" not in name:
            filtered(page, "q002")
        assert violations(page, axe, dark) == [], (name, width, dark)
