"""The page of judges under observation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from judge_eval.server.settings import ServerSettings
from judge_eval.trials.drift import watch_judge
from tests.support.browsing import shoot, violations
from tests.support.serving import serving
from tests.support.verdicts import judged, traces_of

LABELS = {f"t{k}": {"chunks": [{"id": c, "text": c, "label": int(c == "a")} for c in "abc"]} for k in range(40)}


@pytest.mark.browser
def test_a_history_is_plotted(open_page: Callable[..., Any], tmp_path: Path, axe: Any) -> None:
    """Each history in the folder of runs has its verdict and a point for each look; other files are left alone."""
    traces = traces_of(dict.fromkeys(LABELS, "abc"), **LABELS)
    for right in (True, False):
        relevant = {(name, "a" if right else "b"): 1 for name in LABELS}
        watch_judge(lambda _, answers=relevant: judged(traces, answers), tmp_path / "weekly.jsonl")  # type: ignore[misc]
    (tmp_path / "other.jsonl").write_text('{"id": 1}\n', encoding="utf-8")
    with serving(ServerSettings(tmp_path)) as url:
        page = open_page(f"{url}/drift")
        assert "drifted: " in page.locator("section.panel").inner_text()
        assert page.locator("svg.trend a.point").count() == 6
        assert page.locator("h2").all_inner_texts() == ["weekly.jsonl"]
        assert not violations(page, axe)
        shoot(page, "drift")
