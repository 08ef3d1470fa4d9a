"""How many cases a property is tried on: an eighth where a person waits, half in CI, all if it is asked for."""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import product
from typing import Any

import pytest
from hypothesis import settings

SHARE = {"all": 1, "half": 2}.get(os.environ.get("JUDGE_EVAL_EXAMPLES", ""), 8)
USUAL = 100 // SHARE
"""Of a property that states no number."""


def examples(full: int, **options: Any) -> settings:
    """Return the settings of a property: `full` cases if all are asked for, else a share of them (at least 8)."""
    return settings(max_examples=max(min(8, full), full // SHARE), **options)


def mostly_slow(*columns: Iterable[Any], every: int = 7) -> list[Any]:
    """Return every combination of parameters; all but one in `every` are for the slow part."""
    return [
        pytest.param(*case, marks=[] if place % every == 0 else [pytest.mark.slow])
        for place, case in enumerate(product(*columns))
    ]
