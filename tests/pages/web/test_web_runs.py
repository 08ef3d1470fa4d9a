"""The list of runs: marks, pills, cards, trend, filters, and what it says where there is nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from judge_eval import Evaluator
from judge_eval.server.server_settings import ServerSettings
from tests.support.browsing import shoot, violations
from tests.support.crowded import WORD
from tests.support.serving import judge, rows, serving
from tests.support.waiting import until_page

pytestmark = pytest.mark.browser

LABELS = ("main", WORD, "a pull request with quite some words", "fourth")


@pytest.fixture(scope="module")
def listed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Serve four small runs with tags of one word, of two, and of one that never ends."""
    root = tmp_path_factory.mktemp("runs")
    tags = (["prod", "nightly build"], ["pr"], ["pr", WORD], ["prod", 'of "two" signs'])
    made = [judge(rows()[:4], root, label=n, tags=t, name="docs") for n, t in zip(LABELS, tags, strict=True)]
    with serving(ServerSettings(root, thresholds={"AP@5": 0.54})) as url:
        yield {"url": url, "ids": [run.id for run in made]}


def pick(page: Any, *runs: str) -> None:
    """Tick the boxes of runs, one after the other."""
    for run in runs:
        page.locator(f"tr[data-run='{run}'] input").check()


def test_every_column_has_a_head(listed: dict[str, Any], open_page: Callable[..., Any]) -> None:
    """Each cell stands under a word that says what it is; a card on a phone says it in the cell."""
    page = open_page(listed["url"] + "/")
    heads = page.locator("table.runs th").all_inner_texts()
    assert heads == [
        "pick", "run", "status", "tags", "dataset", "judge", "mean AP@5", "95% interval", "from 0 to 1", "threshold",
        "traces", "failed", "started",
    ]  # fmt: skip
    cells = page.locator("table.runs tbody tr").first.locator("td")
    assert [cell.get_attribute("data-label") for cell in cells.all()] == heads
    page.select_option("#metric", "MRR")
    assert page.locator("table.runs th").nth(6).inner_text() == "mean MRR"


def test_picked_runs_bear_letters(listed: dict[str, Any], open_page: Callable[..., Any]) -> None:
    """In the order in which they were picked; two are compared, more stand side by side, one goes nowhere."""
    first, second, third, fourth = listed["ids"]
    page = open_page(listed["url"] + "/")
    button = page.locator("#compare")
    pick(page, third)
    assert button.is_disabled()
    pick(page, first)
    assert button.inner_text() == "Compare A with B"

    def marks() -> dict[str, str]:
        values = {run: page.locator(f"tr[data-run='{run}'] .letter") for run in listed["ids"]}
        return {run: mark.inner_text() for run, mark in values.items() if mark.count()}

    assert marks() == {third: "A", first: "B"}
    pick(page, fourth)
    assert marks() == {third: "A", first: "B", fourth: "C"}
    assert button.inner_text() == "Show 3 side by side"
    box = page.locator(f"tr[data-run='{fourth}'] input")
    assert "picked as C" in box.get_attribute("aria-label")
    page.locator(f"tr[data-run='{third}'] input").uncheck()
    assert marks() == {first: "A", fourth: "B"}
    pick(page, second)
    button.click()
    page.wait_for_selector("html[data-ready] table.several")
    assert page.url.endswith(f"/matrix?run={first}&run={fourth}&run={second}")


def test_a_tag_filters_when_it_is_clicked(listed: dict[str, Any], open_page: Callable[..., Any]) -> None:
    """A tag of several words, or quotation marks, too; clicked again it lets go; the address keeps it."""
    page = open_page(listed["url"] + "/")
    result = page.locator(".told")
    for tag, count in (("pr", 2), ("nightly build", 1), ('of "two" signs', 1)):
        page.locator("td.tags button", has_text=re.compile(f"^{re.escape(tag)}$")).first.click()
        page.locator(".told", has_text=re.compile(f"^{count} run")).wait_for()
        pressed = page.locator("td.tags button[aria-pressed=true]")
        assert set(pressed.all_inner_texts()) == {tag}
        page.locator("#only button", has_text=tag).click()
        page.locator(".told", has_text="4 runs").wait_for()
    page.locator("td.tags button", has_text="prod").first.click()
    page.locator(".told", has_text="2 runs").wait_for()
    page.keyboard.press("Tab")
    again = open_page(page.url)
    assert "2 runs" in again.locator(".told").inner_text()
    again.fill("#label", "no such run")
    again.locator(".told", has_text="no run matches").wait_for()
    assert not again.locator("#empty").is_visible()
    again.locator("#clear").click()
    again.locator(".told", has_text="4 runs").wait_for()
    assert "?" not in again.url
    assert result.count() == 1


