from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from judge_eval import EvalRun, Evaluator
from judge_eval.runs.folder.labels import given_labels
from judge_eval.server.server_settings import ServerSettings
from tests.support.browsing import filtered, shoot, violations
from tests.support.serving import judge, rows, scripted, serving
from tests.support.waiting import until_page

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Serve three runs of one dataset."""
    root = tmp_path_factory.mktemp("runs")
    turned = [{**row, "chunks": row["chunks"][::-1]} if i % 4 == 0 else row for i, row in enumerate(rows())]
    runs = {
        "main": judge(rows(), root, label="main", tags=["prod"], name="docs", href="https://example.org/1"),
        "pr": judge(turned, root, label="PR #2", tags=["pr"], name="docs"),
        "bad": scripted(
            rows()[:6], root, lambda text: "?" if len(text) % 11 == 0 else {"verdict": True}, label="bad", name="docs"
        ),
    }
    with serving(ServerSettings(root, thresholds={"AP@5": 0.54}), Evaluator("fake/overlap", cache=False)) as url:
        yield {"url": url, "root": root, **runs}


def test_runs_are_listed_filtered_and_compared(served: dict[str, Any], open_page: Callable[..., Any]) -> None:
    """The list shows mean, interval, pass or fail; filters narrow it; two picked runs are compared."""
    page = open_page(served["url"] + "/")
    lines = page.locator("tbody tr")
    assert lines.count() == 3
    first = served["main"].aggregate("AP@5")
    text = page.locator(f"tr[data-run='{served['main'].id}']").inner_text()
    assert f"{first.mean:.3f}" in text
    assert f"[{first.interval[0]:.3f}, {first.interval[1]:.3f}]" in text
    assert "pass" in text
    shoot(page, "runs")
    page.fill("#tag", "prod")
    page.locator(".told", has_text="1 run;").wait_for()
    page.fill("#tag", "")
    page.fill("#label", "pr #")
    page.locator(".told", has_text="1 run;").wait_for()
    page.fill("#label", "")
    page.locator(".told", has_text="3 runs;").wait_for()
    page.locator(".trend .point").nth(2).wait_for()  # the chart is drawn with the next frame
    assert page.locator(".trend .point").count() == 3
    assert page.locator(".trend .limit").count() == 1
    assert page.locator("#compare").is_disabled()
    for name in ("main", "pr"):
        page.locator(f"tr[data-run='{served[name].id}'] input").check()
    page.locator("#compare").click()
    page.wait_for_selector("html[data-ready] .kicker")
    assert "against\nA\nmain" in page.locator(".kicker").inner_text()
    changed = int(re.match(r"\d+", page.locator(".told").inner_text()).group())
    assert page.locator("article.card").count() == min(25, changed) > 3


def test_a_served_run_works_like_the_report(served: dict[str, Any], open_page: Callable[..., Any]) -> None:
    """Filter, sort, keys and links work over the server too, with the baseline named in the address."""
    url = f"{served['url']}/runs/{served['pr'].id}?baseline={served['main'].id}"
    page = open_page(url + "#docs-005")
    assert page.locator("[aria-current=true] .rid").inner_text() == "docs-005"
    assert "against the baseline" in page.locator(".metric").first.inner_text()
    page.keyboard.press("j")
    page.wait_for_url("**#docs-006")
    assert 0 < len(filtered(page, "changed")) < 38
    expected = [row["id"] for row in rows() if "tallyho" in str(row).lower()]
    assert filtered(page, "Tallyho") == expected
    shoot(page, "served-run")


def test_blind_labelling(
    served: dict[str, Any], open_page: Callable[..., Any], tmp_path: Path, serve: Callable[..., str]
) -> None:
    """Blind, a verdict shows only once the label is given; the label is kept beside the run."""
    bare = [{**row, "chunks": [{**c, "label": None} for c in row["chunks"]]} for row in rows()[:3]]
    run = judge(bare, tmp_path)
    assert run.folder is not None
    url = serve(ServerSettings(tmp_path))
    page = open_page(f"{url}/runs/{run.id}")
    page.locator("#blind").check()
    page.locator("#rank-1", has_text="hidden until you label it").wait_for()
    assert page.locator(".detail mark").count() == 0
    assert set(page.locator(".strip .sq").all_inner_texts()) == {"?"}
    card = page.locator("#rank-1")
    card.get_by_role("button", name="not relevant", exact=True).click()
    assert "Enter your name" in card.inner_text()
    page.locator("#person").fill("Anna")
    page.keyboard.press("Enter")
    page.wait_for_selector("html[data-ready]")
    card.get_by_role("button", name="not relevant", exact=True).focus()
    page.keyboard.press("Enter")
    page.locator("#rank-1", has_text="human label 0").wait_for()
    assert "hidden" in page.locator("#rank-2").inner_text()
    (label,) = given_labels(run.folder, 1).values()
    assert (label.label, label.blind, label.by) == (0, True, "Anna")


def test_a_run_under_way_tells_how_far_it_is(
    open_page: Callable[..., Any], tmp_path: Path, serve: Callable[..., str]
) -> None:
    """The page of a run that waits or is judged says so, and says when it has ended."""
    run = judge(rows()[:2], tmp_path)
    assert run.folder is not None
    path = run.folder / "manifest.json"
    ended = path.read_text()
    path.write_text(run.manifest.under_way("submitted").model_dump_json(indent=2))
    url = serve(ServerSettings(tmp_path))
    page = open_page(f"{url}/runs/{run.id}")
    page.locator("#going", has_text="Waiting").wait_for()
    path.write_text(ended)
    page.locator("#going", has_text="The run has ended: done").wait_for()
    page.get_by_role("button", name="Show the finished run").click()
    page.wait_for_selector("html[data-ready]")
    page.locator(".status.done").wait_for()
    assert page.locator("#going").count() == 0


def test_the_api_page_needs_nothing_from_outside(served: dict[str, Any], open_page: Callable[..., Any]) -> None:
    """The documentation of the API is drawn from the server's own document."""
    page = open_page(served["url"] + "/docs")
    text = page.inner_text("main")
    for path in ("/api/v1/runs/upload", "/api/v1/compare", "/api/v1/runs/{run_id}/labels"):
        assert path in text


