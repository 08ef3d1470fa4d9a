"""How many cases a property is tried on: fewer where a person waits, all of them in CI."""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import product
from typing import Any

import pytest
from hypothesis import settings

ALL = os.environ.get("JUDGE_EVAL_EXAMPLES") == "all"
USUAL = 100 if ALL else 12
"""Of a property that states no number."""


def examples(full: int, **options: Any) -> settings:
    """Return the settings of a property: `full` cases in CI, an eighth of them (at least 8) by default."""
    return settings(max_examples=full if ALL else max(min(8, full), full // 8), **options)


def mostly_slow(*columns: Iterable[Any], every: int = 7) -> list[Any]:
    """Return every combination of parameters; all but one in `every` are for the slow part."""
    return [
        pytest.param(*case, marks=[] if place % every == 0 else [pytest.mark.slow])
        for place, case in enumerate(product(*columns))
    ]
