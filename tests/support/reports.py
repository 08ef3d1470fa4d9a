"""The reports that the command line writes, by what they show."""

from __future__ import annotations

from collections.abc import Sequence

from judge_eval.llm.cache.store import Store
from judge_eval.pages.page import MOST, PageSettings
from judge_eval.pages.report import page_report
from judge_eval.runs.folder.run import Run


def run_report(run: Run, baseline: Run | None = None, *, store: Store | None = None, most: int | None = MOST) -> str:
    """Make the report of a run."""
    return page_report("run", [run] if baseline is None else [run, baseline], PageSettings(store, most))


def compare_report(baseline: Run, candidate: Run, *, most: int | None = MOST) -> str:
    """Make the report that compares two runs."""
    return page_report("compare", [baseline, candidate], PageSettings(most=most))


def matrix_report(runs: Sequence[Run], *, most: int | None = MOST) -> str:
    """Make the report of several runs."""
    return page_report("matrix", runs, PageSettings(most=most))