def test_a_run_that_is_not_there_is_told(served: dict[str, Any], chromium: Any) -> None:
    """An address of no run shows why, and the way back."""
    page = chromium.new_page()
    page.goto(f"{served['url']}/runs/00000000-0000-0000-0000-000000000000")
    page.locator("[role=alert]", has_text="no run").wait_for()
    page.get_by_role("link", name="All runs").click()
    page.locator("table.runs").wait_for()
    page.close()


def test_a_page_asks_for_the_token(chromium: Any, tmp_path: Path, serve: Callable[..., str]) -> None:
    """With a token set the page asks for it, and shows the runs once it is right."""
    judge(rows()[:2], tmp_path, label="secret run")
    url = serve(ServerSettings(tmp_path, token="right and long enough"))
    page = chromium.new_page()
    page.goto(url)
    for word in ("wrong", "right and long enough"):
        page.fill("#token", word)
        page.get_by_role("button", name="Open").click()
        if word == "wrong":
            until_page(page, "document.querySelector('#token')?.value === ''")  # it asks again
    page.locator("table.runs", has_text="secret run").wait_for()
    page.close()


def test_five_thousand_traces_page_by_page(
    tmp_path: Path, open_page: Callable[..., Any], served: dict[str, Any], serve: Callable[..., str]
) -> None:
    """A long run comes page by page: the browser holds a part of it, scrolls on, and can jump to the last."""
    data = [
        {"id": f"q{i}", "query": f"Question {i}?", "reference": "It.", "chunks": [f"It is {i}.", "No."]}
        for i in range(5000)
    ]
    run: EvalRun = scripted(data, tmp_path, lambda text: {"verdict": "It" in text, "evidence": text})
    url = serve(ServerSettings(tmp_path))
    page = open_page(f"{url}/runs/{run.id}")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    assert "5,000 traces" in page.locator(".told").inner_text()
    assert page.locator(".rows li").count() <= 200
    page.locator(".rows li").last.scroll_into_view_if_needed()
    page.locator(".rows li").nth(150).wait_for(state="attached")
    assert page.locator(".rows li").count() <= 400
    page.fill("#filter", '"Question 4321?"')
    page.locator(".told", has_text="1 trace match").wait_for()
    assert not any("/results" in url for url in asked)
    page = open_page(f"{url}/runs/{run.id}#q4999")
    assert page.locator("[aria-current=true] .rid").inner_text() == "q4999"
    assert page.locator("#trace-title").inner_text() == "Question 4999?"


def test_no_serious_violation_on_served_pages(served: dict[str, Any], open_page: Callable[..., Any], axe: str) -> None:
    """axe-core finds nothing above minor on the runs page, the API page and a page with labels."""
    for path in ("/", "/docs", f"/runs/{served['bad'].id}"):
        for dark in (False, True):
            assert violations(open_page(served["url"] + path, dark=dark), axe, dark) == [], (path, dark)


def test_what_cannot_be_read_is_listed_with_what_is_wrong(
    tmp_path: Path, open_page: Callable[..., Any], serve: Callable[..., str]
) -> None:
    """A broken run stands below the list, as text, whatever its folder is called; the others are shown."""
    judge(rows()[:2], tmp_path, label="good")
    broken = tmp_path / "<b>broken"
    broken.mkdir()
    (broken / "manifest.json").write_text("{")
    url = serve(ServerSettings(tmp_path))
    page = open_page(url + "/")
    assert page.locator("tbody tr").count() == 1
    result = page.locator("#unreadable li").inner_text()
    assert "<b>broken" in result
    assert "not a run's manifest" in result
    (broken / "manifest.json").unlink()
    page = open_page(url + "/")
    assert page.locator("#unreadable").is_hidden()
