"""Code in the texts of a trace: set in a fixed-width font, every sign kept, nothing made markup."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from judge_eval import Evaluator
from tests.support.browsing import violations
from tests.support.reports import compare_report, matrix_report, run_report
from tests.support.serving import scripted

pytestmark = pytest.mark.browser

TEXTS = {
    "block": "Call it:\n\n```python\nfor x in `xs`:\n    print('<b>x</b>')\n```\nand `stop` it, ``a ` b``.",
    "tilde": "~~~\n```\nstill code\n~~~~\nnot code",
    "open": "text\n```\nnever closed <img src=x onerror=alert(1)>",
    "inline": "`one` two` three\nfour and `<script>alert(1)</script>`",
    "none": "no code, ```inline``` alone on a line is no fence; 5 ` 6",
    "windows": "a\r\n```sh\r\nls\r\n```\r\nb",
    "long": "word " * 4500 + "\n```\n" + "x = 1\n" * 50 + "```\nend",
}
BLOCKS = {
    "block": ["```python\nfor x in `xs`:\n    print('<b>x</b>')\n```\n"],
    "tilde": ["~~~\n```\nstill code\n~~~~\n"],
    "open": ["```\nnever closed <img src=x onerror=alert(1)>"],
    "windows": ["```sh\r\nls\r\n```\r\n"],
    "long": ["```\n" + "x = 1\n" * 50 + "```\n"],
}
SPANS = {"block": ["`stop`", "``a ` b``"], "inline": ["`one`", "`<script>alert(1)</script>`"], "none": ["```inline```"]}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Make the page of a trace whose chunks hold code."""
    chunks = [{"id": key, "text": text} for key, text in TEXTS.items()]
    data = [{"id": "q", "query": "How do I call it?", "reference": "Like `this()`.", "chunks": chunks}]
    with Evaluator("fake/overlap", metrics=["AP@3"], cache=False) as evaluator:
        run = evaluator.evaluate(data)
    path: Path = tmp_path_factory.mktemp("code") / "run.html"
    path.write_text(run_report(run), encoding="utf-8")
    return path.as_uri()


@pytest.mark.parametrize("dark", [False, True])
def test_code_has_its_font_and_keeps_its_text(report: str, open_page: Callable[..., Any], axe: str, dark: bool) -> None:
    """Fences are blocks, backticks are spans; all text is there as it was judged, as text; it fits a phone."""
    for width in (1280, 390):
        page = open_page(report + "#q", width=width, dark=dark)
        page.locator(".card").nth(len(TEXTS) - 1).wait_for()
        for place, (name, text) in enumerate(TEXTS.items()):
            shown = page.locator(".card .text").nth(place)
            while shown.locator("button").count():
                shown.locator("button").click()
            assert shown.evaluate("node => node.textContent") == text, name
            blocks = shown.locator("code.block").evaluate_all("nodes => nodes.map((node) => node.textContent)")
            assert blocks == BLOCKS.get(name, []), name
            spans = shown.locator("code:not(.block)").evaluate_all("nodes => nodes.map((node) => node.textContent)")
            assert spans == SPANS.get(name, []), name
        assert page.locator(".card script, .card img, .card b:text-is('x')").count() == 0
        block = page.locator("code.block").first
        assert "mono" in block.evaluate("node => getComputedStyle(node).fontFamily")
        assert block.evaluate("node => getComputedStyle(node).display") == "block"
        assert page.locator(".field code").inner_text() == "`this()`"
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        assert violations(page, axe, dark) == []


def test_a_quote_is_marked_through_code(tmp_path: Path, open_page: Callable[..., Any]) -> None:
    """Evidence that stands partly in code is marked inside and outside of it."""
    text = "First `run the tool` twice, then stop."
    data = [{"id": "q", "query": "q", "reference": "r", "chunks": [{"id": "c", "text": text}]}]
    run = scripted(data, None, lambda _: {"verdict": True, "reason": "r", "evidence": "`run the tool` twice"})
    (tmp_path / "run.html").write_text(run_report(run), encoding="utf-8")
    page = open_page((tmp_path / "run.html").as_uri() + "#q")
    assert page.locator(".text mark").all_inner_texts() == ["`run the tool`", " twice"]
    assert page.locator(".text code mark").inner_text() == "`run the tool`"
    assert page.locator(".text").inner_text() == text


def test_pages_of_several_runs_show_code_too(tmp_path: Path, open_page: Callable[..., Any]) -> None:
    """A chunk that moved, and one in a row of a matrix, has its code in the same font as on its own page."""
    data = [{"id": "q", "query": "q", "reference": "r", "chunks": [{"id": "a", "text": TEXTS["block"]}, "other"]}]
    turned = [{**data[0], "chunks": data[0]["chunks"][::-1]}]
    runs = [scripted(rows, None, lambda text: {"verdict": "stop" in text}) for rows in (data, turned, data)]
    (tmp_path / "compare.html").write_text(compare_report(*runs[:2]), encoding="utf-8")
    (tmp_path / "matrix.html").write_text(matrix_report(runs), encoding="utf-8")
    page = open_page((tmp_path / "compare.html").as_uri())
    assert page.locator(".moved .snippet code.block").first.evaluate("node => node.textContent") == BLOCKS["block"][0]
    page = open_page((tmp_path / "matrix.html").as_uri())
    page.locator(".trace-row .opens").first.click()
    code = page.locator(".chunks .snippet code").last  # a row shows the beginning of a chunk in one line
    assert code.inner_text() == "``a ` b``"
    assert "mono" in code.evaluate("node => getComputedStyle(node).fontFamily")
