"""The page of several runs as one pool: what each adds, and each scored against what all found."""

from collections.abc import Sequence

from judge_eval.errors import ConfigError
from judge_eval.pages.page import Page, PageData, PageSettings
from judge_eval.pools.pool import Pool
from judge_eval.pools.scoring import PoolReport, score_pool
from judge_eval.runs.folder.run import Run
from judge_eval.views.data import data_of
from judge_eval.views.pool import pool_view


def pool_data(report: PoolReport) -> PageData:
    """Return what the page draws of a pool."""
    title = f"Pool of {len(report.systems)} runs: {', '.join(each.system.name for each in report.systems)}"
    return PageData(title, {"title": title, **data_of(pool_view(report))})


def _make(runs: Sequence[Run], settings: PageSettings) -> PageData:
    if settings.by:
        raise ConfigError("the page of a pool has no slices; those of runs and comparisons have")
    return pool_data(score_pool(Pool.of(runs)))


PAGE = Page("pool", "/pool", "poolpage.js", _make)
