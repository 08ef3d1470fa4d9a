import re
from pathlib import Path

import pytest

from tests.support import scale_tables

PAGE = Path(__file__).parents[1] / "docs" / "scale.md"


@pytest.mark.parametrize("name", ["online", "routes", "batch", "fleet"])
def test_tables_are_what_the_formulas_give(name: str) -> None:
    """Every table of the page is the one computed from its formulas and the numbers named above it."""
    text = PAGE.read_text(encoding="utf-8")
    result = re.search(rf"<!-- {name} -->\n(.*?)<!-- /{name} -->", text, re.DOTALL)
    assert result is not None
    assert result[1] == getattr(scale_tables, name)()


def test_assumptions_are_named_on_the_page() -> None:
    """The numbers that the tables rest on stand on the page."""
    text = PAGE.read_text(encoding="utf-8")
    s = scale_tables
    for words in (
        f"i = {s.INPUT}, o = {s.OUTPUT} for one chunk",
        f"i = {s.LIST_INPUT:,}, o = {s.LIST_OUTPUT} for {s.CHUNKS} chunks",
        f"${s.PRICE_IN:.2f} and ${s.PRICE_OUT:.2f}, and e = {s.ENGINE:,}",
        f"(here s = {s.FLEET})",
        f"c = {s.CHUNKS}, D = {s.DECISION_INPUT:,} and p = ${s.PRICE_DECISION:.2f}",
    ):
        assert words in text


def test_known_points_of_the_tables() -> None:
    """At 10,000 requests a minute 10^8 verdicts are a week of work; a batch halves the price."""
    s = scale_tables
    assert s.seconds_online(10**8, 10_000, 10_000_000) == pytest.approx(10**4 * 60)
    assert s.seconds_online(10**6, 500, 200_000) == pytest.approx(10**6 * 560 / 200_000 * 60)
    assert s.cost(10**6) == pytest.approx(296.0)
    assert s.cost(10**6, batch=True) == pytest.approx(148.0)


def test_a_cascade_lies_between_its_judges() -> None:
    """Escalating nothing costs what decisions do, everything what both do; more never saves anything."""
    s, quota = scale_tables, scale_tables.QUOTAS[1]
    assert s.cost_cascade(10**6, 0.0) == s.cost_decisions(10**6) == pytest.approx(20.0)
    assert s.cost_cascade(10**6, 1.0) == s.cost_decisions(10**6) + s.cost(10**6)
    shares = [step / 10 for step in range(11)]
    costs = [s.cost_cascade(10**6, share) for share in shares]
    times = [s.seconds_cascade(10**6, share, *quota) for share in shares]
    assert costs == sorted(costs)
    assert times == sorted(times)
    assert times[0] == s.seconds_decisions(10**6, *quota)
    even = 0.5 - s.cost_decisions(10**6) / s.cost(10**6)  # where a batch of chat costs as much
    assert s.cost_cascade(10**6, even) == pytest.approx(s.cost(10**6, batch=True))
