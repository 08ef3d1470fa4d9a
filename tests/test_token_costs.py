"""The prompts cost what the docs say: counted by real vocabularies, and kept with the texts."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from benchmarks import tokens
from tests.support import route_costs

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


@pytest.mark.parametrize("trace", ["short answer", "long answer"])
@pytest.mark.parametrize(
    ("by_claims", "at_once", "most"),
    [("claims/support@1", "support/binary@2", 1.3), ("claims/support-list@1", "listwise/support/binary@2", 1.2)],
)
def test_judging_by_claims_costs_little_more(trace: str, by_claims: str, at_once: str, most: float) -> None:
    """One by one at most 1.3 times the tokens of a plain verdict, all at once 1.2 times."""
    for vocabulary in tokens.VOCABULARIES:
        assert KEPT[by_claims][trace][vocabulary] <= most * KEPT[at_once][trace][vocabulary]


def test_the_estimate_is_on_the_safe_side() -> None:
    """A quarter of the characters, which a run is planned by, is 4 to 16% more than they count."""
    for by_trace in KEPT.values():
        for row in by_trace.values():
            for name in tokens.VOCABULARIES:
                assert 1.03 < row["characters"] / 4 / row[name] < 1.17


def test_the_docs_tell_the_figures() -> None:
    """The table of the docs holds what was counted of the newest version of each prompt."""
    newest = {ref.partition("@")[0]: ref for ref in sorted(KEPT)}.values()
    values = {
        ref: [int(cell.replace(",", "")) for cell in cells]
        for ref, *cells in re.findall(
            r"^\| `([a-z/-]+@\d)` \| ([\d,]+) \| ([\d,]+) \|$", DOCS.read_text(encoding="utf-8"), re.MULTILINE
        )
    }
    assert values == {
        ref: [by_trace[name]["o200k_base"] for name in ("short answer", "long answer")]
        for ref, by_trace in KEPT.items()
        if ref in newest and ("support" in ref or ref.startswith("claims/"))
    }


def test_the_routes_cost_what_the_docs_say() -> None:
    """The worked example is what the formulas give for the counted prompts and the prices named there."""
    text = DOCS.read_text(encoding="utf-8")
    result = re.search(r"<!-- routes -->\n(.*?)<!-- /routes -->", text, re.DOTALL)
    assert result is not None
    assert result[1] == route_costs.routes()
    assert f"up to e = {route_costs.dearest():.2f}, and its fit over {route_costs.FITTED} traces" in text
    assert f"traces costs ${route_costs.fit():.2f}." in text
    assert f"and e = {route_costs.ESCALATED}, which" in text


def test_where_a_cascade_stops_to_pay() -> None:
    """At the share named there it costs what its strong judge does alone, above it more."""
    even = route_costs.dearest()
    assert route_costs.cascade(even) == pytest.approx(route_costs.chat())
    assert route_costs.cascade(even + 0.01) > route_costs.chat() > route_costs.cascade(even - 0.01)
