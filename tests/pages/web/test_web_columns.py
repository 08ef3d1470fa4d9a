"""The columns of the list of traces: chosen, sorted by, and kept in the address."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from judge_eval.server.server_settings import ServerSettings
from tests.support.browsing import chosen, listed, violations
from tests.support.serving import judge, rows

pytestmark = pytest.mark.browser


def tick(page: Any, *names: str) -> None:
    """Tick the boxes of columns."""
    page.locator(".choice > summary").click()
    for name in names:
        page.locator(f".choice input[value='{name}']").check()
    page.locator(".choice > summary").click()


def heads(page: Any) -> list[str]:
    """Read the names above the columns."""
    texts: list[str] = page.locator(".heads button").all_inner_texts()
    return texts


def column(page: Any, name: str) -> list[str]:
    """Read the values of a column."""
    place = [text.removesuffix(" ▲").removesuffix(" ▼") for text in heads(page)].index(name)
    texts: list[str] = page.locator(f".row .cell:nth-of-type({place + 2}) .value").all_inner_texts()
    return texts


def sort_by(page: Any, name: str) -> None:
    """Click on a column's name, and wait until the list is there anew."""
    page.evaluate("document.querySelector('.told[role=status]').textContent = 'waiting'")
    page.locator(".heads button", has_text=name).click()
    page.locator(".told[role=status]", has_not_text="waiting").wait_for()


@pytest.mark.parametrize("how", ["file", "served"])
def test_columns_are_chosen_sorted_and_kept(
    reports: dict[str, Any], open_page: Callable[..., Any], serve: Callable[..., str], how: str
) -> None:
    """Metrics, first relevant rank, failed and tags stand side by side; clicks sort; a reload keeps it."""
    run = reports["new_run"]
    page = (
        open_page(reports["new"])
        if how == "file"
        else open_page(f"{serve(ServerSettings(run.folder.parent))}/runs/{run.id}?baseline=none")
    )
    assert heads(page) == []
    tick(page, "MRR", "first", "failed", "tags")
    assert heads(page) == ["AP@5", "MRR", "first relevant", "failed", "tags"]
    by_id = {result.trace_id: result for result in run.results}
    chosen(page, "#sort", "order")
    for trace, first, failed, tags in zip(
        listed(page), column(page, "first relevant"), column(page, "failed"), column(page, "tags"), strict=True
    ):
        outcomes = by_id[trace].outcomes
        ranks = [rank for rank, each in enumerate(outcomes, 1) if each.kind == "verdict" and each.relevant]
        before = outcomes[: ranks[0] - 1] if ranks else outcomes
        unsure = any(each.kind == "no_verdict" for each in before)
        if ranks:
            assert first == f"{'≤ ' if unsure else ''}{ranks[0]}"
        else:
            assert first == ("unknown" if unsure else "none")
        assert (int(failed), tags) == (by_id[trace].failed, ", ".join(by_id[trace].trace.tags))
    sort_by(page, "MRR")
    up = column(page, "MRR")
    known = [value for value in up if value != "none"]
    assert known == sorted(known)
    sort_by(page, "MRR")
    assert column(page, "MRR")[: len(known)] == known[::-1]
    sort_by(page, "first relevant")
    assert column(page, "first relevant")[0].removeprefix("≤ ") == "1"
    sort_by(page, "tags")
    sort_by(page, "tags")
    ids, names = listed(page), heads(page)
    assert names[-1] == "tags ▼"
    page.reload()
    page.wait_for_selector("html[data-ready]")
    assert (listed(page), heads(page)) == (ids, names)
    assert page.input_value("#metric") == "MRR"


def test_columns_fit_every_screen(reports: dict[str, Any], open_page: Callable[..., Any], axe: str) -> None:
    """With all columns nothing sticks out, wide or narrow, light or dark; on a phone each value has its name."""
    asked = "?column=AP%405&column=first&column=failed&column=tags&column=no-such&sort=-first"
    for width, dark in ((1280, False), (1280, True), (390, False), (390, True)):
        page = open_page(reports["new"] + asked, width=width, dark=dark)
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        assert page.locator(".heads").is_visible() == (width > 900)
        assert page.locator(".row .cell").first.inner_text().split()[0] == "AP@5"
        assert violations(page, axe, dark) == [], (width, dark)


def test_who_labels_blindly_sees_no_ranks(
    tmp_path: Path, open_page: Callable[..., Any], serve: Callable[..., str]
) -> None:
    """Columns that were chosen hide what the verdicts say."""
    bare = [{**row, "chunks": [{"text": chunk["text"]} for chunk in row["chunks"]]} for row in rows()[:3]]
    run = judge(bare, tmp_path / "runs")
    page = open_page(f"{serve(ServerSettings(tmp_path / 'runs'))}/runs/{run.id}?blind=1&column=first&column=failed")
    page.locator(".row .sq.hidden").first.wait_for()
    assert page.locator(".row").first.locator(".cell .value").all_inner_texts() == ["hidden"] * 2
