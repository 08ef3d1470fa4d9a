"""A real headless Chromium, watched: no console error, no request outside the page's own origin."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from judge_eval.pages.report import store_at
from tests.support.reports import compare_report, run_report
from tests.support.serving import judge, rows, scripted, serving

CHROMIUM = "/usr/bin/chromium"
ARGUMENTS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip


def missing(what: str) -> None:
    """Skip, or fail where browser tests are required."""
    if os.environ.get("JUDGE_EVAL_REQUIRE_BROWSER") == "1":
        pytest.fail(f"{what} is missing, and JUDGE_EVAL_REQUIRE_BROWSER=1")
    pytest.skip(f"{what} is missing")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """Start the browser, for one module: while it is open its loop runs, and other tests need theirs."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("playwright")
    path = shutil.which("chromium") or CHROMIUM
    if not Path(path).exists():
        missing("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def axe() -> str:
    """Read axe-core, where it was installed (`npm install axe-core`, JUDGE_EVAL_AXE names its axe.min.js)."""
    root = Path(__file__).parents[3]
    places = [
        Path(os.environ.get("JUDGE_EVAL_AXE", "")),
        root / "node_modules/axe-core/axe.min.js",
        root / ".ci/node_modules/axe-core/axe.min.js",
    ]
    for place in places:
        if place.is_file():
            return place.read_text(encoding="utf-8")
    missing("axe-core")
    return ""


@pytest.fixture
def serve() -> Iterator[Callable[..., str]]:
    """Serve until the pages are closed: one that asks a server which has gone would err."""
    with ExitStack() as servers:
        yield lambda *settings: servers.enter_context(serving(*settings))


@pytest.fixture
def open_page(chromium: Any, serve: Callable[..., str]) -> Iterator[Callable[..., Any]]:
    """Open a page, wait until it is drawn, and see at the end that it kept to itself and never erred."""
    contexts: list[Any] = []
    wrong: list[str] = []

    def opened(url: str, *, width: int = 1440, height: int = 1000, dark: bool = False, ready: bool = True) -> Any:
        context = chromium.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            reduced_motion="reduce",
        )
        contexts.append(context)
        page = context.new_page()
        home = urlsplit(url)

        def requested(request: Any) -> None:
            asked = urlsplit(request.url)
            if asked.scheme != "data" and (asked.scheme, asked.netloc) != (home.scheme, home.netloc):
                wrong.append(f"asked for {request.url}")

        def said(message: Any) -> None:
            if message.type in ("error", "warning"):
                wrong.append(f"console: {message.text}")

        page.on("request", requested)
        page.on("console", said)
        page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
        page.on("dialog", lambda dialog: (wrong.append("a dialog"), dialog.dismiss()))
        page.set_default_timeout(30_000)
        page.goto(url)
        if ready:
            page.wait_for_selector("html[data-ready]")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not wrong, wrong


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Make runs with everything in them, and their reports."""
    folder = tmp_path_factory.mktemp("reports")
    base = judge(rows(), folder / "runs", label="main", href="https://example.org/main", cache=folder / "cache")
    turned = []
    for i, row in enumerate(rows()):
        chunks = row["chunks"][::-1] if i % 4 == 0 else row["chunks"]
        turned.append({**row, "chunks": chunks})

    def answer(text: str) -> Any:
        kind = len(text) % 7
        if kind == 0:
            return "there is no JSON in this"
        quote = "not in the chunk at all" if kind in (1, 4) else text[20:80]
        return {"evidence": quote, "reason": "Because.", "verdict": kind > 3, "instruction_in_chunk": kind in (2, 5)}

    new = scripted(turned, folder / "runs", answer, label="PR #7", tags=["prod"])
    store = store_at(folder / "cache")
    files = {"main": run_report(base, store=store), "new": run_report(new, base), "compare": compare_report(base, new)}
    for name, text in files.items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return {"old_run": base, "new_run": new, **{name: (folder / f"{name}.html").as_uri() for name in files}}
