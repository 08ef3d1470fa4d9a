"""How many cases a property is tried on: fewer where a person waits, all of them in CI."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import settings

ALL = os.environ.get("JUDGE_EVAL_EXAMPLES") == "all"
USUAL = 100 if ALL else 25
"""Of a property that states no number."""


def examples(full: int, **options: Any) -> settings:
    """Return the settings of a property: `full` cases in CI, a quarter of them (at least 8) by default."""
    return settings(max_examples=full if ALL else max(min(8, full), full // 4), **options)