@pytest.mark.parametrize("width", [1440, 1024, 390])
def test_pills_keep_their_words_whole(listed: dict[str, Any], open_page: Callable[..., Any], width: int) -> None:
    """A pill is one line high however long its word; what is cut off stands in its title."""
    page = open_page(listed["url"] + "/", width=width)
    heights = page.locator(".chip").evaluate_all(
        "nodes => nodes.map(n => n.getClientRects().length + ':' + "
        "Math.round(n.clientHeight / parseFloat(getComputedStyle(n).lineHeight)))"
    )
    assert set(heights) == {"1:1"}
    long = page.locator("td.tags button", has_text=WORD[:20]).first
    assert long.get_attribute("title") == WORD
    assert long.evaluate("n => n.scrollWidth > n.clientWidth")


def test_a_phone_has_cards(listed: dict[str, Any], open_page: Callable[..., Any]) -> None:
    """Each run is a box that fits the screen, with its words before its values, and can be picked."""
    page = open_page(listed["url"] + "/", width=390)
    boxes = [node.bounding_box() for node in page.locator("table.runs tbody tr").all()]
    assert all(box["x"] >= 0 and box["x"] + box["width"] <= 390 for box in boxes)
    assert all(box["height"] > 150 for box in boxes)
    assert (
        page.evaluate("getComputedStyle(document.querySelector('td.interval'), '::before').content") == '"95% interval"'
    )
    assert page.locator("td.drawn:visible").count() == 0  # there is no room to draw, so no word for it
    pick(page, *listed["ids"][:2])
    assert page.locator(".letter:visible").count() == 2
    shoot(page, "runs-cards-picked-390")


def test_the_trend_is_as_wide_as_the_page(listed: dict[str, Any], open_page: Callable[..., Any]) -> None:
    """Every point bears label and date where there is room, leads to its run, and is reached by keys."""
    page = open_page(listed["url"] + "/")
    chart, panel = page.locator("svg.trend"), page.locator(".panel:has(.trend)")
    assert chart.bounding_box()["width"] > 0.95 * (panel.bounding_box()["width"] - 40)
    names = page.locator("svg.trend text.name").all_text_contents()
    assert names[0] == "main"
    assert names[1].endswith("…")
    dates = [t for t in page.locator("svg.trend text").all_text_contents() if re.fullmatch(r"\d{4}-\d\d-\d\d", t)]
    assert len(dates) == len(LABELS)
    points = page.locator("svg.trend a.point")
    assert [p.get_attribute("href") for p in points.all()] == [f"/runs/{run}" for run in listed["ids"]]
    points.first.focus()
    assert page.locator(".pointed b").inner_text() == "main"
    page.set_viewport_size({"width": 500, "height": 900})
    until_page(page, "document.querySelector('svg.trend')?.clientWidth < 500")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/runs/{listed['ids'][0]}")


def test_the_trend_breaks_where_another_judge_judged(
    open_page: Callable[..., Any], tmp_path: Path, serve: Callable[..., str]
) -> None:
    """Two runs of one judge are joined, two of another prompt too, and no line leads from one pair to the other."""
    for number, prompt in enumerate(["support/binary"] * 2 + ["relevance/binary"] * 2):
        with Evaluator("fake/overlap", prompt=prompt, cache=False) as evaluator:
            evaluator.evaluate(rows()[:4], out=tmp_path, label=f"run {number}", name="docs")
    url = serve(ServerSettings(tmp_path))
    for width in (1280, 390):
        page = open_page(url + "/")
        page.set_viewport_size({"width": width, "height": 1100})
        page.locator("svg.trend .break").wait_for(state="attached")
        assert re.sub(r"[^ML]", "", page.locator("svg.trend path.line").get_attribute("d")) == "MLML"
        assert page.locator("svg.trend .break").count() == 1
        assert "relevance/binary" in page.locator(".pointed").inner_text()
        assert "support/binary" in page.locator("svg.trend a.point").first.get_attribute("aria-label")
        assert "relevance/binary" in page.locator("td.judge").first.inner_text()
        shoot(page, f"runs-of-two-judges-{width}")


def test_an_empty_folder_says_what_to_run(
    open_page: Callable[..., Any], tmp_path: Path, axe: str, serve: Callable[..., str]
) -> None:
    """The command is there to be copied, and the first run is listed without a reload."""
    url = serve(ServerSettings(tmp_path))
    for dark in (False, True):
        page = open_page(url + "/", dark=dark)
        assert "judge-eval run traces.jsonl -m openai" in page.locator("#empty code").first.inner_text()
        assert not page.locator("table.runs").is_visible()
        assert violations(page, axe, dark) == []
        shoot(page, f"runs-empty-{'dark' if dark else 'light'}")
    judge(rows()[:2], tmp_path, label="the first")
    page.locator("table.runs", has_text="the first").wait_for()
    assert not page.locator("#empty").is_visible()


def test_the_commands_of_the_empty_page_work(tmp_path: Path) -> None:
    """What the page tells to run without a key is what the command line takes."""
    from tests.support.command import Shell

    shell = Shell(tmp_path)
    assert shell("init").code == 0
    assert shell("run", "traces.jsonl").code == 0
    assert len(list((tmp_path / "runs").iterdir())) == 1
