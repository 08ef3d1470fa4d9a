"""What is done with a page that is open in a browser."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

ARTEFACTS = os.environ.get("JUDGE_EVAL_SCREENSHOTS")
"""The folder screenshots go to; none are taken where it is not set."""


def shoot(page: Any, name: str) -> None:
    """Keep a screenshot, where a folder is named for them."""
    if ARTEFACTS:
        folder = Path(ARTEFACTS)
        folder.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=folder / f"{name}.png")


def listed(page: Any) -> list[str]:
    """Read the ids of the listed traces."""
    messages: list[str] = page.locator(".rows .rid").all_inner_texts()
    return messages


def filtered(page: Any, text: str) -> list[str]:
    """Fill the filter box and wait for the list."""
    page.evaluate("document.querySelector('.told[role=status]').textContent = 'waiting'")
    page.fill("#filter", text)
    page.dispatch_event("#filter", "input")  # the same text again is no input to the browser
    page.locator(".told[role=status]", has_not_text="waiting").wait_for()
    return listed(page)


def chosen(page: Any, box: str, value: str) -> None:
    """Choose in a box, and wait until the list is there anew."""
    page.evaluate("document.querySelector('.told[role=status]').textContent = 'waiting'")
    page.select_option(box, value)
    page.locator(".told[role=status]", has_not_text="waiting").wait_for()


def drawn(page: Any) -> None:
    """Wait for what is drawn anew where the window has changed: it comes with the next frame."""
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def violations(page: Any, axe: str, colours_only: bool = False) -> list[Any]:
    """Run axe-core in the page and return what is moderate, serious or critical."""
    page.evaluate(axe + "; undefined")
    options = "{runOnly: ['color-contrast']}" if colours_only else "{resultTypes: ['violations']}"
    result = page.evaluate(f"axe.run(document, {options})")
    return [
        (each["id"], [(node["html"][:200], node["failureSummary"][:200]) for node in each["nodes"][:3]])
        for each in result["violations"]
        if each["impact"] != "minor"
    ]
