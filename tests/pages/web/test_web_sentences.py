"""What pages say in sentences and figures: code as code, and the same figure in every place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from judge_eval import EvalRun
from judge_eval.server.server_settings import ServerSettings
from tests.support.reports import compare_report, run_report
from tests.support.serving import judge, rows, scripted

pytestmark = pytest.mark.browser

REASON = "As `serve <b>--port</b>` says, a ` alone stays."


def failing(root: Path | None, label: str) -> EvalRun:
    """Judge with many failed verdicts; reasons hold code."""

    def answer(text: str) -> Any:
        if len(text) % 7 == 0:
            return "there is no JSON in this"
        return {"evidence": text[:40], "reason": REASON, "verdict": len(text) % 7 > 3}

    return scripted(rows()[:24], root, answer, label=label)


def test_code_in_sentences_has_its_font(tmp_path: Path, open_page: Callable[..., Any]) -> None:
    """Remarks and reasons show code without its backticks, as text; a backtick alone is one."""
    first = failing(None, "first")
    second = scripted(rows()[:24], None, lambda _: {"reason": REASON, "verdict": True}, label="second")
    for name, text in (("run", run_report(first)), ("compare", compare_report(first, second))):
        (tmp_path / f"{name}.html").write_text(text, encoding="utf-8")
    page = open_page((tmp_path / "run.html").as_uri())
    remark = page.locator(".remarks li", has_text="the option blank can make them irrelevant")
    assert remark.locator("code").all_inner_texts() == ["empty", "blank"]
    compared = open_page((tmp_path / "compare.html").as_uri())
    for reason in (page.locator(".card .reason span").first, compared.locator(".moved .reason span").first):
        assert reason.inner_text() == "As serve <b>--port</b> says, a ` alone stays."
        assert reason.locator("code").all_inner_texts() == ["serve <b>--port</b>"]


def test_the_floor_is_a_sentence(tmp_path: Path, open_page: Callable[..., Any], serve: Callable[..., str]) -> None:
    """A judge that is no better than the floor is told so in the first sentence, and nothing else stands there."""
    run = judge(rows(), tmp_path / "runs")
    url = serve(ServerSettings(tmp_path / "runs", floor="fake/overlap"))
    page = open_page(f"{url}/runs/{run.id}#/disagreements")
    page.locator("#trust p").first.wait_for()
    told = page.locator("#trust p").all_inner_texts()
    assert told[0].startswith("The judge is no better than the floor"), told
    assert [text for text in told if "[object" in text] == []


def test_the_first_tags_are_in_sight(tmp_path: Path, open_page: Callable[..., Any]) -> None:
    """The tags that are shown without asking for more are not cut, on a phone neither."""
    (tmp_path / "run.html").write_text(run_report(judge(rows())), encoding="utf-8")
    for width in (1280, 390):
        page = open_page((tmp_path / "run.html").as_uri(), width=width)
        page.locator("details.overview > summary").click()
        region = page.get_by_role("region", name="AP@5 by tag")
        assert region.locator("tbody tr").count() == 8
        assert region.evaluate("node => node.scrollHeight <= node.clientHeight + 1")


def test_the_list_and_its_trend_say_the_same(
    tmp_path: Path, open_page: Callable[..., Any], serve: Callable[..., str]
) -> None:
    """Where too many verdicts failed both show bounds; every column is in sight on a laptop."""
    failing(tmp_path / "runs", "weak")
    judge(rows()[:8], tmp_path / "runs", label="whole", name="/home/somebody/data/questions/of-the-help-centre.jsonl")
    page = open_page(serve(ServerSettings(tmp_path / "runs")), width=1280)
    shown = page.locator("tr", has_text="weak").locator("td.right b").first.inner_text()
    assert " to " in shown
    page.locator("a.point").first.wait_for()
    page.select_option("#dataset", "traces in memory")
    points = page.locator("a.point").evaluate_all("nodes => nodes.map((node) => node.getAttribute('aria-label'))")
    assert any(shown in words for words in points), (shown, points)
    region = page.locator(".runs").locator("xpath=ancestor-or-self::*[contains(@class, 'scroll')]").first
    assert region.evaluate("node => node.scrollWidth <= node.clientWidth")


def test_a_pool_s_tags_can_be_read_on_a_phone(
    tmp_path: Path, open_page: Callable[..., Any], serve: Callable[..., str]
) -> None:
    """Words of the first column stay whole, and no block is empty."""
    runs = [judge(rows()[:12], tmp_path / "runs", label=f"run {k}") for k in range(3)]
    url = serve(ServerSettings(tmp_path / "runs"))
    page = open_page(f"{url}/pool?" + "&".join(f"run={run.id}" for run in runs), width=390)
    widths = page.locator(".column-tag, .column-run").evaluate_all("nodes => nodes.map((node) => node.offsetWidth)")
    assert widths
    assert min(widths) >= 70, widths
    assert [text for text in page.locator("section.pooled").all_inner_texts() if not text.strip()] == []


def test_a_card_of_other_cuts_shows_both_scores(tmp_path: Path, open_page: Callable[..., Any]) -> None:
    """The metric by words is no metric of the runs: its scores come from the comparison."""
    texts = [[chunk["text"] for chunk in row["chunks"] if chunk["text"].strip()] for row in rows()]
    small = [{**row, "chunks": each} for row, each in zip(rows(), texts, strict=True)]
    glued = [{**row, "chunks": ["\n".join(each)]} for row, each in zip(rows(), texts, strict=True)]
    one, other = judge(small, label="small"), judge(glued, label="glued")
    (tmp_path / "cuts.html").write_text(compare_report(one, other), encoding="utf-8")
    page = open_page((tmp_path / "cuts.html").as_uri())
    facts = page.locator(".pairing .facts").first.inner_text()
    assert "HitRate@" in facts
    assert "–" not in facts, facts
