"""A page whose figures take long: what it is about stands there at once, and the figures when they are ready."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from judge_eval.server import page_routes
from judge_eval.server.library import Library
from judge_eval.server.server_settings import ServerSettings
from tests.support.browsing import violations
from tests.support.serving import judge, rows

pytestmark = pytest.mark.browser


@pytest.fixture
def held_back(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Let the server make no page of several runs before the event is set."""
    ready = threading.Event()

    def slow(make: Callable[..., Any]) -> Callable[..., Any]:
        def waited(*args: Any, **more: Any) -> Any:
            assert ready.wait(60)
            return make(*args, **more)

        return waited

    for name in ("compared", "several"):
        monkeypatch.setattr(Library, name, slow(getattr(Library, name)))
    monkeypatch.setattr(page_routes, "page_named", slow(page_routes.page_named))
    yield ready
    ready.set()


def test_what_a_page_is_about_stands_there_at_once(
    held_back: threading.Event, tmp_path: Path, open_page: Callable[..., Any], serve: Callable[..., str], axe: str
) -> None:
    """Two runs compared, three side by side, a pool: bar, names and a line while figures are made; then the page."""
    first, second, third = (
        judge([{**row, "chunks": row["chunks"][:k]} for row in rows()[:8]], tmp_path / "runs", label=f"<i>run</i> {k}")
        for k in (3, 4, 5)
    )
    url = serve(ServerSettings(tmp_path / "runs"))
    many = "&".join(f"run={run.id}" for run in (first, second, third))
    several = "<i>run</i> 3, <i>run</i> 4, <i>run</i> 5"
    expected = {
        f"/compare?a={first.id}&b={second.id}": "<i>run</i> 4 against <i>run</i> 3",
        f"/matrix?{many}": several,
        f"/pool?{many}": several,
    }
    opened = {}
    for path, title in expected.items():
        page = opened[path] = open_page(url + path, ready=False, width=390 if "pool" in path else 1280)
        page.locator("#preparing", has_text="Preparing the figures").wait_for()
        assert page.locator("h1").inner_text() == title
        assert page.locator("nav.top .brand").is_visible()
        assert page.evaluate("document.documentElement.dataset.ready") is None
    assert violations(page, axe) == []
    held_back.set()
    for page in opened.values():
        page.wait_for_selector("html[data-ready]")
        assert page.locator("#preparing").count() == 0
