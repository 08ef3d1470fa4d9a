"""The page of several runs as one pool: what each adds, and each scored against what all found."""

from collections.abc import Sequence

from judge_eval.errors import ConfigError
from judge_eval.pages.page import Page, PageData, PageSettings
from judge_eval.pools.pool import Pool
from judge_eval.pools.scoring import PoolReport, score_pool
from judge_eval.runs.folder.run import Run
from judge_eval.views.blocks import Headline
from judge_eval.views.page_html import page_html
from judge_eval.views.pool import pool_view


def pool_data(report: PoolReport) -> PageData:
    """Return what the page draws of a pool."""
    title = f"Pool of {len(report.systems)} runs: {', '.join(each.system.name for each in report.systems)}"
    sections = [
        {"name": each.name, "html": html}
        for each in pool_view(report).sections
        if (html := page_html((b for b in each.blocks if not isinstance(b, Headline)), heading="h2"))
    ]
    return PageData(title, {"title": title, "sections": sections})


def _make(runs: Sequence[Run], settings: PageSettings) -> PageData:
    if settings.by:
        raise ConfigError("the page of a pool has no slices; those of runs and comparisons have")
    return pool_data(score_pool(Pool.of(runs)))


PAGE = Page("pool", "/pool", "poolpage.js", _make)
