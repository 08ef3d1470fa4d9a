"""Three runs side by side, as a file and over a server: the same rows, cells, filters and chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from judge_eval.pages.matrixpage import find_rows, ordered_rows
from judge_eval.server.server_settings import ServerSettings
from tests.pages.test_matrix_page import held, three
from tests.pages.web.test_web_hostile import MARK, TEXTS, evil, safe
from tests.support.browsing import violations
from tests.support.reports import matrix_report
from tests.support.serving import scripted, serving

pytestmark = pytest.mark.browser

SETTLED = ".several tbody[aria-busy=false]"


@pytest.fixture(scope="module")
def matrix(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Hold three runs side by side, in a file and over a server."""
    root = tmp_path_factory.mktemp("matrix")
    runs = three(root / "runs")
    (root / "matrix.html").write_text(matrix_report(runs), encoding="utf-8")
    with serving(ServerSettings(root / "runs")) as url:
        query = "&".join(f"run={run.id}" for run in runs)
        places = {"file": (root / "matrix.html").as_uri(), "served": f"{url}/matrix?{query}"}
        yield {"several": held(runs), "runs": runs, **places}


def asked(page: Any, text: str, sort: str) -> list[str]:
    """Filter and sort, and list the traces."""
    page.select_option("#sort", sort)
    page.fill("#filter", text)
    page.locator(SETTLED).wait_for(state="attached")
    messages: list[str] = page.locator(".trace-row").evaluate_all("nodes => nodes.map(n => n.dataset.trace)")
    return messages


@pytest.mark.parametrize("how", ["file", "served"])
def test_rows_are_found_and_sorted_as_python_does(
    matrix: dict[str, Any], open_page: Callable[..., Any], how: str
) -> None:
    """File and server read a filter and an order alike, and show each run's strip and score in its cell."""
    page, several = open_page(matrix[how]), matrix["several"]
    for text, sort in (
        ("", "order"), ("differs", "order"), ("", "apart"), ("docs-01", "apart"), ("tag:easy", "0"),
        ("", "2"), ("the which", "1"), ("no such words", "order"),
    ):  # fmt: skip
        expected = ordered_rows(find_rows(several.rows, text), sort, 0)
        assert asked(page, text, sort) == [row.id for row in expected], (text, sort)
    assert asked(page, "", "order")
    row, result = page.locator(".trace-row").nth(6), several.rows[6]
    for run in range(3):
        cell = row.locator("td").nth(run)
        assert cell.locator(".letter").inner_text() == "ABC"[run]
        glyphs = {"+": "+", ".": "·", "!": "!"}
        assert cell.locator(".sq").all_inner_texts() == [glyphs[sign] for sign in result.cells[run]["strip"]]
        score = result.scores[0][run]
        assert cell.locator(".value").inner_text() == ("none" if score is None else f"{score:.2f}")
    page.select_option("#metric", "MRR")
    page.locator(SETTLED).wait_for(state="attached")
    score = several.rows[6].scores[several.names.index("MRR")][0]
    assert page.locator(".trace-row").nth(6).locator(".value").first.inner_text() == f"{score:.2f}"


@pytest.mark.parametrize("how", ["file", "served"])
def test_a_row_opens_its_chunks(matrix: dict[str, Any], open_page: Callable[..., Any], how: str) -> None:
    """Behind a row stand its chunks with each run's rank, verdict and reason; keys walk and open."""
    page = open_page(matrix[how])
    page.keyboard.press("j")
    page.keyboard.press("j")
    second = ordered_rows(matrix["several"].rows, "apart", 0)[1]
    assert page.evaluate("document.activeElement.dataset.trace") == second.id
    button = page.locator(".trace-row").nth(1).locator(".opens")
    button.focus()
    page.keyboard.press("Enter")
    page.locator(f"#chunks-{second.place} .chunks").wait_for()
    assert button.get_attribute("aria-expanded") == "true"
    result = matrix["several"].in_full(second.place)
    assert page.locator(f"#chunks-{second.place} .chunks tbody tr").count() == len(result["chunks"])
    first = page.locator(f"#chunks-{second.place} .chunks tbody tr").first.inner_text()
    assert result["chunks"][0]["text"][:40] in first
    assert "rank 1" in first
    page.keyboard.press("Enter")
    assert page.locator(f"#chunks-{second.place}").is_hidden()


def test_figures_stand_above_with_their_differences(matrix: dict[str, Any], open_page: Callable[..., Any]) -> None:
    """Mean, interval, and the difference to A with its own interval, for each run and metric."""
    page = open_page(matrix["file"])
    lines = page.locator("table.means tbody tr")
    assert lines.count() == 3
    record = matrix["several"].record
    (difference,) = (d for d in record.differences if d.metric == "AP@5" and d.candidate == 2)
    cell = lines.first.locator("td").nth(2).inner_text()
    least, greatest = matrix["runs"][2].aggregate("AP@5").bounds  # over 5% of its verdicts failed
    assert f"{least:.3f} to {greatest:.3f}" in cell
    low, high = difference.interval
    assert f"{abs(low):.3f}" in cell
    assert f"{abs(high):.3f}" in cell
    assert "the model differs" in page.inner_text(".banner")


def test_no_serious_violation(matrix: dict[str, Any], open_page: Callable[..., Any], axe: str) -> None:
    """axe-core finds nothing serious or critical, wide and narrow, light and dark, with a row open."""
    for width, dark in ((1440, False), (1440, True), (390, False), (390, True)):
        page = open_page(matrix["served"], width=width, dark=dark)
        asked(page, "docs-00", "order")
        page.locator(".opens").first.click()
        page.locator(".chunks").wait_for()
        assert violations(page, axe, dark) == [], (width, dark)


def test_hostile_texts_side_by_side(open_page: Callable[..., Any], tmp_path: Any, serve: Callable[..., str]) -> None:
    """Markup in every field of three runs is text on the page."""
    runs = []
    for k in range(3):
        data = [
            {
                **{name: evil(i, name) for name in ("id", "query", "reference")},
                "tags": [evil(i, "tag")],
                "chunks": [{"id": evil(i, "chunk"), "text": evil(i, "text")}, f"plain {i} {k}"],
            }
            for i in range(len(TEXTS))
        ]
        named = {"label": evil(k, "label"), "href": f"javascript:{MARK}", "tags": [evil(k, "rtag")]}

        def answer(text: str, k: int = k) -> dict[str, Any]:
            return {"verdict": len(text) % 3 == k, "reason": evil(k, "why")}

        runs.append(scripted(data, tmp_path / "runs", answer, **named))
    (tmp_path / "matrix.html").write_text(matrix_report(runs), encoding="utf-8")
    url = serve(ServerSettings(tmp_path / "runs"))
    query = "&".join(f"run={run.id}" for run in runs)
    for place in ((tmp_path / "matrix.html").as_uri(), f"{url}/matrix?{query}"):
        page = open_page(place)
        for button in page.locator(".opens").all():
            button.click()
        page.locator(".chunks").nth(len(TEXTS) - 1).wait_for()
        for details in page.locator("main summary").all():
            details.click()
        text = page.inner_text("main")
        for field in ("query0", "label0", "label2", "tag1", "chunk2", "text3", "why1", "rtag2"):
            assert field in text, field
        safe(page)


def test_runs_that_cannot_stand_side_by_side_are_told(matrix: dict[str, Any], chromium: Any) -> None:
    """An address of too few runs says how many it takes."""
    page = chromium.new_page()
    page.goto(matrix["served"].partition("&")[0])
    page.locator("[role=alert]", has_text="name 3 to 8").wait_for()
    page.close()
