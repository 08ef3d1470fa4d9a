from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from judge_eval.study.agree import agree
from judge_eval.views.agreement import agreement_sentences
from tests.support.browsing import violations
from tests.support.likely import likely_run
from tests.support.reports import run_report

pytestmark = pytest.mark.browser


def test_the_diagram_has_a_point_and_a_row_a_bin(open_page: Callable[..., Any], tmp_path: Path) -> None:
    """Every bin is a point with its interval and a row of the table; title and description are there."""
    run = likely_run()
    result = agree(run, None)
    assert result.reliability is not None
    (tmp_path / "r.html").write_text(run_report(run), encoding="utf-8")
    for dark in (False, True):
        page = open_page((tmp_path / "r.html").as_uri() + "#/disagreements", dark=dark)
        drawn = page.locator("svg.reliability")
        assert drawn.locator(".bin").count() == len(result.reliability.bins) == 10
        assert drawn.locator("title").first.text_content() == "Reliability diagram"
        assert agreement_sentences(result)["certainty"] in drawn.locator("desc").text_content()
        assert drawn.get_attribute("aria-labelledby") == "reliability-title reliability-desc"
        rows = page.get_by_role("region", name="points of the reliability diagram").locator("tbody tr")
        assert rows.count() == 10
        for row, first in zip(rows.all(), result.reliability.bins, strict=True):
            assert f"{first.probability:.3f}" in row.inner_text()
        figures = page.get_by_role("region", name="figures of the probabilities").inner_text()
        for name in ("ece", "brier", "log_loss", "bias"):
            assert f"{result.reliability.figures[name].value:.3f}" in figures


def test_without_probabilities_a_sentence_says_so(open_page: Callable[..., Any], tmp_path: Path) -> None:
    """No diagram, no figures: the sentence of `agree` alone."""
    (tmp_path / "r.html").write_text(run_report(likely_run(12, told=False)), encoding="utf-8")
    page = open_page((tmp_path / "r.html").as_uri() + "#/disagreements")
    assert page.locator("svg.reliability").count() == 0
    assert "no verdict has one (the judge returns them with the option confidence" in page.inner_text(
        "#panel-disagreements"
    )


def test_the_diagram_breaks_no_rule_of_accessibility(open_page: Callable[..., Any], tmp_path: Path, axe: str) -> None:
    """axe-core finds nothing serious or critical beside it, in light and in the dark."""
    (tmp_path / "r.html").write_text(run_report(likely_run()), encoding="utf-8")
    for dark in (False, True):
        page = open_page((tmp_path / "r.html").as_uri() + "#/disagreements", dark=dark)
        assert violations(page, axe, dark) == []
