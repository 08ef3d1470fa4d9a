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

from tests.support.serving import serving

CHROMIUM = "/usr/bin/chromium"
ARGUMENTS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
ARTEFACTS = os.environ.get("JUDGE_EVAL_SCREENSHOTS")
"""The folder screenshots go to; none are taken where it is not set."""


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

    def opened(
        url: str, *, width: int = 1440, height: int = 1000, dark: bool = False, ready: bool = True
    ) -> Any:
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
        page.set_default_timeout(10_000)
        page.goto(url)
        if ready:
            page.wait_for_selector("html[data-ready]")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not wrong, wrong


def shoot(page: Any, name: str) -> None:
    """Keep a screenshot, where a folder is named for them."""
    if ARTEFACTS:
        folder = Path(ARTEFACTS)
        folder.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=folder / f"{name}.png")
