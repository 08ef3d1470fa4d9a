"""The prompts cost what the docs say: counted by real vocabularies, and kept with the texts."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from benchmarks import tokens

KEPT: dict[str, Any] = json.loads(tokens.KEPT.read_text(encoding="utf-8"))
DOCS = Path(__file__).parents[1] / "docs" / "cost.md"
NEWEST = [ref for ref in KEPT if ref.endswith("@2")]


def test_the_figures_are_of_these_prompts() -> None:
    """Every shipped prompt was counted as it is now: a changed text, or fence, asks for counting anew."""
    assert tokens.stale(KEPT) == []
    assert set(KEPT) == set(tokens.texts())


@pytest.mark.parametrize("ref", NEWEST)
def test_a_trace_stays_under_its_bound(ref: str) -> None:
    """Five chunks of 600 characters take at most 2,500 tokens one by one, and 1,250 in one request.

    The bound is of a question with a short answer; a longer one is asked five times over.
    """
    row = KEPT[ref]["short answer"]
    assert max(row[name] for name in tokens.VOCABULARIES) <= (1250 if ref.startswith("listwise") else 2500)
    assert KEPT[ref]["long answer"]["o200k_base"] <= (1250 if ref.startswith("listwise") else 2600)


@pytest.mark.parametrize("ref", NEWEST)
def test_version_2_costs_less(ref: str) -> None:
    """Version 2 takes fewer tokens than version 1 of every prompt."""
    for name, row in KEPT[ref].items():
        assert row["o200k_base"] < 0.9 * KEPT[ref.replace("@2", "@1")][name]["o200k_base"]


def test_the_estimate_is_on_the_safe_side() -> None:
    """A quarter of the characters, which a run is planned by, is 4 to 12% more than they count."""
    for by_trace in KEPT.values():
        for row in by_trace.values():
            for name in tokens.VOCABULARIES:
                assert 1.03 < row["characters"] / 4 / row[name] < 1.13


def test_the_docs_tell_the_figures() -> None:
    """The table of the docs holds what was counted."""
    told = {
        ref: [int(cell.replace(",", "")) for cell in cells]
        for ref, *cells in re.findall(
            r"^\| `([a-z/]+@\d)` \| ([\d,]+) \| ([\d,]+) \|$", DOCS.read_text(encoding="utf-8"), re.MULTILINE
        )
    }
    assert told == {
        ref: [by_trace[name]["o200k_base"] for name in ("short answer", "long answer")]
        for ref, by_trace in KEPT.items()
        if "support" in ref
    }
